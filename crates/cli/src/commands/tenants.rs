//! `sortie tenants`.

use clap::Args;
use sortie_core::time::Clock as _;
use sortie_protocol::TenantState;
use sortie_text::t;

use crate::commands::tasks::output_columns;
use crate::engine::Place;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// Shows what tenants use, and their quotas
///
/// Quotas and weights are set by `[tenants.NAME]` in the configuration (`docs/scale.md`). Days and
/// months are in UTC.
#[derive(Debug, Args)]
pub(crate) struct Tenants {
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Tenants {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let tenants = match Place::find(settings).await? {
            Place::There(client) => client.tenants().await?,
            Place::Here => {
                let now = sortie_runtime::ProcessClock::start().now();
                let tenants = settings.options.read_store()?.tenants(None, now).await?;
                let states = tenants.iter().map(|tenant| TenantState::of(tenant, now));
                states.collect()
            }
        };
        if self.json {
            output::json(&tenants)?;
        } else if tenants.is_empty() {
            output::note(&t!(settings.lang, "no-tenants"));
        } else {
            output::text(&shown(settings, &tenants))?;
        }
        Ok(Exit::Ok)
    }
}

/// One row for each limited quota; a tenant without one has a row of its own.
fn shown(settings: &Settings, tenants: &[TenantState]) -> String {
    let head = [
        "column-tenant",
        "column-weight",
        "column-running",
        "column-queued",
        "column-quota",
        "column-used",
        "column-limit",
        "column-resets",
    ];
    let mut rows = Vec::new();
    for tenant in tenants {
        let about = [
            tenant.tenant.to_string(),
            tenant.weight.to_string(),
            tenant.running.to_string(),
            tenant.queued.to_string(),
        ];
        let before = rows.len();
        for quota in &tenant.quotas {
            let Some(limit) = quota.limit else { continue };
            let resets_at = quota.resets_at.clone().unwrap_or_else(|| "-".to_owned());
            let mut row = about.to_vec();
            row.extend([
                quota.quota.to_string(),
                number(quota.used),
                number(limit),
                resets_at,
            ]);
            rows.push(row);
        }
        if rows.len() == before {
            let mut row = about.to_vec();
            row.extend(std::iter::repeat_n("-".to_owned(), 4));
            rows.push(row);
        }
    }
    let head = head.map(|key| t!(settings.lang, key)).to_vec();
    table::rows(head, rows, output_columns(settings))
}

/// Formats whole numbers without decimals, others with two.
fn number(number: f64) -> String {
    if number.fract() == 0.0 {
        format!("{number:.0}")
    } else {
        format!("{number:.2}")
    }
}
