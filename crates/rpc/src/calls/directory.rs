//! What the registry knows: servers, what they offer, how fast they are, and how much they have to
//! do.

use super::error::RpcError;
use super::signature::Signature;
use gridspan_workflow::performance::History;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerCard {
    /// Its number among the servers: the index of its actor.
    pub number: u32,
    /// What it is called.
    pub name: String,
    /// The site it is in.
    pub site: u32,
    /// How fast it is.
    pub speed: f64,
    /// Whether it sends data to other servers; otherwise it speaks with the client only.
    pub is_direct: bool,
    /// The functions that it offers, by name, with what they take and give.
    pub functions: BTreeMap<String, Signature>,
}

/// Why a call of a function is executed by none of these servers: none has one of its name, or to
/// all that have it is another. Nothing if one executes it.
pub fn not_offered(
    function: &str,
    signature: &Signature,
    cards: &[ServerCard],
) -> Option<RpcError> {
    let mut other = None;
    for card in cards {
        match card.functions.get(function) {
            Some(offered) if offered == signature => return None,
            Some(offered) => other = other.or(Some((card, offered))),
            None => {}
        }
    }
    Some(match other {
        Some((card, offered)) => RpcError::differs(function, &card.name, offered, signature),
        None => RpcError::FunctionNotFound { function: function.to_owned() },
    })
}

/// A server for a call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The server.
    pub number: u32,
    /// How long the call will compute there, in seconds, as far as is known.
    pub time_s: f64,
    /// Whether the server has let the time to answer pass.
    pub is_late: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Listed {
    card: ServerCard,
    /// How long the calls that it has to do compute, in seconds.
    load_s: f64,
    /// How many calls it has let the time to answer pass of, and still has.
    late: u32,
}

/// All servers by number, and how long functions take. It decides where single calls go.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerDirectory {
    servers: BTreeMap<u32, Listed>,
    histories: BTreeMap<String, History>,
}

/// What a function is taken to need before its first call has ended, in seconds.
const UNKNOWN_WORK_S: f64 = 1.0;

impl ServerDirectory {
    /// A server is there.
    pub fn join(&mut self, card: ServerCard) {
        self.servers.insert(card.number, Listed { card, load_s: 0.0, late: 0 });
    }

    /// A server takes no more calls; what it said of itself, if it was there.
    pub fn leave(&mut self, number: u32) -> Option<ServerCard> {
        self.servers.remove(&number).map(|listed| listed.card)
    }

    /// Who takes over from a server that has left: one that offers all that it did, at the same
    /// site if there is one. Each is named after the one before it was let go, so none is ever its
    /// own heir's heir.
    pub fn heir(&self, left: &ServerCard) -> Option<u32> {
        let others = self.servers.values().map(|listed| &listed.card);
        let direct = others.filter(|card| left.is_direct && card.is_direct);
        let can = |card: &ServerCard| {
            let mut all = left.functions.iter();
            all.all(|(name, signature)| card.functions.get(name) == Some(signature))
        };
        let able = direct.filter(|card| can(card));
        able.min_by_key(|card| (card.site != left.site, card.number)).map(|card| card.number)
    }

    /// What all servers say of themselves, by number.
    pub fn cards(&self) -> Vec<ServerCard> {
        self.servers.values().map(|listed| listed.card.clone()).collect()
    }

    /// The servers that offer a function, or the `only` one that may execute it; the one that would
    /// end a call first in front, and behind all others those that are late with a call. `work_s`
    /// is what the call needs on a server of speed 1, if that is known otherwise than by history.
    pub fn find(
        &self,
        function: &str,
        bytes: u64,
        work_s: Option<f64>,
        only: Option<u32>,
    ) -> Result<Vec<Offer>, RpcError> {
        if self.servers.is_empty() {
            return Err(RpcError::ServerNotFound { server: "any".to_owned() });
        }
        if only.is_some_and(|number| !self.servers.contains_key(&number)) {
            return Err(RpcError::ServerNotFound { server: "that has left".to_owned() });
        }
        let may = |card: &ServerCard| {
            only.is_none_or(|number| card.number == number) && card.functions.contains_key(function)
        };
        let learned = || self.histories.get(function).and_then(|history| history.predict_s(bytes));
        let work_s = work_s.or_else(learned).unwrap_or(UNKNOWN_WORK_S);
        let offers = self.servers.values().filter(|listed| may(&listed.card));
        let mut offers: Vec<((bool, f64), Offer)> = offers
            .map(|Listed { card, load_s, late }| {
                let time_s = work_s / card.speed;
                let offer = Offer { number: card.number, time_s, is_late: false };
                ((*late > 0, load_s + time_s), offer)
            })
            .collect();
        if offers.is_empty() {
            return Err(RpcError::FunctionNotFound { function: function.to_owned() });
        }
        offers.sort_by(|((late, end_s), one), ((other_late, other_end_s), other)| {
            let by_time = late.cmp(other_late).then(end_s.total_cmp(other_end_s));
            by_time.then(one.number.cmp(&other.number))
        });
        Ok(offers.into_iter().map(|(_, offer)| offer).collect())
    }

