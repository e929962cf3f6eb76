//! The registry's data: servers, their functions, their speeds, and the load of their calls.

use super::error::RpcError;
use super::signature::Signature;
use gridspan_workflow::performance::History;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A server's description of itself.
///
/// ```
/// # use gridspan_rpc::calls::*;
/// # use gridspan_runtime::{Grid, Job, driver};
/// # const SQUARE: Function<u64, u64> = Function::new("square", |n, _| Ok(n * n));
/// # struct Numbers;
/// # impl Catalogue for Numbers {
/// #     fn functions() -> Functions { Functions::new().with(&SQUARE) }
/// # }
/// # async fn example(grid: &Grid) -> Result<(), RpcError> {
/// use gridspan_runtime::PeId;
///
/// let services: Services<Numbers> = Services::new(grid).await?;
/// services.join(ServerPlan::new("fast", PeId(1)).with_speed(2.0)).await?;
/// let cards: Vec<ServerCard> = services.list().await?;
/// assert_eq!((cards[0].name.as_str(), cards[0].speed), ("fast", 2.0));
/// assert_eq!(cards[0].functions["square"], SQUARE.signature());
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # driver::embedded::run(job, 2).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerCard {
    /// The server's number: the index of its actor.
    pub number: u32,
    /// Name of the server.
    pub name: String,
    /// Site of the server.
    pub site: u32,
    /// Speed of the server: a call takes its work divided by the speed.
    pub speed: f64,
    /// Whether the server sends data to other servers. If not, it communicates with the client
    /// only.
    pub is_direct: bool,
    /// The functions that the server offers, with their signatures, by name.
    pub functions: BTreeMap<String, Signature>,
}

impl ServerCard {
    /// Creates the card of a server of ordinary speed that sends data to other servers. It has
    /// number 0, at site 0, until it joins.
    pub fn new(name: impl Into<String>, functions: BTreeMap<String, Signature>) -> Self {
        Self { number: 0, name: name.into(), site: 0, speed: 1.0, is_direct: true, functions }
    }
}

/// Why none of these servers can execute a call: there is none, none offers a function of this
/// name, or all that do have another signature. `None` if one can execute it.
pub fn not_offered(
    function: &str,
    signature: &Signature,
    cards: &[ServerCard],
) -> Option<RpcError> {
    if cards.is_empty() {
        return Some(RpcError::NoServers);
    }
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

/// A candidate server for a call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The server.
    pub number: u32,
    /// Estimated time that the call computes there, in seconds.
    pub time_s: f64,
    /// Whether the server did not answer the call in time.
    pub is_late: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Listed {
    card: ServerCard,
    /// Estimated time of the calls that the server still has to do, in seconds.
    load_s: f64,
    /// Number of unfinished calls that the server did not answer in time.
    late: u32,
}

/// All servers by number, and the time histories of functions. Decides which server executes a
/// single call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerDirectory {
    servers: BTreeMap<u32, Listed>,
    histories: BTreeMap<String, History>,
}

/// Assumed work of a function before its first call has ended, in seconds.
pub(crate) const UNKNOWN_WORK_S: f64 = 1.0;

impl ServerDirectory {
    /// Adds a server.
    pub fn join(&mut self, card: ServerCard) {
        self.servers.insert(card.number, Listed { card, load_s: 0.0, late: 0 });
    }

    /// Removes a server that takes no more calls; returns its description if it was present.
    pub fn leave(&mut self, number: u32) -> Option<ServerCard> {
        self.servers.remove(&number).map(|listed| listed.card)
    }

    /// Records the present site of a server.
    pub fn moved(&mut self, number: u32, site: u32) {
        if let Some(listed) = self.servers.get_mut(&number) {
            listed.card.site = site;
        }
    }

    /// The successor of a server that has left: a server that offers all of its functions, at the
    /// same site if possible. Both must send data to other servers; otherwise there is no
    /// successor. Successors are chosen one by one, each from the servers that are still listed, so
    /// successors never form a cycle.
    pub fn successor(&self, left: &ServerCard) -> Option<u32> {
        let others = self.servers.values().map(|listed| &listed.card);
        let direct = others.filter(|card| left.is_direct && card.is_direct);
        let can = |card: &ServerCard| {
            let mut all = left.functions.iter();
            all.all(|(name, signature)| card.functions.get(name) == Some(signature))
        };
        let able = direct.filter(|card| can(card));
        able.min_by_key(|card| (card.site != left.site, card.number)).map(|card| card.number)
    }

    /// The descriptions of all servers, by number.
    pub fn cards(&self) -> Vec<ServerCard> {
        self.servers.values().map(|listed| listed.card.clone()).collect()
    }

