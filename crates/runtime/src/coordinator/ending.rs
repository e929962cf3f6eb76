//! The end of the job.

use super::machine::Coordinator;
use super::reductions::RESULT_NUMBER_BYTES;
use crate::error::JobError;
use crate::message::Control;
use crate::message::pending_work::counted;

impl Coordinator {
    /// Sends the outcome of the job directly to the first PE of each node, which passes it on
    /// within the node. A path over other nodes could lead through a lost one. This node comes
    /// last, because it may end on receipt and must have sent everything else by then.
    pub(super) fn tell_end(&mut self, outcome: &Result<(), JobError>) {
        self.is_end_told = true;
        let (layout, own) = (self.common.layout.clone(), self.common.layout.leader(self.node));
        let founders = layout.nodes().map(|node| layout.leader(node));
        let others = founders.chain(self.guest_leaders()).filter(|&leader| leader != own);
        for leader in others.chain([own]) {
            self.post(leader, Control::Stop { outcome: outcome.clone() });
        }
        // Listeners come last: if one panics, all nodes still learn of the end.
        self.conclude_balances();
    }

    /// Ends the job if the requests that wait here exceed their memory budget.
    pub(super) fn check_budget(&mut self) {
        let held = self.budget.bytes();
        if held > self.common.limits.hard_bytes {
            self.fail_over_budget(held);
        }
    }

    /// Ends the job because `held` bytes wait in the coordinator or in its queue.
    pub(super) fn fail_over_budget(&mut self, held: usize) {
        let limit = self.common.limits.hard_bytes;
        let layout = &self.common.layout;
        let site = layout.site_name(layout.site_of_node(self.node));
        let members = self.requests.0.len() + self.result_numbers.len();
        let numbers = self.requests.bytes() + self.result_numbers.len() * RESULT_NUMBER_BYTES;
        let fullest = match numbers > held / 2 {
            true => format!(
                "numbers of the broadcasts and results of {}, which are kept until the job ends, \
                 also for members that were destroyed",
                counted(members as u64, "member", "members")
            ),
            false => "packets and broadcasts that wait for the coordinator".to_owned(),
        };
        self.fail(JobError::OverBudget {
            pe: layout.leader(self.node),
            place: format!("the coordinator, {} at site {site}", self.node),
            queued_bytes: held as u64,
            held_bytes: held as u64,
            limit_bytes: limit as u64,
            fullest,
        });
    }
}
