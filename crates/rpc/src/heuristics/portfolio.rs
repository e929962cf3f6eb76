//! Several heuristics, and the best of them in a simulated execution.

use super::Heuristic;
use super::contention::HeftC;
use super::heft::Heft;
use crate::graph::TaskGraph;
use crate::judge::{Rescue, Surprises, execute};
use crate::mapping::{MapError, Mapping};
use crate::platform::Platform;

/// HEFT, HEFT-C, and HEFT-C on each single site.
#[derive(Clone, Copy, Debug, Default)]
pub struct Portfolio;

/// Single sites are tried up to so many, those with most to compute with first: each takes a mapping and an
/// execution.
const SITES_MAX: usize = 4;

impl Heuristic for Portfolio {
    fn name(&self) -> &'static str {
        "portfolio"
    }

    fn map(&self, graph: &TaskGraph, platform: &Platform) -> Result<Mapping, MapError> {
        let mut best = simulated(&HeftC::default(), graph, platform)?;
        let sites: Vec<HeftC> = match platform.sites().len() {
            0 | 1 => Vec::new(),
            _ => strongest(platform).into_iter().map(HeftC::in_site).collect(),
        };
        let members = sites.iter().map(|member| member as &dyn Heuristic);
        for member in std::iter::once(&Heft as &dyn Heuristic).chain(members) {
            let other = simulated(member, graph, platform)?;
            if other.predicted_s < best.predicted_s {
                best = other;
            }
        }
        Ok(best)
    }
}

/// The mapping of a heuristic, with what the simulation predicts of it.
fn simulated(
    heuristic: &dyn Heuristic,
    graph: &TaskGraph,
    platform: &Platform,
) -> Result<Mapping, MapError> {
    let mut mapping = heuristic.map(graph, platform)?;
    let expected = Surprises::default();
    mapping.predicted_s = execute(graph, platform, &mapping, &expected, Rescue::None).makespan_s;
    Ok(mapping)
}

/// The sites with most to compute with.
fn strongest(platform: &Platform) -> Vec<usize> {
    let mut speeds = vec![0.0; platform.sites().len()];
    for server in platform.servers() {
        speeds[server.site] += server.speed * f64::from(server.cores);
    }
    let mut sites: Vec<usize> = (0..speeds.len()).filter(|&site| speeds[site] > 0.0).collect();
    sites.sort_by(|&one, &other| speeds[other].total_cmp(&speeds[one]));
    sites.truncate(SITES_MAX);
    sites
}
