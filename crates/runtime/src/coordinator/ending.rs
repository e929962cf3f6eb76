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

    /// Ends the job if the requests that wait here, and the numbers kept here, exceed their memory
    /// budget.
    pub(super) fn check_budget(&mut self) {
        let held = self.budget.bytes();
        if held > self.common.limits.hard_bytes {
            let fullest = self.most_of(held);
            self.fail_over_budget(held, fullest);
        }
    }

    /// Ends the job because the coordinator's queue was full and packets were dropped. `queued`: the
    /// bytes that wait in it.
    pub(super) fn fail_overflow(&mut self, queued: usize) {
        self.fail_over_budget(queued, "packets that wait for the coordinator".to_owned());
    }

    /// What takes most of the `held` bytes in the coordinator's budget.
    pub(super) fn most_of(&self, held: usize) -> String {
        let members = self.requests.0.len() + self.result_numbers.len();
        let numbers = self.requests.bytes() + self.result_numbers.len() * RESULT_NUMBER_BYTES;
        match numbers > held / 2 {
            true => format!(
                "numbers of the broadcasts and results of {}, which are kept until the job ends, \
                 also for members that were destroyed",
                counted(members as u64, "member", "members")
            ),
            false => "packets and broadcasts that wait for the coordinator".to_owned(),
        }
    }

    fn fail_over_budget(&mut self, held: usize, fullest: String) {
        let limit = self.common.limits.hard_bytes;
        let layout = &self.common.layout;
        let site = layout.site_name(layout.site_of_node(self.node));
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
