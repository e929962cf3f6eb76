//! Rebalances planned by the leaders of the sites, on the coordinator's side. The coordinator is
//! the *top* of the leaders: it knows the predicted effect of all plans together, and its gate
//! decides for all.
//! `pe/collective/lead.rs` describes the protocol of the leaders, and [`gridspan_balance::leaders`]
//! the messages and decisions of both sides.

use crate::coordinator::machine::Coordinator;
use crate::message::Control;
use gridspan_balance::leaders::{AddressedNotes, GridView, Note, Top};
use gridspan_balance::{Cause, Figures};
use gridspan_topology::{PeId, SiteId};

impl Coordinator {
    /// Whether the leaders of the sites plan. They do not if there is a listener for snapshots,
    /// which needs all loads in one place.
    pub(super) fn is_led(&self) -> bool {
        let layout = &self.common.layout;
        layout.site_count() > 1
            && layout.sites().all(|site| !layout.pes_in(site).is_empty())
            && self.common.balancing.on_snapshot.is_empty()
            && self.balancer.is_led()
    }

    /// Starts a rebalance planned by the leaders, if they plan, and returns its number.
    pub(super) fn begin_led(&mut self) -> Option<u64> {
        if !self.is_led() {
            return None;
        }
        let (now, seed) = (self.now, self.common.seed);
        let layout = &self.common.layout;
        let grid = GridView {
            layout: (**layout).clone(),
            hierarchy: self.survey.places.as_ref().map(|places| places.hierarchy.clone()),
            links: self.survey.site_links(now, layout),
            speeds: self.balancer.take_speeds(),
        };
        let is_undo = self.balancer.take_led_undo();
        let balances = &mut self.balances;
        balances.led += 1;
        (balances.planning_ns, balances.top_ns) = (0, 0);
        balances.top = Some(Top::new(grid, seed, is_undo));
        Some(balances.led)
    }

    fn leader_of(&self, site: SiteId) -> PeId {
        PeId(self.common.layout.pes_in(site).start)
    }

    fn send_notes(&mut self, number: u64, notes: AddressedNotes) {
        for (to, note) in notes {
            // The top sends no messages to itself.
            let Some(site) = to else { continue };
            let lead = Control::Lead { number, note: Box::new(note), planning_ns: 0 };
            self.post_large(self.leader_of(site), lead);
        }
    }

    /// Handles a note from a leader to the top. `planning_ns`: for how long the leader has planned.
    pub(in crate::coordinator) fn handle_note_at_top(
        &mut self,
        from: PeId,
        number: u64,
        note: Note,
        planning_ns: u64,
    ) {
        let site = self.common.layout.site_of(from);
        let begin = self.stopwatch_ns();
        // Messages about an earlier rebalance do not count. Only a faulty PE sends messages in the
        // name of a leader.
        if from != self.leader_of(site) || self.balances.led != number || !note.is_for_top() {
            return;
        }
        let Some(top) = &mut self.balances.top else { return };
        let (notes, figures) = top.handle(site, note);
        let spent = self.stopwatch_ns().saturating_sub(begin);
        self.balances.top_ns += spent;
        self.balances.planning_ns = self.balances.planning_ns.max(planning_ns);
        self.send_notes(number, notes);
        if let Some(figures) = figures {
            self.settle_led(number, &figures);
        }
    }

    /// Decides about the plans of all leaders, by their combined figures.
    pub(in crate::coordinator) fn settle_led(&mut self, number: u64, figures: &Figures) {
        let now = self.now;
        let balances = &mut self.balances;
        let Some(top) = balances.top.take() else { return };
        balances.handled = top.handled();
        // No leader can have planned for longer than the time since the rebalance began.
        let most = u64::try_from(now.since(balances.asked).as_nanos()).unwrap_or(u64::MAX);
        balances.planning_ns =
            balances.planning_ns.min(most) + std::mem::take(&mut balances.top_ns);
        let is_undo = top.is_undo();
        if top.is_undo_put_off() {
            self.balancer.put_off_led_undo();
        }
        let (pes, loads) = top.pes();
        self.balancer.keep_speeds(top.into_speeds());
        let was_judging = self.balancer.is_judging();
        let Some(occasion) = self.end_window() else { return };
        if was_judging {
            // The leaders have planned without an undo, so the undo needs the next rebalance.
            self.after_judging();
        }
        let rebalance = self.balances.present();
        let is_fresh_wanted = std::mem::take(&mut self.balances.events.is_fresh_wanted);
        let is_dropped = is_fresh_wanted && occasion.cause == Cause::ForeignLoad;
        if is_dropped && is_undo {
            self.balancer.put_off_led_undo();
        }
        let is_passed =
            !is_dropped && self.balancer.decide_led(&occasion, figures, (&pes, &loads), is_undo);
        let uses_steps = self.uses_steps;
        for site in self.common.layout.sites() {
            let to = self.leader_of(site);
            self.post(to, Control::Settle { number, rebalance, is_passed, uses_steps });
        }
        let moves = if is_passed { figures.moves.min(figures.actors) as usize } else { 0 };
        self.begin_moves(moves);
    }
}
