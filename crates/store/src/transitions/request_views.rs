//! Requests with the runs that made them, for interfaces.

use sortie_core::id::SessionKey;
use sortie_core::ports::store::StoreError;
use sortie_core::request::{AskedFor, OpenRequest, RequestFilter, RequestId};
use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;

use crate::fault::Done;
use crate::sql::{self, Connection, Row, params};
use crate::transitions::requests::unknown;

/// The shortest prefix of a request's id that is accepted.
const MIN_PREFIX_CHARS: usize = 4;

/// The columns of a request. A statement adds its condition and order.
const SELECT: &str = "SELECT body, requests.run_id, runs.root_id, runs.agent, runs.label, runs.depth, \
     asked_at, reply, replied_at, runs.tenant, root.session AS root_session \
     FROM requests JOIN runs ON runs.run_id = requests.run_id \
     LEFT JOIN runs AS root ON root.run_id = runs.root_id";

fn open_request(row: &Row<'_>) -> Done<OpenRequest> {
    Ok(OpenRequest {
        request: sql::json(row, "body")?,
        task_id: sql::word(row, "run_id")?,
        root_id: sql::word(row, "root_id")?,
        session_id: sql::word(row, "root_session")?,
        tenant: sql::optional_word(row, "tenant")?,
        agent: row.get("agent")?,
        label: row.get("label")?,
        depth: row.get("depth")?,
        asked_at: Timestamp(row.get("asked_at")?),
        reply: sql::optional_json(row, "reply")?,
        replied_at: row.get::<_, Option<i64>>("replied_at")?.map(Timestamp),
    })
}

/// Returns requests: the open ones, oldest first; or all, newest first. Without those that were
/// closed without a reply.
pub(crate) fn list(connection: &Connection, filter: &RequestFilter) -> Done<Vec<OpenRequest>> {
    let after = filter.after.as_ref();
    sql::all(
        connection,
        &statement(filter),
        params![
            filter.run.map(|run| run.to_string()),
            filter.tenant.as_ref().map(Tenant::as_str),
            filter.kind.map(AskedFor::as_str),
            filter.root.map(|root| root.to_string()),
            filter.session.as_ref().map(SessionKey::as_str),
            after.map(|after| after.asked_at.0),
            after.map(|after| after.id.as_str()),
            sql::limit(filter.limit)
        ],
        open_request,
    )
}

/// The conditions on the state are those of the indexes that provide the order.
fn statement(filter: &RequestFilter) -> String {
    let (states, goes_on, order) = if filter.replied {
        ("state <> 'closed'", "<", "asked_at DESC, id DESC")
    } else {
        ("state = 'open'", ">", "asked_at, id")
    };
    // Two statements, so that requests of one run are found by its id.
    let whose = if filter.run.is_some() {
        "requests.run_id = ?1"
    } else {
        "?1 IS NULL"
    };
    format!(
        "{SELECT} WHERE {states} AND {whose}
             AND (?2 IS NULL OR runs.tenant = ?2) AND (?3 IS NULL OR kind = ?3)
             AND (?4 IS NULL OR runs.root_id = ?4) AND (?5 IS NULL OR root.session = ?5)
             AND (?6 IS NULL OR (asked_at, id) {goes_on} (?6, ?7))
         ORDER BY {order} LIMIT ?8"
    )
}

/// Returns the request whose id begins with a prefix; open ones are preferred.
pub(crate) fn find(connection: &Connection, typed: &str) -> Done<OpenRequest> {
    let prefix = RequestId::from_text(typed);
    let prefix = prefix.as_str();
    if prefix.chars().count() < MIN_PREFIX_CHARS {
        let text = format!("{typed}: at least {MIN_PREFIX_CHARS} characters of its id are needed");
        return Err(unknown(&text));
    }
    if !prefix.chars().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(unknown(typed));
    }
    // Ids are hexadecimal, so every id with the prefix sorts before the prefix and a `g`.
    let mut found = sql::all(
        connection,
        &format!("{SELECT} WHERE id >= ?1 AND id < ?2 ORDER BY state <> 'open', id"),
        params![prefix, format!("{prefix}g")],
        open_request,
    )?;
    let open = sql::count(
        connection,
        "SELECT COUNT(*) FROM requests WHERE id >= ?1 AND id < ?2 AND state = 'open'",
        params![prefix, format!("{prefix}g")],
    )?;
    let fitting = if open > 0 {
        usize::try_from(open).unwrap_or(usize::MAX)
    } else {
        found.len()
    };
    match fitting {
        0 => Err(unknown(typed)),
        1 => Ok(found.swap_remove(0)),
        count => Err(StoreError::Ambiguous {
            prefix: format!("the request {typed}"),
            count,
        }
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_requests_needs_no_sort() {
        for (replied, index) in [(false, "requests_open_by_time"), (true, "requests_by_time")] {
            let filter = RequestFilter {
                replied,
                ..RequestFilter::default()
            };
            let lines = sql::plan(&statement(&filter));
            assert_eq!(lines[0], format!("SCAN requests USING INDEX {index}"));
            assert!(
                !lines.iter().any(|line| line.contains("TEMP B-TREE")),
                "nothing is sorted: {lines:?}"
            );
        }
    }
}
