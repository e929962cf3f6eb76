//! Decisions of the leader of a site.

use super::cluster::{Clustering, Numbering};
use super::cut::Places;
use super::handover::{SiteActors, leaving, site_actors};
use super::note::{
    Border, ClusterNumbers, Newcomer, Note, Outlook, Part, SiteDuty, SiteReport, SiteView, Targets,
    Terms,
};
use super::outlook::Duty;
use super::site_graph::{Borders, SiteGraph};
use crate::cutter::Graph;
use crate::plan::Move;
use crate::snapshot::objects::pulls;
use crate::snapshot::rounds::rounds;
use crate::snapshot::speeds::Evidence;
use crate::snapshot::{ActorKey, ActorLoad, Edge, PeLoad};
use gridspan_topology::{Layout, PeId, SiteId};
use std::collections::BTreeMap;
use std::time::Duration;

/// A planned move, with the number of earlier moves of the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resettled {
    /// The move.
    pub step: Move,
    /// Number of earlier moves of the actor.
    pub epoch: u32,
}

/// The leader of a site in one rebalance. Create it from the measurements of the site, deliver the
/// [`Note`]s that it returns, and pass to it the notes of other leaders and of the top. In the end,
/// [`moves`](Self::moves) returns the moves to its site and inside it. Carry them out if
/// [`Balancer::decide_led`](crate::Balancer::decide_led) allows it.
pub struct Leader {
    site: u32,
    layout: Layout,
    seed: u64,
    /// This site's borders; `Some` until the terms and the borders of all others have arrived.
    borders: Option<Borders>,
    heard: BTreeMap<u32, Border>,
    terms: Option<Box<Terms>>,
    known: Option<Knowledge>,
    /// Cluster numbers received for the present round and the next, by round and site.
    numbers: BTreeMap<(u32, u32), Vec<u32>>,
    round: u32,
    numbering: Numbering,
    newcomers: BTreeMap<u32, Vec<Newcomer>>,
    has_handed_over: bool,
    /// The actors of the site after the planned moves, and their PEs.
    settled: Option<(SiteActors, Vec<PeId>)>,
    /// Moves of the last plan to this site, in case it should be undone.
    last: Vec<Move>,
    moves: Vec<Resettled>,
}

/// The object graph of a leader, once all borders and the terms have arrived.
struct Knowledge {
    site: SiteGraph,
    graph: Graph,
    pulls: Vec<u64>,
    /// Target site of each member, and of each actor of another site that a member exchanges
    /// messages with.
    targets: Vec<u32>,
}

/// Notes to deliver, each with its receiver: the leader of a site, or the top (`None`).
pub type AddressedNotes = Vec<(Option<SiteId>, Note)>;

impl Leader {
    /// Begins a rebalance. `last` has the moves of the last plan to this site.
    pub fn new(
        layout: &Layout,
        view: SiteView,
        last: Vec<Move>,
        seed: u64,
    ) -> (Self, AddressedNotes) {
        let site = view.site.0;
        let census = census(&view, layout);
        let is_held_up = is_held_up(&view, &last);
        let mut borders = Borders::of(view);
        let census = SiteReport { rounds: borders.rounds(), ..census };
        let census = if is_held_up { Note::HeldUp(census) } else { Note::Census(census) };
        let mut notes: AddressedNotes = vec![(None, census)];
        for other in layout.sites().filter(|other| other.0 != site) {
            let border = borders.outgoing.entry(other.0).or_default().clone();
            notes.push((Some(other), Note::Border(border)));
        }
        borders.outgoing.retain(|&other, _| other < layout.site_count());
        let leader = Self {
            site,
            layout: layout.clone(),
            seed,
            borders: Some(borders),
            heard: BTreeMap::new(),
            terms: None,
            known: None,
            numbers: BTreeMap::new(),
            round: 0,
            numbering: Numbering::default(),
            newcomers: BTreeMap::new(),
            has_handed_over: false,
            settled: None,
            last,
            moves: Vec::new(),
        };
        (leader, notes)
    }

