use sortie_shell::{DangerKind, dangers, read};

fn check(command: &str, expected: Option<DangerKind>) {
    let understanding = read(command);
    let found = dangers(&understanding);
    let kind = found.first().map(|danger| danger.kind);
    assert_eq!(kind, expected, "{command}\n{found:?}\n{understanding:?}");
}

fn check_all(kind: DangerKind, commands: &[&str]) {
    for command in commands {
        check(command, Some(kind));
    }
}

#[test]
fn ordinary_work_is_not_dangerous() {
    for command in [
        "rm -rf target",
        "rm -r ./build",
        "rm -rf node_modules dist",
        "rm -f *.o",
        "rm -rf build/*",
        "rm -rf \"$tmp\"",
        "rm -rf /var/cache/x/y",
        "rm -rf ~/.cache/sortie",
        "rm x",
        "git status",
        "cargo test | tee log",
        "find . -name '*.pyc' -delete",
        "find build -delete",
        "find . -type f -name x -exec rm {} +",
        "npm run build",
        "python -c 'print(1)'",
        "grep -r 'rm -rf /' .",
        "echo \"rm -rf /\"",
        "echo 'shutdown now' >> notes.txt",
        "chmod +x script.sh",
        "chmod -R u+w .",
        "chown -R me ./x",
        "git commit -m \"shutdown\"",
        "git push origin main",
        "git push --force-with-lease",
        "git push -u origin x",
        "git reset HEAD~1",
        "git reset --soft HEAD~1",
        "git clean -n",
        "git clean -fdn",
        "git checkout main",
        "git checkout -b x",
        "git checkout -- src/a.rs",
        "git restore --staged .",
        "git stash pop",
        "git rebase main",
        "git branch -D x",
        "curl -fsSL https://x.org -o f",
        "curl x | jq .",
        "curl x | grep sh",
        "wget x && sh ./f",
        "curl x | python -m json.tool",
        "cat x | sh -c 'cat'",
        "kill 1234",
        "kill -9 1234",
        "kill -1 1234",
        "kill -TERM $pid",
        "pkill node",
        "killall -9 node",
        "ls > /dev/null 2>&1",
        "echo x > /dev/stderr",
        "dd if=/dev/zero of=f bs=1M count=1",
        "docker ps",
        "docker rm x",
        "docker compose up -d",
        "systemctl status x",
        "crontab -l",
        "psql -c 'select 1'",
        "psql -f drop.sql",
        "for f in *.c; do cc $f; done",
        "f() { g; }; f",
        "f() { f; }",
        "kubectl delete pod x",
        "make -j4 && make install",
        "tar xf a.tar -C /opt/x",
        "sudo apt-get install -y jq",
        "npm install -g x",
        "bash -c 'cargo build'",
        "eval \"$(ssh-agent)\"",
        "bash build.sh \"$(curl -s x)\"",
        "sed -i s/a/b/ x",
        "fdisk -l",
        "iptables -L",
        "cp /dev/null x",
        "redis-cli get flushed",
        "cat <<'E' > x.sh\nrm -rf /\nE",
        "terraform plan",
        "rm -rf .git/index.lock",
        "printf '%s\\n' {1..3}",
        "[[ $x =~ ^[0-9]+$ ]] && echo y",
        "gcc -o a a.c && ./a < in | diff - out",
    ] {
        check(command, None);
    }
}

#[test]
fn deleting_important_trees_is_dangerous() {
    check_all(
        DangerKind::DeletesTree,
        &[
            "rm -rf /",
            "rm -fr /",
            "rm -r -f /",
            "rm --recursive --force /",
            "rm --recurs /",
            "rm -Rf /*",
            "rm / -rf",
            "rm -rf -- /",
            "rm -rf ~",
            "rm -rf ~/",
            "rm -rf ~/*",
            "rm -rf $HOME",
            "rm -rf \"${HOME}/\"",
            "rm -r .",
            "rm -rf ..",
            "rm -rf ../..",
            "rm -rf *",
            "rm -rf ./*",
            "rm -rf .*",
            "rm -rf .git",
            "rm -rf ./.git/",
            "rm -rf /etc",
            "rm -rf /usr/../etc/",
            "rm -rf //",
            "rm -rf target/..",
            "rm -rf /home/me",
            "rm -rf --no-preserve-root x",
            "rm -rf x $PWD",
            "/bin/rm -rf /",
            "r\\m -rf /",
            "\"rm\" '-rf' \"/\"",
            "$'\\x72m' -rf /",
            "sudo rm -rf /",
            "env -i X=1 rm -rf /",
            "sh -c 'rm -rf /'",
            "bash -c \"cd x && rm -rf /\"",
            "eval 'rm -rf /'",
            "echo $(rm -rf /)",
            "echo `rm -rf /`",
            "cat <<E\n$(rm -rf /)\nE",
            "xargs rm -rf /",
            "if true; then rm -rf /; fi",
            "f() { rm -rf /; }; f",
            "a | b; rm -rf / &",
            "nohup rm -rf / &",
            "find / -delete",
            "find . -delete",
            "find -delete",
            "find ~ -type f -exec rm -f {} +",
            "busybox rm -rf /",
            "timeout 5 rm -rf /",
            "ssh host rm -rf /",
            "rm -rf $(pwd)",
            "bash <<< 'rm -rf /'",
            "git -c alias.x='!rm -rf /' x",
            "x=$(rm -rf /)",
            "time rm -rf /",
        ],
    );
}

