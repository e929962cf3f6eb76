//! A PE's part in a rebalance: it reports its measurements and learns the plan. The coordinator
//! decides when to rebalance (`coordinator/balance`). Which actors move is planned there or by the
//! leaders of the sites (`lead`).

use crate::address::collection::PlanEntry;
use crate::address::id::{COORDINATOR, RebalanceId};
use crate::message::{Control, Loads};
use crate::pe::core::{Core, Store};
use crate::pe::delivery::Place;

impl Core {
    /// Reports the measured cost of the actors that live here: to the leader of the site if leaders
    /// plan (`led`), otherwise to the coordinator.
    pub(in crate::pe) fn handle_measure(
        &mut self,
        rebalance: RebalanceId,
        led: Option<u64>,
        stores: &[Box<dyn Store>],
    ) {
        let begin = self.stopwatch_ns();
        self.rebalance = Some(rebalance);
        let (actors, pe) = self.take_loads(stores);
        let (mut edges, handled) = (self.take_edges(), self.handled_once());
        let replicas = self.replicas_here();
        let (to, away) = match led {
            Some(_) => (self.site_leader(), self.away(&edges)),
            None => (COORDINATOR, Vec::new()),
        };
        self.join_edges(&mut edges);
        let loads = Loads { rebalance, actors, edges, pe, handled, led, away, replicas };
        self.report_own_time(begin);
        self.post_large(to, Control::Loads(Box::new(loads)));
    }

    /// Learns the places of actors that are about to move. Returns the moves that this PE carries
    /// out.
    pub(in crate::pe) fn learn_moves(&mut self, moves: Vec<PlanEntry>) -> Vec<PlanEntry> {
        let mut mine = Vec::new();
        for entry in moves {
            if entry.from == self.me {
                mine.push(entry);
            } else if entry.to != self.me {
                self.learn(entry.id, Place::at(entry.to, entry.epoch));
            }
        }
        mine
    }
}
