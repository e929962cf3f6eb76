//! Four platforms for the comparison of heuristics. Their wide-area links range from ones that
//! hardly matter to ones that dominate.

use crate::platform::{ClientSpec, Platform, ServerSpec, Site};
use gridspan_topology::{Bandwidth, Latency, Link};
use std::time::Duration;

/// A named platform.
#[derive(Clone, Debug)]
pub struct StudyPlatform {
    /// Name of one letter.
    pub name: &'static str,
    /// Short description.
    pub description: &'static str,
    /// The platform.
    pub platform: Platform,
}

struct PlatformParameters {
    name: &'static str,
    description: &'static str,
    /// Speed of the servers of each site, and bandwidth of its uplink in Mbit/s.
    sites: &'static [(f64, u64)],
    /// Round-trip time between sites, in ms.
    round_trip: u64,
    client_mbit: u64,
}

/// Number of servers of each site.
const SERVERS: usize = 4;
/// Number of cores of each server.
const CORES: u32 = 4;
/// Relative speeds of the servers of a site.
const SPEEDS: [f64; SERVERS] = [1.0, 1.2, 0.9, 1.1];

const PARAMETERS: [PlatformParameters; 4] = [
    PlatformParameters {
        name: "A",
        description: "2 sites, 1 Gbit/s, 10 ms",
        sites: &[(1.0, 1000), (1.4, 1000)],
        round_trip: 10,
        client_mbit: 1000,
    },
    PlatformParameters {
        name: "B",
        description: "3 sites, 200 Mbit/s, 40 ms",
        sites: &[(1.0, 200), (1.4, 200), (0.7, 200)],
        round_trip: 40,
        client_mbit: 200,
    },
    PlatformParameters {
        name: "C",
        description: "4 sites, 20 to 100 Mbit/s, 80 ms",
        sites: &[(1.0, 100), (1.4, 50), (0.7, 50), (1.2, 20)],
        round_trip: 80,
        client_mbit: 100,
    },
    PlatformParameters {
        name: "D",
        description: "4 sites, 10 Gbit/s, 20 ms",
        sites: &[(1.0, 10_000), (1.4, 10_000), (0.7, 10_000), (1.2, 10_000)],
        round_trip: 20,
        client_mbit: 1000,
    },
];

/// Returns the four platforms, A to D. Servers have four cores and 10 Gbit/s to the others of their
/// site; each site has one uplink to all others, and the client its own link.
pub fn study_platforms() -> Vec<StudyPlatform> {
    PARAMETERS.iter().map(study_platform).collect()
}

fn study_platform(parameters: &PlatformParameters) -> StudyPlatform {
    // Half of the one-way latency at each end, so that the two uplinks of a path add up to it.
    let half = Latency(Duration::from_millis(parameters.round_trip) / 4);
    let link = |mbit: u64| Link::new(half, Bandwidth::from_bits_per_second(mbit * 1_000_000));
    let mut servers = Vec::new();
    let mut sites = Vec::new();
    for (site, &(speed, mbit)) in parameters.sites.iter().enumerate() {
        sites.push(Site {
            name: format!("site{}", site + 1),
            lan: Link::lan(),
            uplink: link(mbit),
        });
        servers.extend(SPEEDS.iter().enumerate().map(|(number, relative)| ServerSpec {
            name: format!("site{}-{}", site + 1, number + 1),
            site,
            cores: CORES,
            speed: speed * relative,
            is_direct: true,
        }));
    }
    let client = ClientSpec { site: None, link: link(parameters.client_mbit) };
    let platform = Platform::new(servers, sites, client);
    StudyPlatform { name: parameters.name, description: parameters.description, platform }
}
