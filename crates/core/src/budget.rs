//! Budgets: limits, and accounts in a tree.
//!
//! A run with its own budget has an account, carved from the account that its parent draws from;
//! other runs draw from their parent's account. Every charge is reserved first.

use serde::{Deserialize, Serialize};

/// Millionths of a US dollar: sums of these are exact.
pub type MicroUsd = u64;

pub const MICROS_PER_USD: f64 = 1_000_000.0;

/// The limits of a run and its descendants. `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Input and output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_micros: Option<MicroUsd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Descendants of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<u64>,
    /// Time from the first claim of the run, for the whole subtree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
}

impl Budget {
    /// Whether any limit needs an account. Time does not.
    pub const fn needs_account(self) -> bool {
        self.tokens.is_some()
            || self.usd_micros.is_some()
            || self.tool_calls.is_some()
            || self.children.is_some()
    }

    /// Fills unset limits from `further`, a less specific budget.
    #[must_use]
    pub fn or(self, further: Self) -> Self {
        Self {
            tokens: self.tokens.or(further.tokens),
            usd_micros: self.usd_micros.or(further.usd_micros),
            tool_calls: self.tool_calls.or(further.tool_calls),
            children: self.children.or(further.children),
            wall_ms: self.wall_ms.or(further.wall_ms),
        }
    }

    /// Takes the tighter limit of each kind.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self {
            tokens: tighter(self.tokens, other.tokens),
            usd_micros: tighter(self.usd_micros, other.usd_micros),
            tool_calls: tighter(self.tool_calls, other.tool_calls),
            children: tighter(self.children, other.children),
            wall_ms: tighter(self.wall_ms, other.wall_ms),
        }
    }

    /// Returns a budget with one limit.
    pub fn of(kind: BudgetKind, limit: u64) -> Self {
        let limit = Some(limit);
        let none = Self::default();
        match kind {
            BudgetKind::Tokens => Self {
                tokens: limit,
                ..none
            },
            BudgetKind::Usd => Self {
                usd_micros: limit,
                ..none
            },
            BudgetKind::ToolCalls => Self {
                tool_calls: limit,
                ..none
            },
            BudgetKind::Children => Self {
                children: limit,
                ..none
            },
        }
    }

    /// Returns the limit of one kind.
    pub const fn limit(self, kind: BudgetKind) -> Option<u64> {
        match kind {
            BudgetKind::Tokens => self.tokens,
            BudgetKind::Usd => self.usd_micros,
            BudgetKind::ToolCalls => self.tool_calls,
            BudgetKind::Children => self.children,
        }
    }
}

fn tighter(own: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (own, other) {
        (Some(own), Some(other)) => Some(own.min(other)),
        (Some(limit), None) | (None, Some(limit)) => Some(limit),
        (None, None) => None,
    }
}

words! {
    /// The kinds that accounts count.
    BudgetKind {
        /// Input and output tokens.
        Tokens = "tokens",
        Usd = "usd",
        ToolCalls = "tool_calls",
        /// Descendants of the account's owner.
        Children = "children",
    }
}

/// An amount of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Input and output tokens.
    pub tokens: u64,
    pub usd_micros: MicroUsd,
    pub tool_calls: u64,
    pub children: u64,
}

impl Amount {
    pub const fn of(self, kind: BudgetKind) -> u64 {
        match kind {
            BudgetKind::Tokens => self.tokens,
            BudgetKind::Usd => self.usd_micros,
            BudgetKind::ToolCalls => self.tool_calls,
            BudgetKind::Children => self.children,
        }
    }

    /// Returns an amount of one kind, zero of the others.
    pub fn only(kind: BudgetKind, amount: u64) -> Self {
        let mut all = Self::default();
        match kind {
            BudgetKind::Tokens => all.tokens = amount,
            BudgetKind::Usd => all.usd_micros = amount,
            BudgetKind::ToolCalls => all.tool_calls = amount,
            BudgetKind::Children => all.children = amount,
        }
        all
    }
}

/// What is left of one kind of budget in the account that a run draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Balance {
    /// The kind of budget; `usd` counts millionths of a dollar.
    pub kind: BudgetKind,
    /// The limit of the account.
    pub limit: u64,
    /// The amount that was charged.
    pub spent: u64,
    /// The amount that is reserved for prompts under way and for children with accounts of their own.
    pub reserved: u64,
}

impl Balance {
    /// Returns what can still be reserved.
    pub const fn left(self) -> u64 {
        self.limit
            .saturating_sub(self.spent)
            .saturating_sub(self.reserved)
    }

    /// Returns the charged share of the limit, in percent.
    pub const fn percent_spent(self) -> u64 {
        if self.limit == 0 {
            return 100;
        }
        // Multiplied first, saturating, so that a large limit does not overflow.
        let whole = self.spent.saturating_mul(100);
        whole / self.limit
    }
}
