//! The tree of accounts: carved at admission, drawn from by reservations, closed when no run draws
//! from them any more.
//!
//! A kind that an account does not limit is drawn from the nearest account above that does. So each
//! amount is counted in exactly one line, until its account closes and the line above takes it
//! over.

use std::collections::HashMap;

use sortie_core::budget::{Amount, Balance, BudgetKind};
use sortie_core::id::{Fence, RunId};
use sortie_core::ports::store::{AdmissionRefusal, Admit, Charged, Reserve, Reserved};

use crate::fault::{Done, Fault};
use crate::row::{self, RunRow};
use crate::sql::{self, Connection, Row, params, whole};

/// The most of one kind that is counted at once: sums of such numbers stay exact.
const MOST: u64 = 1 << 50;
/// The largest limit: more than any run spends, and within SQLite's integers.
const LARGEST_CAP: u64 = 1 << 60;

/// One kind of an account.
#[derive(Clone, Debug)]
struct Line {
    account: String,
    balance: Balance,
}

/// A change of a line.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    spent: i64,
    reserved: i64,
}

/// The effect of an admission on accounts, decided before anything is written.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The account that the run will draw from.
    pub(crate) account: Option<String>,
    own: Option<OwnAccount>,
    changes: Vec<(Line, Change)>,
}

#[derive(Debug)]
struct OwnAccount {
    upper: Option<String>,
    caps: Vec<(BudgetKind, u64)>,
}

/// Decides what a new run takes from the accounts above it.
pub(crate) fn plan(connection: &Connection, admit: &Admit) -> Done<Result<Plan, AdmissionRefusal>> {
    let upper = match &admit.spec.parent {
        Some(link) => account_of(connection, link.run)?,
        None => None,
    };
    let above = lines(connection, upper.as_deref())?;
    let mut changes = Vec::new();
    if admit.spec.parent.is_some()
        && let Some(line) = of_kind(&above, BudgetKind::Children)
    {
        if line.balance.left() == 0 {
            return Ok(Err(account_empty(BudgetKind::Children)));
        }
        changes.push((line.clone(), charged(1)));
    }
    if admit.spec.account != Some(admit.run) {
        return Ok(Ok(Plan {
            account: upper,
            own: None,
            changes,
        }));
    }
    let mut caps = Vec::new();
    for &kind in BudgetKind::ALL {
        let Some(wanted) = admit.spec.limits.budget.limit(kind) else {
            continue;
        };
        match carve(&above, kind, wanted.min(LARGEST_CAP)) {
            Ok((granted, change)) => {
                caps.push((kind, granted));
                changes.extend(change);
            }
            Err(refusal) => return Ok(Err(refusal)),
        }
    }
    Ok(Ok(Plan {
        account: Some(admit.run.to_string()),
        own: Some(OwnAccount { upper, caps }),
        changes,
    }))
}

type Carved = (u64, Option<(Line, Change)>);

/// Takes as much of a kind as there is, up to `wanted`.
fn carve(above: &[Line], kind: BudgetKind, wanted: u64) -> Result<Carved, AdmissionRefusal> {
    let Some(line) = of_kind(above, kind) else {
        return Ok((wanted, None));
    };
    let left = line.balance.left();
    if left == 0 && wanted > 0 {
        return Err(account_empty(kind));
    }
    // The new run itself is one of the children above.
    let left = match kind {
        BudgetKind::Children => left.saturating_sub(1),
        BudgetKind::Tokens | BudgetKind::Usd | BudgetKind::ToolCalls => left,
    };
    let granted = wanted.min(left);
    Ok((granted, Some((line.clone(), reserved(granted)))))
}

const fn account_empty(kind: BudgetKind) -> AdmissionRefusal {
    AdmissionRefusal::BudgetSpent { kind }
}

/// Writes the plan, after the run has its row.
pub(crate) fn open(connection: &Connection, run: RunId, plan: &Plan) -> Done<()> {
    for (line, change) in &plan.changes {
        apply(connection, line, *change)?;
    }
    let Some(own) = &plan.own else {
        return Ok(());
    };
    let account = run.to_string();
    sql::run(
        connection,
        "INSERT INTO accounts (account_id, upper_id) VALUES (?1, ?2)",
        params![account, own.upper],
    )?;
    for (kind, cap) in &own.caps {
        sql::run(
            connection,
            "INSERT INTO account_lines (account_id, kind, cap) VALUES (?1, ?2, ?3)",
            params![account, kind.as_str(), whole(*cap)],
        )?;
    }
    Ok(())
}

/// Reserves an amount for a prompt, all or nothing.
pub(crate) fn reserve(connection: &Connection, reserve: &Reserve) -> Done<Reserved> {
    let leased = row::fenced(connection, reserve.fence)?;
    let account = leased.account.as_deref();
    if account.is_none() {
        return Ok(Reserved::Granted {
            balances: Vec::new(),
        });
    }
    forfeit(connection, &leased.tail.run, account)?;
    let lines = lines(connection, account)?;
    let amount = bounded(reserve.amount);
    let short = lines
        .iter()
        .find(|line| amount.of(line.balance.kind) > line.balance.left());
    if let Some(line) = short {
        return Ok(Reserved::Short {
            balance: line.balance,
        });
    }
    for line in &lines {
        let wanted = amount.of(line.balance.kind);
        apply(connection, line, reserved(wanted))?;
    }
    insert_reservation(connection, &leased.tail.run, amount)?;
    Ok(Reserved::Granted {
        balances: balances_of(&lines),
    })
}

