//! An exchange after which each member of a group has the data of all members, in few rounds.
//!
//! The members form a circle. In each round a member sends its data to some members before it, and
//! gets as much from members after it. So it always has the data of an arc that begins with itself,
//! and with radix `k` the arc is up to `k` times as long after each round. `n` members take
//! `⌈log_k n⌉` rounds, the fewest that the radix allows; in a round each member sends at most
//! `k - 1` messages. With radix 2 this is the dissemination barrier; with radix `n` each member
//! sends to all others at once (Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient Algorithms for
//! All-to-All Communications in Multiport Message-Passing Systems", 1997).
//!
//! **Each contribution arrives once**, for any number of members. So members can combine values on
//! the way, and no sum has a term twice. An arc before the last round is `1/k` of the circle,
//! rounded up. Where `k` of them would overlap, some messages leave out the data of their sender
//! (Bruck and Ho, "Efficient Global Combine Operations in Multi-Port Message-Passing Systems",
//! 1993). A member therefore keeps two combinations: of all its data, and of all but its own.

use crate::site_links::{LinkCost, MESSAGE_S};

/// A message that each member gets in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// Number of places from the receiver to the sender.
    pub(crate) distance: usize,
    /// Number of members whose data it carries.
    pub(crate) members: usize,
    /// Whether the sender leaves out its own data.
    pub(crate) leaves_out_own: bool,
}

/// The rounds of an exchange.
#[derive(Debug, PartialEq)]
pub(crate) struct Dissemination {
    rounds: Vec<Vec<Transfer>>,
}

impl Dissemination {
    /// The exchange among this number of members. The radix is at least 2.
    fn new(members: usize, radix: usize) -> Self {
        let mut arc = members;
        let mut arcs = vec![arc];
        while arc > 1 {
            arc = arc.div_ceil(radix);
            arcs.push(arc);
        }
        arcs.reverse();
        Self { rounds: arcs.windows(2).map(|arcs| round(arcs[0], arcs[1], radix)).collect() }
    }

    /// The exchanges among this number of members that are worth a comparison: for each number of
    /// rounds, the one with the fewest messages. Empty for a single member.
    pub(crate) fn all(members: usize) -> Vec<Self> {
        (1..=levels(members)).map(|rounds| Self::new(members, radix(members, rounds))).collect()
    }

    pub(crate) fn rounds(&self) -> &[Vec<Transfer>] {
        &self.rounds
    }

    /// The number of rounds after which no message leaves out its sender's own data.
    pub(crate) fn rounds_without_own(&self) -> usize {
        let leaves_out =
            |round: &Vec<Transfer>| round.iter().any(|transfer| transfer.leaves_out_own);
        self.rounds.iter().rposition(leaves_out).map_or(0, |last| last + 1)
    }

    /// Predicted time in seconds over links of this cost. `bytes` returns the size of the data of
    /// this number of consecutive members.
    pub(crate) fn seconds(&self, link: LinkCost, bytes: impl Fn(usize) -> f64) -> f64 {
        let message_s = |transfer: &Transfer| MESSAGE_S + link.seconds_for(bytes(transfer.members));
        let round_s =
            |round: &Vec<Transfer>| link.latency_s() + round.iter().map(message_s).sum::<f64>();
        self.rounds.iter().map(round_s).sum()
    }

    /// A lower bound of [`Self::seconds`]: the time without any bytes.
    fn seconds_at_least(&self, link: LinkCost) -> f64 {
        let messages: usize = self.rounds.iter().map(Vec::len).sum();
        self.rounds.len() as f64 * link.latency_s() + messages as f64 * MESSAGE_S
    }
}

/// The exchange with the shortest predicted time, and that time in seconds.
pub(crate) fn fastest(
    exchanges: &[Dissemination],
    link: LinkCost,
    bytes: impl Fn(usize) -> f64,
) -> Option<(f64, &Dissemination)> {
    let mut best: Option<(f64, &Dissemination)> = None;
    // Exchanges with many rounds come first. In a large group, exchanges with few rounds have many
    // messages, and adding up the times of these takes long. The lower bound mostly excludes such
    // exchanges without that.
    for exchange in exchanges.iter().rev() {
        if best.is_some_and(|(time, _)| exchange.seconds_at_least(link) > time) {
            continue;
        }
        let time = exchange.seconds(link, &bytes);
        if best.is_none_or(|(least, _)| time <= least) {
            best = Some((time, exchange));
        }
    }
    best
}

/// The least number of doublings from one member to this number.
pub(crate) fn levels(members: usize) -> u32 {
    usize::BITS - members.saturating_sub(1).leading_zeros()
}

/// The smallest radix with which an exchange takes at most `rounds` rounds, which is at least 1.
fn radix(members: usize, rounds: u32) -> usize {
    let is_too_small =
        |radix: usize| radix.checked_pow(rounds).is_some_and(|reached| reached < members);
    let mut radix = 2;
    while is_too_small(radix) {
        radix += 1;
    }
    radix
}

