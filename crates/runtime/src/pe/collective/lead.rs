//! Rebalances that the leaders of the sites plan, with the coordinator above them. The leader of a
//! site is its first PE. The messages and decisions are in [`gridspan_balance::leaders`].
//!
//! **Start.** The coordinator makes all PEs measure. They report to the leaders of their sites,
//! including the estimated sites of the receivers of messages from their actors.
//!
//! **Steady state.** Leaders and coordinator plan. When the coordinator knows the combined effect
//! of all plans, its gate decides for all of them, and the coordinator informs the leaders. Each
//! leader sends the PEs of its site the moves to the site and inside it, and PEs of other sites the
//! moves from them to the site. Other PEs that send to a moved actor learn its place with their
//! first message. PEs report finished moves to the coordinator, as for other plans.
//!
//! **Failure.** A lost node ends the job, as in all rebalances.

use crate::address::collection::PlanEntry;
use crate::address::id::{COORDINATOR, RebalanceId};
use crate::address::load_keys::{id_of, key_of};
use crate::message::{Control, Edge, Loads};
use crate::pe::collective::leading::{Leading, Session};
use crate::pe::core::Core;
use gridspan_balance::ActorLoad;
use gridspan_balance::leaders::{AddressedNotes, Leader, LeaderActor, Note, SiteTalk, SiteView};
use gridspan_topology::{PeId, SiteId};
use std::collections::BTreeMap;

/// Maximum number of moves that a leader sends to all PEs of its site.
const MOVES_TO_ALL_MAX: usize = 4096;

impl Core {
    fn leader_of(&self, site: SiteId) -> PeId {
        PeId(self.common.layout.pes_in(site).start)
    }

    pub(super) fn site_leader(&self) -> PeId {
        self.leader_of(self.common.layout.site_of(self.me))
    }

    /// Positions of the edges whose receivers live at another site, as far as this PE knows, with
    /// that site.
    pub(super) fn away(&self, edges: &[Edge]) -> Vec<(u32, SiteId)> {
        let layout = &self.common.layout;
        let here = layout.site_of(self.me);
        let site = |(at, edge): (usize, &Edge)| {
            let site = layout.site_of(self.route(edge.to).pe);
            (site != here).then_some((at as u32, site))
        };
        edges.iter().enumerate().filter_map(site).collect()
    }

    fn leading(&mut self) -> Option<&mut Leading> {
        self.measures.as_mut().map(|measures| &mut measures.leading)
    }

    /// The time of the stopwatch in nanoseconds. Zero in virtual time, where planning takes no
    /// time.
    pub(in crate::pe) fn stopwatch_ns(&self) -> u64 {
        self.stopwatch.as_ref().map_or(0, |stopwatch| stopwatch())
    }

    /// Collects the measurements of the PEs of this site, and starts the leader once all have
    /// reported.
    pub(in crate::pe) fn gather(&mut self, from: PeId, number: u64, loads: Loads) {
        let (layout, seed) = (self.common.layout.clone(), self.common.seed);
        let site = layout.site_of(self.me);
        let begin = self.stopwatch_ns();
        let Some(leading) = self.leading() else { return };
        // Only a faulty PE reports for a settled rebalance, or to the leader of another site.
        if layout.site_of(from) != site {
            return;
        }
        let Some(session) = leading.session(number) else { return };
        session.add(from, loads);
        if session.pes.len() < layout.pes_in(site).len() || session.leader.is_some() {
            return;
        }
        let view = session.view(site);
        let last = leading.last.clone();
        let (leader, notes) = Leader::new(&layout, view, last, seed);
        let session = leading.sessions.entry(number).or_default();
        session.leader = Some(leader);
        let early = std::mem::take(&mut session.early);
        self.send_notes(number, begin, notes);
        for (from, note) in early {
            self.handle_note(from, number, note);
        }
    }

    /// Handles a message from another leader or from the coordinator.
    pub(in crate::pe) fn handle_lead(&mut self, from: PeId, number: u64, note: Note) {
        // Only a faulty PE sends messages in the name of a leader.
        let is_theirs = match note.is_from_top() {
            true => from == COORDINATOR,
            false => from == self.leader_of(self.common.site_of(from)),
        };
        if is_theirs && !note.is_for_top() {
            self.handle_note(from, number, note);
        }
    }

    fn handle_note(&mut self, from: PeId, number: u64, note: Note) {
        let site = self.common.site_of(from);
        let begin = self.stopwatch_ns();
        let Some(session) = self.leading().and_then(|leading| leading.session(number)) else {
            return;
        };
        let Some(leader) = &mut session.leader else { return session.keep_early(from, note) };
        let sender = (!note.is_from_top()).then_some(site);
        let notes = leader.handle(sender, note);
        self.send_notes(number, begin, notes);
    }

