//! Accounts in a tree of accounts: carved at admission, drawn from by reservations, closed when
//! nobody draws from them any more.
//!
//! A kind that an account does not limit is drawn from the nearest account above that does. So each
//! amount is counted in exactly one line, until its account closes and the line above takes it over.

use std::collections::HashMap;

use rusqlite::{Connection, Row, params};
use sortie_core::{
    Admit, Amount, Balance, BudgetKind, Charged, Fence, Refusal, Reserve, Reserved, RunId,
};

use crate::fault::{Done, Fault};
use crate::row::{self, RunRow};
use crate::sql::{self, whole};

/// The most of one kind that is ever counted at once: sums of such numbers stay exact.
const MOST: u64 = 1 << 50;
/// The largest limit: far more than anybody spends, and still a number of the database.
const LARGEST_CAP: u64 = 1 << 60;

/// One kind of an account.
#[derive(Clone, Debug)]
struct Line {
    account: String,
    balance: Balance,
}

/// What changes in a line.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    spent: i64,
    reserved: i64,
}

/// What an admission does to accounts, decided before anything is written.
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
pub(crate) fn plan(connection: &Connection, admit: &Admit) -> Done<Result<Plan, Refusal>> {
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
            return Ok(Err(spent_up(BudgetKind::Children)));
        }
        changes.push((line.clone(), spend_for_good(1)));
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

/// As much of a kind as there is, up to what is wanted.
fn carve(above: &[Line], kind: BudgetKind, wanted: u64) -> Result<Carved, Refusal> {
    let Some(line) = of_kind(above, kind) else {
        return Ok((wanted, None));
    };
    let left = line.balance.left();
    if left == 0 && wanted > 0 {
        return Err(spent_up(kind));
    }
    // One of the children above is the new run itself.
    let left = match kind {
        BudgetKind::Children => left.saturating_sub(1),
        BudgetKind::Tokens | BudgetKind::Usd | BudgetKind::ToolCalls => left,
    };
    let granted = wanted.min(left);
    Ok((granted, Some((line.clone(), set_aside(granted)))))
}

const fn spent_up(kind: BudgetKind) -> Refusal {
    Refusal::BudgetSpent { kind }
}

/// Writes what was decided, once the run has its row.
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

/// Sets an amount aside for a question, all or nothing.
pub(crate) fn reserve(connection: &Connection, reserve: &Reserve) -> Done<Reserved> {
    let held = row::hold(connection, reserve.fence)?;
    let account = held.account.as_deref();
    if account.is_none() {
        return Ok(Reserved::Granted {
            balances: Vec::new(),
        });
    }
    forfeit(connection, &held.tail.run, account)?;
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
        apply(connection, line, set_aside(wanted))?;
    }
    insert_reservation(connection, &held.tail.run, amount)?;
    Ok(Reserved::Granted {
        balances: balances_of(&lines),
    })
}

/// Settles what was set aside for a run's question: what it really cost is spent, the rest is free
/// again. A provider that took more than was set aside has been paid all the same.
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
        pay(connection, &line, change)?;
    }
    Ok(())
}

/// Counts as spent what a run had set aside and never settled: its provider may have been paid.
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

/// Spends up to so many of one kind for good.
pub(crate) fn charge(
    connection: &Connection,
    fence: Fence,
    kind: BudgetKind,
    wanted: u64,
) -> Done<Charged> {
    let held = row::hold(connection, fence)?;
    let lines = lines(connection, held.account.as_deref())?;
    let Some(line) = of_kind(&lines, kind) else {
        return Ok(Charged {
            granted: wanted,
            balance: None,
        });
    };
    let granted = wanted.min(line.balance.left());
    apply(connection, line, spend_for_good(granted))?;
    Ok(Charged {
        granted,
        balance: Some(Balance {
            spent: line.balance.spent + granted,
            ..line.balance
        }),
    })
}

/// A run that has ended draws no more; accounts that nobody draws from any more are closed.
pub(crate) fn leave(connection: &Connection, row: &RunRow) -> Done<()> {
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

/// Closes an account if all who drew from it have ended, and gives the account above it. Not when
/// its owner ends: a silent child goes on then, and a held one has yet to say what it spent.
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
        |row| Ok(row.get::<_, Option<String>>(0)?),
    )?;
    let Some(Some(upper)) = closed else {
        return Ok(None);
    };
    let above = lines(connection, Some(&upper))?;
    for own in own_lines(connection, account)? {
        if let Some(line) = of_kind(&above, own.kind) {
            let change = Change {
                // By now nothing is set aside in it: whoever it was set aside for has ended.
                spent: whole(own.spent),
                reserved: -whole(own.limit),
            };
            pay(connection, line, change)?;
        }
    }
    Ok(Some(upper))
}

/// The accounts that a run draws from, one balance for each kind that is limited.
pub(crate) fn balances(connection: &Connection, run: RunId) -> Done<Vec<Balance>> {
    let account = sql::first(
        connection,
        "SELECT account_id FROM runs WHERE run_id = ?1",
        [run.to_string()],
        |row| Ok(row.get::<_, Option<String>>(0)?),
    )?;
    let account = account.ok_or_else(|| Fault::not_found(run))?;
    Ok(balances_of(&lines(connection, account.as_deref())?))
}

/// The balances of many runs, each account looked up once.
#[derive(Debug, Default)]
pub(crate) struct Balances {
    known: HashMap<String, Vec<Balance>>,
}

impl Balances {
    /// What a run that draws from this account can draw.
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
        |row| Ok(row.get(0)?),
    )?;
    Ok(account.flatten())
}

/// For each kind that is limited, the nearest line to an account, in the order of the kinds.
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
        |row| Ok(row.get(0)?),
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

/// Reads one line's numbers.
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

fn set_aside(amount: u64) -> Change {
    Change {
        reserved: whole(amount),
        ..Change::default()
    }
}

fn spend_for_good(amount: u64) -> Change {
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
        "UPDATE account_lines SET spent = spent + ?3, reserved = MAX(reserved + ?4, 0)
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

/// Changes a line by what was paid already, and notes by how much it is overdrawn then.
fn pay(connection: &Connection, line: &Line, change: Change) -> Done<()> {
    apply(connection, line, change)?;
    sql::run(
        connection,
        "UPDATE account_lines SET overdrawn = spent + reserved - cap
         WHERE account_id = ?1 AND kind = ?2 AND spent + reserved - cap > overdrawn",
        params![line.account, line.balance.kind.as_str()],
    )?;
    Ok(())
}

/// What a provider or a model claims, within what can be counted.
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

/// Reads what was set aside.
pub(crate) fn amount(row: &Row<'_>) -> Done<Amount> {
    let number = |column: &str| row.get::<_, i64>(column).map(i64::unsigned_abs);
    Ok(Amount {
        tokens: number("tokens")?,
        usd_micros: number("usd_micros")?,
        tool_calls: number("tool_calls")?,
        children: number("children")?,
    })
}
