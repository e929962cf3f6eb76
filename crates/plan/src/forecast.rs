//! The prediction for a job on a grid: the time of the job and of a step, PEs, links, and what
//! limits it.

use crate::error::ForecastError;
use crate::replay::Replayed;
use crate::what_if::Variation;
use gridspan_topology::{Bandwidth, GridSpec, PeId, SiteId};
use serde::Serialize;
use std::collections::BTreeMap;

/// A PE limits a job if it computes for at least this share of the time.
const BUSY_MIN: f64 = 0.75;
/// PEs have uneven work if the mean work is less than this share of that of the busiest PE.
const EVEN_MIN: f64 = 0.85;
/// A link limits a job if it is used for at least this share of the time.
const USED_MIN: f64 = 0.75;
/// Latency limits a job if the job would take less than this share of its time without latency.
const LATE_MAX: f64 = 0.9;
/// The first of this number of equal parts of the rounds does not count, because the start of the
/// job affects it.
const WARM_UP_PART: usize = 4;

/// What limits a job on a grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "limit", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Bottleneck {
    /// PEs compute most of the time.
    Computing,
    /// One PE computes most of the time, and others have less work.
    UnevenWork {
        /// The busiest PE.
        pe: u32,
    },
    /// The bandwidth of the link from one site to another, or of the uplink of one of the two.
    Bandwidth {
        /// The sending site.
        from: u32,
        /// The receiving site.
        to: u32,
    },
    /// PEs wait for messages of other sites, and the job would be shorter without the latency of
    /// the links between them.
    Latency,
    /// PEs wait although latency counts little, because too little work can be done at a time.
    Waiting,
}

/// A PE on the grid of a forecast.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PeForecast {
    /// Number of the PE.
    pub pe: u32,
    /// Its site.
    pub site: u32,
    /// Number of actors that it has; 0 for jobs of tasks.
    pub actors: u32,
    /// Time for which it computes, in nanoseconds, in the part of the job that was recorded.
    pub busy_ns: f64,
}

/// The messages from one site to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkForecast {
    /// The sending site.
    pub from: u32,
    /// The receiving site.
    pub to: u32,
    /// Packets, each with all messages of a handler to one PE.
    pub packets: u64,
    /// Bytes of their messages.
    pub bytes: u64,
    /// Share of the time in which the link transmits, or the uplink of the sending or the receiving
    /// site, if that is more; `None` if the bandwidth of all of them is unlimited.
    pub used: Option<f64>,
}

/// The predicted course of a job on a grid.
///
/// ```
/// use gridspan_plan::JobForecast;
///
/// let forecast = JobForecast { total_ns: 3_000_000_000, steps: 100, ..JobForecast::default() };
/// assert_eq!(forecast.total().as_secs(), 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobForecast {
    /// Time of the job, in nanoseconds.
    pub total_ns: u64,
    /// Time of a step, in nanoseconds, if the job has steps, or its actors send in rounds.
    pub step_ns: Option<f64>,
    /// Number of steps in the recording; 0 if it has none. The first round is not one of them: it
    /// belongs to the start.
    pub steps: u32,
    /// Time of the part that was recorded, on this grid, in nanoseconds.
    pub recorded_part_ns: u64,
    /// The PEs.
    pub pes: Vec<PeForecast>,
    /// The traffic between sites in the part that was recorded. Empty for a job of tasks.
    pub links: Vec<LinkForecast>,
    /// What limits the job.
    pub bottleneck: Option<Bottleneck>,
}

impl JobForecast {
    /// Time of the job.
    pub fn total(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.total_ns)
    }
}

/// Returns the mean time of a round, without the first ones.
pub(crate) fn step_ns(done_ns: &[u64]) -> Option<f64> {
    let last = done_ns.len().checked_sub(1).filter(|last| *last > 0)?;
    let first = last / WARM_UP_PART;
    Some(done_ns[last].saturating_sub(done_ns[first]) as f64 / (last - first) as f64)
}

/// Returns the PEs of a grid with actors at these places.
pub(crate) fn pes(grid: &GridSpec, places: &[u32], found: &Replayed) -> Vec<PeForecast> {
    let layout = grid.layout();
    let mut actors = vec![0; layout.pe_count() as usize];
    for place in places {
        actors[*place as usize] += 1;
    }
    let pe = |pe: PeId| PeForecast {
        pe: pe.0,
        site: layout.site_of(pe).0,
        actors: actors[pe.0 as usize],
        busy_ns: found.busy_ns[pe.0 as usize],
    };
    layout.pes().map(pe).collect()
}

