//! Approval requests and questions: a request is written with its event, and its reply enters the
//! inbox in the transaction that records the reply.

use sortie_core::id::{CallId, RunId, SessionKey};
use sortie_core::inbox::InboxItem;
use sortie_core::ports::store::{Replied, ReplyTo, StoreError};
use sortie_core::request::{
    Addressee, Question, Reply, Request, RequestId, RequestKind, SessionGrant,
};
use sortie_core::run::Status;
use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;

use crate::fault::{Done, Fault};
use crate::row::StoredPhase;
use crate::sql::{self, Connection, params};
use crate::transitions::inbox::{self, Put};
use crate::transitions::mailbox::reply_in_mailbox;

/// A request with the call that waits for it.
#[derive(Clone, Debug)]
pub(crate) struct CallRequest {
    pub(crate) call: CallId,
    pub(crate) request: Request,
}

/// Writes a request. A replayed call makes the same request again.
pub(crate) fn ask(
    connection: &Connection,
    run: RunId,
    ask: &CallRequest,
    at: Timestamp,
) -> Done<()> {
    let CallRequest { call, request } = ask;
    let addressed = Addressed {
        parent: answering_parent(connection, run, request)?,
        request,
    };
    if !addressed.insert(connection, run, call, at)? {
        return addressed.must_be_known(connection, run, call);
    }
    addressed.deliver_to_parent(connection, run, at)
}

/// A request with the parent that it is addressed to, if it is.
#[derive(Debug)]
struct Addressed<'a> {
    request: &'a Request,
    parent: Option<RunId>,
}

impl Addressed<'_> {
    fn insert(
        &self,
        connection: &Connection,
        run: RunId,
        call: &CallId,
        at: Timestamp,
    ) -> Done<bool> {
        let (addressee, body) = match self.parent {
            Some(_) => ("parent", self.request.clone()),
            None => ("person", for_a_person(self.request.clone())),
        };
        let inserted = sql::run(
            connection,
            "INSERT INTO requests
                 (id, run_id, call_id, kind, addressee, body, asked_at, escalate_at, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO NOTHING",
            params![
                body.id.as_str(),
                run.to_string(),
                call.as_str(),
                body.kind.name(),
                addressee,
                serde_json::to_string(&body)?,
                at.0,
                self.parent.map(|_| halfway(at, body.expires_at).0),
                body.expires_at.0
            ],
        )?;
        Ok(inserted > 0)
    }

    /// Two calls whose requests have the same id would wait for one reply.
    fn must_be_known(&self, connection: &Connection, run: RunId, call: &CallId) -> Done<()> {
        let same = sql::count(
            connection,
            "SELECT COUNT(*) FROM requests WHERE id = ?1 AND run_id = ?2 AND call_id = ?3",
            params![self.request.id.as_str(), run.to_string(), call.as_str()],
        )?;
        if same == 0 {
            return Err(Fault::Broken("two requests have the same id".into()));
        }
        Ok(())
    }

    fn deliver_to_parent(&self, connection: &Connection, run: RunId, at: Timestamp) -> Done<()> {
        let (Some(parent), RequestKind::Question(question)) = (self.parent, &self.request.kind)
        else {
            return Ok(());
        };
        let label = sql::first(
            connection,
            "SELECT label FROM runs WHERE run_id = ?1",
            [run.to_string()],
            |row| row.get(0),
        )?;
        let key = format!("question:{}", self.request.id);
        let item = InboxItem::Question {
            request: self.request.id.clone(),
            child: run,
            label: label.unwrap_or_default(),
            question: question.clone(),
        };
        // `answering_parent` excludes parents that have ended.
        inbox::put(connection, parent, Some(&key), &item, at)?;
        Ok(())
    }
}

/// Returns the parent that can answer a question: it has not ended, and its call does not wait for
/// this run, because then it cannot answer before the run has ended.
fn answering_parent(connection: &Connection, run: RunId, request: &Request) -> Done<Option<RunId>> {
    match &request.kind {
        RequestKind::Approval(_)
        | RequestKind::Question(Question {
            to: Addressee::Person,
            ..
        }) => Ok(None),
        RequestKind::Question(Question {
            to: Addressee::Parent,
            ..
        }) => sql::first(
            connection,
            "SELECT parent.run_id FROM runs AS run JOIN runs AS parent
                 ON parent.run_id = run.parent_id
             WHERE run.run_id = ?1 AND run.mode = 'background' AND parent.phase <> 'ended'",
            [run.to_string()],
            |row| sql::word(row, "run_id"),
        ),
    }
}

