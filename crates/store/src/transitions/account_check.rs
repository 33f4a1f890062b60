//! Checks accounts: none is overspent, and every reserved amount belongs to a run or an account.

use std::collections::{BTreeMap, HashMap};

use sortie_core::budget::{Balance, BudgetKind};

use crate::fault::Done;
use crate::sql::{self, Connection};
use crate::transitions::accounts;

/// Returns the contradictions in the accounts, one sentence each.
pub(crate) fn problems(connection: &Connection) -> Done<Vec<String>> {
    let book = Book::load(connection)?;
    let mut problems = book.unknown_draws.clone();
    for ((account, kind), line) in &book.lines {
        problems.extend(book.check(account, *kind, line));
    }
    Ok(problems)
}

/// All accounts with the amounts reserved in them.
#[derive(Debug, Default)]
struct Book {
    accounts: HashMap<String, Account>,
    lines: BTreeMap<(String, BudgetKind), Line>,
    /// The reserved amounts of each line, added up from the runs and accounts that they are for.
    wanted: HashMap<(String, BudgetKind), u64>,
    unknown_draws: Vec<String>,
}

#[derive(Debug)]
struct Account {
    upper: Option<String>,
    closed: bool,
}

#[derive(Debug)]
struct Line {
    balance: Balance,
    overdrawn: u64,
}

impl Book {
    fn load(connection: &Connection) -> Done<Self> {
        let mut book = Self::default();
        book.load_accounts(connection)?;
        book.load_lines(connection)?;
        book.add_carved();
        book.add_reservations(connection)?;
        Ok(book)
    }

    fn load_accounts(&mut self, connection: &Connection) -> Done<()> {
        let accounts = sql::all(
            connection,
            "SELECT account_id, upper_id, closed FROM accounts",
            (),
            |row| {
                let account = Account {
                    upper: row.get(1)?,
                    closed: row.get(2)?,
                };
                Ok((row.get(0)?, account))
            },
        )?;
        self.accounts = accounts.into_iter().collect();
        Ok(())
    }

    fn load_lines(&mut self, connection: &Connection) -> Done<()> {
        let lines = sql::all(
            connection,
            "SELECT account_id, kind, cap, spent, reserved, overdrawn FROM account_lines",
            (),
            |row| {
                let balance = accounts::balance(row)?;
                let overdrawn = row.get::<_, i64>("overdrawn")?.max(0).unsigned_abs();
                let line = Line { balance, overdrawn };
                Ok(((row.get("account_id")?, balance.kind), line))
            },
        )?;
        self.lines = lines.into_iter().collect();
        Ok(())
    }

    /// An open account is reserved in full in the account above it.
    fn add_carved(&mut self) {
        let mut carved = Vec::new();
        for ((account, kind), line) in &self.lines {
            let Some(Account { upper, closed }) = self.accounts.get(account) else {
                continue;
            };
            if !closed && let Some(above) = self.nearest(upper.as_deref(), *kind) {
                carved.push((above, line.balance.limit));
            }
        }
        for (above, limit) in carved {
            *self.wanted.entry(above).or_default() += limit;
        }
    }

    fn add_reservations(&mut self, connection: &Connection) -> Done<()> {
        let reservations = sql::all(
            connection,
            "SELECT reservations.run_id, account_id, phase = 'ended' AS ended, tokens, usd_micros,
                    reservations.tool_calls AS tool_calls, children
             FROM reservations JOIN runs ON runs.run_id = reservations.run_id",
            (),
            |row| {
                let run: String = row.get(0)?;
                let account: Option<String> = row.get(1)?;
                Ok((run, account, row.get::<_, bool>(2)?, accounts::amount(row)?))
            },
        )?;
        for (run, account, ended, amount) in reservations {
            if ended {
                let problem = format!("run {run} has ended, but something is set aside for it");
                self.unknown_draws.push(problem);
            }
            for &kind in BudgetKind::ALL {
                if let Some(line) = self.nearest(account.as_deref(), kind) {
                    *self.wanted.entry(line).or_default() += amount.of(kind);
                }
            }
        }
        Ok(())
    }

    /// Returns the nearest line of a kind, from an account upwards.
    fn nearest(&self, from: Option<&str>, kind: BudgetKind) -> Option<(String, BudgetKind)> {
        let mut next = from;
        while let Some(account) = next {
            let key = (account.to_owned(), kind);
            if self.lines.contains_key(&key) {
                return Some(key);
            }
            next = self.accounts.get(account)?.upper.as_deref();
        }
        None
    }

    fn check(&self, account: &str, kind: BudgetKind, line: &Line) -> Vec<String> {
        let Balance {
            limit,
            spent,
            reserved,
            ..
        } = line.balance;
        let mut problems = Vec::new();
        if spent + reserved > limit + line.overdrawn {
            problems.push(format!(
                "the {kind} of account {account} are overspent: {spent} spent and {reserved} set \
                 aside of {limit}"
            ));
        }
        let key = (account.to_owned(), kind);
        let wanted = self.wanted.get(&key).copied().unwrap_or(0);
        if wanted != reserved {
            problems.push(format!(
                "account {account} has {reserved} {kind} set aside, but {wanted} are accounted for"
            ));
        }
        problems
    }
}
