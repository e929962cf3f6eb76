//! What a client knows of the servers behind a door, from what it heard was new. Pure.

use super::wire::{Known, Listed, News};
use gridspan_topology::LinkEstimate;
use std::collections::{BTreeMap, BTreeSet};

/// The servers that are listed.
#[derive(Debug, Default)]
pub(super) struct Roster {
    known: Known,
    /// Without their links.
    servers: Vec<Listed>,
    /// What is known of the ways to each server, by the others that they come from.
    ways: BTreeMap<u32, BTreeMap<u32, LinkEstimate>>,
}

impl Roster {
    /// What to ask for news with.
    pub(super) fn known(&self) -> Known {
        self.known
    }

    /// Takes news. Those that were asked for at the same time may come in any order.
    pub(super) fn hear(&mut self, news: News) {
        let News { known, servers, ways } = news;
        let is_other_door = known.door != self.known.door;
        if is_other_door {
            *self =
                Self { known: Known { door: known.door, ..Known::default() }, ..Self::default() };
        }
        if let Some(servers) = servers
            && (is_other_door || known.servers >= self.known.servers)
        {
            let there: BTreeSet<u32> = servers.iter().map(|listed| listed.card.number).collect();
            self.ways.retain(|to, _| there.contains(to));
            for links in self.ways.values_mut() {
                links.retain(|from, _| there.contains(from));
            }
            (self.servers, self.known.servers) = (servers, known.servers);
        }
        // What is older is a part of what is known.
        if known.ways >= self.known.ways {
            for ((from, to), estimate) in ways {
                self.ways.entry(to).or_default().insert(from, estimate);
            }
            self.known.ways = known.ways;
        }
    }

    /// All servers, as the door would list them.
    pub(super) fn listed(&self) -> Vec<Listed> {
        let listed = |server: &Listed| {
            let links = self.ways.get(&server.card.number).into_iter().flatten();
            let links = links.map(|(from, estimate)| (*from, *estimate)).collect();
            Listed { links, ..server.clone() }
        };
        self.servers.iter().map(listed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_rpc::calls::ServerCard;
    use gridspan_topology::{Latency, Time};
    use std::time::Duration;

    fn server(number: u32) -> Listed {
        let (name, functions) = (format!("s{number}"), Default::default());
        let card = ServerCard { number, name, site: 0, speed: 1.0, is_direct: true, functions };
        Listed { card, calls: 0, load_s: 0.0, cores: 1, address: None, links: Vec::new() }
    }

    fn estimate(millis: u64) -> LinkEstimate {
        LinkEstimate {
            latency: Latency::from_millis(millis),
            jitter: Duration::ZERO,
            loss: 0.0,
            bandwidth: None,
            bandwidth_observed: None,
            observed: Time::ZERO,
            confidence: 1.0,
        }
    }

    fn news(
        (door, of_servers, of_ways): (u64, u64, u64),
        servers: Option<&[u32]>,
        ways: &[((u32, u32), u64)],
    ) -> News {
        News {
            known: Known { door, servers: of_servers, ways: of_ways },
            servers: servers.map(|numbers| numbers.iter().copied().map(server).collect()),
            ways: ways.iter().map(|&(way, millis)| (way, estimate(millis))).collect(),
        }
    }

    /// The servers, and the ways to them in milliseconds.
    fn all(roster: &Roster) -> Vec<(u32, Vec<(u32, u128)>)> {
        let of = |listed: Listed| {
            let links = listed.links.iter();
            let links = links.map(|(from, link)| (*from, link.latency.duration().as_millis()));
            (listed.card.number, links.collect())
        };
        roster.listed().into_iter().map(of).collect()
    }

    #[test]
    fn what_is_new_is_added_to_what_is_known() {
        let mut roster = Roster::default();
        roster.hear(news((7, 2, 2), Some(&[1, 2]), &[((1, 2), 5), ((2, 1), 5)]));
        roster.hear(news((7, 2, 3), None, &[((1, 2), 6)]));
        roster.hear(news((7, 2, 3), None, &[]));

        assert_eq!(all(&roster), [(1, vec![(2, 5)]), (2, vec![(1, 6)])]);
        assert_eq!(roster.known(), Known { door: 7, servers: 2, ways: 3 });
        roster.hear(news((7, 3, 3), Some(&[2]), &[]));
        assert_eq!(all(&roster), [(2, vec![])], "what comes from servers that are gone goes too");
    }

    #[test]
    fn of_another_door_nothing_is_known_before() {
        let mut roster = Roster::default();
        roster.hear(news((7, 2, 9), Some(&[1, 2]), &[((1, 2), 5)]));

        roster.hear(news((8, 1, 1), Some(&[2]), &[((3, 2), 4)]));

        assert_eq!(all(&roster), [(2, vec![(3, 4)])]);
        assert_eq!(roster.known(), Known { door: 8, servers: 1, ways: 1 });
    }

    #[test]
    fn news_that_come_late_change_nothing() {
        let mut roster = Roster::default();
        roster.hear(news((7, 2, 5), Some(&[1, 2]), &[((1, 2), 5)]));

        roster.hear(news((7, 1, 4), Some(&[1]), &[((1, 2), 9)]));

        assert_eq!(all(&roster), [(1, vec![]), (2, vec![(1, 5)])]);
    }
}
