//! Members that wait until the place of their partner is known.

use crate::address::id::ActorId;
use crate::error::Misuse;
use crate::message::Control;
use crate::pe::core::Core;
use crate::pe::delivery::UNKNOWN_MEMBER_HOLD;

impl Core {
    /// Keeps a control that creates a partner of `base` until `base` arrives, leaves or has a new
    /// place. The job fails if that takes longer than [`UNKNOWN_MEMBER_HOLD`].
    pub(super) fn await_base(&mut self, base: ActorId, control: Control) {
        // The job is not quiescent while the control waits.
        self.created += 1;
        let too_late = Box::new(move |core: &mut Self| {
            let (member, base) = (format!("{:?}", base.key), base.collection.0);
            core.fail(Misuse::InsertedAlone { member, base }.into());
        });
        let timer = self.timers.set(self.now + UNKNOWN_MEMBER_HOLD, too_late);
        let bytes = size_of::<Control>() + control.bytes();
        let control = self.delivery.budget.keep(Box::new(control), bytes);
        self.followers.entry(base).or_default().push((timer, control));
    }

    /// Handles again the controls that wait for `base`, after it has arrived, left, or got a new
    /// place.
    #[inline]
    pub(in crate::pe) fn release_followers(&mut self, base: ActorId) {
        if !self.followers.is_empty() {
            self.release_followers_of(base);
        }
    }

    #[cold]
    fn release_followers_of(&mut self, base: ActorId) {
        for (timer, control) in self.followers.remove(&base).into_iter().flatten() {
            self.timers.cancel(timer);
            self.processed += 1;
            self.post(self.me, *control.into_inner());
        }
    }
}
