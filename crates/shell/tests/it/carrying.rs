use sortie_shell::Understanding;

use super::rendered;

/// Checks the commands that are found inside one command, without the command itself.
fn check(command: &str, expected: &str) {
    let understanding = sortie_shell::read(command);
    let all = rendered(&understanding);
    let (own, inner) = all.split_once(" ; ").unwrap_or((&all, ""));
    let mark = if own.starts_with("partly ") || own == "not" {
        "?"
    } else {
        ""
    };
    assert_eq!(
        format!("{mark}{inner}"),
        expected,
        "{command}\n{understanding:?}"
    );
}

#[test]
fn commands_inside_wrappers_are_found() {
    check("env -i X=1 rm -rf /", "X=… rm -rf /");
    check("env -u A --chdir=/x rm y", "rm y");
    check("/usr/bin/env rm y", "rm y");
    // An unknown option may take the word after it.
    check("env --strange rm y", "?rm y ; y");
    check("env --strange=1 rm y", "?rm y");
    check("env -S 'rm y'", "?env rm y ; rm y");
    check("env -iS'-u A rm' y", "?env -u A rm y ; rm y");
    check("env -- A=1 rm y", "A=… rm y");
    check("env A=$x rm y", "?A=… rm y");
    check("env A=\"$x\" rm y", "A=… rm y");
    check("sudo -u me -E rm y", "rm y");
    check("sudo -nEu me A=1 rm y", "A=… rm y");
    check("doas rm y", "rm y");
    check(
        "nohup nice -n 5 ionice -c3 rm y",
        "nice -n 5 ionice -c3 rm y ; ionice -c3 rm y ; rm y",
    );
    check("timeout -k 1 --signal=9 5s rm y", "rm y");
    check("timeout $t rm y", "?rm y");
    check("timeout -k $t 5 rm y", "?rm y");
    check("timeout -vk1 -s KILL -- 5 rm y", "rm y");
    check("timeout --sig KILL 5 rm y", "?5 rm y ; rm y");
    check("\\time -p rm y", "rm y");
    check("stdbuf -oL rm y", "rm y");
    check("setsid -w rm y", "rm y");
    check("command rm y", "rm y");
    check("command -v rm", "");
    check("command -p -v rm", "");
    check("command -p -- rm y", "rm y");
    check("builtin eval -- 'rm y'", "eval -- (rm y) ; rm y");
    check("jobs -lx rm y", "rm y");
    check("jobs %1", "");
    check("/lib64/ld-linux-x86-64.so.2 /bin/rm y", "?/bin/rm y");
    check("runuser -u me -- rm y", "?sh y ; rm y");
    check("setpriv --nnp --reuid 5 rm y", "rm y");
    check("nsenter -t 1 -m -- rm y", "rm y");
    check("unshare -rw / rm y", "rm y");
    check("prlimit --nofile=5 -c0 rm y", "rm y");
    check("script -qc 'rm y' /dev/null", "rm y");
    check("uv run rm y", "rm y");
    check("direnv exec . rm y", "rm y");
    check("tar -xf a --to-command='rm y'", "rm y");
    check("split --filter='rm y' a", "rm y");
    check("builtin eval 'rm y'", "eval (rm y) ; rm y");
    check("exec -a x rm y", "rm y");
    check("busybox rm y", "rm y");
    check("chroot /x rm y", "rm y");
    check("xargs -0 -n1 rm -f", "rm -f <…>");
    check("xargs -I{} rm a{}", "rm <a{}>");
    check("xargs -I X sh -c 'rm X'", "?sh -c <rm X> ; rm X");
    check("xargs", "");
    check("find . -name x -exec rm {} + -ok ls +", "rm <{}> ; ls +");
    check("find . -exec sudo -u + rm y \\;", "; sudo -u + rm y ; rm y");
    check(
        "find . -execdir sh -c 'rm \"$1\"' _ {} \\;",
        "; sh -c (rm \"$1\") _ <{}> ; rm <$1>",
    );
    check("find . $x", "?");
    check("watch -n 1 rm y", "rm y");
    check("flock /l -c 'rm y'", "rm y");
    check("flock /l --command 'rm y'", "rm y");
    check("su me -c 'rm y'", "sh -c (rm y) ; rm y");
    check("su -cl 'rm y' me", "sh -c l me ; l");
    check("su - me --session-command='rm y'", "sh -c (rm y) ; rm y");
    check("su me -- -c 'rm y'", "sh -c (rm y) ; rm y");
    check("ssh -p 22 host rm y", "rm y");
    check("ssh -o ProxyCommand=x host", "?");
    check("ssh host", "");
    check("parallel rm ::: a", "?rm ::: a");
    check("gosu nobody rm -rf /x", "rm -rf /x");
    check("su-exec me rm y", "rm y");
    check("s6-setuidgid me rm y", "rm y");
    check("eatmydata rm y", "rm y");
    check("sudo --login <<< 'rm y'", "rm y");
    check("sudo --shell <<< 'rm y'", "rm y");
    check("sudo --logi <<< 'rm y'", "?rm y");
    check("pkexec <<< 'rm y'", "rm y");
    check("strace -f --trace open rm y", "rm y");
    check("ip netns exec n rm y", "?rm y");
    check("ip netn exe n rm y", "?");
}

