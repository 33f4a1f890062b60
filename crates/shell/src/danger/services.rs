//! Dangers for services, containers, infrastructure and databases.

use super::arguments::Arguments;
use super::rules::when;
use super::{DangerKind, Found};
use crate::script::Simple;

pub(super) fn judge(program: &str, command: &Simple, arguments: &Arguments<'_>) -> Found {
    match program {
        "crontab" => when(arguments.has("r", &[]), DangerKind::StopsServices),
        "systemctl" => system_control(arguments.first()),
        "service" => when(arguments.second() == "stop", DangerKind::StopsServices),
        "launchctl" => when(
            matches!(arguments.first(), "bootout" | "unload" | "disable"),
            DangerKind::StopsServices,
        ),
        "iptables" | "ip6tables" => {
            when(arguments.has("FX", &["flush"]), DangerKind::StopsServices)
        }
        "nft" => when(arguments.first() == "flush", DangerKind::StopsServices),
        "ufw" => when(
            matches!(arguments.first(), "disable" | "reset"),
            DangerKind::StopsServices,
        ),
        "docker" | "podman" => when(
            matches!(arguments.first(), "system" | "volume") && arguments.second() == "prune",
            DangerKind::RemovesInfrastructure,
        ),
        "kubectl" => when(
            deletes_cluster(arguments),
            DangerKind::RemovesInfrastructure,
        ),
        "terraform" | "tofu" | "pulumi" => when(
            arguments.first() == "destroy" || arguments.operands.contains(&"-destroy"),
            DangerKind::RemovesInfrastructure,
        ),
        "dropdb" => Some(DangerKind::DropsData),
        "mysqladmin" => when(arguments.operands.contains(&"drop"), DangerKind::DropsData),
        "redis-cli" => when(
            any_word(command, &["flushall", "flushdb"]),
            DangerKind::DropsData,
        ),
        "psql" | "mysql" | "mariadb" | "sqlite3" | "clickhouse-client" | "mongosh" | "mongo" => {
            when(drops(command), DangerKind::DropsData)
        }
        _ => None,
    }
}

fn system_control(operation: &str) -> Found {
    match operation {
        "poweroff" | "reboot" | "halt" | "kexec" | "suspend" | "hibernate" | "rescue"
        | "emergency" => Some(DangerKind::StopsMachine),
        "stop" | "disable" | "mask" | "kill" | "isolate" => Some(DangerKind::StopsServices),
        _ => None,
    }
}

fn deletes_cluster(arguments: &Arguments<'_>) -> bool {
    let whole = matches!(
        arguments.second(),
        "ns" | "namespace" | "namespaces" | "pv" | "crd"
    );
    arguments.first() == "delete" && (whole || arguments.has_exactly("all"))
}

fn any_word(command: &Simple, words: &[&str]) -> bool {
    let mut texts = command
        .arguments()
        .iter()
        .map(|word| word.shape().to_lowercase());
    texts.any(|text| words.contains(&text.as_str()))
}

/// Returns whether a statement in the arguments drops a database, a table or all rows.
fn drops(command: &Simple) -> bool {
    command.arguments().iter().any(|word| {
        let text = word.shape().to_lowercase();
        let words: Vec<&str> = text.split_whitespace().collect();
        let pairs = words.windows(2).any(|pair| {
            matches!(
                pair,
                ["drop", "database" | "schema" | "table"] | ["truncate", "table"]
            )
        });
        pairs || text.contains("dropdatabase(")
    })
}
