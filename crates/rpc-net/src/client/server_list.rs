//! A client's list of the servers of a registry, updated by news. The module performs no I/O.

use crate::wire::messages::{KnownVersions, ListedServer, ServerUpdate};
use gridspan_topology::LinkEstimate;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct ServerList {
    known: KnownVersions,
    /// The servers, without their links.
    servers: Vec<ListedServer>,
    /// Known links to each server, by the numbers of the sending servers.
    links: BTreeMap<u32, BTreeMap<u32, LinkEstimate>>,
}

impl ServerList {
    /// Returns the versions to send in a request for news.
    pub(crate) fn known(&self) -> KnownVersions {
        self.known
    }

    /// Applies news. Answers to concurrent requests may come in any order.
    pub(crate) fn apply(&mut self, news: ServerUpdate) {
        let ServerUpdate { known, servers, links } = news;
        let is_other_registry = known.registry != self.known.registry;
        if is_other_registry {
            *self = Self {
                known: KnownVersions { registry: known.registry, ..KnownVersions::default() },
                ..Self::default()
            };
        }
        if let Some(servers) = servers
            && (is_other_registry || known.servers >= self.known.servers)
        {
            let there: BTreeSet<u32> = servers.iter().map(|listed| listed.card.number).collect();
            self.links.retain(|to, _| there.contains(to));
            for links in self.links.values_mut() {
                links.retain(|from, _| there.contains(from));
            }
            (self.servers, self.known.servers) = (servers, known.servers);
        }
        // The links of older news are known already.
        if known.links >= self.known.links {
            for ((from, to), estimate) in links {
                self.links.entry(to).or_default().insert(from, estimate);
            }
            self.known.links = known.links;
        }
    }

    /// Returns all servers, as the registry would list them.
    pub(crate) fn listed(&self) -> Vec<ListedServer> {
        let listed = |server: &ListedServer| {
            let links = self.links.get(&server.card.number).into_iter().flatten();
            let links = links.map(|(from, estimate)| (*from, *estimate)).collect();
            ListedServer { links, ..server.clone() }
        };
        self.servers.iter().map(listed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_rpc::calls::ServerCard;
    use gridspan_topology::{Latency, Time};

    fn server(number: u32) -> ListedServer {
        let mut card = ServerCard::new(format!("s{number}"), Default::default());
        card.number = number;
        ListedServer { card, calls: 0, load_s: 0.0, cores: 1, address: None, links: Vec::new() }
    }

    fn estimate(millis: u64) -> LinkEstimate {
        LinkEstimate::new(Latency::from_millis(millis), Time::ZERO)
    }

    fn news(
        (registry, of_servers, of_links): (u64, u64, u64),
        servers: Option<&[u32]>,
        links: &[((u32, u32), u64)],
    ) -> ServerUpdate {
        ServerUpdate {
            known: KnownVersions { registry, servers: of_servers, links: of_links },
            servers: servers.map(|numbers| numbers.iter().copied().map(server).collect()),
            links: links.iter().map(|&(link, millis)| (link, estimate(millis))).collect(),
        }
    }

    /// Returns the servers, and the links to them in milliseconds.
    fn all(server_list: &ServerList) -> Vec<(u32, Vec<(u32, u128)>)> {
        let of = |listed: ListedServer| {
            let links = listed.links.iter();
            let links = links.map(|(from, link)| (*from, link.latency.duration().as_millis()));
            (listed.card.number, links.collect())
        };
        server_list.listed().into_iter().map(of).collect()
    }

    #[test]
    fn news_are_added_to_known_servers_and_links() {
        let mut server_list = ServerList::default();
        server_list.apply(news((7, 2, 2), Some(&[1, 2]), &[((1, 2), 5), ((2, 1), 5)]));
        server_list.apply(news((7, 2, 3), None, &[((1, 2), 6)]));
        server_list.apply(news((7, 2, 3), None, &[]));

        assert_eq!(all(&server_list), [(1, vec![(2, 5)]), (2, vec![(1, 6)])]);
        assert_eq!(server_list.known(), KnownVersions { registry: 7, servers: 2, links: 3 });
        server_list.apply(news((7, 3, 3), Some(&[2]), &[]));
        assert_eq!(
            all(&server_list),
            [(2, vec![])],
            "links from servers that are gone are removed"
        );
    }

    #[test]
    fn news_of_another_registry_replace_all_that_is_known() {
        let mut server_list = ServerList::default();
        server_list.apply(news((7, 2, 9), Some(&[1, 2]), &[((1, 2), 5)]));

        server_list.apply(news((8, 1, 1), Some(&[2]), &[((3, 2), 4)]));

        assert_eq!(all(&server_list), [(2, vec![(3, 4)])]);
        assert_eq!(server_list.known(), KnownVersions { registry: 8, servers: 1, links: 1 });
    }

    #[test]
    fn late_news_change_nothing() {
        let mut server_list = ServerList::default();
        server_list.apply(news((7, 2, 5), Some(&[1, 2]), &[((1, 2), 5)]));

        server_list.apply(news((7, 1, 4), Some(&[1]), &[((1, 2), 9)]));

        assert_eq!(all(&server_list), [(1, vec![]), (2, vec![(1, 5)])]);
    }
}