    /// The servers that offer a function; with `only`, no other server may execute it. The server
    /// with the earliest predicted end of the call comes first, and servers that are late with a
    /// call come last. `bytes` is the size of the arguments. `work_s` is the work of the call on a
    /// server of speed 1; if `None`, it is predicted from history.
    ///
    /// # Errors
    ///
    /// [`RpcError::NoServers`] if there is no server; [`RpcError::ServerLeft`] if `only` is not one
    /// of them; [`RpcError::FunctionNotFound`] if no server that may execute the function offers
    /// it.
    pub fn find(
        &self,
        function: &str,
        bytes: u64,
        work_s: Option<f64>,
        only: Option<u32>,
    ) -> Result<Vec<Offer>, RpcError> {
        if self.servers.is_empty() {
            return Err(RpcError::NoServers);
        }
        if only.is_some_and(|number| !self.servers.contains_key(&number)) {
            return Err(RpcError::ServerLeft);
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

    /// The number of the server of this name, if it offers the function.
    ///
    /// # Errors
    ///
    /// [`RpcError::ServerNotFound`] if no server has this name; [`RpcError::FunctionNotFound`] if
    /// it does not offer the function.
    pub fn bound(&self, function: &str, server: &str) -> Result<u32, RpcError> {
        let found = self.servers.values().find(|listed| listed.card.name == server);
        let card = found.map(|listed| &listed.card);
        let card = card.ok_or_else(|| RpcError::ServerNotFound { server: server.to_owned() })?;
        match card.functions.contains_key(function) {
            true => Ok(card.number),
            false => Err(RpcError::FunctionNotFound { function: function.to_owned() }),
        }
    }

    /// Adds a call to the load of a server.
    pub fn placed(&mut self, offer: Offer) {
        if let Some(listed) = self.servers.get_mut(&offer.number) {
            listed.load_s += offer.time_s;
        }
    }

    /// Records that a server did not answer a call in time.
    pub fn late(&mut self, number: u32) {
        if let Some(listed) = self.servers.get_mut(&number) {
            listed.late += 1;
        }
    }

    /// Removes a call that has ended or was withdrawn from the load of its server.
    pub fn ended(&mut self, offer: Offer) {
        if let Some(listed) = self.servers.get_mut(&offer.number) {
            listed.load_s = (listed.load_s - offer.time_s).max(0.0);
            listed.late = listed.late.saturating_sub(u32::from(offer.is_late));
        }
    }

    /// Estimated time of the calls that a server still has to do, in seconds.
    pub fn load_of_s(&self, number: u32) -> f64 {
        self.servers.get(&number).map_or(0.0, |listed| listed.load_s)
    }

    /// Estimated time of the calls that all servers still have to do, in seconds.
    pub fn load_s(&self) -> f64 {
        self.servers.values().map(|listed| listed.load_s).sum()
    }

    /// Records the time of a call that did not have to wait. The time on a server that has left
    /// meanwhile does not count, since its speed is no longer known.
    pub fn observe(&mut self, function: &str, number: u32, bytes: u64, took_s: f64) {
        let Some(speed) = self.servers.get(&number).map(|listed| listed.card.speed) else { return };
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

        // The second server is twice as fast, so it gets two thirds of the calls.
        assert_eq!(order.iter().filter(|&&number| number == 1).count(), 4);
    }

    #[test]
    fn ended_calls_and_servers_that_left_do_not_count() {
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
        assert_eq!(error, RpcError::NoServers);
    }

    #[test]
    fn the_successor_of_a_server_is_at_its_site_as_the_sites_are_now() {
        let mut directory = directory();
        let left = directory.leave(0).unwrap();
        let other = ServerCard { number: 2, name: "s2".to_owned(), site: 1, ..left.clone() };
        directory.join(other);
        assert_eq!(directory.successor(&left), Some(1));

        directory.moved(1, 1);
        directory.moved(2, 0);
        // One that is not listed stays unlisted.
        directory.moved(0, 0);

        assert_eq!(directory.successor(&left), Some(2));
        assert_eq!(directory.cards().len(), 2);
    }

    #[test]
    fn a_late_server_comes_last_until_its_late_call_ends() {
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
    fn the_work_of_a_function_is_learned_at_speed_one() {
        let mut directory = directory();
        (0..3).for_each(|_| directory.observe("f", 1, 1000, 5.0));

        let offers = directory.find("f", 1000, None, None).unwrap();

        assert!((offers[0].time_s - 5.0).abs() < 1e-9 && (offers[1].time_s - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_call_on_a_server_that_has_left_teaches_nothing_about_the_work_of_a_function() {
        let mut directory = directory();
        (0..3).for_each(|_| directory.observe("f", 1, 1000, 5.0));
        directory.leave(1);

        (0..9).for_each(|_| directory.observe("f", 1, 1000, 5.0));

        let offers = directory.find("f", 1000, None, None).unwrap();
        assert!((offers[0].time_s - 10.0).abs() < 1e-9, "{offers:?}");
    }
}
