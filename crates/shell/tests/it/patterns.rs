use sortie_shell::{Pattern, PatternError, Verdict, read};

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

const ALLOWED: [&str; 8] = [
    "git status *",
    "git log",
    "cargo *",
    "npm run test:*",
    "ls *",
    "timeout 5 *",
    "bash -c *",
    "cat *",
];

#[test]
fn only_completely_covered_commands_are_allowed() {
    let allowed = patterns(&ALLOWED);
    let check = |command: &str, expected: bool| {
        let understanding = read(command);
        assert_eq!(
            Pattern::all_fit(&allowed, &understanding),
            expected,
            "{command}\n{understanding:?}"
        );
    };
    for command in [
        "git status",
        "git status -s",
        "\"git\" 'st'atus",
        "git log",
        "cargo test -- --x",
        "npm run test:unit",
        "git status && cargo build | cat",
        "ls 2>/dev/null",
        "cargo test 2>&1",
        "ls $x *",
        "timeout 5 cargo test",
        "bash -c 'git status'",
        "if ls; then git log; fi",
        "cat <<E\n$(git log)\nE",
        "cat < x",
        "ls $(git log)",
        "(ls)",
        "! ls",
    ] {
        check(command, true);
    }
    for command in [
        "",
        "git",
        "git log -1",
        "git stat",
        "./git status",
        "/bin/ls",
        "npm run test",
        "npm run build",
        "git status; rm x",
        "git status $(rm x)",
        "cat <<E\n$(rm x)\nE",
        "ls > f",
        "ls >> f",
        "ls &> f",
        "ls <> f",
        "ls > /dev/nullx",
        "cat < /dev/tcp/h/1",
        "cat < $x",
        "A=1 ls",
        "A=1",
        "PATH=. ls",
        "timeout 5 rm x",
        "timeout 6 ls",
        "bash -c 'rm x'",
        "bash -c \"$x\"",
        "env ls",
        "f() { ls; }; ls",
        "git $x",
        "$x status",
        "for PATH in x; do ls; done",
        "ls $((x))",
        "ls ${PATH:=x}",
        "git status &&",
        "ls 'a",
        "cargo* test",
        "eval ls",
        "ls\nrm x",
        "ls #\\\nrm x",
        "read PATH; ls",
        "ls >& f",
        "exec ls",
    ] {
        check(command, false);
    }
    assert!(!Pattern::all_fit(&[], &read("ls")));
    assert!(Pattern::all_fit(
        &patterns(&["*"]),
        &read("anything at all")
    ));
    assert!(!Pattern::all_fit(&patterns(&["*"]), &read("$x")));
}

#[test]
fn commands_that_may_match_are_denied() {
    let denied = patterns(&["rm *", "git push *", "npm publish", "docker *--privileged*"]);
    let check = |command: &str, expected: &str| {
        let understanding = read(command);
        let verdict = match Pattern::any_fits(&denied, &understanding) {
            Verdict::Clear => "clear".to_owned(),
            Verdict::Fits(pattern) => pattern.to_string(),
            Verdict::CannotCheck { .. } => "cannot check".to_owned(),
        };
        assert_eq!(verdict, expected, "{command}\n{understanding:?}");
    };
    for command in [
        "rm",
        "rm x",
        "/bin/rm x",
        "./rm",
        "r\\m x",
        "$'rm' x",
        "a; rm x",
        "echo $(rm x)",
        "env rm x",
        "xargs rm",
        "find . -exec rm {} +",
        "bash -c 'rm x'",
        "eval 'rm x'",
        "x=rm; $x y",
        "r$x y",
        "f() { rm x; }; f",
        "cat <<E\n`rm x`\nE",
        "sudo -u a nice rm x",
        "{rm,x}",
        "[[ $(rm x) ]]",
        "bash <<< 'rm x'",
        "bash -c \"rm $x\"",
        "git -c alias.a='!rm x' a",
        "ssh h rm x",
        "?m x",
    ] {
        check(command, "rm *");
    }
    check("git push", "git push *");
    check("git $x", "git push *");
    check("git -C x --no-pager push y", "git push *");
    check("npm publish", "npm publish");
    check("npm publish --dry-run", "clear");
    check("npm publish $x", "npm publish");
    check("docker --privileged=true", "docker *--privileged*");
    for command in [
        "ls rm",
        "echo 'rm x'",
        "rmdir x",
        "git pull",
        "grep -r 'rm -rf /' .",
        "ls $x",
    ] {
        check(command, "clear");
    }
    for command in [
        "echo 'a",
        "bash",
        "alias a=b",
        "env --strange ls",
        "source <(ls)",
    ] {
        check(command, "cannot check");
    }
    assert_eq!(Pattern::any_fits(&[], &read("echo 'a")), Verdict::Clear);
}

#[test]
fn patterns_are_split_like_words() {
    let fits =
        |pattern: &str, command: &str| Pattern::all_fit(&patterns(&[pattern]), &read(command));
    assert!(fits("git  commit -m 'a b'", "git commit -m \"a b\""));
    assert!(fits("ls \\*", "ls '*'"));
    assert!(!fits("ls \\*", "ls x"));
    assert!(fits("a *b*c", "a xbyc"));
    assert!(!fits("a *b*c", "a xbyd"));
    assert!(fits("make *-test all", "make unit-test all"));
    for (text, error) in [
        ("", PatternError::Empty),
        ("  ", PatternError::Empty),
        ("a 'b", PatternError::Open),
        ("a\\", PatternError::Open),
    ] {
        assert_eq!(text.parse::<Pattern>(), Err(error), "{text}");
    }
    assert_eq!(
        "a".repeat(1_025).parse::<Pattern>(),
        Err(PatternError::TooLong)
    );
}
