//! The servers of a registry, and the choice of the server for a call.

use crate::wire::messages::ListedServer;
use gridspan_rpc::calls::{
    Offer, RpcError, SIGNATURE_BYTES_MAX, ServerCard, ServerDirectory, Signature,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Largest number of cores of a server.
const CORES_MAX: u32 = 65_536;
/// Largest number of servers.
const SERVERS_MAX: usize = 4096;
/// Largest number of characters in the name of a server or function.
const NAME_MAX: usize = 200;
/// Largest number of functions of a server.
const FUNCTIONS_MAX: usize = 10_000;
/// Permitted speeds of a server.
const SPEEDS: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// Number of cores of a server, each of which executes one call at a time, and its address; `None`
/// for a server in the registry's process.
pub(crate) type CoresAndAddress = (u32, Option<SocketAddr>);

/// A call that was placed on a server.
#[derive(Debug)]
pub(crate) struct PlacedCall<R> {
    pub(crate) offer: Offer,
    pub(crate) route: R,
    /// Whether the server had a core for the call that none of its other calls needs.
    begins_at_once: bool,
}

/// Servers, each with a route `R`.
#[derive(Debug)]
pub(crate) struct ServerTable<R> {
    directory: ServerDirectory,
    routes: BTreeMap<u32, R>,
    /// Number of cores of each server, and its address.
    places: BTreeMap<u32, CoresAndAddress>,
    calls: BTreeMap<u32, u32>,
    next: u32,
    /// Number of arrivals and departures of servers.
    version: u64,
}

impl<R: Clone> ServerTable<R> {
    pub(crate) fn new() -> Self {
        let (routes, places, calls) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { directory: ServerDirectory::default(), routes, places, calls, next: 0, version: 0 }
    }

    /// Adds a server. Returns its number, or the reason for a refusal.
    pub(crate) fn join(
        &mut self,
        mut card: ServerCard,
        place: CoresAndAddress,
        route: R,
    ) -> Result<u32, String> {
        check(&card)?;
        if !(1..=CORES_MAX).contains(&place.0) {
            return Err(format!("a server has 1 to {CORES_MAX} cores, the PEs of its process"));
        }
        if self.routes.len() >= SERVERS_MAX {
            return Err(format!("{SERVERS_MAX} servers have joined already"));
        }
        let number = self.next;
        self.next += 1;
        self.version += 1;
        card.number = number;
        self.directory.join(card);
        self.routes.insert(number, route);
        self.places.insert(number, place);
        Ok(number)
    }

    /// Removes a server.
    pub(crate) fn leave(&mut self, number: u32) {
        self.version += 1;
        self.directory.leave(number);
        self.routes.remove(&number);
        self.places.remove(&number);
        self.calls.remove(&number);
    }

    /// Returns the address of each server; `None` for a server in the registry's process.
    pub(crate) fn places(&self) -> BTreeMap<u32, Option<SocketAddr>> {
        self.places.iter().map(|(number, (_, address))| (*number, *address)).collect()
    }

    /// Returns a number that changes whenever a server comes or goes.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn list(&self) -> Vec<ListedServer> {
        let listed = |card: ServerCard| {
            let calls = self.calls.get(&card.number).copied().unwrap_or_default();
            let (cores, address) = self.places.get(&card.number).copied().unwrap_or((1, None));
            let load_s = self.directory.load_of_s(card.number);
            ListedServer { calls, load_s, cores, address, card, links: Vec::new() }
        };
        self.directory.cards().into_iter().map(listed).collect()
    }

    /// Chooses the server with the earliest predicted completion of a call, except those in
    /// `tried`, and counts the call there. Returns `None` if all have been tried. Fails if no
    /// server has the function.
    pub(crate) fn place(
        &mut self,
        function: &str,
        bytes: u64,
        tried: &BTreeSet<u32>,
    ) -> Result<Option<PlacedCall<R>>, RpcError> {
        let offers = self.directory.find(function, bytes, None, None)?;
        let untried = offers.into_iter().find(|offer| !tried.contains(&offer.number));
        let Some(offer) = untried else { return Ok(None) };
        let Some(route) = self.routes.get(&offer.number).cloned() else { return Ok(None) };
        self.directory.placed(offer);
        let cores = self.places.get(&offer.number).map_or(1, |(cores, _)| *cores);
        let calls = self.calls.entry(offer.number).or_default();
        let begins_at_once = *calls < cores;
        *calls += 1;
        Ok(Some(PlacedCall { offer, route, begins_at_once }))
    }

    /// Records that a server has exceeded the timeout.
    pub(crate) fn late(&mut self, offer: Offer) -> Offer {
        self.directory.late(offer.number);
        Offer { is_late: true, ..offer }
    }

    /// Records that a server no longer works on a call.
    pub(crate) fn ended(&mut self, offer: Offer) {
        self.directory.ended(offer);
        if let Some(calls) = self.calls.get_mut(&offer.number) {
            *calls = calls.saturating_sub(1);
        }
    }

    /// Records the time that a call has taken, unless it had to wait for another one at the server.
    pub(crate) fn observe(
        &mut self,
        function: &str,
        placed: &PlacedCall<R>,
        bytes: u64,
        took_s: f64,
    ) {
        if placed.begins_at_once {
            // The speed of a server is that of all its cores together, and a call takes one core.
            let number = placed.offer.number;
            let cores = self.places.get(&number).map_or(1, |(cores, _)| *cores);
            self.directory.observe(function, number, bytes, took_s / f64::from(cores));
        }
    }
}

