//! The phase of a rebalance in which actors move, and its end.

use crate::address::id::RebalanceId;
use crate::coordinator::event::FollowUp;
use crate::coordinator::machine::Coordinator;
use crate::message::{Control, Moves};
use gridspan_balance::Cause;
use std::time::Duration;

impl Coordinator {
    /// Starts a phase of `moves` moves. If there are none, continues with the next phase or ends
    /// the rebalance, and returns false.
    pub(in crate::coordinator) fn begin_moves(&mut self, moves: usize) -> bool {
        let now = self.now;
        let balances = &mut self.balances;
        (balances.moved, balances.missing, balances.planned) = (0, moves, now);
        let planning_ns = std::mem::take(&mut balances.planning_ns);
        let collecting_ns = std::mem::take(&mut balances.collecting_ns);
        self.balancer.spent(Duration::from_nanos(planning_ns + collecting_ns));
        if moves == 0 {
            self.go_on_with_plan();
            return false;
        }
        // A round of quiescence detection may be in progress, and actors send messages when they
        // arrive.
        self.unsettle();
        true
    }

    pub(in crate::coordinator) fn handle_plan_done(
        &mut self,
        rebalance: RebalanceId,
        moves: Moves,
    ) {
        let balances = &mut self.balances;
        // Only a faulty PE reports too many moves, or moves of an earlier rebalance.
        if balances.missing == 0 || rebalance != balances.present() {
            return;
        }
        let Moves { arrived, stayed } = moves;
        balances.moved += arrived.min(balances.missing) as u64;
        balances.missing = balances.missing.saturating_sub(arrived.saturating_add(stayed));
        if balances.missing == 0 {
            self.go_on_with_plan();
        }
    }

    /// Continues after a phase of the plan: begins replicas, or finishes the rebalance.
    fn go_on_with_plan(&mut self) {
        let rebalance = self.balances.present();
        if !self.post_begins(rebalance) {
            self.finish_balance(rebalance);
        }
    }

    fn finish_balance(&mut self, rebalance: RebalanceId) {
        self.post_to_all(|| Control::Rebalanced { rebalance });
        let now = self.now;
        let balances = &mut self.balances;
        balances.count += 1;
        let cause = balances.queue.pop_front();
        let (moved, is_next) = (balances.moved, !balances.queue.is_empty());
        let was_judging = self.balancer.is_judging();
        self.balancer.carried_out(now, moved, now.since(balances.planned));
        if cause == Some(Cause::Request) {
            if moved == 0 {
                balances.futile += now.since(balances.asked);
            }
            if let Some(asker) = balances.waits.pop_front() {
                self.answer(asker, moved as usize);
            }
        }
        self.after_balance(cause, was_judging);
        if is_next {
            self.follow_ups.push_back(FollowUp::BeginRebalance);
        }
    }
}
