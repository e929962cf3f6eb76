//! Corrects the clocks of hosts by the messages between them.
//!
//! Nodes of one host share its clock. The correction of one host against another is half of the
//! difference between the smallest apparent delays in the two directions (Duda et al., 1987,
//! "Estimating Global Time in Distributed Systems"); the delays bound its error. Hosts are
//! connected to the host of node 0 by the pairs with the tightest bounds. If a message is still
//! received before it was sent, the clock of its receiver is moved, as far as messages in the other
//! direction allow. If clocks drift, this may not be enough: then the message counts as sent when
//! it was received.
//!
//! Events and the end of the job have times of the launcher, whose host may not be that of node 0.
//! The launcher notes the end of the job after all records have ended. If a record of the host of
//! node 0 seems to end later, the clock of this host is ahead, at least by the difference, and all
//! records are moved back by the difference.

use crate::header::{DriverKind, Header};
use crate::pe_record::{BINS_MAX, Bin, PeRecord, widen};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// The smallest apparent delays between hosts, in nanoseconds, by sender and receiver.
type Delays = BTreeMap<(usize, usize), i64>;

/// Corrects all times of the records. `end_ns`: the end of the job, as its launcher noted it.
pub(crate) fn correct(header: &Header, end_ns: Option<u64>, pes: &mut [PeRecord]) {
    let hosts = hosts_of_pes(header);
    let corrections = corrections(&delays(&hosts, pes));
    let ahead_ns = match (header.driver, end_ns) {
        (DriverKind::Processes, Some(end_ns)) => ahead_ns(&hosts, end_ns, pes),
        _ => 0,
    };
    let of_pe = |pe: u32| {
        let host = hosts.get(pe as usize).copied().unwrap_or(0);
        corrections.get(&host).copied().unwrap_or(0).saturating_sub(ahead_ns)
    };
    for record in pes {
        let own = of_pe(record.pe);
        shift_bins(record, own);
        if record.began_ns > 0 {
            record.began_ns = shifted(record.began_ns, own);
        }
        for span in &mut record.spans {
            span.begin_ns = shifted(span.begin_ns, own);
            if let Some(cause) = &mut span.cause {
                cause.received_ns = shifted(cause.received_ns, own);
                cause.sent_ns = shifted(cause.sent_ns, of_pe(cause.pe)).min(cause.received_ns);
            }
        }
        for answer in &mut record.answers {
            answer.asked_ns = shifted(answer.asked_ns, own);
            answer.answered_ns = shifted(answer.answered_ns, own);
        }
    }
}

/// Returns the host of each PE. A host has the number of its first node.
fn hosts_of_pes(header: &Header) -> Vec<usize> {
    let mut firsts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut hosts = Vec::with_capacity(header.nodes.len());
    for (number, node) in header.nodes.iter().enumerate() {
        // Nodes without a host name may have different clocks.
        let host = match node.host.is_empty() {
            true => number,
            false => *firsts.entry(&node.host).or_insert(number),
        };
        hosts.push(host);
    }
    header.pes.iter().map(|pe| hosts.get(pe.node as usize).copied().unwrap_or(0)).collect()
}

/// Returns the least time by which the clock of the host of node 0 is ahead of the launcher's.
fn ahead_ns(hosts: &[usize], end_ns: u64, pes: &[PeRecord]) -> i64 {
    let of_job = pes.iter().filter(|record| hosts.get(record.pe as usize) == Some(&0));
    let last_ns = of_job.map(PeRecord::known_until_ns).max().unwrap_or(0);
    i64::try_from(last_ns.saturating_sub(end_ns)).unwrap_or(i64::MAX)
}

