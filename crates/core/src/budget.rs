//! Accounts in a tree of accounts.
//!
//! A run with a budget of its own has an account, carved from the account its parent draws from; a
//! run without one draws from its parent's. What may be spent is reserved first.

use serde::{Deserialize, Serialize};

/// Millionths of a US dollar: sums of these are exact.
pub type MicroUsd = u64;

/// How many millionths a dollar has.
pub const MICROS_PER_USD: f64 = 1_000_000.0;

/// The limits of a run and everything below it. `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Tokens in both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_micros: Option<MicroUsd>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Runs below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<u64>,
    /// Time from its first claim, for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
}

impl Budget {
    /// Whether it limits anything that an account keeps. Time needs no account.
    pub const fn needs_account(self) -> bool {
        self.tokens.is_some()
            || self.usd_micros.is_some()
            || self.tool_calls.is_some()
            || self.children.is_some()
    }

    /// These limits, or those of somebody further away where these say nothing.
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

    /// The tighter of both limits, of each kind.
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

    /// A limit of one kind.
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

    /// The limit of a kind that an account keeps.
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
    /// What an account keeps count of.
    BudgetKind {
        /// Tokens in both directions.
        Tokens = "tokens",
        /// Millionths of a dollar.
        Usd = "usd",
        /// Tool calls.
        ToolCalls = "tool_calls",
        /// Runs below the owner.
        Children = "children",
    }
}

/// So much of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Tokens in both directions.
    pub tokens: u64,
    /// Money.
    pub usd_micros: MicroUsd,
    /// Tool calls.
    pub tool_calls: u64,
    /// Runs.
    pub children: u64,
}

impl Amount {
    /// How much of one kind.
    pub const fn of(self, kind: BudgetKind) -> u64 {
        match kind {
            BudgetKind::Tokens => self.tokens,
            BudgetKind::Usd => self.usd_micros,
            BudgetKind::ToolCalls => self.tool_calls,
            BudgetKind::Children => self.children,
        }
    }

    /// So much of one kind and nothing else.
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
    /// What can still be reserved.
    pub const fn left(self) -> u64 {
        self.limit
            .saturating_sub(self.spent)
            .saturating_sub(self.reserved)
    }

    /// The part of the limit that is spent, in percent.
    pub const fn percent_spent(self) -> u64 {
        if self.limit == 0 {
            return 100;
        }
        // In this order, so that a large limit does not overflow.
        let whole = self.spent.saturating_mul(100);
        whole / self.limit
    }
}
