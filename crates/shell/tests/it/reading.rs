use super::rendered;

fn check(command: &str, expected: &str) {
    let understanding = sortie_shell::read(command);
    assert_eq!(
        rendered(&understanding),
        expected,
        "{command}\n{understanding:?}"
    );
}

#[test]
fn quoting_is_resolved_to_the_words_that_run() {
    check("git status", "git status");
    check(r#""git" 'st'atus"#, "git status");
    check(r"g\it sta\tus", "git status");
    check("g\\\nit status", "git status");
    check("git \\\n status", "git status");
    check(r"$'g\x69t' $'st\141tus'", "git status");
    check(r"$'\u0067it' $'a\tb'", "git a\tb");
    check(r"echo \ #x; rm y", "echo ( #x) ; rm y");
    check("echo a#b # c; rm y", "echo a#b");
    check("echo x;#c\nrm y", "echo x ; rm y");
    check(r#"echo "" ''"#, "echo () ()");
    check(r#"echo "a\"b\$c\q""#, r#"echo a"b$c\q"#);
    check("git show stash@{0} HEAD~1", "git show stash@{0} HEAD~1");
    check("find . -exec ls {} +", "find . -exec ls {} + ; ls <{}>");
    check("[ -f x ]", "[ -f x ]");
    check("echo a=b c=$d", "echo a=b <c=$d>");
    check("echo $", "echo $");
}

#[test]
fn expansions_of_the_running_shell_are_unknown() {
    check("ls *.rs", "ls <*.rs>");
    check("ls '*.rs' \\*", "ls *.rs *");
    check("ls ~ ~/x a=~/y", "ls <~> <~/x> <a=~/y>");
    check("ls {a,b} {1..3} {a\\,b}", "ls <{a,b}> <{1..3}> {a,b}");
    check("ls [ab] \"$x\" ${y}", "ls <[ab]> <$x> <${y}>");
    check("r$x -rf /", "partly <r$x> -rf /");
    check("{rm,-rf,/}", "partly <{rm,-rf,/}>");
    check("$'\\xff' x", "partly <\u{fffd}> x");
}

#[test]
fn commands_are_found_at_any_nesting() {
    check("a | b && c || d; e & f", "a ; b ; c ; d ; e ; f");
    check("(a; { b; }; (c))", "a ; b ; c");
    check("echo $(a \"$(b)\")", "b ; a <$(b)> ; echo <$(a \"$(b)\")>");
    check("echo `a \\`b\\``", "b ; a <`b`> ; echo <`a \\`b\\``>");
    check(
        "echo \"`a \\\"x y\\\"`\"",
        "a (x y) ; echo <`a \\\"x y\\\"`>",
    );
    check("cat <(a) >(b)", "a ; b ; cat <<(a)> <>(b)>");
    check(
        "if a; then b; elif c; then d; else e; fi",
        "a ; b ; c ; d ; e",
    );
    check("while a; do b; done", "a ; b");
    check("for x in $(a) c; do b; done", "x=… ; a ; b");
    check("for ((i=0;i<3;i++)); do b; done", "b");
    check("case $x in a|(b) c;; *) d ;& e) f; esac", "not");
    check("case $x in a|b) c;; (*) d ;; esac", "c ; d");
    check(
        "echo $(case x in a) b;; esac)",
        "b ; echo <$(case x in a) b;; esac)>",
    );
    check("f() { a; b; }; f", "a ; b ; f");
    check("function f { a; }", "a");
    check("! a; time -p b", "a ; b");
    check("[[ $(a) == x && -f y ]] && b", "a ; b");
    check(
        "echo ${x:-$(a)} $((1+$(b)))",
        "a ; b ; echo <${x:-$(a)}> <$((1+$(b)))>",
    );
    check("x=$(a) y=1 b", "a ; x=… y=… b");
    check("a=(1 $(b)); c", "b ; a=… ; c");
    check("a >f 2>&1 <g b", "a b");
    check("ls &>x b", "ls b");
    check("a 2>&1 |& b", "a ; b");
}

#[test]
fn here_documents_are_text_or_commands() {
    check("cat <<E\n$(a)\nE\nb", "cat ; a ; b");
    check("cat <<'E'\n$(a)\nE\nb", "cat ; b");
    check("cat <<A <<-\"B\"\n$(a)\nA\n\t$(b)\n\tB\nc", "cat ; a ; c");
    check("cat <<E\n\\$(a) x\\\nE\nE\nb", "cat ; b");
    check("bash <<'E'\nrm x\nE\n", "bash ; rm x");
    check("bash <<< 'rm x'", "bash ; rm x");
    check(
        "echo $(cat <<E\n)\nE\n) ; rm",
        "cat ; echo <$(cat <<E\n)\nE\n)> ; rm",
    );
    check("while read x; do a; done <<E\nb\nE", "read=… read x ; a ; ");
    check("cat <<E", "not");
    check("cat <<E \"a\nb\"\nE\n", "not");
}

#[test]
fn syntax_that_is_not_modelled_is_rejected() {
    for command in [
        "echo 'a",
        "echo \"a",
        "echo `a",
        "echo $(a",
        "echo ${a",
        "(a",
        "a)",
        "if a; fi",
        "a ;; b",
        "echo a\\",
        "coproc a",
        "{x}>f a",
        "echo $[1]",
        "echo $((a); b)",
        "a<(b)",
        "a[1]=2",
        "a=([x]=1)",
        "\"${x:-'a'}\"",
        "fi",
        "a && ",
        "| a",
        "echo $'\\0'",
        "a \u{1}",
        "& a",
        "[[ a =~ (b|c) ]]",
        "echo ${ a; }",
        ">x while a",
        "f() a",
        "echo $\\\n(a)",
        "echo \"$\\\n{a}\"",
        "cat <<\\\n-E\n\tE\n",
        "a (b)",
        "then a",
    ] {
        check(command, "not");
    }
}

#[test]
fn evaluating_expansions_are_marked() {
    let computes = |command: &str| {
        let understanding = sortie_shell::read(command);
        understanding.script().is_some_and(|script| script.computes)
    };
    for command in [
        "echo $((x))",
        "((x))",
        "echo ${x@P}",
        "echo ${!x}",
        "echo ${x[0]}",
        "echo ${x:1}",
        "echo ${x:=y}",
        "[[ a -eq b ]]",
        "[[ -v a ]]",
    ] {
        assert!(computes(command), "{command}");
    }
    for command in [
        "echo $((1+2))",
        "echo ${x:-y} ${#x} ${x%.rs} ${x/a/b} $#",
        "[[ a == b ]]",
    ] {
        assert!(!computes(command), "{command}");
    }
    check("echo 'a[$(rm)]' $((x))", "partly echo a[$(rm)] <$((x))>");
    check("test -v 'a[$(rm)]'", "partly test -v a[$(rm)]");
    check("PS4='$(rm)' bash -x f", "partly PS4=… bash -x f");
}