fn for_a_person(mut request: Request) -> Request {
    match &mut request.kind {
        RequestKind::Question(question) => question.to = Addressee::Person,
        RequestKind::Approval(_) => {}
    }
    request
}

/// A parent has half of the time; the rest is for a person.
fn halfway(asked: Timestamp, expires: Timestamp) -> Timestamp {
    let half = expires.ms_since(asked) / 2;
    asked.plus_ms(sql::whole(half))
}

/// Closes the request of a call that has its result.
pub(crate) fn close_call(connection: &Connection, run: &str, call: &CallId) -> Done<()> {
    sql::run(
        connection,
        "UPDATE requests SET state = 'closed'
         WHERE run_id = ?1 AND call_id = ?2 AND state = 'open'",
        [run, call.as_str()],
    )?;
    Ok(())
}

/// Closes the requests of an ended run, and hands the questions that it was asked to a person.
pub(crate) fn close_ended(connection: &Connection, run: &str) -> Done<()> {
    sql::run(
        connection,
        "UPDATE requests SET state = 'closed' WHERE run_id = ?1 AND state = 'open'",
        [run],
    )?;
    let asked = sql::all(
        connection,
        "SELECT requests.body FROM runs JOIN requests ON requests.run_id = runs.run_id
         WHERE runs.parent_id = ?1 AND state = 'open' AND addressee = 'parent'",
        [run],
        |row| sql::json(row, "body"),
    )?;
    for request in asked {
        hand_to_person(connection, request)?;
    }
    Ok(())
}

fn hand_to_person(connection: &Connection, request: Request) -> Done<()> {
    let request = for_a_person(request);
    sql::run(
        connection,
        "UPDATE requests SET addressee = 'person', escalate_at = NULL, body = ?2
         WHERE id = ?1 AND state = 'open'",
        params![request.id.as_str(), serde_json::to_string(&request)?],
    )?;
    Ok(())
}

/// Hands a question to a person. One with a reply stays as it is.
pub(crate) fn escalate(connection: &Connection, request: &RequestId) -> Done<()> {
    let stored = must_load(connection, request)?;
    hand_to_person(connection, stored.request)
}

/// A request, as far as a reply needs it.
#[derive(Debug)]
pub(crate) struct Stored {
    request: Request,
    pub(crate) run: RunId,
    call: CallId,
    open: bool,
    earlier: Option<Reply>,
    status: Status,
    phase: StoredPhase,
    /// The session of the root run.
    session: SessionKey,
    tenant: Option<Tenant>,
}

/// Reads a request; fails if it does not exist.
pub(crate) fn must_load(connection: &Connection, request: &RequestId) -> Done<Stored> {
    let found = sql::first(
        connection,
        "SELECT body, requests.run_id, call_id, state = 'open' AS open, reply, runs.status, phase, tenant,
                (SELECT session FROM runs AS root WHERE root.run_id = runs.root_id) AS session
         FROM requests JOIN runs ON runs.run_id = requests.run_id WHERE id = ?1",
        [request.as_str()],
        |row| {
            Ok(Stored {
                request: sql::json(row, "body")?,
                run: sql::word(row, "run_id")?,
                call: CallId::from_stored(row.get::<_, String>("call_id")?),
                open: row.get("open")?,
                earlier: sql::optional_json(row, "reply")?,
                status: sql::word(row, "status")?,
                phase: sql::word(row, "phase")?,
                session: sql::word(row, "session")?,
                tenant: sql::optional_word(row, "tenant")?,
            })
        },
    )?;
    found.ok_or_else(|| unknown(request.as_str()))
}

pub(crate) fn unknown(typed: &str) -> Fault {
    Fault::Refused(StoreError::NotFound(format!("with the request {typed}")))
}

impl Stored {
    /// Whether a reply is too late, and why. Fails if the reply does not match the kind of the
    /// request.
    pub(crate) fn too_late(&self, reply: &Reply, at: Timestamp) -> Done<Option<Replied>> {
        if !self.open || self.phase == StoredPhase::Ended {
            return Ok(Some(Replied::TooLate {
                earlier: self.earlier.clone(),
            }));
        }
        self.check_kind(reply)?;
        let expired = at >= self.request.expires_at && *reply != Reply::Expired;
        Ok(expired.then_some(Replied::TooLate {
            earlier: Some(Reply::Expired),
        }))
    }