#[test]
fn commands_in_option_clusters_are_found() {
    check("rsync -ae 'rm y' a b:c", "rm y");
    check("rsync -aerm a b:c", "rm");
    check("rsync -avT /exe a b", "");
    check("tar -cvI 'rm y' -f a.tar .", "rm y");
    check("tar cvIf 'rm y' a.tar .", "?");
    check("fd -x rm", "rm <…>");
    check("fd -Hx rm {} \\; -t f", "-t f ; rm <{}> <…>");
    check("fd --exec rm", "rm <…>");
    check("fd --exec=rm", "rm <…>");
    check("fd a -X rm -f", "rm -f <…>");
    check("fd --exec-batch rm", "rm <…>");
    check("fd -tx rm", "");
}

#[test]
fn commands_of_package_managers_are_found() {
    check("npx -c 'rm y'", "rm y ; (rm y)");
    check("npm exec -c 'rm y'", "rm y ; (rm y)");
    check("npm exec --call 'rm y'", "rm y ; (rm y)");
    check("npm exec --call='rm y'", "rm y");
    check("uv --directory a run rm y", "rm y");
    check("npm --prefix a exec rm y", "rm y");
    check("pnpm --dir x exec rm y", "rm y");
    check("uv tool run rm y", "rm y");
    check("uv -q tool -q run rm y", "rm y");
    check("uv tool install rm", "");
    check("bun x rm y", "rm y");
    check("uv run --with a rm y", "a rm y ; rm y");
    // There are more options than are parsed.
    check(
        "uv run --with a --with b --with c rm y",
        "?a --with b --with c rm y ; b --with c rm y ; c rm y",
    );
}

#[test]
fn arithmetic_on_text_of_another_command_causes_doubt() {
    for command in [
        "declare -i n; n='a[$(rm x)]'",
        "declare -ai n; n=('a[$(rm x)]')",
        "typeset -i n; n+='a[$(rm x)]'",
        "declare -i n; read n <<< 'a[$(rm x)]'",
        "declare -i n; read n <<'E'\na[$(rm x)]\nE\n",
        "declare -i n; for n in 'a[$(rm x)]'; do :; done",
        "f() { local -i n; n='a[$(rm x)]'; }; f",
        "command declare -i n; n='a[$(rm x)]'",
        "declare -n n=m; m='a[$(rm x)]'",
        "y='a[$(rm x)]'; test -v 'z[y]'",
        "y='a[$(rm x)]'; [ -v 'z[y]' ]",
        "y='a[$(rm x)]'; test -v \"$y\"",
        "o=-v y='a[$(rm x)]'; test $o 'z[y]'",
        "y='a[$(rm x)]'; printf -v 'z[y]' 1",
        "y='a[$(rm x)]'; printf -v'z[y]' 1",
        "y='a[$(rm x)]'; read 'z[y]' <<< 1",
        "y='a[$(rm x)]'; declare 'z[y]=1'",
        "y='a[$(rm x)]'; declare -a 'z=([y]=1)'",
        "y='a[$(rm x)]'; unset 'z[y]'",
    ] {
        let understanding = sortie_shell::read(command);
        let is_whole = matches!(understanding, Understanding::Whole(_));
        assert!(!is_whole, "{command}\n{understanding:?}");
    }
}

