//! How near the actors of a PE are to another site, for the order in which messages of steps are
//! handled.
//!
//! **Start.** A PE that handles the first message of a step tells the coordinator, so that jobs
//! without steps pay for none of this. Until the first rebalance nobody knows who talks to whom,
//! and steps alone decide.
//!
//! **Steady state.** With every plan, the coordinator counts the hops of each actor to another site
//! as they will be once the plan is carried out, and tells each PE those of its members. Who
//! arrives later takes the rank that was told before; who comes on its own wish counts as far.
//!
//! **Order.** Messages that wait are ranked anew with their receiver, so that those of one pair and
//! one step never have two ranks, and are handled in the order sent.

use crate::address::id::{ActorId, COORDINATOR, KindId};
use crate::message::Control;
use crate::pe::core::Core;
use crate::pe::rank::{FAR, Rank, is_step};

impl Core {
    /// The place of a message for the member in `slot` in the order of what is ready.
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

    /// Learns how near its members are to another site, and orders what waits for them by it.
    pub(crate) fn handle_borders(&mut self, hops: Vec<(ActorId, u8)>) {
        self.steps.learn(hops);
        for members in &mut self.members {
            for member in members.iter_mut().flatten() {
                member.border_hops = self.steps.hops(member.id);
            }
        }
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