/// Returns the traffic between the sites of a grid.
pub(crate) fn links(grid: &GridSpec, found: &Replayed) -> Vec<LinkForecast> {
    let mut out: BTreeMap<SiteId, u64> = BTreeMap::new();
    let mut into: BTreeMap<SiteId, u64> = BTreeMap::new();
    for (&(from, to), &(_, bytes)) in &found.links {
        for (passed, site) in [(&mut out, from), (&mut into, to)] {
            let all = passed.entry(site).or_default();
            *all = all.saturating_add(bytes);
        }
    }
    let used = |bandwidth: Bandwidth, bytes: u64| {
        let rate = bandwidth.bits_per_second() as f64 / 8.0 * 1e-9;
        bytes as f64 / (rate * found.end_ns.max(1) as f64)
    };
    let link = |(&(from, to), &(packets, bytes)): (&(SiteId, SiteId), &(u64, u64))| {
        let over_uplink = |site: SiteId, passed: &BTreeMap<SiteId, u64>| {
            Some(used(grid.uplink(site)?, passed.get(&site).copied().unwrap_or_default()))
        };
        let bandwidth = grid.link_between(from, to).bandwidth;
        let over_link = (!bandwidth.is_unlimited()).then(|| used(bandwidth, bytes));
        let all = [over_link, over_uplink(from, &out), over_uplink(to, &into)];
        let used = all.into_iter().flatten().reduce(f64::max);
        LinkForecast { from: from.0, to: to.0, packets, bytes, used }
    };
    found.links.iter().map(link).collect()
}

/// Returns what limits a job of this time. `without_latency_ns` predicts its time on a grid without
/// latency between sites.
pub(crate) fn bottleneck(
    grid: &GridSpec,
    pes: &[PeForecast],
    links: &[LinkForecast],
    took_ns: u64,
    without_latency_ns: impl FnOnce(&GridSpec) -> Result<f64, ForecastError>,
) -> Result<Bottleneck, ForecastError> {
    let used = |link: &&LinkForecast| link.used.unwrap_or(0.0);
    let fullest = links.iter().max_by(|a, b| used(a).total_cmp(&used(b)));
    if let Some(link) = fullest.filter(|link| used(link) >= USED_MIN) {
        return Ok(Bottleneck::Bandwidth { from: link.from, to: link.to });
    }
    let busiest = pes.iter().max_by(|a, b| a.busy_ns.total_cmp(&b.busy_ns));
    let mean = pes.iter().map(|pe| pe.busy_ns).sum::<f64>() / pes.len().max(1) as f64;
    if let Some(pe) = busiest.filter(|pe| pe.busy_ns >= BUSY_MIN * took_ns as f64) {
        return Ok(match mean < EVEN_MIN * pe.busy_ns {
            true => Bottleneck::UnevenWork { pe: pe.pe },
            false => Bottleneck::Computing,
        });
    }
    let Some(near) = Variation::Latency(0.0).of(grid) else { return Ok(Bottleneck::Waiting) };
    Ok(match without_latency_ns(&near)? < LATE_MAX * took_ns as f64 {
        true => Bottleneck::Latency,
        false => Bottleneck::Waiting,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_site_use_its_uplink_together() {
        let used = |text: &str| -> Vec<Option<f64>> {
            let grid = GridSpec::from_emulate(text).unwrap();
            // 0.5, 0.25 and 0.125 s at 1 Gbit/s, of one second.
            let sent = [((0, 1), 62_500_000), ((0, 2), 31_250_000), ((1, 2), 15_625_000)];
            let sent = sent.map(|((from, to), bytes)| ((SiteId(from), SiteId(to)), (1, bytes)));
            let found = Replayed {
                end_ns: 1_000_000_000,
                round_done_ns: Vec::new(),
                busy_ns: Vec::new(),
                links: BTreeMap::from(sent),
            };
            links(&grid, &found).into_iter().map(|link| link.used).collect()
        };
        let expect = |found: Vec<Option<f64>>, expected: [f64; 3]| {
            for (found, expected) in found.iter().zip(expected) {
                assert!((found.unwrap() - expected).abs() < 1e-9, "{found:?}, not {expected}");
            }
            assert_eq!(found.len(), expected.len());
        };
        expect(used("3x1,rate=1gbit"), [0.5, 0.25, 0.125]);
        // Site 0 sends 0.75, and site 2 receives 0.375.
        expect(used("3x1,rate=1gbit,uplink=1gbit"), [0.75, 0.75, 0.375]);
        expect(used("3x1,rate=unlimited,uplink=1gbit"), [0.75, 0.75, 0.375]);
        expect(used("3x1,rate=1gbit,uplink=8gbit"), [0.5, 0.25, 0.125]);
        assert_eq!(used("3x1,rate=unlimited"), [None; 3]);
    }
}
