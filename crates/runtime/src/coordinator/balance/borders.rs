//! Number of hops between actors and another site, which orders the messages of steps; see
//! `pe/steps/borders.rs`.

use crate::address::id::ActorId;
use crate::address::load_keys::id_of;
use crate::coordinator::machine::Coordinator;
use crate::message::Control;
use gridspan_balance::{Plan, Snapshot, border_hops, with_replicas};
use gridspan_topology::PeId;
use std::collections::BTreeMap;

impl Coordinator {
    /// Sends each PE, for each actor that lives there after the plan, the number of hops to another
    /// site.
    pub(super) fn tell_borders(&mut self, snapshot: &Snapshot, plan: &Plan) {
        if !self.uses_steps || snapshot.layout.site_count() < 2 {
            return;
        }
        let Ok(mapping) = plan.mapping(snapshot) else { return };
        let mut told: BTreeMap<PeId, Vec<(ActorId, u8)>> =
            snapshot.layout.pes().map(|pe| (pe, Vec::new())).collect();
        // Each replica has its own number of hops, which follows from the actors with which it
        // communicates.
        let (all, mapping) = with_replicas(snapshot, &mapping, &plan.replicas(snapshot));
        let actors = all.actors.iter().zip(&mapping).zip(border_hops(&all, &mapping));
        for ((actor, pe), hops) in actors {
            told.entry(*pe).or_default().push((id_of(actor.id), hops));
        }
        for (pe, hops) in told {
            self.post_large(pe, Control::Borders { hops });
        }
    }
}