/// Charges the real cost of a run's prompt and frees its reservation. A cost above the reservation
/// is charged too: the provider has already billed it.
pub(crate) fn charge_reserved(
    connection: &Connection,
    run: &str,
    account: Option<&str>,
    cost: Amount,
) -> Done<()> {
    if account.is_none() {
        return Ok(());
    }
    let reserved = take_reservation(connection, run)?.unwrap_or_default();
    let cost = bounded(cost);
    for line in lines(connection, account)? {
        let kind = line.balance.kind;
        let change = Change {
            spent: whole(cost.of(kind)),
            reserved: -whole(reserved.of(kind)),
        };
        charge_billed(connection, &line, change)?;
    }
    Ok(())
}

/// Charges a reservation that was never resolved: the provider may have billed it.
fn forfeit(connection: &Connection, run: &str, account: Option<&str>) -> Done<()> {
    let reserved = sql::first(
        connection,
        "SELECT tokens, usd_micros, tool_calls, children FROM reservations WHERE run_id = ?1",
        [run],
        amount,
    )?;
    match reserved {
        Some(reserved) => charge_reserved(connection, run, account, reserved),
        None => Ok(()),
    }
}

/// Charges up to `wanted` of one kind.
pub(crate) fn charge(
    connection: &Connection,
    fence: Fence,
    kind: BudgetKind,
    wanted: u64,
) -> Done<Charged> {
    let leased = row::fenced(connection, fence)?;
    let lines = lines(connection, leased.account.as_deref())?;
    let Some(line) = of_kind(&lines, kind) else {
        return Ok(Charged {
            granted: wanted,
            balance: None,
        });
    };
    let granted = wanted.min(line.balance.left());
    apply(connection, line, charged(granted))?;
    Ok(Charged {
        granted,
        balance: Some(Balance {
            spent: line.balance.spent + granted,
            ..line.balance
        }),
    })
}

/// Ends the draws of an ended run, and closes accounts that no run draws from any more.
pub(crate) fn close_draws(connection: &Connection, row: &RunRow) -> Done<()> {
    let Some(account) = &row.account else {
        return Ok(());
    };
    forfeit(connection, &row.tail.run, Some(account))?;
    let mut next = Some(account.clone());
    while let Some(account) = next {
        next = close_if_unused(connection, &account)?;
    }
    Ok(())
}

/// Closes an account if all runs that drew from it have ended; returns the account above it. Not
/// when its owner ends: a silent child continues then, and a leased one has not reported its cost
/// yet.
fn close_if_unused(connection: &Connection, account: &str) -> Done<Option<String>> {
    let closed = sql::first(
        connection,
        "UPDATE accounts SET closed = 1
         WHERE account_id = ?1 AND closed = 0
           AND NOT EXISTS (SELECT 1 FROM runs
                           WHERE runs.account_id = ?1 AND phase <> 'ended')
           AND NOT EXISTS (SELECT 1 FROM accounts AS lower
                           WHERE lower.upper_id = ?1 AND lower.closed = 0)
         RETURNING upper_id",
        [account],
        |row| row.get::<_, Option<String>>(0),
    )?;
    let Some(Some(upper)) = closed else {
        return Ok(None);
    };
    let above = lines(connection, Some(&upper))?;
    for own in own_lines(connection, account)? {
        if let Some(line) = of_kind(&above, own.kind) {
            let change = Change {
                // Nothing is reserved in it any more: the runs it was reserved for have ended.
                spent: whole(own.spent),
                reserved: -whole(own.limit),
            };
            charge_billed(connection, line, change)?;
        }
    }
    Ok(Some(upper))
}

/// Returns the balances that a run draws from, one for each limited kind.
pub(crate) fn balances(connection: &Connection, run: RunId) -> Done<Vec<Balance>> {
    let account = sql::first(
        connection,
        "SELECT account_id FROM runs WHERE run_id = ?1",
        [run.to_string()],
        |row| row.get::<_, Option<String>>(0),
    )?;
    let account = account.ok_or_else(|| Fault::not_found(run))?;
    Ok(balances_of(&lines(connection, account.as_deref())?))
}

/// The balances of many runs. Each account is looked up once.
#[derive(Debug, Default)]
pub(crate) struct Balances {
    known: HashMap<String, Vec<Balance>>,
}

impl Balances {
    /// Returns the balances of a run that draws from this account.
    pub(crate) fn of(&mut self, connection: &Connection, account: &str) -> Done<Vec<Balance>> {
        if let Some(balances) = self.known.get(account) {
            return Ok(balances.clone());
        }
        let balances = balances_of(&lines(connection, Some(account))?);
        self.known.insert(account.to_owned(), balances.clone());
        Ok(balances)
    }
}