/// The messages of a round in which arcs grow from length `arc` to `longer`, at most `radix` times
/// that.
fn round(arc: usize, longer: usize, radix: usize) -> Vec<Transfer> {
    // Number of members that would be in two of `radix` consecutive arcs.
    let overlap = radix * arc - longer;
    let (mut end, mut transfers) = (arc, Vec::new());
    for number in 1..radix {
        // The senders of the last messages are one place before the end of the data known so far.
        let leaves_out_own = number + overlap >= radix;
        let left_out = usize::from(leaves_out_own);
        let members = arc - left_out;
        if members > 0 {
            transfers.push(Transfer { distance: end - left_out, members, leaves_out_own });
        }
        end += members;
    }
    transfers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The members whose data each member has at the end, in the order in which they have come.
    /// Checks that a member gets no two messages from the same member in a round.
    fn gathered(members: usize, exchange: &Dissemination) -> Vec<Vec<usize>> {
        let mut known: Vec<Vec<usize>> = (0..members).map(|member| vec![member]).collect();
        for round in exchange.rounds() {
            let sent = known.clone();
            for transfer in round {
                assert!((1..members).contains(&transfer.distance));
                for (member, known) in known.iter_mut().enumerate() {
                    let from = &sent[(member + transfer.distance) % members];
                    let parts = &from[usize::from(transfer.leaves_out_own)..];
                    assert_eq!(parts.len(), transfer.members);
                    known.extend(parts);
                }
            }
            let distances: Vec<usize> = round.iter().map(|transfer| transfer.distance).collect();
            assert!(distances.is_sorted_by(|one, other| one < other), "{distances:?}");
        }
        known
    }

    #[test]
    fn everyone_gets_the_data_of_everyone_once_and_of_the_next_ones_first() {
        for members in 1..=40 {
            for radix in 2..=members.max(2) {
                let exchange = Dissemination::new(members, radix);
                for (member, known) in gathered(members, &exchange).into_iter().enumerate() {
                    let expected = (0..members).map(|place| (member + place) % members);
                    assert!(known.into_iter().eq(expected), "{members} members, radix {radix}");
                }
            }
        }
    }

    #[test]
    fn the_first_message_of_the_first_round_is_that_of_the_next_member() {
        for members in 2..=40 {
            for exchange in Dissemination::all(members) {
                let first = Transfer { distance: 1, members: 1, leaves_out_own: false };
                assert_eq!(exchange.rounds()[0][0], first, "{members} members");
            }
        }
    }

    #[test]
    fn there_is_an_exchange_for_each_number_of_rounds() {
        assert!(Dissemination::all(1).is_empty());
        for members in 2..=40_usize {
            let rounds: Vec<usize> =
                Dissemination::all(members).iter().map(|all| all.rounds().len()).collect();
            let most = (1_usize..).find(|rounds| 1 << rounds >= members).unwrap();
            assert!(rounds.is_sorted() && rounds.iter().all(|rounds| *rounds <= most));
            assert_eq!((rounds[0], rounds[rounds.len() - 1]), (1, most), "{members} members");
        }
    }

    #[test]
    fn five_members_leave_out_what_would_come_twice() {
        let own = |distance, members| Transfer { distance, members, leaves_out_own: false };
        let exchange = Dissemination::new(5, 2);
        // Arcs of 1, 2, 3 and 5 members.
        let third = Transfer { distance: 2, members: 2, leaves_out_own: true };
        let second = Transfer { distance: 1, members: 1, leaves_out_own: true };
        assert_eq!(exchange.rounds(), [vec![own(1, 1)], vec![second], vec![third]]);
        assert_eq!(exchange.rounds_without_own(), 3);
        let exchange = Dissemination::new(9, 3);
        assert_eq!(exchange.rounds(), [vec![own(1, 1), own(2, 1)], vec![own(3, 3), own(6, 3)]]);
        assert_eq!(exchange.rounds_without_own(), 0);
    }

    #[test]
    fn slow_links_take_few_rounds_and_fast_ones_few_messages() {
        let all = Dissemination::all(64);
        let rounds = |latency_us: u64| {
            let link = LinkCost::new(latency_us * 1000, 10_000_000_000);
            fastest(&all, link, |_| 8.0).unwrap().1.rounds().len()
        };
        // A message costs 5 us; there are 63 in one round, 2 x 7, 3 x 3, and 6 x 1.
        assert_eq!([rounds(10_000), rounds(50), rounds(10), rounds(0)], [1, 2, 3, 6]);
    }

    #[test]
    fn the_fastest_exchange_is_the_one_of_all() {
        for (members, latency_us, bytes) in
            [(2, 50, 8.0), (7, 50, 0.0), (64, 10, 1e6), (300, 50, 8.0), (300, 10_000, 1e4)]
        {
            let (all, link) =
                (Dissemination::all(members), LinkCost::new(latency_us * 1000, 10_000_000_000));
            let size = |members: usize| bytes * members as f64;
            let (time, exchange) = fastest(&all, link, size).unwrap();
            assert!(all.contains(exchange));
            assert!(all.iter().all(|other| other.seconds(link, size) >= time), "{members} members");
            assert!(
                all.iter().all(|it| it.seconds(link, |_| 0.0) >= 0.999 * it.seconds_at_least(link))
            );
        }
    }

    #[test]
    fn the_prediction_adds_rounds_messages_and_bytes() {
        // 1 Gbit/s is 125 bytes in a microsecond.
        let link = LinkCost::new(50_000, 1_000_000_000);
        let exchange = Dissemination::new(9, 3);
        let found = exchange.seconds(link, |members| 1250.0 * members as f64);
        // Two messages of one value and two of three.
        let expected = 2.0 * 50e-6 + 4.0 * MESSAGE_S + 8.0 * 10e-6;
        assert!((found - expected).abs() < 1e-9, "{found} s, not {expected} s");
    }
}
