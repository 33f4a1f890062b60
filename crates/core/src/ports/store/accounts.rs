//! Reservations and charges against accounts.

use crate::budget::{Amount, Balance};
use crate::id::Fence;

/// Request to reserve an amount in an account.
#[derive(Clone, Copy, Debug)]
pub struct Reserve {
    pub fence: Fence,
    /// The most that the prompt can cost.
    pub amount: Amount,
}

/// The result of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// Reserved. The balances are those before it.
    Granted {
        /// One for each limited kind.
        balances: Vec<Balance>,
    },
    /// There is not enough; nothing was reserved.
    Short {
        /// The first kind that is short.
        balance: Balance,
    },
}

/// The result of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// How much was charged, at most the requested amount.
    pub granted: u64,
    /// The balance afterwards; `None` if this kind is not limited.
    pub balance: Option<Balance>,
}
