//! Tests builtins, keywords and programs that carry a command, with their options in every
//! placement: deny rules and the danger check find every command that the real bash starts through
//! them.

use std::collections::BTreeSet;

use sortie_shell::{DangerKind, Pattern, Verdict, dangers, read};

use crate::executor;

const CASES: usize = 1_000;
/// The least commands that must start the payload: fewer would prove little.
const LEAST_STARTED: usize = CASES / 4;

/// How a carrier accepts its command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// As the words that follow.
    Words,
    /// As one text that a shell parses.
    Text,
    /// As text on its standard input.
    Input,
}

/// One way to start a command. Written from the manuals, not from the table of the checker.
struct Carrier {
    name: &'static str,
    options: &'static [&'static str],
    /// The word between the options and the command.
    operand: &'static str,
    takes: Takes,
}

const fn carrier(
    name: &'static str,
    options: &'static [&'static str],
    operand: &'static str,
    takes: Takes,
) -> Carrier {
    Carrier {
        name,
        options,
        operand,
        takes,
    }
}

const CARRIERS: &[Carrier] = &[
    carrier("eval", &[], "", Takes::Words),
    carrier("eval", &[], "", Takes::Text),
    carrier("builtin eval", &[], "", Takes::Text),
    carrier("builtin", &[], "command", Takes::Words),
    carrier("builtin", &[], "source /dev/stdin", Takes::Input),
    carrier("command", &["-p"], "", Takes::Words),
    carrier("command", &["-p"], "eval", Takes::Text),
    carrier(
        "exec",
        &["-c", "-l", "-a x", "-ax", "-cl", "-cla x", "-lax"],
        "",
        Takes::Words,
    ),
    carrier("time", &["-p"], "", Takes::Words),
    carrier("jobs", &["-x"], "", Takes::Words),
    carrier("jobs -x", &[], "", Takes::Words),
    carrier(".", &[], "/dev/stdin", Takes::Input),
    carrier("source", &[], "/dev/stdin", Takes::Input),
    carrier("source", &[], "/dev/fd/0", Takes::Input),
    carrier("source", &[], "/dev//./stdin", Takes::Input),
    carrier("source", &[], "/proc/self/fd/0", Takes::Input),
    carrier("trap", &[], "", Takes::Text),
    carrier(
        "bash",
        &[
            "-e",
            "-x",
            "+x",
            "-O extglob",
            "+O extglob",
            "-o pipefail",
            "+o posix",
            "-eo pipefail",
            "--norc",
            "--noprofile",
            "-norc",
            "--rcfile x",
            "-rcfile x",
            "--init-file x",
            "--posix",
            "-l",
            "-r",
            "-u",
            "-eu",
            "-p",
        ],
        "-c",
        Takes::Text,
    ),
    carrier(
        "bash",
        &[
            "-e",
            "-c",
            "-ec",
            "+c",
            "-O extglob",
            "-cO extglob",
            "-oc pipefail",
            "+ec",
        ],
        "",
        Takes::Text,
    ),
    carrier(
        "bash",
        &[
            "-s",
            "-e",
            "-O extglob",
            "-eo pipefail",
            "--norc",
            "-rcfile x",
            "+s",
        ],
        "",
        Takes::Input,
    ),
    carrier("bash", &["-e", "--norc"], "/dev/stdin", Takes::Input),
    carrier(
        "sh",
        &["-e", "-c", "-ec", "-eu", "-o nounset"],
        "",
        Takes::Text,
    ),
    carrier("sh", &["-s", "-e"], "", Takes::Input),
    carrier(
        "env",
        &[
            "-i",
            "-",
            "-u A",
            "-uA",
            "--unset=A",
            "--unset A",
            "--uns=A",
            "--uns A",
            "-C .",
            "-C.",
            "--chdir=.",
            "--ch .",
            "-v",
            "-iv",
            "-iu A",
            "--ignore-environment",
            "--ignore-env",
            "--default-signal",
            "--default-signal=INT",
            "--block-signal=INT",
            "A=1",
            "B=2",
        ],
        "",
        Takes::Words,
    ),
    carrier("env", &["-i", "-v", "A=1"], "-S", Takes::Text),
    carrier("env", &["-i"], "-vS", Takes::Text),
    carrier("env", &["-u A"], "--split-string", Takes::Text),
    carrier("env", &["-u A"], "--sp", Takes::Text),
    carrier(
        "nice",
        &[
            "-n 5",
            "-n5",
            "--adjustment=5",
            "--adjustment 5",
            "--adj=5",
            "--adj 5",
            "-5",
            "-15",
        ],
        "",
        Takes::Words,
    ),
    carrier("nohup", &[], "", Takes::Words),
    carrier(
        "timeout",
        &[
            "-k 1",
            "-k1",
            "-s KILL",
            "-sKILL",
            "--signal=KILL",
            "--sig=KILL",
            "--sig KILL",
            "-v",
            "--kill-after 1",
            "--kill=1",
            "--foreground",
            "--fore",
            "--preserve-status",
            "-vk1",
            "-vs KILL",
        ],
        "5",
        Takes::Words,
    ),
    carrier(
        "stdbuf",
        &[
            "-oL",
            "-o L",
            "--output=L",
            "--output L",
            "--out=L",
            "--out L",
            "-i0",
            "-e 0",
        ],
        "",
        Takes::Words,
    ),
    carrier("setsid", &["-w", "--wait", "--wa"], "", Takes::Words),
    carrier(
        "xargs",
        &[
            "-0",
            "-n 1",
            "-n1",
            "-r",
            "--no-run-if-empty",
            "--no-run",
            "-P 1",
            "-I{}",
            "-I {}",
            "-i",
            "-i%",
            "-l",
            "-l1",
            "-L 1",
            "-L1",
            "-e",
            "-eX",
            "-E X",
            "--max-lines",
            "--max-lines=1",
            "--max-args=1",
            "--max-args 1",
            "--max-arg 1",
            "-d x",
            "-dx",
            "--delimiter=x",
            "-a b",
            "-ab",
            "--arg-file b",
            "-rt",
            "-rn1",
            "-rn 1",
            "--replace",
            "--replace=%",
            "--eof",
            "--eof=X",
            "-x",
            "--exit",
            "--process-slot-var=V",
        ],
        "",
        Takes::Words,
    ),
    carrier(
        "flock",
        &[
            "-n",
            "-w 1",
            "-w1",
            "--timeout 1",
            "--timeout=1",
            "--wait 1",
            "-E 1",
            "-x",
            "-nE1",
            "-o",
            "--conflict-exit-code 1",
            "--nonb",
            "-F",
            "--verbose",
        ],
        "x",
        Takes::Words,
    ),
    carrier("flock", &["-n", "-w 1"], "x -c", Takes::Text),
    carrier("flock", &["-n", "-w 1"], "x --command", Takes::Text),
    carrier(
        "ionice",
        &[
            "-c 3",
            "-c3",
            "-n 7",
            "-t",
            "--class 3",
            "--class=3",
            "--cl 3",
            "-tc3",
            "--classdata=7",
        ],
        "",
        Takes::Words,
    ),
    carrier(
        "taskset",
        &["-a", "--all-tasks", "--all"],
        "1",
        Takes::Words,
    ),
    carrier(
        "taskset",
        &["-ac", "-c", "--cpu-list", "--cpu"],
        "0",
        Takes::Words,
    ),
    carrier(
        "chrt",
        &["-b", "-o", "-v", "--other", "--batch", "--oth", "-vo"],
        "0",
        Takes::Words,
    ),
    carrier(
        "prlimit",
        &[
            "--nofile=64",
            "-n64",
            "-n=64",
            "--verbose",
            "--core=0",
            "-c0",
            "--no=64",
            "-n",
        ],
        "",
        Takes::Words,
    ),
    carrier(
        "choom",
        &["-n 10", "-n10", "--adjust 10", "--adj=10"],
        "",
        Takes::Words,
    ),
    carrier(
        "setpriv",
        &[
            "--no-new-privs",
            "--nnp",
            "--pdeathsig clear",
            "--pdeathsig=clear",
            "--keep-groups",
            "--inh-caps -all",
            "--inh-caps=-all",
            "--pdeath clear",
        ],
        "",
        Takes::Words,
    ),
    carrier(
        "setarch",
        &["-R", "-v", "--addr-no-randomize"],
        "",
        Takes::Words,
    ),
    carrier("setarch x86_64", &["-R", "-v"], "", Takes::Words),
    carrier("linux64", &["-R", "-v"], "", Takes::Words),
    carrier(
        "unshare",
        &[
            "-r",
            "-U",
            "--user",
            "-m",
            "--map-root-user",
            "--map-root",
            "-w .",
            "--wd=.",
            "--wd .",
            "-rm",
            "-rw .",
        ],
        "",
        Takes::Words,
    ),
    carrier(
        "chroot",
        &["--skip-chdir", "--skip", "--userspec=0:0", "--groups 0"],
        "/",
        Takes::Words,
    ),
    carrier("runuser -u root", &["-P", "-g 0"], "", Takes::Words),
    carrier(
        "runuser",
        &[
            "-u root",
            "-uroot",
            "--user root",
            "--user=root",
            "--us=root",
        ],
        "",
        Takes::Words,
    ),
    carrier(
        "runuser",
        &["-l", "-", "-p", "-s /bin/sh"],
        "root -c",
        Takes::Text,
    ),
    carrier(
        "runuser root",
        &["-l", "-p", "-s /bin/sh", "-s/bin/sh"],
        "-c",
        Takes::Text,
    ),
    carrier("runuser", &["-l", "-p"], "--command", Takes::Text),
    carrier("runuser", &["-p"], "root --session-command", Takes::Text),
    carrier("runuser", &["-p"], "-pc", Takes::Text),
    carrier(
        "script",
        &["-q", "-e", "-a", "-f", "--quiet", "-qe", "-O /dev/null"],
        "-c",
        Takes::Text,
    ),
    carrier("script /dev/null", &["-q", "-e"], "-c", Takes::Text),
    carrier("script", &["-q"], "-qc", Takes::Text),
    carrier("script", &["-q", "/dev/null"], "--command", Takes::Text),
    carrier("find a", &["-maxdepth 0", "-name a"], "-exec", Takes::Words),
    carrier("find a", &["-maxdepth 0", "-L"], "-execdir", Takes::Words),
    carrier(
        "git",
        &["-C .", "--no-pager", "-c user.name=x"],
        "-c alias.z=!z z; :",
        Takes::Words,
    ),
];

