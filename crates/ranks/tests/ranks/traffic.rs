//! Compares random traffic with a model that handles one message after the other.

use crate::common::simulate;
use gridspan_ranks::{ANY_TAG, Comm, EagerLimit, RankError, TagSelector, run_then};
use gridspan_runtime::Job;
use gridspan_runtime::driver::embedded;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const RANKS: u32 = 5;

/// A message: its sender, receiver, tag, length and number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sent {
    from: u32,
    to: u32,
    tag: u32,
    length: usize,
    number: u64,
}

/// A receive, and the message that it must get.
#[derive(Clone, Copy, Debug)]
struct Expected {
    to: u32,
    from: u32,
    tag: TagSelector,
    sent: Sent,
    is_immediate: bool,
}

#[derive(Clone, Debug, Default)]
struct Traffic {
    sent: Vec<Sent>,
    expected: Vec<Expected>,
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let message = (0..RANKS, 0..RANKS, 0_u32..3, prop_oneof![0_usize..4, 20_usize..40]);
    let choice = (any::<prop::sample::Index>(), any::<bool>(), any::<bool>());
    (prop::collection::vec((message, choice), 1..80)).prop_map(|plan| {
        let sent: Vec<Sent> = plan
            .iter()
            .enumerate()
            .map(|(at, ((from, to, tag, length), _))| Sent {
                from: *from,
                to: *to,
                tag: *tag,
                length: *length,
                number: at as u64,
            })
            .collect();
        // Receivers take the messages in any order of senders and tags. A receive gets the first
        // message of the sender with its tag.
        let mut left = sent.clone();
        let mut expected = Vec::new();
        for (_, (index, is_any, is_immediate)) in &plan {
            let Sent { from, to, tag, .. } = left[index.index(left.len())];
            let tag = if *is_any { ANY_TAG } else { TagSelector::Tag(tag) };
            let is_next = |sent: &Sent| sent.from == from && sent.to == to && tag.accepts(sent.tag);
            let next = left.iter().position(is_next).unwrap();
            let (sent, is_immediate) = (left.remove(next), *is_immediate);
            expected.push(Expected { to, from, tag, sent, is_immediate });
        }
        Traffic { sent, expected }
    })
}

async fn exchange(world: Comm, traffic: Arc<Traffic>) -> Result<usize, RankError> {
    let me = world.rank();
    let mut sending = Vec::new();
    for sent in traffic.sent.iter().filter(|sent| sent.from == me) {
        sending.push(world.isend(&vec![sent.number; sent.length + 1], sent.to, sent.tag)?);
    }
    let mut receiving = Vec::new();
    let mut count = 0;
    for expected in traffic.expected.iter().filter(|expected| expected.to == me) {
        if expected.is_immediate {
            receiving.push((world.irecv::<u64>(expected.from, expected.tag)?, expected.sent));
        } else {
            let (numbers, _) = world.recv::<u64>(expected.from, expected.tag).await?;
            assert_eq!(numbers, vec![expected.sent.number; expected.sent.length + 1]);
        }
        count += 1;
    }
    for (request, sent) in receiving {
        let (numbers, status) = request.await?;
        assert_eq!(numbers, vec![sent.number; sent.length + 1]);
        assert_eq!((status.source, status.tag), (Some(sent.from), Some(sent.tag)));
    }
    gridspan_ranks::wait_all(sending).await?;
    Ok(count)
}

fn job(traffic: &Arc<Traffic>) -> Job {
    let (given, count) = (traffic.clone(), traffic.sent.len());
    let function = move |world: Comm| exchange(world, given.clone());
    let job = run_then(RANKS, function, move |counts| {
        assert_eq!(counts.iter().sum::<usize>(), count);
        Ok(())
    });
    // Some messages exceed this limit, so their senders wait until a receive matches.
    job.resource(EagerLimit::new(100)).time_limit(Duration::from_secs(60))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_receive_gets_the_message_that_the_order_prescribes(traffic in traffic()) {
        let traffic = Arc::new(traffic);
        embedded::run(job(&traffic), 2).unwrap();
        simulate(job(&traffic), "2x2x1,wan=5ms").unwrap();
    }
}

#[test]
fn messages_between_nodes_may_be_longer_than_the_runtime_carries() {
    // 72 MiB to another node, and 4 blocks of 20 MiB between the sites.
    const LONG: usize = 9 << 20;
    const BLOCK: usize = 5 << 19;
    let job = run_then(
        4,
        async |world| {
            let me = world.rank();
            let other = (me + 2) % 4;
            let numbers = |rank: u32, count: usize| {
                (0..count).map(|at| f64::from(rank) + at as f64).collect::<Vec<_>>()
            };
            let receiving = world.irecv::<f64>(other, 1)?;
            world.send_vec(numbers(me, LONG), other, 1).await?;
            world.send(&[me], other, 1).await?;
            assert!(receiving.await?.0 == numbers(other, LONG));
            // The message that was sent later arrives later.
            assert_eq!(world.recv::<u32>(other, 1).await?.0, [other]);
            let all = world.allgather(&numbers(me, BLOCK)).await?;
            assert!((0..4).all(|rank| {
                let begin = rank as usize * BLOCK;
                all[begin..begin + BLOCK] == numbers(rank, BLOCK)
            }));
            Ok(())
        },
        |_| Ok(()),
    );
    simulate(job, "2x2,wan=8ms").unwrap();
}