    /// The server of this name that offers a function.
    pub fn bound(&self, function: &str, server: &str) -> Result<u32, RpcError> {
        let found = self.servers.values().find(|listed| listed.card.name == server);
        let card = found.map(|listed| &listed.card);
        let card = card.ok_or_else(|| RpcError::ServerNotFound { server: server.to_owned() })?;
        match card.functions.contains_key(function) {
            true => Ok(card.number),
            false => Err(RpcError::FunctionNotFound { function: function.to_owned() }),
        }
    }

    /// A call goes to a server.
    pub fn placed(&mut self, offer: Offer) {
        if let Some(listed) = self.servers.get_mut(&offer.number) {
            listed.load_s += offer.time_s;
        }
    }

    /// A server has let the time to answer a call pass.
    pub fn late(&mut self, number: u32) {
        if let Some(listed) = self.servers.get_mut(&number) {
            listed.late += 1;
        }
    }

    /// A server has nothing to do with a call any more.
    pub fn ended(&mut self, offer: Offer) {
        if let Some(listed) = self.servers.get_mut(&offer.number) {
            listed.load_s = (listed.load_s - offer.time_s).max(0.0);
            listed.late = listed.late.saturating_sub(u32::from(offer.is_late));
        }
    }

    /// How long the calls that a server has to do compute, in seconds.
    pub fn load_of_s(&self, number: u32) -> f64 {
        self.servers.get(&number).map_or(0.0, |listed| listed.load_s)
    }

    /// How long all calls that servers have to do compute, in seconds.
    pub fn load_s(&self) -> f64 {
        self.servers.values().map(|listed| listed.load_s).sum()
    }

    /// A call that waited for nothing took so long.
    pub fn observe(&mut self, function: &str, number: u32, bytes: u64, took_s: f64) {
        let speed = self.servers.get(&number).map_or(1.0, |listed| listed.card.speed);
        self.histories.entry(function.to_owned()).or_default().observe(bytes, took_s * speed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> ServerDirectory {
        let mut directory = ServerDirectory::default();
        for (number, speed) in [(0, 1.0), (1, 2.0)] {
            let functions = [(String::from("f"), Signature::of::<(), ()>())].into();
            let name = format!("s{number}");
            directory.join(ServerCard { number, name, site: 0, speed, is_direct: true, functions });
        }
        directory
    }

    fn first(directory: &ServerDirectory) -> u32 {
        directory.find("f", 8, Some(2.0), None).unwrap()[0].number
    }

    #[test]
    fn calls_go_to_the_server_that_ends_them_first() {
        let mut directory = directory();
        let mut order = Vec::new();
        for _ in 0..6 {
            let offer = directory.find("f", 8, Some(2.0), None).unwrap()[0];
            directory.placed(offer);
            order.push(offer.number);
        }

        // The second is twice as fast, so it gets two of three.
        assert_eq!(order.iter().filter(|&&number| number == 1).count(), 4);
    }

    #[test]
    fn what_has_ended_or_left_counts_no_more() {
        let mut directory = directory();
        let offer = directory.find("f", 8, Some(9.0), None).unwrap()[0];
        directory.placed(offer);
        assert_eq!(first(&directory), 0);
        directory.ended(offer);
        assert_eq!(first(&directory), 1);

        directory.leave(1);
        assert_eq!(first(&directory), 0);
        directory.leave(0);
        let error = directory.find("f", 8, None, None).unwrap_err();
        assert_eq!(error, RpcError::ServerNotFound { server: "any".to_owned() });
    }

    #[test]
    fn a_server_that_is_late_comes_last_until_it_is_heard_of() {
        let mut directory = directory();
        let mut offer = directory.find("f", 8, Some(2.0), None).unwrap()[0];
        directory.placed(offer);
        offer.is_late = true;
        directory.late(offer.number);
        assert_eq!((offer.number, first(&directory)), (1, 0));
        assert_eq!(directory.find("f", 8, Some(2.0), Some(1)).unwrap()[0].number, 1);

        directory.ended(offer);

        assert_eq!((first(&directory), directory.load_s()), (1, 0.0));
    }

    #[test]
    fn what_a_function_needs_is_learned_in_terms_of_speed_one() {
        let mut directory = directory();
        (0..3).for_each(|_| directory.observe("f", 1, 1000, 5.0));

        let offers = directory.find("f", 1000, None, None).unwrap();

        assert!((offers[0].time_s - 5.0).abs() < 1e-9 && (offers[1].time_s - 10.0).abs() < 1e-9);
    }
}
