//! Reserves and charges what a run spends, and ends the run when an account is empty.

use std::time::Duration;

use sortie_agent::CallStatus;
use sortie_core::budget::{Amount, Balance, BudgetKind};
use sortie_core::event::Event;
use sortie_core::notification::NotificationKind;
use sortie_core::ports::model::{Fault, ModelError, ModelRequest};
use sortie_core::ports::store::{Reserve, Reserved};
use sortie_text::t;

use super::Executor;
use crate::budget::{self, Unaffordable};
use crate::journal_writer::JournalWriteError;

/// Interval between two checks for refunds.
const REFUND_POLL: Duration = Duration::from_millis(100);
/// Longest wait for a refund. The waiting run occupies a slot that other runs may need.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Whether the account of a run covers a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reservation {
    /// No account limits the run.
    Unlimited,
    /// The account has reserved this much for the call.
    Reserved(Amount),
    /// Nothing was reserved; the journal may have changed, so the next step is decided again.
    Retry,
}

impl Reservation {
    /// Returns what was reserved, and has to be charged or refunded.
    pub(super) const fn amount(self) -> Option<Amount> {
        match self {
            Self::Reserved(amount) => Some(amount),
            Self::Unlimited | Self::Retry => None,
        }
    }
}

/// Whether the account of a run covers a tool call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Charge {
    /// The call may start.
    Covered,
    /// This balance is empty: the run has to end.
    Exhausted(Balance),
}

impl Executor {
    /// Reserves the most that a model call can cost, where an account limits the run.
    pub(super) async fn reserve(
        &mut self,
        request: &mut ModelRequest,
    ) -> Result<Reservation, JournalWriteError> {
        if self.spec.account.is_none() {
            return Ok(Reservation::Unlimited);
        }
        self.journal.flush().await?;
        let balances = self.engine.store.balances(self.fence.run).await?;
        let state = self.journal.state();
        let low = budget::low(&balances, |kind| state.was_warned(kind));
        if !low.is_empty() {
            self.notify(NotificationKind::BudgetLow {
                balances: low.clone(),
            });
            self.journal
                .write(Event::BudgetLow { balances: low })
                .await?;
            return Ok(Reservation::Retry);
        }
        let terms = self.engine.models.terms(&request.model);
        let provision =
            match budget::provision(request, state.counted(&request.model), terms, &balances) {
                Ok(provision) => provision,
                Err(Unaffordable::Short(balance)) => {
                    let refunded = budget::after_refunds(&balances);
                    let counted = self.journal.state().counted(&request.model);
                    let reserved_elsewhere =
                        budget::provision(request, counted, terms, &refunded).is_ok();
                    self.wait_or_end(balance, reserved_elsewhere).await?;
                    return Ok(Reservation::Retry);
                }
                Err(Unaffordable::Unpriced) => {
                    let message = t!(
                        self.spec.lang,
                        "fail-unpriced",
                        model = request.model.as_str()
                    );
                    let error = ModelError::new(Fault::BadRequest, message);
                    self.record_model_failure(request.model.clone(), error, None)
                        .await?;
                    return Ok(Reservation::Retry);
                }
            };
        request.options.sampling.max_tokens = Some(provision.max_output);
        let reserve = Reserve {
            fence: self.fence,
            amount: provision.amount,
        };
        match self.engine.store.reserve(reserve).await? {
            Reserved::Granted { .. } => {
                self.refund_wait = Duration::ZERO;
                Ok(Reservation::Reserved(provision.amount))
            }
            // Another run of the tree has reserved it first.
            Reserved::Short { balance } => {
                self.wait_or_end(balance, balance.reserved > 0).await?;
                Ok(Reservation::Retry)
            }
        }
    }

    /// Waits a moment for refunds if other runs have reserved the rest of the budget, else ends the
    /// run.
    async fn wait_or_end(
        &mut self,
        balance: Balance,
        reserved_elsewhere: bool,
    ) -> Result<(), JournalWriteError> {
        if !reserved_elsewhere || self.refund_wait >= LONGEST_WAIT {
            return self.end_on_budget(balance).await;
        }
        self.refund_wait += REFUND_POLL;
        // Interrupted or not, the next step is decided again.
        self.interruptions(Duration::ZERO)
            .race(tokio::time::sleep(REFUND_POLL))
            .await;
        Ok(())
    }

    /// Ends the run because an account is empty.
    pub(super) async fn end_on_budget(
        &mut self,
        balance: Balance,
    ) -> Result<(), JournalWriteError> {
        self.journal
            .write(Event::BudgetSpent {
                kind: balance.kind,
                limit: balance.limit,
                left: balance.left(),
            })
            .await
    }

    /// Charges a tool call that is about to start to the account that limits calls, if one does. A
    /// call that was dispatched before was charged then.
    pub(super) async fn charge_call(
        &mut self,
        call: &CallStatus,
    ) -> Result<Charge, JournalWriteError> {
        let is_new = matches!(call, CallStatus::Requested);
        if self.spec.account.is_none() || !self.counts_calls || !is_new {
            return Ok(Charge::Covered);
        }
        self.journal.flush().await?;
        let spent = self
            .engine
            .store
            .charge(self.fence, BudgetKind::ToolCalls, 1)
            .await?;
        self.counts_calls = spent.balance.is_some();
        Ok(match spent.balance {
            Some(balance) if spent.granted == 0 => Charge::Exhausted(balance),
            Some(_) | None => Charge::Covered,
        })
    }
}