#[test]
fn texts_of_shells_and_eval_are_parsed() {
    check("sh -c 'rm y'", "rm y");
    check("bash -lc 'a; rm y'", "a ; rm y");
    check("bash -o pipefail -ec 'rm y'", "rm y");
    check("/bin/bash --norc -c \"rm 'a b'\"", "rm (a b)");
    check("bash -c \"rm $x\"", "?rm <$x>");
    check("sh -c '{ rm,y; }'", "?rm,y");
    check("bash script.sh -c 'rm y'", "");
    check("bash -s", "?");
    check("bash", "?");
    check("bash --version", "");
    check("bash <(a)", "?bash <<(a)>");
    check("eval rm '\"a b\"'", "rm (a b)");
    check("eval \"rm $x\"", "?rm <$x>");
    check("eval -- rm y", "rm y");
    check("eval -x rm y", "?-x rm y ; rm y");
    check("time -p -- rm y", "");
    check("bash +c 'rm y'", "rm y");
    check("ksh93 -c 'rm y'", "rm y");
    check("lksh -c 'rm y'", "rm y");
    check("oksh -c 'rm y'", "rm y");
    check("posh -c 'rm y'", "rm y");
    check("bash -rcfile f -c 'rm y'", "?rm y ; rm y");
    check("bash -cO extglob 'rm y'", "rm y");
    check("bash /dev/std*n <<< 'rm y'", "?rm y");
    check("fish -c 'rm y'", "?rm y ; rm y");
    check(". -- /dev/stdin <<< 'rm y'", "rm y");
    check(". /dev/fd/3 3<<< 'rm y' <<< ls", "rm y ; ls");
    check("bash <<< ls <&3", "?ls");
    check("env bash <<< 'rm y'", "bash ; rm y");
    check("source $x", "?");
    check("source ~/.venv/bin/activate", "");
    check("trap -- 'rm y' EXIT", "rm y");
    check("trap -- -x EXIT", "?-x");
    check("PAGER='rm y' man ls", "rm y");
    check("GIT_EDITOR=true git commit", "true");
    check("read PAGER", "?");
    check("BASH_ENV=x ls", "?");
    check("trap 'rm y' EXIT", "rm y");
    check("trap - EXIT", "");
    check("source x", "");
    check(". /dev/stdin <<< 'rm y'", "rm y");
    check("sh -c \"sh -c 'rm y'\"", "sh -c (rm y) ; rm y");
}

#[test]
fn programs_that_git_starts_are_found() {
    check("git -c alias.x='!rm y' x", "rm y ; git x");
    check("git -c alias.x='push -f' x", "git push -f ; git x");
    check("git -c user.name=x commit", "git commit");
    check("git -c core.pager=x log", "?git log");
    check("git --exec-path=/x log", "?git log");
    check("git bisect run rm y", "rm y");
    check("git submodule foreach --recursive 'rm y'", "rm y");
    check("git rebase -x 'rm y' main", "rm y");
    check("git $x", "?");
}

#[test]
fn builtins_that_change_later_words_cause_doubt() {
    for command in [
        "alias ls=rm",
        "shopt -s extglob",
        "hash -p /x ls",
        "set -o posix -k",
        "enable x",
    ] {
        check(command, "?");
    }
    for command in [
        "set -euo pipefail",
        "set -- a b",
        "hash -r",
        "cd x",
        "export A=1",
    ] {
        check(command, "");
    }
}

#[test]
fn deep_chains_cause_doubt() {
    for command in [
        "env ".repeat(100),
        "eval ".repeat(100),
        "sudo ".repeat(5_000),
    ] {
        let understanding = sortie_shell::read(&format!("{command} rm y"));
        assert!(
            rendered(&understanding).starts_with("partly"),
            "{command:.40}"
        );
    }
}