    /// Handles a note of another leader, or of the top (`None`), and returns notes to deliver.
    pub fn handle(&mut self, from: Option<SiteId>, note: Note) -> AddressedNotes {
        let from = from.map(|site| site.0);
        match (from, note) {
            (Some(from), Note::Border(border)) => {
                self.heard.insert(from, border);
                self.begin()
            }
            (None, Note::Terms(terms)) if self.fits(&terms) => {
                self.terms = Some(terms);
                self.begin()
            }
            (Some(from), Note::Numbers(ClusterNumbers { round, numbers })) => {
                if round == self.round || round == self.round + 1 {
                    self.numbers.insert((round, from), numbers);
                }
                self.tell_part()
            }
            (None, Note::Targets(targets)) => self.follow(&targets),
            (Some(from), Note::Newcomers(newcomers)) => {
                self.newcomers.insert(from, newcomers);
                self.settle()
            }
            _ => AddressedNotes::new(),
        }
    }

    /// Returns the moves to this site and inside it, once the outlook has been sent to the top. In
    /// an undo, these moves take actors of this site back.
    pub fn moves(&self) -> &[Resettled] {
        &self.moves
    }

    /// Returns whether the last plan should be undone.
    pub fn is_undo(&self) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.is_undo)
    }

    /// Returns for each actor of this site its PE and its distance in hops from another site,
    /// before the moves or, if `are_carried_out`, after them; see
    /// [`border_hops`](crate::border_hops).
    pub fn border_hops(&self, are_carried_out: bool) -> Vec<(ActorKey, PeId, u8)> {
        let (Some(known), Some(terms)) = (&self.known, &self.terms) else { return Vec::new() };
        match &self.settled {
            Some((site_actors, mapping)) if are_carried_out => {
                site_actors.hops(mapping, terms.steps)
            }
            _ => {
                let pes: Vec<PeId> =
                    known.site.members.iter().map(|member| member.load.pe).collect();
                known.site.as_site_actors().hops(&pes, terms.steps)
            }
        }
    }

    fn fits(&self, terms: &Terms) -> bool {
        let pes = self.layout.pe_count() as usize;
        [terms.pes.len(), terms.shares.len(), terms.pe_lag.len()].iter().all(|len| *len == pes)
    }

    fn others(&self) -> u32 {
        self.layout.site_count() - 1
    }

    /// Begins the first round, or the undo, once the terms and all borders have arrived.
    fn begin(&mut self) -> AddressedNotes {
        let Some(terms) = &self.terms else { return AddressedNotes::new() };
        if self.heard.len() < self.others() as usize {
            return AddressedNotes::new();
        }
        let Some(borders) = self.borders.take() else { return AddressedNotes::new() };
        let site = borders.join(self.site, &std::mem::take(&mut self.heard));
        let works: Vec<u64> = site.members.iter().map(|member| terms.work(&member.load)).collect();
        let graph = site.graph(&works);
        let pulls = pulls(site.members.iter().map(|member| &member.load), &graph);
        let targets = (0..site.len() as u32).map(|vertex| site.site_of(vertex)).collect();
        let is_undo = terms.is_undo;
        self.known = Some(Knowledge { site, graph, pulls, targets });
        if is_undo { self.take_back() } else { self.begin_round(None) }
    }

    fn begin_round(&mut self, before: Option<&Numbering>) -> AddressedNotes {
        let (Some(known), Some(terms)) = (&self.known, &self.terms) else {
            return AddressedNotes::new();
        };
        self.numbering = known.clustering(terms, self.seed).run(before);
        let mut notes = AddressedNotes::new();
        for (&other, names) in &known.site.known {
            let number =
                |at: &Option<u32>| at.map_or(0, |at| self.numbering.number[at as usize] + 1);
            let numbers = names.ours.iter().map(number).collect();
            notes.push((
                Some(SiteId(other)),
                Note::Numbers(ClusterNumbers { round: self.round, numbers }),
            ));
        }
        notes.append(&mut self.tell_part());
        notes
    }

    /// Sends the part with the clusters to the top, once the clusters of others are known.
    fn tell_part(&mut self) -> AddressedNotes {
        let (Some(known), Some(terms)) = (&self.known, &self.terms) else {
            return AddressedNotes::new();
        };
        if self.numbering.number.len() != known.site.members.len() || self.is_sent() {
            return AddressedNotes::new();
        }
        let strangers = match known.strangers(self.round, &self.numbers) {
            Some(strangers) => strangers,
            None => return AddressedNotes::new(),
        };
        let part: Part =
            known.clustering(terms, self.seed).part(self.round, &self.numbering, &strangers);
        self.numbering.is_sent = true;
        vec![(None, Note::Part(part))]
    }

    fn is_sent(&self) -> bool {
        self.numbering.is_sent
    }

    /// Adopts the targets of the clusters for their actors.
    fn follow(&mut self, targets: &Targets) -> AddressedNotes {
        let Some(known) = &mut self.known else { return AddressedNotes::new() };
        if targets.round != self.round || !self.numbering.is_sent {
            return AddressedNotes::new();
        }
        let sites = self.layout.site_count();
        let strangers = known.strangers(self.round, &self.numbers).unwrap_or_default();
        let target = |site: u32, number: u32| {
            let of_site = targets.sites.get(site as usize)?;
            of_site.get(number as usize).copied().filter(|&target| target < sites)
        };
        for (at, entry) in known.targets.iter_mut().enumerate() {
            let found = match at.checked_sub(known.site.members.len()) {
                None => target(self.site, self.numbering.number[at]),
                Some(stranger) => strangers
                    .get(stranger)
                    .copied()
                    .flatten()
                    .and_then(|number| target(known.site.strangers[stranger].1, number)),
            };
            if let Some(found) = found {
                *entry = found;
            }
        }
        let round = self.round;
        self.numbers.retain(|&(of, _), _| of > round);
        self.round += 1;
        let before = std::mem::take(&mut self.numbering);
        if targets.is_last { self.hand_over() } else { self.begin_round(Some(&before)) }
    }

    /// Sends to each other leader the actors that should come to its site.
    fn hand_over(&mut self) -> AddressedNotes {
        let Some(known) = &self.known else { return AddressedNotes::new() };
        let mut leaving = leaving(&known.site, &known.targets);
        let others = self.layout.sites().filter(|other| other.0 != self.site);
        let mut notes: AddressedNotes = others
            .map(|other| {
                (Some(other), Note::Newcomers(leaving.remove(&other.0).unwrap_or_default()))
            })
            .collect();
        self.has_handed_over = true;
        notes.append(&mut self.settle());
        notes
    }

    /// Places all actors on PEs, once all newcomers are known.
    fn settle(&mut self) -> AddressedNotes {
        let (Some(known), Some(terms)) = (&self.known, &self.terms) else {
            return AddressedNotes::new();
        };
        if !self.has_handed_over
            || self.settled.is_some()
            || self.newcomers.len() < self.others() as usize
        {
            return AddressedNotes::new();
        }
        let pe_count = self.layout.pe_count();
        let newcomers = std::mem::take(&mut self.newcomers).into_values().flatten();
        let newcomers = newcomers.filter(|newcomer| newcomer.member.load.pe.0 < pe_count);
        let site_actors = site_actors(&known.site, &known.targets, newcomers);
        let places = Places { layout: &self.layout, terms, seed: self.seed };
        let mapping = site_actors.cut(&places, self.site);
        let duty = Duty { pes: self.layout.pes_in(SiteId(self.site)), terms };
        let (before, after) = (known.duty(&duty), duty.of(&site_actors, &mapping));
        let mut moves = Vec::new();
        for (member, &to) in site_actors.members.iter().zip(&mapping) {
            let ActorLoad { id, pe, .. } = member.load;
            if member.load.migratable && pe != to {
                let step = Move { actor: id, from: pe, to };
                moves.push((Resettled { step, epoch: member.epoch }, member.load.bytes));
            }
        }
        self.settled = Some((site_actors, mapping));
        self.tell_outlook(moves, before, after)
    }

    /// Plans to move back the actors that are still where the last plan moved them.
    fn take_back(&mut self) -> AddressedNotes {
        let (Some(known), Some(terms)) = (&self.known, &self.terms) else {
            return AddressedNotes::new();
        };
        let back: BTreeMap<ActorKey, &Move> =
            self.last.iter().map(|step| (step.actor, step)).collect();
        let mut moves = Vec::new();
        for member in &known.site.members {
            if let Some(&&Move { actor, from, to }) = back.get(&member.load.id)
                && to == member.load.pe
            {
                let step = Move { actor, from: to, to: from };
                moves.push((Resettled { step, epoch: member.epoch }, member.load.bytes));
            }
        }
        let duty = Duty { pes: self.layout.pes_in(SiteId(self.site)), terms };
        let before = known.duty(&duty);
        self.tell_outlook(moves, before.clone(), before)
    }

    fn tell_outlook(
        &mut self,
        moves: Vec<(Resettled, u64)>,
        before: SiteDuty,
        after: SiteDuty,
    ) -> AddressedNotes {
        let mut outlook =
            Outlook { before, after, moves: moves.len() as u64, ..Outlook::default() };
        for (Resettled { step, .. }, bytes) in &moves {
            let sites = [step.from, step.to].map(|pe| self.layout.site_of(pe));
            let sum = match sites[0] == sites[1] {
                true => &mut outlook.bytes_inside,
                false => &mut outlook.bytes_between_sites,
            };
            *sum = sum.saturating_add(*bytes);
        }
        self.moves = moves.into_iter().map(|(step, _)| step).collect();
        vec![(None, Note::Outlook(Box::new(outlook)))]
    }
}

