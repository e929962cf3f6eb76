//! Several heuristics, and the best of them in a simulated execution.

use super::Heuristic;
use super::contention::HeftC;
use super::heft::Heft;
use crate::graph::TaskGraph;
use crate::mapping::{MapError, Mapping};
use crate::platform::Platform;
use crate::simulate::{Perturbations, execute};
use crate::stragglers::StragglerPolicy;

/// HEFT, HEFT-C, and HEFT-C on each of the four fastest sites alone.
///
/// ```
/// # use gridspan_topology::Link;
/// # use gridspan_workflow::{ClientSpec, GraphBuilder, Platform, ServerId, ServerSpec, Site};
/// # let site = Site::new("delft", Link::lan(), Link::wan());
/// # let servers = [("fast", 2.0), ("slow", 1.0)].map(|(name, speed)| {
/// #     ServerSpec::new(name, 0, speed)
/// # });
/// # let client = ClientSpec::at_site(0, Link::lan());
/// # let platform = Platform::new(servers.to_vec(), vec![site], client);
/// # let mut calls = GraphBuilder::default();
/// # let (make, take) = (calls.task("make", 1.0), calls.task("take", 2.0));
/// # let part = calls.write(make, "part", 8_000_000);
/// # calls.read(take, part);
/// # let graph = calls.build().unwrap();
/// use gridspan_workflow::heuristics::{Portfolio, Heuristic};
///
/// let mapping = Portfolio.map(&graph, &platform)?;
/// assert_eq!(mapping.servers, [ServerId(0); 2]); // both calls go to the fast server
/// # Ok::<(), gridspan_workflow::MapError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Portfolio;

/// Maximum number of single sites that are tried, those with the highest total speed first: each
/// takes a mapping and a simulated execution.
const SITES_MAX: usize = 4;

impl Heuristic for Portfolio {
    fn name(&self) -> &'static str {
        "portfolio"
    }

    fn map(&self, graph: &TaskGraph, platform: &Platform) -> Result<Mapping, MapError> {
        let mut best = simulated(&HeftC::default(), graph, platform)?;
        let mut consider = |member: &dyn Heuristic| -> Result<f64, MapError> {
            let other = simulated(member, graph, platform)?;
            if other.predicted_s < best.predicted_s {
                best = other;
            }
            Ok(best.predicted_s)
        };
        let mut best_s = consider(&Heft)?;
        for (site, speed) in strongest(platform) {
            // A site alone takes at least this time, with all its cores busy from the beginning. If
            // that is too long, it need not be simulated.
            if graph.work_s() / speed < best_s {
                best_s = consider(&HeftC::in_site(site))?;
            }
        }
        Ok(best)
    }
}

/// Returns the mapping of a heuristic, with the makespan that the simulation predicts.
fn simulated(
    heuristic: &dyn Heuristic,
    graph: &TaskGraph,
    platform: &Platform,
) -> Result<Mapping, MapError> {
    let mut mapping = heuristic.map(graph, platform)?;
    let expected = Perturbations::default();
    mapping.predicted_s =
        execute(graph, platform, &mapping, &expected, StragglerPolicy::None).makespan_s;
    Ok(mapping)
}

/// Returns the sites with the highest total speed of all cores, and this speed; empty if there is
/// only one site.
fn strongest(platform: &Platform) -> Vec<(usize, f64)> {
    let mut speeds = vec![0.0; platform.sites().len()];
    for server in platform.servers() {
        speeds[server.site] += server.speed * f64::from(server.cores);
    }
    let mut sites: Vec<(usize, f64)> =
        speeds.into_iter().enumerate().filter(|&(_, speed)| speed > 0.0).collect();
    if sites.len() < 2 {
        return Vec::new();
    }
    sites.sort_by(|one, other| other.1.total_cmp(&one.1));
    sites.truncate(SITES_MAX);
    sites
}