fn balances_of(lines: &[Line]) -> Vec<Balance> {
    lines.iter().map(|line| line.balance).collect()
}

fn account_of(connection: &Connection, run: RunId) -> Done<Option<String>> {
    let account = sql::first(
        connection,
        "SELECT account_id FROM runs WHERE run_id = ?1",
        [run.to_string()],
        |row| row.get(0),
    )?;
    Ok(account.flatten())
}

/// Returns, for each limited kind, the line nearest to an account, in the order of the kinds.
fn lines(connection: &Connection, account: Option<&str>) -> Done<Vec<Line>> {
    let Some(account) = account else {
        return Ok(Vec::new());
    };
    let mut nearest: Vec<Line> = Vec::new();
    let mut next = Some(account.to_owned());
    while let Some(account) = next {
        for balance in own_lines(connection, &account)? {
            if of_kind(&nearest, balance.kind).is_none() {
                nearest.push(Line {
                    account: account.clone(),
                    balance,
                });
            }
        }
        next = upper_of(connection, &account)?;
    }
    nearest.sort_by_key(|line| line.balance.kind);
    Ok(nearest)
}

fn upper_of(connection: &Connection, account: &str) -> Done<Option<String>> {
    let upper = sql::first(
        connection,
        "SELECT upper_id FROM accounts WHERE account_id = ?1",
        [account],
        |row| row.get(0),
    )?;
    Ok(upper.flatten())
}

fn own_lines(connection: &Connection, account: &str) -> Done<Vec<Balance>> {
    sql::all(
        connection,
        "SELECT kind, cap, spent, reserved FROM account_lines WHERE account_id = ?1",
        [account],
        balance,
    )
}

/// Reads one line.
pub(crate) fn balance(row: &Row<'_>) -> Done<Balance> {
    Ok(Balance {
        kind: sql::word(row, "kind")?,
        limit: row.get::<_, i64>("cap")?.unsigned_abs(),
        spent: row.get::<_, i64>("spent")?.unsigned_abs(),
        reserved: row.get::<_, i64>("reserved")?.unsigned_abs(),
    })
}

fn of_kind(lines: &[Line], kind: BudgetKind) -> Option<&Line> {
    lines.iter().find(|line| line.balance.kind == kind)
}

fn reserved(amount: u64) -> Change {
    Change {
        reserved: whole(amount),
        ..Change::default()
    }
}

fn charged(amount: u64) -> Change {
    Change {
        spent: whole(amount),
        ..Change::default()
    }
}

/// Changes a line within its limit.
fn apply(connection: &Connection, line: &Line, change: Change) -> Done<()> {
    if change.spent == 0 && change.reserved == 0 {
        return Ok(());
    }
    sql::run(
        connection,
        "UPDATE account_lines SET spent = spent + ?3, reserved = CASE WHEN reserved + ?4 < 0 THEN 0 ELSE reserved + ?4 END
         WHERE account_id = ?1 AND kind = ?2",
        params![
            line.account,
            line.balance.kind.as_str(),
            change.spent,
            change.reserved
        ],
    )?;
    Ok(())
}

/// Changes a line by an amount that was already billed, and records by how much it is overdrawn.
fn charge_billed(connection: &Connection, line: &Line, change: Change) -> Done<()> {
    apply(connection, line, change)?;
    sql::run(
        connection,
        "UPDATE account_lines SET overdrawn = spent + reserved - cap
         WHERE account_id = ?1 AND kind = ?2 AND spent + reserved - cap > overdrawn",
        params![line.account, line.balance.kind.as_str()],
    )?;
    Ok(())
}

/// Limits an amount that a provider or a model reported to what can be counted.
fn bounded(amount: Amount) -> Amount {
    Amount {
        tokens: amount.tokens.min(MOST),
        usd_micros: amount.usd_micros.min(MOST),
        tool_calls: amount.tool_calls.min(MOST),
        children: amount.children.min(MOST),
    }
}

fn insert_reservation(connection: &Connection, run: &str, amount: Amount) -> Done<()> {
    sql::run(
        connection,
        "INSERT INTO reservations (run_id, tokens, usd_micros, tool_calls, children)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            run,
            whole(amount.tokens),
            whole(amount.usd_micros),
            whole(amount.tool_calls),
            whole(amount.children)
        ],
    )?;
    Ok(())
}

fn take_reservation(connection: &Connection, run: &str) -> Done<Option<Amount>> {
    sql::first(
        connection,
        "DELETE FROM reservations WHERE run_id = ?1
         RETURNING tokens, usd_micros, tool_calls, children",
        [run],
        amount,
    )
}

/// Reads a reservation.
pub(crate) fn amount(row: &Row<'_>) -> Done<Amount> {
    let number = |column: &str| row.get::<_, i64>(column).map(i64::unsigned_abs);
    Ok(Amount {
        tokens: number("tokens")?,
        usd_micros: number("usd_micros")?,
        tool_calls: number("tool_calls")?,
        children: number("children")?,
    })
}
