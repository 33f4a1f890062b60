//! What a run may spend: set aside before it is spent, and the end of the run where it is not there.

use std::time::Duration;

use sortie_agent::CallStatus;
use sortie_core::{
    Amount, Balance, BudgetKind, Event, Fault, ModelError, ModelRequest, NotificationKind, Reserve,
    Reserved,
};
use sortie_text::t;

use super::Executor;
use crate::budget::{self, Unaffordable};
use crate::pen::PenError;

/// How often is looked whether others have given something back.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// How long that is waited for. Whoever waits holds a slot that others may need.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Executor {
    /// Sets aside what a question can cost at most, where an account limits it; `None` if the
    /// machine has to be asked again first.
    pub(super) async fn provide(
        &mut self,
        request: &mut ModelRequest,
    ) -> Result<Option<Option<Amount>>, PenError> {
        if self.spec.account.is_none() {
            return Ok(Some(None));
        }
        self.pen.settle().await?;
        let balances = self.shared.store.balances(self.fence.run).await?;
        let state = self.pen.state();
        let low = budget::low(&balances, |kind| state.was_warned(kind));
        if !low.is_empty() {
            self.notify(NotificationKind::BudgetLow {
                balances: low.clone(),
            });
            self.pen.write(Event::BudgetLow { balances: low }).await?;
            return Ok(None);
        }
        let terms = self.shared.models.terms(&request.model);
        let provision =
            match budget::provide(request, state.counted(&request.model), terms, &balances) {
                Ok(provision) => provision,
                Err(Unaffordable::Short(balance)) => {
                    let refunded = budget::without_reserved(&balances);
                    let counted = self.pen.state().counted(&request.model);
                    let is_held = budget::provide(request, counted, terms, &refunded).is_ok();
                    self.wait_or_end(balance, is_held).await?;
                    return Ok(None);
                }
                Err(Unaffordable::Unpriced) => {
                    let message = t!(
                        self.spec.lang,
                        "fail-unpriced",
                        model = request.model.as_str()
                    );
                    let error = ModelError::new(Fault::BadRequest, message);
                    self.note_failure(request.model.clone(), error, None)
                        .await?;
                    return Ok(None);
                }
            };
        request.options.sampling.max_tokens = Some(provision.max_output);
        let reserve = Reserve {
            fence: self.fence,
            amount: provision.amount,
        };
        match self.shared.store.reserve(reserve).await? {
            Reserved::Granted { .. } => {
                self.waited_for_refund = Duration::ZERO;
                Ok(Some(Some(provision.amount)))
            }
            // Somebody else of the tree was faster.
            Reserved::Short { balance } => {
                self.wait_or_end(balance, balance.reserved > 0).await?;
                Ok(None)
            }
        }
    }

    /// What is only set aside by others may come back: it is waited for, for a while.
    async fn wait_or_end(&mut self, balance: Balance, is_held: bool) -> Result<(), PenError> {
        if !is_held || self.waited_for_refund >= LONGEST_WAIT {
            return self.spent_up(balance).await;
        }
        self.waited_for_refund += BETWEEN_LOOKS;
        // Interrupted or not, the machine is asked again.
        self.interruptions(Duration::ZERO)
            .race(tokio::time::sleep(BETWEEN_LOOKS))
            .await;
        Ok(())
    }

    /// Ends the run, because an account is empty.
    pub(super) async fn spent_up(&mut self, balance: Balance) -> Result<(), PenError> {
        self.pen
            .write(Event::BudgetSpent {
                kind: balance.kind,
                limit: balance.limit,
                left: balance.left(),
            })
            .await
    }

    /// Takes a call that is about to start from the account that limits calls, if one does; returns
    /// the account if it is empty. Whoever was dealt with before was paid for then.
    pub(super) async fn pay_for(&mut self, call: &CallStatus) -> Result<Option<Balance>, PenError> {
        let is_new = matches!(call, CallStatus::Requested);
        if self.spec.account.is_none() || !self.counts_calls || !is_new {
            return Ok(None);
        }
        self.pen.settle().await?;
        let spent = self
            .shared
            .store
            .charge(self.fence, BudgetKind::ToolCalls, 1)
            .await?;
        self.counts_calls = spent.balance.is_some();
        Ok(spent.balance.filter(|_| spent.granted == 0))
    }
}