    fn check_kind(&self, reply: &Reply) -> Done<()> {
        let what = match (&self.request.kind, reply) {
            (_, Reply::Expired)
            | (RequestKind::Approval(_), Reply::Approved { .. } | Reply::Refused { .. })
            | (RequestKind::Question(_), Reply::Answered { .. }) => return Ok(()),
            (RequestKind::Approval(_), Reply::Answered { .. }) => {
                "it waits for an approval, so approve or deny it"
            }
            (RequestKind::Question(_), Reply::Approved { .. } | Reply::Refused { .. }) => {
                "it asks a question, so answer it with text"
            }
        };
        Err(StoreError::WrongState {
            run: self.run,
            status: self.status,
            what,
        }
        .into())
    }
}

/// Records a reply and puts it into the run's inbox.
pub(crate) fn reply(connection: &Connection, reply: &ReplyTo) -> Done<Replied> {
    let stored = must_load(connection, &reply.request)?;
    if let Some(too_late) = stored.too_late(&reply.reply, reply.at)? {
        return Ok(too_late);
    }
    // The reply of another process came first, and its sender has been told that it counts.
    if let Some(earlier) = reply_in_mailbox(connection, &reply.request)? {
        return Ok(Replied::TooLate {
            earlier: Some(earlier),
        });
    }
    let item = InboxItem::Reply {
        request: reply.request.clone(),
        call: stored.call.clone(),
        reply: reply.reply.clone(),
    };
    let key = format!("reply:{}", reply.request);
    match inbox::put(connection, stored.run, Some(&key), &item, reply.at)? {
        Put::Accepted => {}
        Put::Ended | Put::Missing => return Ok(Replied::TooLate { earlier: None }),
    }
    sql::run(
        connection,
        "UPDATE requests SET state = 'replied', reply = ?2, replied_at = ?3 WHERE id = ?1",
        params![
            reply.request.as_str(),
            serde_json::to_string(&reply.reply)?,
            reply.at.0
        ],
    )?;
    let scope = grant_scope(&stored);
    remember_grant(
        connection,
        (stored.tenant.as_ref(), &scope),
        &reply.reply,
        reply.at,
    )?;
    Ok(Replied::Accepted { run: stored.run })
}

/// Returns the scope of a grant: the session, in the folder of the request.
fn grant_scope(stored: &Stored) -> SessionKey {
    match &stored.request.kind {
        RequestKind::Approval(approval) => stored.session.in_folder(&approval.folder),
        RequestKind::Question(_) => stored.session.clone(),
    }
}

fn remember_grant(
    connection: &Connection,
    (tenant, session): (Option<&Tenant>, &SessionKey),
    reply: &Reply,
    at: Timestamp,
) -> Done<()> {
    let (by, rule) = match reply {
        Reply::Approved {
            by,
            lasting: Some(rule),
        } => (by, rule),
        Reply::Approved { lasting: None, .. }
        | Reply::Refused { .. }
        | Reply::Answered { .. }
        | Reply::Expired => return Ok(()),
    };
    sql::run(
        connection,
        "INSERT INTO grants (tenant, session, rule, by, at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (tenant, session, rule) DO NOTHING",
        params![tenant_word(tenant), session.as_str(), rule, by, at.0],
    )?;
    Ok(())
}

/// Returns the tenant in the table of grants: the empty name, which no tenant can have, stands for
/// none.
fn tenant_word(tenant: Option<&Tenant>) -> &str {
    tenant.map_or("", Tenant::as_str)
}

/// Returns the grants of a session, oldest first.
pub(crate) fn grants(
    connection: &Connection,
    tenant: Option<&Tenant>,
    session: &SessionKey,
) -> Done<Vec<SessionGrant>> {
    sql::all(
        connection,
        "SELECT session, rule, by, at FROM grants WHERE tenant = ?1 AND session = ?2
         ORDER BY at, rule",
        [tenant_word(tenant), session.as_str()],
        |row| {
            Ok(SessionGrant {
                session: sql::word(row, "session")?,
                tenant: tenant.cloned(),
                rule: row.get("rule")?,
                by: row.get("by")?,
                at: Timestamp(row.get("at")?),
            })
        },
    )
}

/// Revokes one grant of a session, or all.
pub(crate) fn revoke(
    connection: &Connection,
    tenant: Option<&Tenant>,
    session: &SessionKey,
    rule: Option<&str>,
) -> Done<u64> {
    let removed = sql::run(
        connection,
        "DELETE FROM grants WHERE tenant = ?1 AND session = ?2 AND rule = COALESCE(?3, rule)",
        params![tenant_word(tenant), session.as_str(), rule],
    )?;
    Ok(removed as u64)
}
