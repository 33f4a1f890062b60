//! Reservations and charges against accounts.

use crate::budget::{Amount, Balance};
use crate::id::Fence;

/// Asks to set something aside.
#[derive(Clone, Copy, Debug)]
pub struct Reserve {
    /// The right to write.
    pub fence: Fence,
    /// The most that the question can cost.
    pub amount: Amount,
}

/// What came of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It is set aside. The balances are those before it.
    Granted {
        /// Each kind that is limited.
        balances: Vec<Balance>,
    },
    /// There is not enough, and nothing was set aside.
    Short {
        /// The first kind that is short.
        balance: Balance,
    },
}

/// What came of spending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// How many were there.
    pub granted: u64,
    /// The account after that; `None` if this kind is not limited.
    pub balance: Option<Balance>,
}