    /// Sends a leader's messages, and adds the time since `begin` to its planning time.
    fn send_notes(&mut self, number: u64, begin: u64, notes: AddressedNotes) {
        let spent = self.stopwatch_ns().saturating_sub(begin);
        let mut planning_ns = spent;
        if let Some(session) = self.leading().and_then(|all| all.sessions.get_mut(&number)) {
            session.planning_ns += spent;
            planning_ns = session.planning_ns;
        }
        for (to, note) in notes {
            let to = to.map_or(COORDINATOR, |site| self.leader_of(site));
            self.post_large(to, Control::Lead { number, note: Box::new(note), planning_ns });
        }
    }

    /// Handles the coordinator's decision: carries out this leader's part of the plan, or forgets
    /// it.
    pub(in crate::pe) fn handle_settle(
        &mut self,
        number: u64,
        rebalance: RebalanceId,
        is_passed: bool,
        uses_steps: bool,
    ) {
        let Some(leading) = self.leading() else { return };
        leading.settled = leading.settled.max(number);
        let session = leading.sessions.remove(&number);
        let Some(leader) = session.and_then(|session| session.leader) else { return };
        if uses_steps {
            self.send_borders(&leader, is_passed);
        }
        if is_passed {
            self.send_moves(&leader, rebalance);
        }
    }

    /// Sends each PE of this site the distances of its actors from other sites.
    fn send_borders(&mut self, leader: &Leader, is_passed: bool) {
        let mut borders: BTreeMap<PeId, Vec<_>> =
            self.pes_of_site().map(|pe| (pe, Vec::new())).collect();
        let Some(leading) = self.leading() else { return };
        let hops = match leader.is_undo() && is_passed {
            true => std::mem::take(&mut leading.hops_before),
            false => leader.border_hops(is_passed),
        };
        if is_passed && !leader.is_undo() {
            leading.hops_before = leader.border_hops(false);
        }
        for (actor, pe, hops) in hops {
            borders.entry(pe).or_default().push((id_of(actor), hops));
        }
        for (pe, hops) in borders {
            self.post_large(pe, Control::Borders { hops });
        }
    }

    /// Sends the PEs of this site the moves to the site and inside it, and PEs of other sites the
    /// moves from them.
    fn send_moves(&mut self, leader: &Leader, rebalance: RebalanceId) {
        let moves = leader.moves();
        if let Some(leading) = self.leading() {
            leading.last = moves.iter().map(|resettled| resettled.step).collect();
        }
        let mut leaving: BTreeMap<PeId, Vec<PlanEntry>> = BTreeMap::new();
        for resettled in moves {
            let (step, epoch) = (resettled.step, resettled.epoch.saturating_add(1));
            let entry = PlanEntry { id: id_of(step.actor), from: step.from, to: step.to, epoch };
            leaving.entry(step.from).or_default().push(entry);
        }
        // For a large plan, other PEs learn the new places with their first message.
        let all: Vec<PlanEntry> = match moves.len() {
            ..=MOVES_TO_ALL_MAX => leaving.values().flatten().copied().collect(),
            _ => Vec::new(),
        };
        for pe in self.pes_of_site().filter(|_| !all.is_empty()) {
            leaving.insert(pe, all.clone());
        }
        for (pe, moves) in leaving {
            self.post_large(pe, Control::PlanPart { rebalance, moves });
        }
    }

    fn pes_of_site(&self) -> impl Iterator<Item = PeId> + use<> {
        let layout = &self.common.layout;
        layout.pes_in(layout.site_of(self.me)).map(PeId)
    }
}

impl Session {
    fn add(&mut self, from: PeId, loads: Loads) {
        let Loads { actors, edges, away, pe, handled, .. } = loads;
        if self.pes.insert(from, pe).is_some() {
            return;
        }
        // The PE that reports an actor is the one on which it lives.
        let member = |(mut load, epoch): (ActorLoad, _)| {
            load.pe = from;
            LeaderActor { load, epoch }
        };
        self.members.extend(actors.into_iter().map(member));
        let away: BTreeMap<u32, SiteId> = away.into_iter().collect();
        let place = |(at, edge)| (edge, away.get(&(at as u32)).copied());
        self.edges.extend(edges.into_iter().enumerate().map(place));
        self.handled = self.handled.saturating_add(handled);
    }

    /// The combined measurements of all PEs of the site.
    fn view(&mut self, site: SiteId) -> SiteView {
        let edge = |(edge, away): (Edge, Option<SiteId>)| SiteTalk {
            from: key_of(edge.from),
            to: key_of(edge.to),
            at: away.unwrap_or(site),
            messages: edge.messages,
            bytes: edge.bytes,
        };
        SiteView {
            site,
            pes: self.pes.values().copied().collect(),
            members: std::mem::take(&mut self.members),
            talks: std::mem::take(&mut self.edges).into_iter().map(edge).collect(),
            handled: self.handled,
        }
    }
}
