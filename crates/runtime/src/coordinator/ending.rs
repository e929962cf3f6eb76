//! The end of the job.

use super::machine::Coordinator;
use crate::address::id::CollectionId;
use crate::error::JobError;
use crate::message::Control;

impl Coordinator {
    /// Ends the job with an error, the first one if there are several.
    pub(super) fn fail(&mut self, error: JobError) {
        self.stop(Err(error));
    }

    pub(super) fn fail_no_collection(&mut self, collection: CollectionId) {
        self.fail(JobError::Protocol(format!(
            "something was sent to collection {}, which does not exist",
            collection.0
        )));
    }

    /// Ends the job. The first PE of each node hears of it, and tells the others there, so that no
    /// node which was lost stands between.
    pub(super) fn stop(&mut self, outcome: Result<(), JobError>) {
        if self.outcome.is_some() {
            return;
        }
        self.conclude_balances();
        let layout = self.common.layout.clone();
        let founders = layout.nodes().map(|node| layout.leader(node));
        for leader in founders.chain(self.guest_leaders()) {
            self.post(leader, Control::Stop { outcome: outcome.clone() });
        }
        self.outcome = Some(outcome);
    }

    /// Ends the job when what waits here outgrows its budget.
    pub(super) fn check_budget(&mut self) {
        let (limit, held) = (self.common.limits.hard_bytes, self.budget.bytes());
        if held <= limit {
            return;
        }
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