impl Knowledge {
    /// Returns the work and traffic of the site with the present placement.
    fn duty(&self, duty: &Duty<'_>) -> SiteDuty {
        let site_actors = self.site.as_site_actors();
        let pes: Vec<PeId> = site_actors.members.iter().map(|member| member.load.pe).collect();
        duty.of(&site_actors, &pes)
    }

    fn clustering<'a>(&'a self, terms: &Terms, seed: u64) -> Clustering<'a> {
        let Self { site, graph, pulls, targets } = self;
        Clustering { site, graph, pulls, targets, most: terms.clusters.max(1) as usize, seed }
    }

    /// Returns the number of the cluster of each stranger (actor of another site), if it has one,
    /// once the numbers of all other sites have arrived.
    fn strangers(
        &self,
        round: u32,
        told: &BTreeMap<(u32, u32), Vec<u32>>,
    ) -> Option<Vec<Option<u32>>> {
        let members = self.site.members.len();
        let mut strangers = vec![None; self.site.strangers.len()];
        for (&other, names) in &self.site.known {
            let numbers = told.get(&(round, other))?;
            for (&vertex, &number) in names.theirs.iter().zip(numbers) {
                strangers[vertex as usize - members] = number.checked_sub(1);
            }
        }
        Some(strangers)
    }
}