struct Maker {
    random: fastrand::Rng,
    payload: String,
}

impl Maker {
    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.random.usize(..from.len())]
    }

    /// Generates a command that may start the payload, through up to four carriers.
    fn command(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.payload.clone();
        }
        let carrier = self.pick(CARRIERS);
        let inner = self.command(depth - 1);
        let mut words = vec![carrier.name.to_owned()];
        for _ in 0..self.random.usize(..4) {
            if self.random.u8(..8) == 0 {
                words.push("--".to_owned());
            } else if !carrier.options.is_empty() {
                words.push((*self.pick(carrier.options)).to_owned());
            }
        }
        if self.random.u8(..3) == 0 {
            words.push("--".to_owned());
        }
        words.push(carrier.operand.to_owned());
        if self.random.u8(..6) == 0 {
            words.push("--".to_owned());
        }
        match carrier.takes {
            Takes::Words => words.push(inner),
            Takes::Text => {
                // Attached to the option, or as a separate word.
                let text = quoted(&inner);
                let attach = carrier.operand.starts_with("--") && self.random.bool();
                words.push(if attach { format!("={text}") } else { text });
                if attach {
                    let value = words.pop().unwrap_or_default();
                    let option = words.pop().unwrap_or_default();
                    words.push(option + &value);
                }
            }
            Takes::Input => words.push(format!("<<< {}", quoted(&inner))),
        }
        match carrier.name {
            "trap" => words.push("EXIT".to_owned()),
            "find a" => words.push("\\;".to_owned()),
            "xargs" => words.push("<<< z".to_owned()),
            _ => {}
        }
        words.retain(|word| !word.is_empty());
        words.join(" ")
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Generates commands whose payload contains the number of its case.
fn generated(programs: &str) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(11);
    (0..CASES)
        .map(|case| {
            let mut maker = Maker {
                random: random.fork(),
                payload: format!("{programs}/git push -f {case}"),
            };
            let depth = maker.random.usize(1..=3);
            maker.command(depth)
        })
        .collect()
}

