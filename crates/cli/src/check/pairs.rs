//! Chooses the pairs of hosts that send each other datagrams: all pairs, or a part if there are
//! many hosts.

use std::collections::{BTreeMap, BTreeSet};

/// Largest number of hosts of which all pairs are checked.
const ALL_PAIRS_MAX: usize = 48;
/// If there are many hosts, each is checked with this number of hosts before it and after it in the
/// order of its site.
const NEIGHBOURS: usize = 4;
/// Number of pairs of hosts that check the path between two sites, if there are many hosts:
/// several, because one host may differ from the others of its site.
const PAIRS_OF_SITES: usize = 4;
/// Largest number of other sites to which the paths from each site are checked.
const SITES_MAX: usize = 48;

/// Returns for each host the hosts to which it sends: itself if it has several nodes, and others.
/// Two hosts send to each other, or not at all. Hosts are given by the number of their site and
/// whether they have several nodes.
pub(super) fn peers(hosts: &[(usize, bool)]) -> Vec<BTreeSet<usize>> {
    let mut peers = vec![BTreeSet::new(); hosts.len()];
    let mut add = |a: usize, b: usize| {
        if a != b {
            peers[a].insert(b);
            peers[b].insert(a);
        }
    };
    if hosts.len() <= ALL_PAIRS_MAX {
        (0..hosts.len()).for_each(|a| (0..a).for_each(|b| add(a, b)));
    } else {
        let mut sites: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (host, (site, _)) in hosts.iter().enumerate() {
            sites.entry(*site).or_default().push(host);
        }
        let sites: Vec<Vec<usize>> = sites.into_values().collect();
        for (number, site) in sites.iter().enumerate() {
            for (at, &host) in site.iter().enumerate() {
                (1..=NEIGHBOURS).for_each(|step| add(host, site[(at + step) % site.len()]));
            }
            for step in 1..=SITES_MAX.min(sites.len() - 1) {
                let other = &sites[(number + step) % sites.len()];
                // Different hosts for different sites, so that no host has most of the work.
                for pair in 0..PAIRS_OF_SITES.min(site.len()).min(other.len()) {
                    let own = site[(step * PAIRS_OF_SITES + pair) % site.len()];
                    add(own, other[(number * PAIRS_OF_SITES + pair) % other.len()]);
                }
            }
        }
    }
    for (host, (_, has_several)) in hosts.iter().enumerate() {
        if *has_several {
            peers[host].insert(host);
        }
    }
    peers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_hosts_are_checked_in_all_pairs_and_alone_only_with_several_nodes() {
        let found = peers(&[(0, true), (0, false), (1, false)]);
        let found: Vec<Vec<usize>> = found.into_iter().map(|of| of.into_iter().collect()).collect();
        assert_eq!(found, [vec![0, 1, 2], vec![0, 2], vec![0, 1]]);
        assert_eq!(peers(&[(0, false)]), [BTreeSet::new()]);
        assert!(peers(&[]).is_empty());
    }

    #[test]
    fn many_hosts_have_few_peers_and_every_two_sites_are_checked_in_both_directions() {
        let hosts: Vec<(usize, bool)> = (0..2000).map(|host| (host % 7, false)).collect();
        let found = peers(&hosts);
        assert!(found.iter().all(|of| (8..=80).contains(&of.len())));
        let ways: BTreeSet<(usize, usize)> = found
            .iter()
            .enumerate()
            .flat_map(|(from, of)| of.iter().map(move |to| (from % 7, to % 7)))
            .collect();
        assert_eq!(ways.len(), 49);
        let is_mutual = |from: usize| found[from].iter().all(|&to| found[to].contains(&from));
        assert!((0..found.len()).all(is_mutual));
    }

    #[test]
    fn a_host_of_a_small_site_is_not_flooded() {
        let hosts: Vec<(usize, bool)> = (0..1000).map(|host| (host.min(1), false)).collect();
        assert!(peers(&hosts)[0].len() <= PAIRS_OF_SITES);
    }
}
