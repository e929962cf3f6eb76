//! Decisions of the top, which combines the reports of all leaders.

use super::cut::Places;
use super::forecast::Forecaster;
use super::leader::AddressedNotes;
use super::note::{Note, Outlook, Part, SiteDuty, SiteReport, Targets, Terms};
use crate::cost::CostModel;
use crate::cost::figures::Figures;
use crate::snapshot::speeds::SpeedEstimate;
use crate::snapshot::{PeLoad, SiteLink};
use crate::strategies::capacity::shares;
use crate::strategies::pe_lag::pe_lag;
use gridspan_topology::{Hierarchy, Layout, SiteId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Approximate total number of vertices of the coarse graph at the top.
const VERTICES: u32 = 1 << 15;
/// Minimum number of vertices that each leader may have, for any number of sites.
const VERTICES_PER_SITE_MIN: u32 = 256;
/// Maximum number of rounds. Each round refines the band around the cut. Once the band consists of
/// single actors, each round puts other actors into it; if many are near the cut, only this bound
/// ends the rounds.
const ROUNDS_MAX: u32 = 8;

/// Description of the grid.
#[derive(Clone, Debug)]
pub struct GridView {
    /// Nodes and sites of the PEs.
    pub layout: Layout,
    /// Distances of nodes, if they are known.
    pub hierarchy: Option<Hierarchy>,
    /// The links between sites.
    pub links: Vec<SiteLink>,
    /// Speeds of PEs, estimated by earlier rebalances.
    pub speeds: SpeedEstimate,
}

/// The top in one rebalance: it combines the reports of all leaders.
pub struct Top {
    grid: GridView,
    seed: u64,
    is_undo: bool,
    /// Whether an actor of the last plan cannot move now.
    is_held_up: bool,
    vertices: u32,
    census: BTreeMap<u32, SiteReport>,
    terms: Option<Terms>,
    parts: BTreeMap<u32, Part>,
    round: u32,
    outlooks: BTreeMap<u32, Outlook>,
}

impl Top {
    /// Begins a rebalance, which undoes the last one if `is_undo`. While an actor of the last one
    /// cannot move, the undo is put off, and the leaders plan.
    pub fn new(grid: GridView, seed: u64, is_undo: bool) -> Self {
        Self {
            grid,
            seed,
            is_undo,
            is_held_up: false,
            vertices: VERTICES,
            census: BTreeMap::new(),
            terms: None,
            parts: BTreeMap::new(),
            round: 0,
            outlooks: BTreeMap::new(),
        }
    }

    /// Sets the approximate greatest number of vertices of the coarse graph. Each site may have at
    /// least 256.
    #[must_use]
    pub fn vertices(mut self, vertices: u32) -> Self {
        self.vertices = vertices;
        self
    }

    /// Handles a note of a leader. Returns notes for leaders, and in the end, once, the figures of
    /// all leaders' plans together.
    pub fn handle(&mut self, from: SiteId, note: Note) -> (AddressedNotes, Option<Figures>) {
        if from.0 >= self.grid.layout.site_count() {
            return (AddressedNotes::new(), None);
        }
        let sites = self.grid.layout.site_count() as usize;
        let is_held_up = matches!(note, Note::HeldUp(_));
        match note {
            Note::Census(census) | Note::HeldUp(census) if self.terms.is_none() => {
                self.is_held_up |= is_held_up;
                self.census.insert(from.0, census);
                if self.census.len() == sites {
                    return (self.tell_terms(), None);
                }
            }
            Note::Part(part) if part.round == self.round => {
                self.parts.insert(from.0, part);
                if self.parts.len() == sites {
                    return (self.tell_targets(), None);
                }
            }
            Note::Outlook(outlook) if self.terms.is_some() && self.outlooks.len() < sites => {
                self.outlooks.insert(from.0, *outlook);
                if self.outlooks.len() == sites {
                    return (AddressedNotes::new(), self.sum_up());
                }
            }
            _ => {}
        }
        (AddressedNotes::new(), None)
    }

    /// Returns the number of messages that all PEs have handled since the job began, once all
    /// leaders have reported.
    pub fn handled(&self) -> u64 {
        self.census.values().map(|census| census.handled).fold(0, u64::saturating_add)
    }

    /// Returns the measured states of all PEs, and the time that the actors on each have used in
    /// the window; both are empty before all leaders have reported.
    pub fn pes(&self) -> (Vec<PeLoad>, Vec<Duration>) {
        match &self.terms {
            Some(terms) => (terms.pes.clone(), self.loads()),
            None => Default::default(),
        }
    }

    /// Returns the time that the actors on each PE have used.
    fn loads(&self) -> Vec<Duration> {
        let of_site = |(&site, census): (&u32, &SiteReport)| {
            let count = self.grid.layout.pes_in(SiteId(site)).len();
            let mut loads = census.loads.clone();
            loads.resize(count, Duration::ZERO);
            loads
        };
        self.census.iter().flat_map(of_site).collect()
    }

    /// Returns the speeds of PEs, with this rebalance included once all leaders have reported.
    pub fn into_speeds(self) -> SpeedEstimate {
        self.grid.speeds
    }

    /// Returns whether the leaders undo the last rebalance instead of planning. This is known once
    /// all leaders have reported.
    pub fn is_undo(&self) -> bool {
        self.is_undo && !self.is_held_up
    }

    /// Returns whether the last rebalance should be undone later, because one of its actors cannot
    /// move now. This is known once all leaders have reported.
    pub fn is_undo_put_off(&self) -> bool {
        self.is_undo && self.is_held_up
    }

    fn to_all(&self, note: &Note) -> AddressedNotes {
        self.grid.layout.sites().map(|site| (Some(site), note.clone())).collect()
    }

    fn tell_terms(&mut self) -> AddressedNotes {
        let layout = &self.grid.layout;
        let loads = self.loads();
        let mut pes: Vec<PeLoad> = Vec::new();
        for (&site, census) in &self.census {
            let count = layout.pes_in(SiteId(site)).len();
            let sound = |pe: &PeLoad| {
                let is_sound = |x: f64| x > 0.0 && x.is_finite();
                if is_sound(pe.speed) && is_sound(pe.available) { *pe } else { PeLoad::default() }
            };
            pes.extend(
                census
                    .pes
                    .iter()
                    .map(sound)
                    .chain(std::iter::repeat(PeLoad::default()))
                    .take(count),
            );
        }
        for census in self.census.values() {
            self.grid.speeds.learn(&census.evidence);
        }
        self.grid.speeds.apply(&mut pes);
        let pe_lag = pe_lag(&pes, &loads);
        let works = pes.iter().zip(&loads).zip(&pe_lag);
        let total =
            works.map(|((pe, load), pe_lag)| load.as_nanos() as f64 * pe.speed * pe_lag).sum();
        let speeds: Vec<f64> = pes.iter().map(PeLoad::effective_speed).collect();
        let clusters = (self.vertices / layout.site_count()).max(VERTICES_PER_SITE_MIN);
        let terms = Terms {
            shares: shares(&pes, &speeds, total),
            pes,
            pe_lag,
            total,
            steps: self.steps(),
            hierarchy: self.grid.hierarchy.clone(),
            clusters,
            is_undo: self.is_undo(),
        };
        let notes = self.to_all(&Note::Terms(Box::new(terms.clone())));
        self.terms = Some(terms);
        notes
    }

    /// Returns the median of the sites' numbers of steps, each weighted by the site's number of
    /// inner edges; the plain median if no site has any.
    fn steps(&self) -> u64 {
        let mut rounds: Vec<(u64, u64)> =
            self.census.values().map(|census| census.rounds).collect();
        rounds.sort_unstable();
        let all = rounds.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.1));
        if all == 0 {
            // All messages are between sites. A site without messages does not know the number.
            rounds.retain(|entry| entry.0 > 1);
            let middle = rounds.len().saturating_sub(1) / 2;
            return rounds.get(middle).map_or(1, |entry| entry.0);
        }
        let mut below = 0_u64;
        for (steps, edges) in rounds {
            below = below.saturating_add(edges);
            if below > all / 2 {
                return steps.max(1);
            }
        }
        1
    }

    fn tell_targets(&mut self) -> AddressedNotes {
        let Some(terms) = &self.terms else { return AddressedNotes::new() };
        let places = Places { layout: &self.grid.layout, terms, seed: self.seed };
        let parts = std::mem::take(&mut self.parts);
        let sites = places.cut_over_sites(&parts, self.round);
        let is_last = self.round + 1 == ROUNDS_MAX || parts.values().all(|part| part.is_finest);
        let targets = Targets { round: self.round, sites, is_last };
        self.round += 1;
        self.to_all(&Note::Targets(targets))
    }

    fn sum_up(&mut self) -> Option<Figures> {
        let terms = self.terms.as_ref()?;
        let loads = self.loads();
        let model = CostModel::default();
        let GridView { layout, links, .. } = &self.grid;
        let links = &SiteLink::by_sites(links);
        let forecaster = Forecaster { layout, terms, links, loads: &loads, model: &model };
        let quiet = |pe: &PeLoad| PeLoad { background: Duration::ZERO, available: 1.0, ..*pe };
        let quiet: Vec<PeLoad> = terms.pes.iter().map(quiet).collect();
        let step = |duty: fn(&Outlook) -> &SiteDuty, pes: &[PeLoad]| {
            forecaster.of(&self.outlooks.values().map(duty).collect::<Vec<_>>(), pes)
        };
        const BEFORE: fn(&Outlook) -> &SiteDuty = |outlook| &outlook.before;
        const AFTER: fn(&Outlook) -> &SiteDuty = |outlook| &outlook.after;
        let (now, then) = (step(BEFORE, &terms.pes), step(AFTER, &terms.pes));
        let gain = |before: Duration, after: Duration| before.as_secs_f64() - after.as_secs_f64();
        let is_slowed = |pe: &PeLoad| !pe.background.is_zero() || pe.available < 1.0;
        let is_passing = terms.pes.iter().any(is_slowed) && {
            let lasting = gain(step(BEFORE, &quiet).step, step(AFTER, &quiet).step);
            lasting < gain(now.step, then.step) / 2.0
        };
        let sum = |of: fn(&Outlook) -> u64| {
            self.outlooks.values().map(of).fold(0_u64, u64::saturating_add)
        };
        Some(Figures {
            actors: self.census.values().map(|census| census.actors).fold(0, u64::saturating_add),
            moves: sum(|outlook| outlook.moves),
            // Leaders create no replicas.
            replicas: 0,
            steps: terms.steps,
            step_before: now.step,
            step_after: then.step,
            traffic_before: now.wide_area,
            traffic_after: then.wide_area,
            bytes_inside: sum(|outlook| outlook.bytes_inside),
            // The top does not know the bytes of each node. Those of the whole site bound them.
            bytes_busiest: self
                .outlooks
                .iter()
                .map(|(&site, outlook)| (SiteId(site), outlook.bytes_inside))
                .collect(),
            bytes_between_sites: sum(|outlook| outlook.bytes_between_sites),
            is_passing,
        })
    }
}
