//! The job with which `gridctl topo` measures a grid; it reports the links to the launcher.

use gridspan::control::Control;
use gridspan::links::LinkReport;
use gridspan_jobs::Entry;
use gridspan_runtime::{Grid, Job, JobError, Links};
use std::collections::BTreeSet;
use std::time::Duration;

/// The job, which is not listed because it does nothing without `gridctl topo`.
pub(crate) static PROBE: Entry =
    Entry { name: "__topo", about: "measures links for gridctl topo", build };

/// Interval between checks whether all links are known.
const LOOK: Duration = Duration::from_millis(250);
/// Number of checks after which the job no longer waits for missing links. If a link was too fast
/// for a train of packets to measure, the next train follows only a minute later.
const LOOKS_MAX: u32 = 40;

fn build(_: &[String]) -> Result<Job, clap::Error> {
    Ok(Job::new("topo").main(measure))
}

async fn measure(grid: Grid) -> Result<(), JobError> {
    let mut links = grid.links().await?;
    let mut looks = 0;
    while looks < LOOKS_MAX && !is_known(&links) {
        grid.sleep(LOOK).await?;
        links = grid.links().await?;
        looks += 1;
    }
    Control::Links(LinkReport::new(&links, &[])).tell();
    Ok(())
}

/// Whether every link between the coarsest groups has a known bandwidth, in both directions.
fn is_known(links: &Links) -> bool {
    let known = links.estimates.iter().filter(|(_, estimate)| estimate.bandwidth.is_some());
    let known: BTreeSet<_> = known.map(|&(pair, _)| pair).collect();
    let groups: Vec<_> = links.places.hierarchy.groups_at(1).collect();
    let mut pairs = groups.iter().flat_map(|&a| groups.iter().map(move |&b| (a, b)));
    pairs.all(|(a, b)| a == b || known.contains(&(a, b)))
}