#[test]
fn carried_commands_are_found_behind_every_option() {
    let ran = executor::run_recorded(generated);
    // Programs that bash does not find are recorded too; they are not the payload.
    let payload = ran.started.iter().filter(|one| one.argv[0] == "git");
    let started: BTreeSet<usize> = payload.map(|one| one.case).collect();
    let denied: Vec<Pattern> = vec!["git push *".parse().unwrap()];
    let mut passed_rule = Vec::new();
    let mut passed_check = Vec::new();
    for case in &started {
        let command = &ran.commands[*case];
        let understanding = read(command);
        if Pattern::any_fits(&denied, &understanding) == Verdict::Clear {
            passed_rule.push(command);
        }
        let seen = |kind| matches!(kind, DangerKind::ForcesPush | DangerKind::Unreadable);
        if !dangers(&understanding)
            .iter()
            .any(|danger| seen(danger.kind))
        {
            passed_check.push(command);
        }
    }
    let shown = |commands: &[&String]| -> String {
        let first: Vec<&str> = commands.iter().take(25).map(|one| one.as_str()).collect();
        first.join("\n")
    };
    assert!(
        passed_rule.is_empty() && passed_check.is_empty(),
        "{} of {} started; {} passed the rule:\n{}\n{} passed the danger check:\n{}",
        started.len(),
        CASES,
        passed_rule.len(),
        shown(&passed_rule),
        passed_check.len(),
        shown(&passed_check),
    );
    assert!(
        started.len() >= LEAST_STARTED,
        "only {} started",
        started.len()
    );
}
