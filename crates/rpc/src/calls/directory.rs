//! What the registry knows: servers, what they offer, how fast they are, and how much they have to do.

use super::error::RpcError;
use crate::performance::History;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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
    /// The functions that it offers.
    pub functions: BTreeSet<String>,
}

/// A server for a call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The server.
    pub number: u32,
    /// How long the call will compute there, in seconds, as far as is known.
    pub time_s: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Listed {
    card: ServerCard,
    /// How long the calls that it has to do compute, in seconds.
    load_s: f64,
}

/// All servers by number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Directory {
    servers: BTreeMap<u32, Listed>,
    histories: BTreeMap<String, History>,
}

/// What a function is taken to need before its first call has ended, in seconds.
const UNKNOWN_WORK_S: f64 = 1.0;

impl Directory {
    pub(super) fn join(&mut self, card: ServerCard) {
        self.servers.insert(card.number, Listed { card, load_s: 0.0 });
    }

    pub(super) fn leave(&mut self, number: u32) {
        self.servers.remove(&number);
    }

    pub(super) fn cards(&self) -> Vec<ServerCard> {
        self.servers.values().map(|listed| listed.card.clone()).collect()
    }

    /// The servers that offer a function, the one that would end a call first in front. `work_s` is what the
    /// call needs on a server of speed 1, if that is known otherwise than by history.
    pub(super) fn find(
        &self,
        function: &str,
        bytes: u64,
        work_s: Option<f64>,
    ) -> Result<Vec<Offer>, RpcError> {
        if self.servers.is_empty() {
            return Err(RpcError::ServerNotFound { server: "any".to_owned() });
        }
        let learned = || self.histories.get(function).and_then(|history| history.predict_s(bytes));
        let work_s = work_s.or_else(learned).unwrap_or(UNKNOWN_WORK_S);
        let offers =
            self.servers.values().filter(|listed| listed.card.functions.contains(function));
        let mut offers: Vec<(f64, Offer)> = offers
            .map(|Listed { card, load_s }| {
                let time_s = work_s / card.speed;
                (load_s + time_s, Offer { number: card.number, time_s })
            })
            .collect();
        if offers.is_empty() {
            return Err(RpcError::FunctionNotFound { function: function.to_owned() });
        }
        offers.sort_by(|one, other| {
            one.0.total_cmp(&other.0).then(one.1.number.cmp(&other.1.number))
        });
        Ok(offers.into_iter().map(|(_, offer)| offer).collect())
    }

    /// The server of this name that offers a function.
    pub(super) fn bound(&self, function: &str, server: &str) -> Result<u32, RpcError> {
        let found = self.servers.values().find(|listed| listed.card.name == server);
        let card = found.map(|listed| &listed.card);
        let card = card.ok_or_else(|| RpcError::ServerNotFound { server: server.to_owned() })?;
        match card.functions.contains(function) {
            true => Ok(card.number),
            false => Err(RpcError::FunctionNotFound { function: function.to_owned() }),
        }
    }

    /// A call goes to a server.
    pub(super) fn placed(&mut self, offer: Offer) {
        if let Some(listed) = self.servers.get_mut(&offer.number) {
            listed.load_s += offer.time_s;
        }
    }

    /// A server has nothing to do with a call any more.
    pub(super) fn ended(&mut self, offer: Offer) {
        if let Some(listed) = self.servers.get_mut(&offer.number) {
            listed.load_s = (listed.load_s - offer.time_s).max(0.0);
        }
    }

    /// A call that waited for nothing took so long.
    pub(super) fn observe(&mut self, function: &str, number: u32, bytes: u64, took_s: f64) {
        let speed = self.servers.get(&number).map_or(1.0, |listed| listed.card.speed);
        self.histories.entry(function.to_owned()).or_default().observe(bytes, took_s * speed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> Directory {
        let mut directory = Directory::default();
        for (number, speed) in [(0, 1.0), (1, 2.0)] {
            let functions = [String::from("f")].into();
            let name = format!("s{number}");
            directory.join(ServerCard { number, name, site: 0, speed, is_direct: true, functions });
        }
        directory
    }

    fn first(directory: &Directory) -> u32 {
        directory.find("f", 8, Some(2.0)).unwrap()[0].number
    }

    #[test]
    fn calls_go_to_the_server_that_ends_them_first() {
        let mut directory = directory();
        let mut order = Vec::new();
        for _ in 0..6 {
            let offer = directory.find("f", 8, Some(2.0)).unwrap()[0];
            directory.placed(offer);
            order.push(offer.number);
        }

        // The second is twice as fast, so it gets two of three.
        assert_eq!(order.iter().filter(|&&number| number == 1).count(), 4);
    }

    #[test]
    fn what_has_ended_or_left_counts_no_more() {
        let mut directory = directory();
        let offer = directory.find("f", 8, Some(9.0)).unwrap()[0];
        directory.placed(offer);
        assert_eq!(first(&directory), 0);
        directory.ended(offer);
        assert_eq!(first(&directory), 1);

        directory.leave(1);
        assert_eq!(first(&directory), 0);
        directory.leave(0);
        let error = directory.find("f", 8, None).unwrap_err();
        assert_eq!(error, RpcError::ServerNotFound { server: "any".to_owned() });
    }

    #[test]
    fn what_a_function_needs_is_learned_in_terms_of_speed_one() {
        let mut directory = directory();
        (0..3).for_each(|_| directory.observe("f", 1, 1000, 5.0));

        let offers = directory.find("f", 1000, None).unwrap();

        assert!((offers[0].time_s - 5.0).abs() < 1e-9 && (offers[1].time_s - 10.0).abs() < 1e-9);
    }
}