/// Checks a server's description, because it decides where calls go and terminals show it.
fn check(card: &ServerCard) -> Result<(), String> {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().count() <= NAME_MAX && !name.chars().any(char::is_control)
    };
    match card {
        card if !is_name(&card.name) => {
            Err(format!("a name has 1 to {NAME_MAX} characters, and no control characters"))
        }
        card if !SPEEDS.contains(&card.speed) => {
            Err(format!("a speed is from {} to {}", SPEEDS.start(), SPEEDS.end()))
        }
        card if card.functions.len() > FUNCTIONS_MAX => {
            Err(format!("a server has at most {FUNCTIONS_MAX} functions"))
        }
        card if !card.functions.keys().all(|name| is_name(name)) => Err(format!(
            "the name of a function has 1 to {NAME_MAX} characters, and no control characters"
        )),
        card if !card.functions.values().all(is_plain) => Err(format!(
            "the signature of a function has at most {SIGNATURE_BYTES_MAX} bytes, and no control \
             characters"
        )),
        _ => Ok(()),
    }
}

/// Whether the signature of a function is short enough, and safe to show on terminals.
fn is_plain(signature: &Signature) -> bool {
    let text = &signature.text;
    text.len() <= SIGNATURE_BYTES_MAX && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str, speed: f64) -> ServerCard {
        let functions = [(String::from("f"), Signature::of::<(), ()>())].into();
        let mut card = ServerCard::new(name, functions);
        (card.speed, card.is_direct) = (speed, false);
        card
    }

    #[test]
    fn a_call_goes_to_one_server_after_the_other_until_none_is_left() {
        let mut server_table = ServerTable::new();
        let [slow, fast] = [("slow", 1.0), ("fast", 2.0)]
            .map(|(name, speed)| server_table.join(card(name, speed), (1, None), name));
        let (slow, fast) = (slow.unwrap(), fast.unwrap());
        let mut tried = BTreeSet::new();
        let mut routes = Vec::new();
        while let Some(placed) = server_table.place("f", 8, &tried).unwrap() {
            tried.insert(placed.offer.number);
            routes.push(placed.route);
        }
        assert_eq!((routes, tried), (vec!["fast", "slow"], [slow, fast].into()));
        assert_eq!(
            server_table.list().iter().map(|listed| listed.calls).collect::<Vec<_>>(),
            [1, 1]
        );

        server_table.leave(fast);
        server_table.leave(slow);

        let error = server_table.place("f", 8, &BTreeSet::new()).unwrap_err();
        assert_eq!(error.code(), 4);
    }

    #[test]
    fn calls_that_wait_at_a_server_teach_nothing_about_their_function() {
        let mut server_table = ServerTable::new();
        server_table.join(card("two", 1.0), (2, None), ()).unwrap();
        let place = |server_table: &mut ServerTable<()>| {
            server_table.place("f", 8, &BTreeSet::new()).unwrap().unwrap()
        };
        // Each core executes half of these calls, one after the other.
        let calls: Vec<_> = (0..100).map(|_| place(&mut server_table)).collect();

        for (number, placed) in calls.iter().enumerate() {
            server_table.observe("f", placed, 8, 3.0 * (number / 2 + 1) as f64);
            server_table.ended(placed.offer);
        }

        let next = place(&mut server_table);
        // Both cores together have speed 1: on average, they end one such call every 1.5 seconds.
        assert!((next.offer.time_s - 1.5).abs() < 1e-9, "{}", next.offer.time_s);
        assert!(next.begins_at_once);
    }

    #[test]
    fn a_call_on_one_of_four_cores_takes_as_long_on_a_server_of_one_such_core() {
        let mut server_table = ServerTable::new();
        server_table.join(card("four", 4.0), (4, None), ()).unwrap();
        let four = server_table.place("f", 8, &BTreeSet::new()).unwrap().unwrap();
        server_table.observe("f", &four, 8, 1.0);
        server_table.ended(four.offer);
        server_table.join(card("one", 1.0), (1, None), ()).unwrap();

        let others = [four.offer.number].into();
        let one = server_table.place("f", 8, &others).unwrap().unwrap();

        assert!((one.offer.time_s - 1.0).abs() < 1e-9, "{}", one.offer.time_s);
        for _ in 0..100 {
            server_table.place("f", 8, &[one.offer.number].into()).unwrap();
        }
        let load_s = server_table.list()[0].load_s;
        assert!((load_s - 25.0).abs() < 1e-9, "four at a time: {load_s}");
    }

    #[test]
    fn invalid_descriptions_of_servers_are_refused() {
        let mut server_table = ServerTable::new();
        let mut join =
            |card| server_table.join(card, (1, None), ()).map_err(|why| why[..12].to_owned());
        for (name, speed) in [("", 1.0), ("a\u{1b}[2J", 1.0), ("a", 0.0), ("a", -1.0), ("a", 1e300)]
        {
            assert!(join(card(name, speed)).is_err(), "{name:?} {speed}");
        }
        assert!(join(card("a", f64::NAN)).is_err());
        let mut invalid = card("a", 1.0);
        invalid.functions = [(String::from("f\n"), Signature::of::<(), ()>())].into();
        assert!(join(invalid).is_err());
        assert_eq!(join(card("Ä 1", 1.0)), Ok(0));
    }
}
