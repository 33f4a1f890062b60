//! `sortie keys`: the API keys of the server. Works with and without a running server, which
//! reloads the file when it changes.

use std::time::Duration;

use clap::{Args, Subcommand};
use sortie_base::hidden::write_out_line;
use sortie_core::tenant::Tenant;
use sortie_core::time::{Clock as _, Timestamp};
use sortie_protocol::{Key, NewKeyMade};
use sortie_runtime::ProcessClock;
use sortie_server::keys::{KeyError, KeyFile, NewKeyRequest, StoredKey, Token};
use sortie_text::t;

use super::open::RoleArgument;
use crate::commands::tasks::output_columns;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// Manages the API keys of the server.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    List(List),
    Create(Create),
    Revoke(Revoke),
    Rotate(Rotate),
}

/// Lists all keys, without their tokens
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// Creates a key and prints its token, which cannot be printed again
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Name of the key, for people
    #[arg(long)]
    name: String,
    /// Role of the key
    #[arg(long, value_enum)]
    role: RoleArgument,
    /// Tenant whose tasks the key can use [default: all tenants]
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Time until the key expires: 90s, 30m, 12h or 30d [default: never]
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// Revokes a key and the browser sessions that it opened
#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// Id of the key
    id: String,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// Replaces the token of a key and prints the new one, which cannot be printed again
#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// Id of the key
    id: String,
    /// Time for which the old token stays valid: 90s, 30m, 12h or 30d [default: none]
    #[arg(long, value_name = "TIME")]
    grace: Option<String>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl KeysCommand {
    pub(crate) fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let file = KeyFile::open(&settings.options.home)?;
        let now = ProcessClock::start().now();
        match self {
            Self::List(list) => list.run(settings, &file),
            Self::Create(create) => create.run(settings, &file, now),
            Self::Revoke(revoke) => revoke.run(settings, &file),
            Self::Rotate(rotate) => rotate.run(settings, &file, now),
        }
    }
}

impl List {
    fn run(&self, settings: &Settings, file: &KeyFile) -> Result<Exit, Problem> {
        let keys = file.list()?;
        if self.json {
            let keys: Vec<Key> = keys.iter().map(shown).collect();
            output::json(&keys)?;
        } else if keys.is_empty() {
            output::note(&t!(settings.lang, "keys-none"));
        } else {
            output::text(&listed(settings, &keys))?;
        }
        Ok(Exit::Ok)
    }
}

impl Create {
    fn run(self, settings: &Settings, file: &KeyFile, now: Timestamp) -> Result<Exit, Problem> {
        let tenant = self.tenant.as_deref().map(str::parse::<Tenant>).transpose();
        let tenant = tenant.map_err(|error| Problem::Typed(error.to_string()))?;
        let expires_at = self
            .expires
            .as_deref()
            .map(|text| later(settings, now, text));
        let (key, token) = file.create(
            NewKeyRequest {
                name: self.name,
                role: self.role.into(),
                tenant,
                expires_at: expires_at.transpose()?,
            },
            now,
        )?;
        let message = t!(
            settings.lang,
            "keys-created",
            id = &key.id,
            name = write_out_line(&key.name),
            role = key.role.as_str()
        );
        print(&key, &token, &message, self.json)
    }
}

impl Revoke {
    fn run(&self, settings: &Settings, file: &KeyFile) -> Result<Exit, Problem> {
        let key = file.revoke(&self.id)?;
        if self.json {
            output::json(&shown(&key))?;
        } else {
            let name = write_out_line(&key.name);
            output::text(&t!(
                settings.lang,
                "keys-revoked",
                id = &key.id,
                name = name
            ))?;
        }
        Ok(Exit::Ok)
    }
}

impl Rotate {
    fn run(&self, settings: &Settings, file: &KeyFile, now: Timestamp) -> Result<Exit, Problem> {
        let until = self.grace.as_deref().map(|text| later(settings, now, text));
        let (key, token) = file.rotate(&self.id, until.transpose()?, now)?;
        let name = write_out_line(&key.name);
        let message = t!(settings.lang, "keys-rotated", id = &key.id, name = name);
        print(&key, &token, &message, self.json)
    }
}

/// Prints the token to stdout, alone on its line, and the message to stderr.
fn print(key: &StoredKey, token: &Token, message: &str, json: bool) -> Result<Exit, Problem> {
    if json {
        output::json(&NewKeyMade {
            key: shown(key),
            token: token.reveal(),
        })?;
    } else {
        output::note(message);
        output::text(&token.reveal())?;
    }
    Ok(Exit::Ok)
}

fn shown(key: &StoredKey) -> Key {
    Key {
        id: key.id.clone(),
        name: key.name.clone(),
        role: key.role,
        tenant: key.tenant.as_ref().map(ToString::to_string),
        created_at: key.created_at.to_rfc3339(),
        expires_at: key.expires_at.map(Timestamp::to_rfc3339),
        last_used_at: None,
    }
}

fn listed(settings: &Settings, keys: &[StoredKey]) -> String {
    let lang = settings.lang;
    let head = vec![
        t!(lang, "column-key"),
        t!(lang, "column-name"),
        t!(lang, "column-role"),
        t!(lang, "column-tenant"),
        t!(lang, "column-ends"),
    ];
    let dash = || "-".to_owned();
    let row = |key: &StoredKey| {
        vec![
            key.id.clone(),
            write_out_line(&key.name),
            key.role.to_string(),
            key.tenant.as_ref().map_or_else(dash, ToString::to_string),
            key.expires_at.map_or_else(dash, Timestamp::to_rfc3339),
        ]
    };
    let rows = keys.iter().map(row).collect();
    table::rows(head, rows, output_columns(settings))
}

/// Parses a duration and returns the time that is so much after now.
fn later(settings: &Settings, now: Timestamp, text: &str) -> Result<Timestamp, Problem> {
    let bad = || {
        let text = format!("{text:?}");
        Problem::Typed(t!(settings.lang, "keys-bad-time", text = text))
    };
    let time = span(text).ok_or_else(bad)?;
    let millis = i64::try_from(time.as_millis()).map_err(|_| bad())?;
    Ok(now.plus_ms(millis))
}

/// Parses a duration such as `90s`, `30m`, `12h` or `30d`.
fn span(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit = text.chars().last()?;
    let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return None,
    };
    count.checked_mul(seconds).map(Duration::from_secs)
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::NoSuchKey(_) => Self::Nothing(error.to_string()),
            KeyError::BadName => Self::Typed(error.to_string()),
            KeyError::NameTaken(_) | KeyError::TooMany | KeyError::TooManyOfTenant => {
                Self::Refused(error.to_string())
            }
            KeyError::Random(_)
            | KeyError::Unsafe(_)
            | KeyError::Leaked { .. }
            | KeyError::Unreadable { .. }
            | KeyError::File { .. } => Self::Keys(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        for (text, expected) in [
            ("90s", Some(90)),
            ("30m", Some(1_800)),
            (" 12h", Some(43_200)),
            ("30d", Some(2_592_000)),
            ("0s", Some(0)),
            ("30", None),
            ("d", None),
            ("-1d", None),
            ("1.5h", None),
            ("1天", None),
            ("99999999999999999999d", None),
            ("999999999999999999d", None),
            ("", None),
        ] {
            assert_eq!(span(text).map(|time| time.as_secs()), expected, "{text:?}");
        }
    }
}
