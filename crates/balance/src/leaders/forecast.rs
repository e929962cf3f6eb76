//! Predicts the time of a step from sums that each site reports. The cost model is that of
//! [`predict`](crate::predict), whose terms are sums over the actors of a PE or of all PEs, and
//! maxima over PEs and pairs of sites.
//!
//! It differs from `predict` in two points. For a cycle between two sites, it takes at each end the
//! work of the busiest actor that exchanges messages with the other site, even if these two actors
//! exchange no messages. And it assumes that messages are handled in order of arrival. If they are,
//! the result may be longer than that of `predict`, but not shorter.

use super::note::{SiteDuty, Terms};
use crate::cost::{CostModel, Traffic};
use crate::snapshot::{LinksBySites, PeLoad, SiteLink};
use gridspan_topology::{Hierarchy, Layout, SiteId};
use std::time::Duration;

/// Input of a forecast, apart from the sites' duties.
pub(super) struct Forecaster<'a> {
    pub(super) layout: &'a Layout,
    pub(super) terms: &'a Terms,
    pub(super) links: &'a LinksBySites<'a>,
    /// Time that the actors on each PE have used in the window.
    pub(super) loads: &'a [Duration],
    pub(super) model: &'a CostModel,
}

/// Time of a step, and traffic between sites in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Forecast {
    pub(super) step: Duration,
    pub(super) wide_area: Traffic,
}

impl Forecaster<'_> {
    /// Returns the forecast for the duties of all sites, in order, on PEs in the state `pes`.
    pub(super) fn of(&self, duties: &[&SiteDuty], pes: &[PeLoad]) -> Forecast {
        let steps = self.terms.steps.max(1) as f64;
        let is_late = self.terms.pe_lag.iter().any(|&pe_lag| pe_lag > 1.0);
        let seconds = match is_late {
            true => self.undelayed(duties, pes, steps),
            false => self.compute(duties, pes, steps).max(self.between_sites(duties, steps)),
        };
        let mut wide_area = Traffic::default();
        for toward in duties.iter().flat_map(|duty| &duty.toward) {
            wide_area.messages = wide_area.messages.saturating_add(toward.messages);
            wide_area.bytes = wide_area.bytes.saturating_add(toward.bytes);
        }
        let step = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        Forecast { step, wide_area }
    }

    /// Returns the seconds per step for which the busiest PE computes.
    fn compute(&self, duties: &[&SiteDuty], pes: &[PeLoad], steps: f64) -> f64 {
        let overhead = self.model.message_overhead.as_secs_f64();
        let sums = duties.iter().flat_map(|duty| &duty.pes).zip(pes).zip(self.loads);
        let busy = |((&(work, messages), pe), load): ((&(f64, u64), &PeLoad), &Duration)| {
            let (busy, before) = (work / pe.effective_speed(), load.as_secs_f64());
            let part = if before > 0.0 { (busy / before).min(1.0) } else { 1.0 };
            (busy + part * pe.background.as_secs_f64() + messages as f64 * overhead) / steps
        };
        sums.map(busy).fold(0.0, f64::max)
    }

    /// Returns the seconds per step that all PEs with work need together if none of them waits.
    fn undelayed(&self, duties: &[&SiteDuty], pes: &[PeLoad], steps: f64) -> f64 {
        let sums =
            || duties.iter().flat_map(|duty| &duty.pes).zip(pes).filter(|(sum, _)| sum.0 > 0.0);
        let speed: f64 = sums().map(|(_, pe)| pe.effective_speed()).sum();
        let work: f64 = sums().map(|(sum, _)| sum.0).sum();
        if speed > 0.0 { work / steps / speed } else { 0.0 }
    }

    /// Returns the seconds per step of the longest cycle between two sites, or of the longest
    /// transfer from one to another if that is longer.
    fn between_sites(&self, duties: &[&SiteDuty], steps: f64) -> f64 {
        let standard = Hierarchy::from_layout(self.layout);
        let hierarchy = self.terms.hierarchy.as_ref().unwrap_or(&standard);
        let mut longest = 0.0_f64;
        for (site, duty) in duties.iter().enumerate() {
            for toward in &duty.toward {
                let (here, there) = (SiteId(site as u32), SiteId(toward.site));
                if there.0 >= self.layout.site_count() {
                    continue;
                }
                let back = duties.get(there.index()).and_then(|other| {
                    // A leader lists sites in order.
                    let at = other.toward.binary_search_by_key(&here.0, |toward| toward.site);
                    at.ok().map(|at| other.toward[at])
                });
                let (end, waiting) = back.map_or((0.0, 0.0), |back| (back.end, back.waiting));
                if toward.sends {
                    let returns =
                        if toward.receives { self.latency(hierarchy, there, here) } else { 0.0 };
                    let waits = toward.waiting.max(waiting) * self.model.border_wait;
                    let travel = self.latency(hierarchy, here, there) + returns;
                    longest = longest.max(travel + (toward.end + end).max(waits));
                }
                let link = self.link(here, there);
                let transfer =
                    link.map_or(Duration::ZERO, |link| link.bandwidth.time_for(toward.bytes));
                longest = longest.max(transfer.as_secs_f64() / steps);
            }
        }
        longest
    }

    fn link(&self, from: SiteId, to: SiteId) -> Option<&SiteLink> {
        self.links.get(&(from, to)).copied()
    }

    /// Returns the latency in seconds from one site to another; 0 if it is unknown.
    fn latency(&self, hierarchy: &Hierarchy, from: SiteId, to: SiteId) -> f64 {
        if let Some(link) = self.link(from, to) {
            return link.latency.duration().as_secs_f64();
        }
        let first = |site| self.layout.nodes_in(site).next();
        let (Some(from), Some(to)) = (first(from), first(to)) else { return 0.0 };
        hierarchy.rtt(from, to).map_or(0.0, |rtt| rtt.as_secs_f64() / 2.0)
    }
}
