//! The order in which a PE handles the messages of one step: by the *hops* of their receivers. An
//! actor has 0 hops if it communicates with another site, 1 if it communicates with such an actor,
//! and so on.
//!
//! **Start.** When a PE gets the first message that belongs to a step, it reports to the
//! coordinator that the job uses steps. Other jobs pay for none of this. Until the first rebalance
//! the communication between actors is not known, and steps alone determine the order.
//!
//! **Steady state.** With every plan, the coordinator computes the hops that each actor will have
//! after the plan. It sends to each PE the hops of the actors that will be there; if leaders plan,
//! each leader does so for its site. So the PE knows the hops of an actor before the plan moves the
//! actor there. An actor that arrives at its own request gets the hops [`FAR`].
//!
//! **Order.** When the hops of a receiver change, its waiting messages are ranked again. So
//! messages of one step from one sender to one receiver always have the same rank, and the PE
//! handles them in the order in which they were sent.

use crate::address::id::{ActorId, COORDINATOR, KindId};
use crate::message::Control;
use crate::pe::core::Core;
use crate::pe::rank::{FAR, Rank, is_step};

impl Core {
    /// The rank of a message for the member in `slot` among ready messages.
    #[inline]
    pub(crate) fn rank(&mut self, kind: KindId, slot: u32, priority: i32) -> Rank {
        match is_step(priority) {
            false => Rank::new(priority, 0),
            true => self.rank_in_step(kind, slot, priority),
        }
    }

    #[inline(never)]
    fn rank_in_step(&mut self, kind: KindId, slot: u32, priority: i32) -> Rank {
        if self.steps.begin() {
            self.post(COORDINATOR, Control::UsesSteps);
        }
        Rank::new(priority, self.member(kind, slot).map_or(FAR, |member| member.border_hops))
    }

    /// Sets the hops of this PE's members, and ranks their waiting messages by these hops.
    pub(crate) fn handle_borders(&mut self, hops: Vec<(ActorId, u8)>) {
        self.steps.learn(hops);
        let mut all = std::mem::take(&mut self.members);
        for member in all.iter_mut().flatten().flatten() {
            member.border_hops = self.steps.hops(self.base_of(member.id));
        }
        self.members = all;
        let kinds = self.queues.iter_mut().zip(&self.members).enumerate();
        for (kind, (queue, members)) in kinds {
            let hops = |slot: u32| {
                let member = members.get(slot as usize).and_then(Option::as_ref);
                member.map_or(FAR, |member| member.border_hops)
            };
            queue.rank_anew(KindId(kind as u16), &hops, &mut self.lanes);
        }
    }
}
