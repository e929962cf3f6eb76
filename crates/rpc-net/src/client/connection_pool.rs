//! Connections of a client to servers. Each is opened separately: a server that connects slowly
//! delays no other, and a request waits for it for a limited time only. The module performs no I/O;
//! time is an argument.

use crate::execution::events::Contact;
use crate::wire::messages::ListedServer;
use gridspan_topology::LinkSample;
use quinn::Connection;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Time to wait for servers that are listed for the first time, after another was reached. It is
/// equal to the time to wait for news of servers.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time after which a server that was not reached is tried again; no request waits for it then.
const AGAIN: Duration = Duration::from_secs(10);
/// Time for which the pool remembers a server that is gone and not listed, because call windows
/// that were mapped with it refer to it. Few heuristics take longer.
const MEMORY: Duration = Duration::from_secs(600);
/// Number in the card of a server that the registry does not list at the moment.
const UNLISTED: u32 = u32::MAX;

/// State of the connection to a server.
#[derive(Clone)]
enum Reach {
    /// The first attempt to reach the server is running, since this time.
    Connecting(Instant),
    /// A later attempt is running.
    Reconnecting,
    /// The last attempt to reach the server failed, at this time.
    Away(Instant),
    There(Contact, LinkSample),
}

/// A server, as last listed.
struct Member {
    listed: ListedServer,
    reach: Reach,
    /// Time since which the server is gone and not listed.
    gone: Option<Instant>,
}

/// Servers by their numbers in this client. The client never reuses a number; the registry numbers
/// its servers again when it restarts.
#[derive(Default)]
pub(crate) struct ConnectionPool {
    members: BTreeMap<u32, Member>,
    next: u32,
    /// Number under which each server was last listed, by its address and its name.
    numbers: BTreeMap<(Option<SocketAddr>, String), u32>,
    /// Time when a server was last reached.
    last: Option<Instant>,
}

impl Member {
    /// Returns the contact of the server, if it is connected.
    fn contact(&self) -> Option<&Contact> {
        match &self.reach {
            Reach::There(contact, _) => {
                Some(contact).filter(|contact| contact.connection.close_reason().is_none())
            }
            _ => None,
        }
    }

    /// Whether the server was connected, and is lost.
    fn is_lost(&self) -> bool {
        matches!(self.reach, Reach::There(..)) && self.contact().is_none()
    }

    /// Whether only windows that know the number of the server may still need it.
    fn is_gone(&self) -> bool {
        let is_away = matches!(self.reach, Reach::Away(_));
        self.listed.card.number == UNLISTED && (is_away || self.is_lost())
    }
}

impl ConnectionPool {
    /// Updates the listed servers. Returns those to connect to, by number.
    pub(crate) fn list(
        &mut self,
        now: Instant,
        listed: Vec<ListedServer>,
    ) -> Vec<(u32, ListedServer)> {
        for member in self.members.values_mut() {
            // The listed links refer to numbers that may belong to other servers now.
            member.listed.links.clear();
            member.listed.card.number = UNLISTED;
        }
        let mut due = Vec::new();
        // A registry that was away for a moment may also list a server's former entry; the last
        // entry is valid.
        for listed in listed {
            let identity = listed.identity();
            let number = self.numbers.get(&identity).copied();
            let known = number.and_then(|number| Some((number, self.members.get_mut(&number)?)));
            match known.filter(|(_, member)| !member.is_lost()) {
                Some((number, member)) => {
                    (member.listed, member.gone) = (listed, None);
                    match member.reach {
                        Reach::Away(since) if now.duration_since(since) >= AGAIN => {
                            member.reach = Reach::Reconnecting;
                            due.push(number);
                        }
                        _ => {}
                    }
                }
                None => {
                    let member = Member { listed, reach: Reach::Connecting(now), gone: None };
                    self.members.insert(self.next, member);
                    self.numbers.insert(identity, self.next);
                    due.push(self.next);
                    self.next += 1;
                }
            }
        }
        self.forget(now);
        let listed = |number| Some((number, self.members.get(&number)?.listed.clone()));
        due.into_iter().filter_map(listed).collect()
    }

    /// Forgets servers that have been gone for long.
    fn forget(&mut self, now: Instant) {
        self.members.retain(|number, member| {
            let since = member.is_gone().then(|| *member.gone.get_or_insert(now));
            let is_over = since.is_some_and(|since| now.duration_since(since) >= MEMORY);
            let identity = is_over.then(|| member.listed.identity());
            // The identity may have another number now.
            if let Some(identity) = identity
                && self.numbers.get(&identity) == Some(number)
            {
                self.numbers.remove(&identity);
            }
            !is_over
        });
    }

    /// Records whether a server was reached.
    pub(crate) fn reached(
        &mut self,
        now: Instant,
        number: u32,
        reached: Option<(Contact, LinkSample)>,
    ) {
        self.last = if reached.is_some() { Some(now) } else { self.last };
        if let Some(member) = self.members.get_mut(&number) {
            member.reach = match reached {
                Some((contact, sample)) => Reach::There(contact, sample),
                None => Reach::Away(now),
            };
        }
    }

