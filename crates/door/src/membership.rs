//! The servers that a client has reached or tries to, each by itself: one that is slow to come delays no other, and what waits for it
//! does so for a while only. Pure: time is an argument.

use super::errand::Contact;
use super::wire::Listed;
use gridspan_topology::LinkSample;
use quinn::Connection;
use std::time::{Duration, Instant};

/// How long servers that are listed for the first time are waited for after another has come: as long as for news of servers.
const PATIENCE: Duration = Duration::from_secs(2);
/// A server that was not reached is tried again after this time, and nobody waits for it then.
const AGAIN: Duration = Duration::from_secs(10);
/// The number of servers that the registry does not list at the moment.
const UNLISTED: u32 = u32::MAX;

/// How far a server is reached.
#[derive(Clone)]
enum Reach {
    /// It is being reached, for the first time since then, or once again.
    Coming(Option<Instant>),
    /// It was not, when this was tried last.
    Away(Instant),
    There(Contact, LinkSample),
}

/// A server, as it was listed last.
struct Member {
    listed: Listed,
    reach: Reach,
}

/// Servers by their numbers here, which are not used again: those at the door begin anew when a registry is restarted.
#[derive(Default)]
pub(super) struct Membership {
    members: Vec<Member>,
    /// When one was reached last.
    last: Option<Instant>,
}

impl Member {
    /// How it is reached, if it is there.
    fn contact(&self) -> Option<&Contact> {
        match &self.reach {
            Reach::There(contact, _) => {
                Some(contact).filter(|contact| contact.connection.close_reason().is_none())
            }
            _ => None,
        }
    }

    /// Whether it was there, and is gone.
    fn is_lost(&self) -> bool {
        matches!(self.reach, Reach::There(..)) && self.contact().is_none()
    }
}

impl Membership {
    /// These are listed now; who of them is to be reached, by number.
    pub(super) fn list(&mut self, now: Instant, listed: Vec<Listed>) -> Vec<(u32, Listed)> {
        for member in &mut self.members {
            // What is known of it goes by numbers that may be those of others now.
            member.listed.links.clear();
            member.listed.card.number = UNLISTED;
        }
        let mut due = Vec::new();
        // A registry that was away for a moment may list a server as it was, too: the last is it.
        for listed in listed {
            let is_it = |member: &Member| member.listed.is_same(&listed) && !member.is_lost();
            let place = self.members.iter().position(is_it).unwrap_or_else(|| {
                let reach = Reach::Away(now);
                self.members.push(Member { listed: listed.clone(), reach });
                due.push((self.members.len() as u32 - 1, Some(now)));
                self.members.len() - 1
            });
            let member = &mut self.members[place];
            member.listed = listed;
            match member.reach {
                Reach::Away(since) if now.duration_since(since) >= AGAIN => {
                    due.push((place as u32, None));
                }
                _ => {}
            }
        }
        let reach = |(number, since): (u32, Option<Instant>)| {
            let member = &mut self.members[number as usize];
            member.reach = Reach::Coming(since);
            (number, member.listed.clone())
        };
        due.into_iter().map(reach).collect()
    }

    /// A server was reached, or not.
    pub(super) fn reached(
        &mut self,
        now: Instant,
        number: u32,
        reached: Option<(Contact, LinkSample)>,
    ) {
        self.last = if reached.is_some() { Some(now) } else { self.last };
        if let Some(member) = self.members.get_mut(number as usize) {
            member.reach = match reached {
                Some((contact, sample)) => Reach::There(contact, sample),
                None => Reach::Away(now),
            };
        }
    }

    /// How long to wait for servers that are coming: not at all if none is, or if none has come for a while.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        let coming = self.members.iter().filter_map(|member| match member.reach {
            Reach::Coming(since) => Some(since),
            _ => None,
        });
        let is_somebody_there = self.is_somebody_there();
        let rest = coming.map(|since| match (is_somebody_there, since) {
            // Whoever tries says in the end what came of it.
            (false, _) => PATIENCE,
            (true, Some(since)) => {
                let last = self.last.map_or(since, |last| last.max(since));
                PATIENCE.saturating_sub(now.duration_since(last))
            }
            (true, None) => Duration::ZERO,
        });
        rest.max().filter(|rest| !rest.is_zero())
    }

    pub(super) fn is_somebody_there(&self) -> bool {
        self.members.iter().any(|member| member.contact().is_some())
    }

    #[cfg(test)]
    pub(super) fn is_anybody_coming(&self) -> bool {
        self.members.iter().any(|member| matches!(member.reach, Reach::Coming(_)))
    }

    /// The connection to a server, if that is there.
    pub(super) fn connection(&self, number: u32) -> Option<Connection> {
        let member = self.members.get(number as usize)?;
        member.contact().map(|contact| contact.connection.clone())
    }

    /// How a server was listed last and what its way was like, if it was ever reached.
    pub(super) fn known(&self, number: u32) -> Option<(Listed, LinkSample)> {
        let member = self.members.get(number as usize)?;
        match &member.reach {
            Reach::There(_, sample) => Some((member.listed.clone(), *sample)),
            _ => None,
        }
    }

    /// How a server is or was reached, if it ever was.
    pub(super) fn contact(&self, number: u32) -> Option<&Contact> {
        match &self.members.get(number as usize)?.reach {
            Reach::There(contact, _) => Some(contact),
            _ => None,
        }
    }

    /// All that are there, by number.
    pub(super) fn there(&self) -> impl Iterator<Item = (u32, &Listed)> {
        let there = (0..).zip(&self.members).filter(|(_, member)| member.contact().is_some());
        there.map(|(number, member)| (number, &member.listed))
    }

    /// Ends all connections.
    pub(super) fn close(&self) {
        for member in &self.members {
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

    fn server(number: u32) -> Listed {
        let (name, functions) = (format!("s{number}"), Default::default());
        let card = ServerCard { number, name, site: 0, speed: 1.0, is_direct: true, functions };
        Listed { card, calls: 0, load_s: 0.0, cores: 1, address: None, links: Vec::new() }
    }

    fn numbers(due: Vec<(u32, Listed)>) -> Vec<u32> {
        due.into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn who_cannot_be_reached_is_tried_now_and_then_under_the_same_number() {
        let (mut membership, begin) = (Membership::default(), Instant::now());
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let both = || vec![server(1), server(2)];
        assert_eq!(numbers(membership.list(at(0), both())), [0, 1]);
        assert_eq!(numbers(membership.list(at(1), both())).len(), 0, "they are coming");
        // Nobody is there, so whoever asks waits.
        assert_eq!(membership.patience(at(9)), Some(PATIENCE));

        membership.reached(at(10), 0, None);

        assert_eq!(membership.list(at(11), both()).len(), 0);
        assert_eq!(numbers(membership.list(at(20), both())), [0]);
        membership.reached(at(26), 0, None);
        membership.reached(at(26), 1, None);
        assert_eq!(membership.patience(at(26)), None);
        assert!(!membership.is_somebody_there() && membership.connection(0).is_none());
    }

    #[test]
    fn a_server_that_is_listed_twice_is_reached_once() {
        let (mut membership, now) = (Membership::default(), Instant::now());
        let again = Listed { card: ServerCard { number: 9, ..server(1).card }, ..server(1) };

        let due = membership.list(now, vec![server(1), again]);

        assert_eq!(numbers(due), [0]);
        assert_eq!(membership.members[0].listed.card.number, 9, "the last is it");
    }
}
