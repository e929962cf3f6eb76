//! The grids of the sweep.

use gridspan_topology::{GridSpec, HostSpec, Latency, Link, SiteSpec};
use std::time::Duration;

/// Shapes of the grids: sites by nodes per site, or the nodes of each site.
pub(crate) const SHAPES: [&str; 6] = ["2x1", "2x8", "2x64", "4x16", "8x8", "60+4+4+4"];

/// Latency inside a site, one way: Ethernet in one building.
const LAN: Duration = Duration::from_micros(50);

/// A grid with its name. `alone` is a grid of only the first site, where jobs start.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) name: String,
    pub(crate) spec: GridSpec,
    pub(crate) alone: GridSpec,
    sites: Vec<u32>,
    wan: Link,
}

impl Grid {
    /// Returns a grid of the first `count` sites, or of all if there are fewer.
    pub(crate) fn first(&self, count: usize) -> Result<Self, String> {
        let sites = &self.sites[..count.clamp(1, self.sites.len())];
        of_sites(format!("first {count} of {}", self.name), sites, self.wan)
    }
}

/// Returns a grid of `shape` with a latency of `wan_ms` one way between sites.
pub(crate) fn grid(shape: &str, wan_ms: f64) -> Result<Grid, String> {
    let sites = parse(shape)
        .ok_or(format!("`{shape}` is not a grid; write a shape such as 2x8 or 60+4+4+4"))?;
    let wan = Link::wan().with_latency(latency(wan_ms));
    of_sites(format!("{shape},wan={wan_ms}ms"), &sites, wan)
}

/// Returns a grid with these numbers of nodes per site.
pub(crate) fn of_sites(name: String, sites: &[u32], wan: Link) -> Result<Grid, String> {
    let first = sites.first().copied().unwrap_or(1);
    let spec = |sites: &[u32]| {
        let lan = Link::lan().with_latency(Latency(LAN));
        let site = |(number, &nodes): (usize, &u32)| {
            let host = |host| HostSpec::new(format!("s{number}h{host}"), 1);
            SiteSpec::new(format!("s{number}"), (0..nodes).map(host).collect(), lan)
        };
        let sites = sites.iter().enumerate().map(site).collect();
        let spec = GridSpec::new(sites).map_err(|error| error.to_string())?;
        Ok::<_, String>(spec.with_lan(lan).with_wan(wan))
    };
    let (alone, spec) = (spec(&[first])?, spec(sites)?);
    Ok(Grid { name, spec, alone, sites: sites.to_vec(), wan })
}

pub(crate) fn latency(millis: f64) -> Latency {
    Latency(Duration::from_secs_f64(millis * 1e-3))
}

fn parse(shape: &str) -> Option<Vec<u32>> {
    if let Some((sites, nodes)) = shape.split_once('x') {
        return Some(vec![nodes.parse().ok()?; sites.parse().ok()?]);
    }
    shape.split('+').map(|nodes| nodes.parse().ok()).collect()
}
