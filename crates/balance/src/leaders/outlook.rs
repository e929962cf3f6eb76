//! Work and traffic of a site, in sums that the top can add up.

use super::handover::{OuterTalk, SiteActors};
use super::note::{LeaderActor, SiteDuty, Terms, Toward};
use gridspan_topology::PeId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The PEs of a site, and the terms for all PEs.
pub(super) struct Duty<'a> {
    pub(super) pes: Range<u32>,
    pub(super) terms: &'a Terms,
}

impl Duty<'_> {
    /// Returns the work and traffic of the site with its actors placed by `mapping`.
    pub(super) fn of(&self, site_actors: &SiteActors, mapping: &[PeId]) -> SiteDuty {
        self.sum(&site_actors.members, mapping, &site_actors.inner, &site_actors.outer)
    }

    fn sum(
        &self,
        members: &[LeaderActor],
        mapping: &[PeId],
        inner: &[(u32, u32, u64, u64)],
        outer: &[OuterTalk],
    ) -> SiteDuty {
        let local = |pe: PeId| pe.0.checked_sub(self.pes.start).map(|at| at as usize);
        let mut pes = vec![(0.0, 0_u64); self.pes.len()];
        let works: Vec<f64> = members.iter().map(|member| self.work(member)).collect();
        for (work, &pe) in works.iter().zip(mapping) {
            if let Some(pe) = local(pe).and_then(|at| pes.get_mut(at)) {
                pe.0 += work;
            }
        }
        let mut note = |pe: PeId, messages: u64| {
            if let Some(pe) = local(pe).and_then(|at| pes.get_mut(at)) {
                pe.1 = pe.1.saturating_add(messages);
            }
        };
        for &(from, to, messages, _) in inner {
            let [from, to] = [from, to].map(|at| mapping[at as usize]);
            if from != to {
                note(from, messages);
                note(to, messages);
            }
        }
        outer.iter().for_each(|talk| note(mapping[talk.member as usize], talk.messages));
        SiteDuty { pes, toward: self.toward(&works, mapping, outer) }
    }

    /// Returns a member's work in the window, in seconds on a PE of speed 1.
    fn work(&self, member: &LeaderActor) -> f64 {
        let speed = self.terms.pes.get(member.load.pe.index()).map_or(1.0, |pe| pe.speed);
        member.load.load.as_secs_f64() * speed
    }

    fn toward(&self, works: &[f64], mapping: &[PeId], outer: &[OuterTalk]) -> Vec<Toward> {
        let steps = self.terms.steps.max(1);
        let is_often = |talk: &&OuterTalk| talk.messages.saturating_mul(2) >= steps;
        let seconds = |member: u32| {
            let pe = self.terms.pes.get(mapping[member as usize].index());
            works[member as usize] / pe.map_or(1.0, |pe| pe.effective_speed()) / steps as f64
        };
        let border: BTreeSet<u32> = outer.iter().filter(is_often).map(|talk| talk.member).collect();
        let mut waiting: BTreeMap<PeId, f64> = BTreeMap::new();
        for &member in &border {
            *waiting.entry(mapping[member as usize]).or_default() += seconds(member);
        }
        let mut all: BTreeMap<u32, Toward> = BTreeMap::new();
        for talk in outer {
            let toward =
                all.entry(talk.site).or_insert(Toward { site: talk.site, ..Toward::default() });
            if talk.is_sent {
                toward.messages = toward.messages.saturating_add(talk.messages);
                toward.bytes = toward.bytes.saturating_add(talk.bytes);
            }
            if is_often(&talk) {
                toward.sends |= talk.is_sent;
                toward.receives |= !talk.is_sent;
                toward.end = toward.end.max(seconds(talk.member));
                let waits = waiting.get(&mapping[talk.member as usize]).copied();
                toward.waiting = toward.waiting.max(waits.unwrap_or(0.0));
            }
        }
        all.into_values().collect()
    }
}
