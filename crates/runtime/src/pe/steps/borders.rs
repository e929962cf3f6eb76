//! How near the actors of a PE are to another site, for the order in which messages of steps are
//! handled.
//!
//! **Start.** A PE that handles the first message of a step tells the root, so that jobs without
//! steps pay for none of this. Until the first rebalance nobody knows who talks to whom, and steps
//! alone decide.
//!
//! **Steady state.** With every plan, the root counts the hops of each actor to another site as
//! they will be once the plan is carried out, and tells each PE those of its members. Who arrives
//! later takes the rank that was told before; who comes on its own wish counts as far.
//!
//! **Order.** Messages that wait are ranked anew with their receiver, so that those of one pair and
//! one step never have two ranks, and are handled in the order sent.

use crate::id::{ActorId, KindId};
use crate::pe::core::Core;
use crate::pe::measure::id_of;
use crate::rank::{FAR, Rank, is_step};
use crate::wire::Control;
use gridspan_balance::{Plan, Snapshot, border_hops, with_replicas};
use gridspan_topology::PeId;
use std::collections::BTreeMap;

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
            self.post(Self::ROOT, Control::UsesSteps);
        }
        Rank::new(priority, self.member(kind, slot).map_or(FAR, |member| member.border_hops))
    }

    /// Some PE handles messages of steps.
    pub(crate) fn handle_uses_steps(&mut self) {
        if let Some(root) = &mut self.root {
            root.uses_steps = true;
        }
    }

    /// Tells each PE how near the actors are to another site that live there after the plan. Runs
    /// on the root.
    pub(crate) fn tell_borders(&mut self, snapshot: &Snapshot, plan: &Plan) {
        let is_used = self.root.as_ref().is_some_and(|root| root.uses_steps);
        if !is_used || snapshot.layout.site_count() < 2 {
            return;
        }
        let Ok(mapping) = plan.mapping(snapshot) else { return };
        let mut told: BTreeMap<PeId, Vec<(ActorId, u8)>> =
            snapshot.layout.pes().map(|pe| (pe, Vec::new())).collect();
        // Each replica is as near as those whom it talks with.
        let (all, mapping) = with_replicas(snapshot, &mapping, &plan.replicas(snapshot));
        let actors = all.actors.iter().zip(&mapping).zip(border_hops(&all, &mapping));
        for ((actor, pe), hops) in actors {
            told.entry(*pe).or_default().push((id_of(actor.id), hops));
        }
        for (pe, hops) in told {
            self.post_large(pe, Control::Borders { hops });
        }
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
