//! Cancels a job that runs in this process.

use super::switch::Switch;
use crate::address::id::MAIN_PE;
use crate::coordinator::CoordinatorEvent;
use crate::error::JobError;
use std::sync::{Arc, Weak};

/// Cancels a job, from any thread.
#[derive(Clone)]
pub struct Canceller(Weak<Switch>);

impl Canceller {
    pub(super) fn new(switch: &Arc<Switch>) -> Self {
        Self(Arc::downgrade(switch))
    }

    /// Ends the job with [`JobError::Cancelled`], unless it has ended. Handlers that run are not
    /// interrupted.
    pub fn cancel(&self) {
        let Some(switch) = self.0.upgrade() else { return };
        let fail = |core: &mut crate::pe::Core| core.fail(JobError::Cancelled);
        switch.inbox(MAIN_PE).push_action(Box::new(fail));
        // All other PEs end even if that one is inside a handler.
        switch.tell_coordinator(CoordinatorEvent::Failed(JobError::Cancelled));
    }
}