fn delays(hosts: &[usize], pes: &[PeRecord]) -> Delays {
    let mut delays = Delays::new();
    for record in pes {
        let Some(to) = hosts.get(record.pe as usize) else { continue };
        for cause in record.spans.iter().filter_map(|span| span.cause.as_ref()) {
            let Some(from) = hosts.get(cause.pe as usize).filter(|from| *from != to) else {
                continue;
            };
            let delay = cause.received_ns.cast_signed().saturating_sub(cause.sent_ns.cast_signed());
            let smallest = delays.entry((*from, *to)).or_insert(delay);
            *smallest = delay.min(*smallest);
        }
    }
    delays
}

/// Returns the correction of each host in nanoseconds. That of the host of node 0 is 0: its clock
/// is that of the job. Unless delays contradict each other, this takes little more time than
/// sorting them.
fn corrections(delays: &Delays) -> BTreeMap<usize, i64> {
    let mut hosts: BTreeSet<usize> = delays.keys().flat_map(|(from, to)| [*from, *to]).collect();
    hosts.insert(0);
    let mut from_host = vec![Vec::new(); hosts.last().map_or(0, |last| last + 1)];
    for ((from, to), delay) in delays {
        from_host[*from].push((*to, *delay));
    }
    // A host with messages in only one direction keeps its clock, unless that contradicts them.
    let connected = connected(delays, &from_host);
    let mut corrections: Vec<i64> = connected.into_iter().map(|it| it.unwrap_or(0)).collect();
    raise(&mut corrections, &from_host, hosts.len());
    let root = corrections[0];
    hosts.into_iter().map(|host| (host, corrections[host].saturating_sub(root))).collect()
}

/// Returns the corrections of the hosts that are connected to host 0 by pairs with messages in both
/// directions: Prim's algorithm, where the next host is that with the tightest bound.
fn connected(delays: &Delays, from_host: &[Vec<(usize, i64)>]) -> Vec<Option<i64>> {
    let mut corrections = vec![None; from_host.len()];
    let mut joining = BinaryHeap::from([Reverse((0_i64, 0_usize, 0_i64))]);
    while let Some(Reverse((_, host, correction))) = joining.pop() {
        if corrections[host].is_some() {
            continue;
        }
        corrections[host] = Some(correction);
        for (to, there) in &from_host[host] {
            if let (None, Some(back)) = (corrections[*to], delays.get(&(*to, host))) {
                let half = there.saturating_sub(*back) / 2;
                let bound = there.saturating_add(*back);
                joining.push(Reverse((bound, *to, correction.saturating_sub(half))));
            }
        }
    }
    corrections
}

/// Raises corrections until no message is received before it was sent, by the algorithm of Bellman
/// and Ford. A round looks only at hosts whose corrections have risen since the last look. Without
/// a contradiction, as many rounds as hosts are enough.
fn raise(corrections: &mut [i64], from_host: &[Vec<(usize, i64)>], rounds: usize) {
    let mut raised: BTreeSet<usize> = (0..from_host.len()).collect();
    for _ in 0..rounds {
        let mut next = BTreeSet::new();
        while let Some(from) = raised.pop_first() {
            for (to, delay) in &from_host[from] {
                let least = corrections[from].saturating_sub(*delay);
                if corrections[*to] < least {
                    corrections[*to] = least;
                    // Hosts with higher numbers are still to come in this round.
                    if *to > from {
                        raised.insert(*to)
                    } else {
                        next.insert(*to)
                    };
                }
            }
        }
        if next.is_empty() {
            break;
        }
        raised = next;
    }
}

/// Corrects a time. No time is before the start of the job.
fn shifted(ns: u64, by: i64) -> u64 {
    ns.saturating_add_signed(by)
}