#[test]
fn attacks_on_machine_disks_and_processes_are_dangerous() {
    check_all(
        DangerKind::WritesDisk,
        &[
            "mkfs.ext4 /dev/sda1",
            "mkfs -t ext4 x",
            "dd if=x of=/dev/sda",
            "cat x > /dev/sda",
            "echo x | tee /dev/nvme0n1",
            "cp x /dev/sdb",
            "shred /dev/sda",
            "wipefs -a /dev/sda",
            "{ echo x; } > /dev/sda",
            "fdisk /dev/sda",
            ">/dev/sda",
        ],
    );
    check_all(
        DangerKind::StopsMachine,
        &[
            "shutdown -h now",
            "sudo reboot",
            "halt",
            "poweroff",
            "init 0",
            "telinit 6",
            "systemctl poweroff",
            "/sbin/shutdown now",
            "sleep 5 && reboot",
        ],
    );
    check_all(
        DangerKind::ForkBomb,
        &[
            ":(){ :|:& };:",
            "f() { f | f & }; f",
            "function b { b & b; }; b",
            "f() ( f & )",
        ],
    );
    check_all(
        DangerKind::ChangesPermissions,
        &[
            "chmod -R 777 /",
            "chown -R me:me /etc",
            "chmod --recursive a+w ~",
            "chgrp -R x /usr/",
        ],
    );
    check_all(
        DangerKind::EndsProcesses,
        &[
            "kill -9 -1",
            "kill -- -1",
            "kill -1",
            "kill -s KILL -1",
            "kill -9 1",
            "pkill -9 .",
            "killall -u me",
            "pkill -u me",
            "killall5",
        ],
    );
}

#[test]
fn running_a_download_is_dangerous() {
    check_all(
        DangerKind::RunsDownload,
        &[
            "curl x | sh",
            "curl -fsSL x | sudo bash",
            "wget -qO- x | bash -s -- -y",
            "curl x | tee f | sh",
            "(curl x) | sh",
            "curl x | python3",
            "curl x | python3 -",
            "bash <(curl x)",
            "sh -c \"$(curl x)\"",
            "eval \"$(wget -O- x)\"",
            "source <(curl x)",
            "bash -c \"`curl x`\"",
            "curl x | env A=1 bash",
        ],
    );
}

#[test]
fn discarding_work_or_history_is_dangerous() {
    check_all(
        DangerKind::ForcesPush,
        &[
            "git push --force",
            "git push -f origin x",
            "git push -uf origin x",
            "git push origin +main",
            "git -C x push --force",
            "git push origin --delete x",
            "git push origin :x",
            "git push --mirror",
            "git -c user.name=x push -f",
        ],
    );
    check_all(
        DangerKind::DiscardsWork,
        &[
            "git reset --hard",
            "git reset HEAD~3 --hard",
            "git clean -fdx",
            "git clean -xdf",
            "git clean -f -d",
            "git clean --force",
            "git checkout .",
            "git checkout -- .",
            "git checkout -f",
            "git restore .",
            "git stash clear",
            "git --git-dir=x reset --hard",
        ],
    );
    check_all(
        DangerKind::RewritesHistory,
        &[
            "git filter-branch x",
            "git filter-repo --path x",
            "git reflog expire --all",
            "git gc --prune=now",
            "git update-ref -d x",
        ],
    );
}

#[test]
fn removing_services_or_data_is_dangerous() {
    check_all(
        DangerKind::StopsServices,
        &[
            "crontab -r",
            "systemctl stop x",
            "systemctl --now disable x",
            "service x stop",
            "iptables -F",
            "nft flush ruleset",
            "ufw disable",
        ],
    );
    check_all(
        DangerKind::RemovesInfrastructure,
        &[
            "docker system prune -af",
            "podman volume prune",
            "kubectl delete ns x",
            "kubectl delete pods --all",
            "terraform destroy",
        ],
    );
    check_all(
        DangerKind::DropsData,
        &[
            "dropdb x",
            "psql -c 'DROP TABLE x'",
            "mysql -e 'drop  database x'",
            "mysqladmin drop x",
            "redis-cli FLUSHALL",
            "mongosh --eval 'db.dropDatabase()'",
        ],
    );
}

#[test]
fn unparsable_command_is_dangerous() {
    check("echo 'open", Some(DangerKind::Unreadable));
    let long = format!("rm -rf / {}", "é".repeat(70_000));
    check(&long, Some(DangerKind::Unreadable));
}

#[test]
fn reported_dangers_are_bounded() {
    let command = format!("rm -rf / {}", "é".repeat(10_000));
    let found = dangers(&read(&command));
    assert_eq!(found[0].command.chars().count(), 201);
    let many = "rm -rf /; ".repeat(500) + &"rm -rf ~; reboot; ".repeat(500);
    assert!(dangers(&read(&many)).len() <= 16);
}