    /// Returns how long to wait for servers that are being reached: `None` if there is none, or if
    /// the wait is over.
    pub(crate) fn patience(&self, now: Instant) -> Option<Duration> {
        let has_contact = self.has_contact();
        let rest = self.members.values().filter_map(|member| match member.reach {
            // No server is connected: the wait goes on until an attempt ends, and each does.
            Reach::Connecting(_) | Reach::Reconnecting if !has_contact => Some(PATIENCE),
            Reach::Connecting(since) => {
                let last = self.last.map_or(since, |last| last.max(since));
                Some(PATIENCE.saturating_sub(now.duration_since(last)))
            }
            Reach::Reconnecting | Reach::Away(_) | Reach::There(..) => None,
        });
        rest.max().filter(|rest| !rest.is_zero())
    }

    pub(crate) fn has_contact(&self) -> bool {
        self.members.values().any(|member| member.contact().is_some())
    }

    #[cfg(test)]
    pub(crate) fn is_reaching_any(&self) -> bool {
        let is_tried = |reach: &Reach| matches!(reach, Reach::Connecting(_) | Reach::Reconnecting);
        self.members.values().any(|member| is_tried(&member.reach))
    }

    /// Returns the connection to a server, if it is connected.
    pub(crate) fn connection(&self, number: u32) -> Option<Connection> {
        let member = self.members.get(&number)?;
        member.contact().map(|contact| contact.connection.clone())
    }

    /// Returns a server as last listed and the measurement of its link, if it has been reached.
    pub(crate) fn known(&self, number: u32) -> Option<(ListedServer, LinkSample)> {
        let member = self.members.get(&number)?;
        match &member.reach {
            Reach::There(_, sample) => Some((member.listed.clone(), *sample)),
            _ => None,
        }
    }

    /// Returns the contact of a server that is or was connected.
    pub(crate) fn contact(&self, number: u32) -> Option<&Contact> {
        match &self.members.get(&number)?.reach {
            Reach::There(contact, _) => Some(contact),
            _ => None,
        }
    }

    /// Returns all connected servers, by number.
    pub(crate) fn there(&self) -> impl Iterator<Item = (u32, &ListedServer)> {
        let there = self.members.iter().filter(|(_, member)| member.contact().is_some());
        there.map(|(number, member)| (*number, &member.listed))
    }

    pub(crate) fn close(&self) {
        for member in self.members.values() {
            if let Reach::There(contact, _) = &member.reach {
                contact.connection.close(0_u32.into(), b"");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_rpc::calls::ServerCard;

    fn server(number: u32) -> ListedServer {
        let mut card = ServerCard::new(format!("s{number}"), Default::default());
        card.number = number;
        ListedServer { card, calls: 0, load_s: 0.0, cores: 1, address: None, links: Vec::new() }
    }

    fn numbers(due: Vec<(u32, ListedServer)>) -> Vec<u32> {
        due.into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn an_unreachable_server_is_tried_again_under_the_same_number() {
        let (mut membership, begin) = (ConnectionPool::default(), Instant::now());
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let both = || vec![server(1), server(2)];
        assert_eq!(numbers(membership.list(at(0), both())), [0, 1]);
        assert_eq!(numbers(membership.list(at(1), both())).len(), 0, "they are being reached");
        // No server is connected, so a request waits.
        assert_eq!(membership.patience(at(9)), Some(PATIENCE));

        membership.reached(at(10), 0, None);

        assert_eq!(membership.list(at(11), both()).len(), 0);
        assert_eq!(numbers(membership.list(at(20), both())), [0]);
        membership.reached(at(26), 0, None);
        membership.reached(at(26), 1, None);
        assert_eq!(membership.patience(at(26)), None);
        assert!(!membership.has_contact() && membership.connection(0).is_none());
    }

    #[test]
    fn a_lost_and_unlisted_server_is_forgotten_and_its_number_is_not_reused() {
        let (mut membership, begin) = (ConnectionPool::default(), Instant::now());
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut list = |seconds, servers: &[u32]| {
            let due = membership.list(at(seconds), servers.iter().copied().map(server).collect());
            let due = numbers(due);
            due.iter().for_each(|&number| membership.reached(at(seconds), number, None));
            (due, membership.members.len(), membership.numbers.len())
        };
        assert_eq!(list(0, &[1, 2]), (vec![0, 1], 2, 2));
        assert_eq!(list(1, &[2]), (vec![], 2, 2));
        assert_eq!(list(500, &[1, 2]), (vec![0, 1], 2, 2), "it is listed again");
        assert_eq!(list(501, &[2]).1, 2);
        assert_eq!(list(1100, &[2]).1, 2);

        assert_eq!(list(1101, &[2]), (vec![], 1, 1));

        assert_eq!(list(1102, &[1, 2]), (vec![2], 2, 2));
    }

    #[test]
    fn a_server_that_is_listed_twice_is_reached_once() {
        let (mut membership, now) = (ConnectionPool::default(), Instant::now());
        let mut again = server(1);
        again.card.number = 9;

        let due = membership.list(now, vec![server(1), again]);

        assert_eq!(numbers(due), [0]);
        assert_eq!(membership.members[&0].listed.card.number, 9, "the last entry is valid");
    }
}