/// Moves bins by whole bins: a screen shows no smaller interval. The recorder counts the time
/// before its first run as idle, by the clock of its host. If this clock is ahead, a part of that
/// time was before the start of the job, and is left out.
fn shift_bins(record: &mut PeRecord, by: i64) {
    if whole_bins(record, by) == 0 || record.bins.is_empty() {
        return;
    }
    if by < 0 {
        let first = whole_bins(record, by).min(record.bins.len() - 1);
        let mut early = Bin::default();
        for bin in record.bins.drain(..first) {
            early.absorb(&bin);
        }
        early.absorb(&record.bins[0]);
        let before_ns = by.unsigned_abs().saturating_sub(record.began_ns);
        early.idle_ns = early.idle_ns.saturating_sub(before_ns);
        record.bins[0] = early;
        return;
    }
    while whole_bins(record, by).saturating_add(record.bins.len()) > BINS_MAX {
        widen(&mut record.bins);
        record.bin_ns = record.bin_ns.saturating_mul(2);
    }
    let before = whole_bins(record, by);
    record.bins.splice(0..0, std::iter::repeat_with(Bin::default).take(before));
}

/// Returns the number of bins that is nearest to a time.
fn whole_bins(record: &PeRecord, ns: i64) -> usize {
    let width = record.bin_ns.max(1);
    let bins = ns.unsigned_abs().saturating_add(width / 2) / width;
    usize::try_from(bins).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Delays, correct, corrections, shift_bins};
    use crate::header::{DriverKind, Header, RecordedNode, RecordedPe};
    use crate::pe_record::{Bin, PeRecord, Span, SpanCause};
    use std::collections::BTreeMap;

    /// One PE on each of the hosts.
    fn header(hosts: &[&str]) -> Header {
        let node = |host: &&str| RecordedNode { host: (*host).to_owned(), ..Default::default() };
        let pes = (0..hosts.len() as u32).map(|node| RecordedPe { node, ..Default::default() });
        Header {
            sites: vec!["site".to_owned()],
            nodes: hosts.iter().map(node).collect(),
            pes: pes.collect(),
            ..Header::default()
        }
    }

    /// A PE that received messages, each given as its sender and its times of sending and receipt
    /// in microseconds.
    fn receiver(pe: u32, messages: &[(u32, u64, u64)]) -> PeRecord {
        let span = |(number, &(from, sent, received)): (usize, &(u32, u64, u64))| Span {
            number: number as u64,
            begin_ns: received * 1000,
            duration_ns: 10,
            cause: Some(SpanCause {
                pe: from,
                sent_ns: sent * 1000,
                received_ns: received * 1000,
                ..SpanCause::default()
            }),
            ..Span::default()
        };
        let spans = messages.iter().enumerate().map(span).collect();
        PeRecord { pe, spans, ..PeRecord::default() }
    }

    fn delays_us(record: &PeRecord) -> Vec<u64> {
        let causes = record.spans.iter().filter_map(|span| span.cause.as_ref());
        causes.map(|cause| (cause.received_ns - cause.sent_ns) / 1000).collect()
    }

    #[test]
    fn the_offset_of_a_clock_is_half_the_difference_of_the_smallest_delays() {
        // The clock of host b is 700 µs ahead; a message takes 50 µs, and some take longer.
        let mut pes = [
            receiver(0, &[(1, 1700, 1050), (1, 2700, 2090)]),
            receiver(1, &[(0, 500, 1250), (0, 600, 1390)]),
        ];
        correct(&header(&["a", "b"]), None, &mut pes);
        assert_eq!(delays_us(&pes[0]), [50, 90]);
        assert_eq!(delays_us(&pes[1]), [50, 90]);
        assert_eq!(pes[0].spans[0].begin_ns, 1_050_000, "the root's clock is that of the job");
        assert_eq!(pes[1].spans[0].begin_ns, 550_000);
    }

    #[test]
    fn hosts_are_corrected_over_others_and_never_receive_before_sending() {
        // b is 300 µs behind, c is 400 µs behind b, and talks to b alone; d only receives.
        let mut pes = [
            receiver(0, &[(1, 1000, 1340)]),
            receiver(1, &[(0, 1000, 740), (2, 1000, 1440)]),
            receiver(2, &[(1, 1000, 640)]),
            receiver(3, &[(0, 5000, 4200)]),
        ];
        correct(&header(&["a", "b", "c", "d"]), None, &mut pes);
        assert_eq!(pes.each_ref().map(delays_us), [vec![40], vec![40, 40], vec![40], vec![0]]);
        assert_eq!(pes[2].spans[0].begin_ns, 1_340_000);
    }

    /// The corrections by the definition, which looks at all pairs for each host and in each round.
    fn corrections_by_definition(delays: &Delays) -> BTreeMap<usize, i64> {
        let mut corrections: BTreeMap<usize, i64> = BTreeMap::from([(0, 0)]);
        loop {
            let joining = delays.iter().filter_map(|((from, to), there)| {
                let known = *corrections.get(from)?;
                let back = delays.get(&(*to, *from)).filter(|_| !corrections.contains_key(to))?;
                let half = there.saturating_sub(*back) / 2;
                Some((there.saturating_add(*back), *to, known.saturating_sub(half)))
            });
            let Some((_, host, correction)) = joining.min() else { break };
            corrections.insert(host, correction);
        }
        for (from, to) in delays.keys() {
            corrections.entry(*from).or_insert(0);
            corrections.entry(*to).or_insert(0);
        }
        for _ in 0..corrections.len() {
            let before = corrections.clone();
            for ((from, to), delay) in delays {
                let least = corrections[from].saturating_sub(*delay);
                corrections.entry(*to).and_modify(|it| *it = least.max(*it));
            }
            if before == corrections {
                break;
            }
        }
        let root = corrections[&0];
        corrections.into_iter().map(|(host, it)| (host, it.saturating_sub(root))).collect()
    }

    /// Delays among hosts whose clocks differ by up to a second. `slack_us` is the range of the
    /// fastest message's extra time; negative values contradict each other.
    fn planted(seed: u64, hosts: usize, slack_us: [i64; 2]) -> Delays {
        let mut state = seed;
        let mut below = |bound: u64| {
            // Numerical Recipes (Press et al., 2007), section 7.1: a linear congruential generator.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let clocks: Vec<i64> = (0..hosts).map(|_| below(1_000_000).cast_signed()).collect();
        let mut delays = Delays::new();
        for from in 0..hosts {
            for to in 0..hosts {
                // Some pairs have messages in one direction only, or none.
                if from != to && below(3) > 0 {
                    let slack =
                        slack_us[0] + below((slack_us[1] - slack_us[0]) as u64).cast_signed();
                    delays.insert((from, to), (100 + slack + clocks[to] - clocks[from]) * 1000);
                }
            }
        }
        delays
    }

    #[test]
    fn corrections_are_those_of_the_definition_also_for_contradicting_delays() {
        for seed in 0..40 {
            let hosts = 1 + seed as usize % 14;
            for slack_us in [[0, 5000], [-90, 300], [-2000, 500]] {
                let delays = planted(seed, hosts, slack_us);
                let expected = corrections_by_definition(&delays);
                assert_eq!(corrections(&delays), expected, "seed {seed}, slack {slack_us:?}");
            }
        }
        let far = Delays::from([((0, 7), 5), ((9, 3), i64::MIN), ((3, 9), i64::MAX)]);
        assert_eq!(corrections(&far), corrections_by_definition(&far));
        assert_eq!(corrections(&Delays::new()), BTreeMap::from([(0, 0)]));
    }

    #[test]
    fn hundreds_of_hosts_that_all_talk_are_corrected() {
        // The definition would take more than a hundred million steps.
        let delays = planted(3, 500, [0, 5000]);
        let corrections = corrections(&delays);
        assert_eq!(corrections.len(), 500);
        for ((from, to), delay) in &delays {
            assert!(corrections[to] + delay >= corrections[from], "{from} to {to}");
        }
    }

    #[test]
    fn nodes_of_one_host_keep_their_clock_and_a_contradiction_is_cut() {
        let early = receiver(1, &[(0, 900, 500)]);
        let mut pes = [receiver(0, &[]), early];
        correct(&header(&["a", "a"]), None, &mut pes);
        assert_eq!(pes[1].spans[0].begin_ns, 500_000);
        assert_eq!(delays_us(&pes[1]), [0]);
    }

    #[test]
    fn records_that_end_after_the_job_are_moved_back() {
        // The clock of the host of node 0 is an hour ahead of the launcher's, and that of b by 300
        // µs more. The job took 3 ms.
        let (hour_us, end_ns) = (3_600_000_000, 3_000_000);
        let records = || {
            let mut second = receiver(1, &[(0, hour_us + 900, hour_us + 1250)]);
            second.began_ns = (hour_us + 500) * 1000;
            [receiver(0, &[(1, hour_us + 2300, hour_us + 2050)]), second]
        };
        let mut header = header(&["a", "b"]);
        header.driver = DriverKind::Processes;
        let corrected = |end_ns: Option<u64>| {
            let mut pes = records();
            correct(&header, end_ns, &mut pes);
            pes
        };

        let pes = corrected(Some(end_ns));

        assert_eq!(pes[0].spans[0].end_ns(), end_ns);
        assert_eq!(pes.each_ref().map(delays_us), [vec![50], vec![50]]);
        assert_eq!(pes[0].spans[0].begin_ns - pes[1].spans[0].begin_ns, 1_100_000);
        assert_eq!(pes[1].spans[0].begin_ns - pes[1].began_ns, 750_000);
        // Nothing is known of the launcher's clock if the job was cut off, or ended later.
        let later = corrected(Some(hour_us * 2000));
        assert_eq!(later[0].spans[0].begin_ns, (hour_us + 2050) * 1000);
        assert_eq!(later, corrected(None));
    }

    #[test]
    fn bins_move_by_whole_bins() {
        let bin = |network_ns| Bin { network_ns, ..Bin::default() };
        let record =
            || PeRecord { bin_ns: 1000, bins: vec![bin(1), bin(2), bin(3)], ..PeRecord::default() };
        let network = |by| {
            let mut record = record();
            shift_bins(&mut record, by);
            record.bins.iter().map(|bin| bin.network_ns).collect::<Vec<_>>()
        };
        assert_eq!(network(400), [1, 2, 3]);
        assert_eq!(network(1600), [0, 0, 1, 2, 3]);
        assert_eq!(network(-1000), [3, 3]);
        assert_eq!(network(-90_000), [6]);
        let mut far = record();
        shift_bins(&mut far, 1_000_000_000);
        assert!(far.bins.len() <= 2048);
        assert_eq!(far.bins.iter().map(|bin| bin.network_ns).sum::<u64>(), 6);
    }

    #[test]
    fn idle_time_before_the_start_of_the_job_is_left_out() {
        // The PE had nothing to do for 2400 ns since the start of the job, by its clock, and then
        // worked.
        let bin = |idle_ns| {
            let mut bin = Bin { idle_ns, ..Bin::default() };
            bin.add_busy(0, 1000 - idle_ns);
            bin
        };
        let idle = |began_ns, by| {
            let bins = vec![bin(1000), bin(1000), bin(400), bin(0)];
            let mut record = PeRecord { began_ns, bin_ns: 1000, bins, ..PeRecord::default() };
            shift_bins(&mut record, by);
            let busy = record.bins.iter().flat_map(|bin| &bin.busy_ns).map(|(_, ns)| *ns);
            assert_eq!(busy.sum::<u64>(), 1600);
            record.bins.iter().map(|bin| bin.idle_ns).collect::<Vec<_>>()
        };
        assert_eq!(idle(0, -1000), [1000, 400, 0]);
        assert_eq!(idle(0, -1800), [600, 0]);
        assert_eq!(idle(0, -3000), [0]);
        // Its process began later, and recorded nothing before.
        assert_eq!(idle(700, -1000), [1700, 400, 0]);
        assert_eq!(idle(5000, -1800), [2400, 0]);
    }
}