/// Returns whether an actor that the plan `last` moved is still where it was moved to and cannot
/// move now.
fn is_held_up(view: &SiteView, last: &[Move]) -> bool {
    let last: BTreeMap<ActorKey, PeId> = last.iter().map(|step| (step.actor, step.to)).collect();
    let mut fixed = view.members.iter().filter(|member| !member.load.migratable);
    fixed.any(|member| last.get(&member.load.id) == Some(&member.load.pe))
}

fn census(view: &SiteView, layout: &Layout) -> SiteReport {
    let first = layout.pes_in(view.site).start;
    let mut loads = vec![Duration::ZERO; layout.pes_in(view.site).len()];
    for member in &view.members {
        let at = member.load.pe.0.checked_sub(first);
        if let Some(load) = at.and_then(|at| loads.get_mut(at as usize)) {
            *load = load.saturating_add(member.load.load);
        }
    }
    let mut pes = view.pes.clone();
    pes.resize(loads.len(), PeLoad::default());
    let (actors, handled) = (view.members.len() as u64, view.handled);
    let evidence = Evidence::of(view.members.iter().map(|member| &member.load));
    SiteReport { pes, loads, rounds: (1, 0), actors, handled, evidence }
}

impl Borders {
    /// Returns the number of steps in the window, estimated from the edges inside the site, and the
    /// number of these edges. Without any, the messages to other sites give the number of steps.
    fn rounds(&self) -> (u64, u64) {
        let edge = |&(from, to, messages, bytes): &(u32, u32, u64, u64)| Edge {
            from,
            to,
            messages,
            bytes,
        };
        let edges: Vec<Edge> = self.inner.iter().map(edge).collect();
        if edges.is_empty() {
            // The messages in the other direction are not known yet, so each edge counts as a pair.
            let talks = self.outgoing.values().flat_map(|border| &border.talks);
            let alone = |(at, talk): (u32, &(u32, u32, u64, u64))| {
                edge(&(2 * at, 2 * at + 1, talk.2, talk.3))
            };
            let alone: Vec<Edge> = (0..).zip(talks).map(alone).collect();
            return (rounds(&alone), 0);
        }
        (rounds(&edges), edges.len() as u64)
    }
}
