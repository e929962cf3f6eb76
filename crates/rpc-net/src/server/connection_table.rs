//! A bounded table of connections: decides which connection makes room for a new one.
//!
//! Places are shared by address, as max-min fairness shares a link (Bertsekas and Gallager, Data
//! Networks, 1992, section 6.5.2): the address with the most places gives one up. Of its
//! connections the idle ones go first, the longest idle before the others.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// Number of bits of an IPv6 address that name a network: one host may choose the rest freely (RFC
/// 4291, section 2.5.1).
const NETWORK_BITS: u32 = 64;

/// Connections by number, each with a value `W` that closes it.
#[derive(Debug)]
pub(crate) struct Connections<W> {
    entries: BTreeMap<u64, Entry<W>>,
    /// Number of connections of each address.
    counts: BTreeMap<IpAddr, usize>,
    max: usize,
    /// Number of events so far. Their order decides, not their time.
    clock: u64,
}

#[derive(Debug)]
struct Entry<W> {
    address: IpAddr,
    /// Number of open requests.
    open: usize,
    /// Whether something depends on the connection while no request is open.
    is_needed: bool,
    /// Clock of the last start or end of a request.
    used: u64,
    way: W,
}

/// All places are taken. The addresses with the most places have only connections in use, and at
/// most one place more than the newcomer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl<W> Connections<W> {
    pub(crate) fn new(max: usize) -> Self {
        Self { entries: BTreeMap::new(), counts: BTreeMap::new(), max, clock: 0 }
    }

    /// Gives a place to a connection. Returns its number and the evicted connection, if the table
    /// was full.
    pub(crate) fn insert(&mut self, from: IpAddr, way: W) -> Result<(u64, Option<W>), Full> {
        let address = network(from);
        let evicted = match self.entries.len() < self.max {
            true => None,
            false => self.remove(self.victim(address).ok_or(Full)?),
        };
        self.clock += 1;
        *self.counts.entry(address).or_default() += 1;
        let used = self.clock;
        let entry = Entry { address, open: 0, is_needed: false, used, way };
        self.entries.insert(used, entry);
        Ok((used, evicted))
    }

    /// Frees a place. Returns the value that closes the connection, if it has not lost the place
    /// before.
    pub(crate) fn remove(&mut self, number: u64) -> Option<W> {
        let entry = self.entries.remove(&number)?;
        if let Some(count) = self.counts.get_mut(&entry.address) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&entry.address);
            }
        }
        Some(entry.way)
    }

    /// Starts a request on a connection.
    pub(crate) fn begin(&mut self, number: u64) {
        self.clock += 1;
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.open += 1;
            entry.used = self.clock;
        }
    }

    /// Ends a request. `is_needed` states whether something depends on the connection even if no
    /// request is open.
    pub(crate) fn end(&mut self, number: u64, is_needed: bool) {
        self.clock += 1;
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.open = entry.open.saturating_sub(1);
            entry.is_needed = is_needed;
            entry.used = self.clock;
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the connection to evict for a newcomer from `address`, if there is one. Scans the
    /// table, but only while the table is full.
    fn victim(&self, address: IpAddr) -> Option<u64> {
        let most = self.counts.values().copied().max()?;
        let own = self.counts.get(&address).copied().unwrap_or_default();
        // Eviction of a connection in use must make the shares more even. Otherwise two addresses
        // would evict each other's connections in turn.
        let may_take_used = most > own + 1;
        let of_most = self.entries.iter().filter(|(_, entry)| self.counts[&entry.address] == most);
        let is_used = |entry: &Entry<W>| entry.open > 0 || entry.is_needed;
        let may_go = of_most.filter(|(_, entry)| may_take_used || !is_used(entry));
        may_go.min_by_key(|(_, entry)| (is_used(entry), entry.used)).map(|(&number, _)| number)
    }
}

/// Returns the network that counts as one address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let rest = 128 - NETWORK_BITS;
            Ipv6Addr::from_bits(address.to_bits() >> rest << rest).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn the_longest_idle_connection_is_evicted() {
        let mut table = Connections::new(3);
        let [first, second, _third] =
            ["first", "second", "third"].map(|name| table.insert(address(1), name).unwrap().0);
        table.begin(first);
        table.begin(second);
        table.end(second, false);

        let evicted = [(); 2].map(|()| table.insert(address(1), "newcomer").unwrap().1);

        assert_eq!(evicted, [Some("third"), Some("second")]);
    }

    #[test]
    fn an_address_that_uses_all_places_loses_half_of_them_to_another() {
        let mut table = Connections::new(8);
        for _ in 0..8 {
            let (number, _) = table.insert(address(1), "greedy").unwrap();
            table.begin(number);
        }
        assert_eq!(table.insert(address(1), "greedy").unwrap_err(), Full);

        let others = (0..6).map(|_| {
            let (number, evicted) = table.insert(address(2), "other")?;
            table.begin(number);
            Ok(evicted)
        });
        let others: Vec<_> = others.collect();

        let gives = Ok(Some("greedy"));
        assert_eq!(others, [gives, gives, gives, gives, Err(Full), Err(Full)]);
    }

    #[test]
    fn needed_connections_are_evicted_last() {
        let mut table = Connections::new(2);
        let (server, _) = table.insert(address(1), "server").unwrap();
        table.begin(server);
        table.end(server, true);
        table.insert(address(1), "client").unwrap();

        assert_eq!(table.insert(address(1), "newcomer").unwrap().1, Some("client"));
        assert_eq!(table.insert(address(1), "newcomer").unwrap().1, Some("newcomer"));
    }

    #[test]
    fn a_freed_place_is_given_without_an_eviction() {
        let mut table = Connections::new(1);
        let (number, _) = table.insert(address(1), "first").unwrap();

        assert_eq!(table.remove(number), Some("first"));
        assert_eq!(table.remove(number), None);

        assert_eq!(table.insert(address(1), "second").unwrap().1, None);
        assert!(table.counts.values().eq([&1]));
    }

    #[test]
    fn the_addresses_of_one_network_count_as_one() {
        let [one, same, other] = ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"]
            .map(|address| network(address.parse().unwrap()));

        assert!(one == same && one != other);
        assert_eq!(network("::ffff:192.0.2.1".parse().unwrap()), address(1));
    }
}
