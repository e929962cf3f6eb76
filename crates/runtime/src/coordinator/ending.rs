//! The end of the job.

use super::machine::Coordinator;
use crate::error::JobError;
use crate::message::Control;

impl Coordinator {
    /// Tells all nodes how the job has ended, if it has. The first PE of each node hears of it, and
    /// tells the others there, so that no node which was lost stands between. That of this node is
    /// the last: the node may end with it, and must have sent all else by then.
    pub(super) fn tell_end(&mut self) {
        let Some(outcome) = self.outcome.clone().filter(|_| !self.is_end_told) else { return };
        self.is_end_told = true;
        let (layout, own) = (self.common.layout.clone(), self.common.layout.leader(self.node));
        let founders = layout.nodes().map(|node| layout.leader(node));
        let others = founders.chain(self.guest_leaders()).filter(|&leader| leader != own);
        for leader in others.chain([own]) {
            self.post(leader, Control::Stop { outcome: outcome.clone() });
        }
        // Listeners come last: if one panics, all nodes hear of the end nevertheless.
        self.conclude_balances();
    }

    /// Ends the job when what waits here outgrows its budget.
    pub(super) fn check_budget(&mut self) {
        let held = self.budget.bytes();
        if held > self.common.limits.hard_bytes {
            self.fail_over_budget(held);
        }
    }

    /// Ends the job: `held` bytes wait for the coordinator or in it.
    pub(super) fn fail_over_budget(&mut self, held: usize) {
        let limit = self.common.limits.hard_bytes;
        let layout = &self.common.layout;
        let site = layout.site_name(layout.site_of_node(self.node));
        self.fail(JobError::OverBudget {
            pe: layout.leader(self.node),
            place: format!("the coordinator, {} at site {site}", self.node),
            queued_bytes: held as u64,
            held_bytes: held as u64,
            limit_bytes: limit as u64,
            fullest: "broadcasts that wait for their number".to_owned(),
        });
    }
}
