//! Messages between two ranks.

use crate::common::{check, emulate, failure, simulate};
use futures_util::future::{Either, select};
use gridspan_ranks::{
    ANY_SOURCE, ANY_TAG, Comm, CommRequest, PROC_NULL, RankError, Status, run_then, test_all,
    test_any, test_some, wait_all, wait_any, wait_some,
};
use gridspan_runtime::Time;
use gridspan_runtime::driver::embedded;
use std::pin::pin;
use std::time::Duration;

#[test]
fn a_ring_passes_numbers_of_every_length() {
    check(
        7,
        async |world| {
            let (me, size) = (world.rank(), world.size());
            let (right, left) = ((me + 1) % size, (me + size - 1) % size);
            let mut sum = 0;
            // The last two are longer than the eager limit.
            for length in [0, 1, 1000, 20_000, 100_000] {
                let receiving = world.irecv::<u32>(left, length)?;
                world.send(&vec![me; length as usize], right, length).await?;
                let (numbers, status) = receiving.await?;
                assert_eq!((status.source, status.tag), (Some(left), Some(length)));
                assert_eq!(status.count::<u32>(), Some(length as usize));
                assert!(numbers.iter().all(|number| *number == left));
                sum += numbers.len() as u32;
            }
            Ok((left, sum))
        },
        |rank| ((rank + 6) % 7, 121_001),
    );
}

#[test]
fn messages_of_one_sender_arrive_in_the_order_in_which_they_were_sent() {
    check(
        5,
        async |world| {
            const COUNT: u32 = 200;
            if world.rank() > 0 {
                for number in 0..COUNT {
                    let length = if number % 7 == 0 { 20_000 } else { 1 };
                    // A long message waits for its receive, a short one does not.
                    world.isend(&vec![number; length], 0, number % 3)?.free();
                }
                world.recv::<u32>(0, 9).await?;
                return Ok(0);
            }
            let mut next = [0; 5];
            for _ in 0..4 * COUNT {
                let (numbers, status) = world.recv::<u32>(ANY_SOURCE, ANY_TAG).await?;
                let source = status.source.ok_or("a message without source")? as usize;
                assert_eq!(numbers[0], next[source]);
                next[source] += 1;
            }
            for rank in 1..5 {
                world.send::<u32>(&[], rank, 9).await?;
            }
            Ok(next.iter().sum())
        },
        |rank| if rank == 0 { 800 } else { 0 },
    );
}

#[test]
fn tags_are_received_in_any_order() {
    check(
        2,
        async |world| {
            if world.rank() == 0 {
                for tag in 0..10_u32 {
                    world.send(&[tag as f32], 1, tag).await?;
                }
                return Ok(vec![]);
            }
            let mut found = Vec::new();
            for tag in (0..10_u32).rev() {
                found.push(world.recv::<f32>(0, tag).await?.0[0]);
            }
            Ok(found)
        },
        |rank| if rank == 0 { vec![] } else { (0..10_u16).rev().map(f32::from).collect() },
    );
}

#[test]
fn a_synchronous_send_ends_after_its_receive_has_begun() {
    check(
        2,
        async |world| {
            if world.rank() == 0 {
                let mut sending = world.issend(&[1_u8], 1, 0)?;
                // Rank 1 posts its receive only once it has the empty message below.
                assert!(sending.test().await?.is_none());
                world.send::<u8>(&[], 1, 1).await?;
                sending.await?;
                world.ssend(&vec![2_u8; 1 << 20], 1, 2).await?;
                return Ok(0);
            }
            world.recv::<u8>(0, 1).await?;
            let first = world.recv::<u8>(0, 0).await?.0[0];
            Ok(u32::from(first) + u32::from(world.recv::<u8>(0, 2).await?.0[99]))
        },
        |rank| if rank == 0 { 0 } else { 3 },
    );
}

#[test]
fn a_prepared_synchronous_send_ends_after_each_of_its_receives_has_begun() {
    check(
        2,
        async |world| {
            let mut found = vec![];
            if world.rank() == 0 {
                let prepared = world.ssend_init(1, 0)?;
                for number in 0..3_u8 {
                    let mut sending = prepared.start(&[number])?;
                    // Rank 1 posts its receive only once it has the empty message below.
                    assert!(sending.test().await?.is_none());
                    world.send::<u8>(&[], 1, 1).await?;
                    sending.await?;
                }
                return Ok(found);
            }
            for _ in 0..3 {
                world.recv::<u8>(0, 1).await?;
                found.push(world.recv::<u8>(0, 0).await?.0[0]);
            }
            Ok(found)
        },
        |rank| if rank == 0 { vec![] } else { vec![0, 1, 2] },
    );
}

#[test]
fn ready_sends_reach_receives_that_are_posted() {
    check(
        2,
        async |world| {
            if world.rank() == 0 {
                let prepared = world.rsend_init(1, 2)?;
                // Rank 1 has posted its receives.
                world.recv::<u8>(1, 9).await?;
                world.rsend(&[1_u32], 1, 0).await?;
                world.irsend(&vec![2_u32; 100_000], 1, 1)?.await?;
                prepared.start(&[3_u32; 2])?.await?;
                prepared.start(&[4_u32; 3])?.await?;
                return Ok(vec![]);
            }
            let mut receiving = vec![];
            for tag in [0, 1, 2, 2] {
                receiving.push(world.irecv::<u32>(0, tag)?);
            }
            world.send::<u8>(&[], 0, 9).await?;
            let received = wait_all(receiving).await?;
            let found = received.iter().map(|(numbers, _)| (numbers.len(), numbers[0]));
            Ok(found.collect::<Vec<_>>())
        },
        |rank| match rank {
            0 => vec![],
            _ => vec![(1, 1), (100_000, 2), (2, 3), (3, 4)],
        },
    );
}

#[test]
fn requests_are_completed_one_by_one_some_or_all() {
    check(
        4,
        async |world| {
            let me = world.rank();
            if me > 0 {
                for tag in 0..3 {
                    world.send(&[10 * me + tag], 0, tag).await?;
                }
                return Ok(0);
            }
            let mut sum = 0;
            let mut first = vec![];
            for rank in 1..4 {
                first.push(world.irecv::<u32>(rank, 0)?);
            }
            while let Some((_, received)) = wait_any(&mut first).await {
                sum += received?.0[0];
            }
            let mut second = vec![];
            for rank in 1..4 {
                second.push(world.irecv::<u32>(rank, 1)?);
            }
            while !second.is_empty() {
                for (_, received) in wait_some(&mut second).await {
                    sum += received?.0[0];
                }
            }
            let mut third = vec![];
            for rank in 1..4 {
                third.push(world.irecv::<u32>(rank, 2)?);
            }
            while !test_all(&mut third).await {}
            assert_eq!(test_some(&mut third).await.len(), 3);
            let none = wait_all(third).await?;
            assert!(none.is_empty());
            Ok(sum)
        },
        |rank| if rank == 0 { 60 + 63 } else { 0 },
    );
}

#[test]
fn a_request_whose_result_was_returned_hides_no_other() {
    check(
        2,
        async |world| {
            if world.rank() > 0 {
                world.send(&[1_u32], 0, 0).await?;
                world.send(&[2_u32], 0, 1).await?;
                world.send(&[4_u32], 0, 2).await?;
                world.send(&[8_u32], 0, 3).await?;
                return Ok(0);
            }
            let mut requests = vec![world.irecv::<u32>(1, 0)?, world.irecv::<u32>(1, 1)?];
            let first = loop {
                if let Some((numbers, _)) = requests[0].test().await? {
                    break numbers[0];
                }
            };
            let (at, received) = loop {
                if let Some(ended) = test_any(&mut requests).await {
                    break ended;
                }
            };
            assert_eq!((at, requests.len()), (1, 1));
            assert!(test_any(&mut requests).await.is_none());
            assert!(test_some(&mut requests).await.is_empty());
            assert!(wait_any(&mut requests).await.is_none());
            assert!(wait_some(&mut requests).await.is_empty());
            requests.push(world.irecv::<u32>(1, 2)?);
            let (at, last) = wait_any(&mut requests).await.expect("one is open");
            assert_eq!((at, requests.len()), (1, 1));
            requests.push(world.irecv::<u32>(1, 3)?);
            let others = wait_all(requests).await?;
            assert_eq!(others.len(), 1);
            Ok(first + received?.0[0] + last?.0[0] + others[0].0[0])
        },
        |rank| if rank == 0 { 15 } else { 0 },
    );
}

#[test]
fn a_message_leaves_although_its_sender_only_computes_and_sends() {
    let seconds = async |world: Comm| {
        let mut arrived = Vec::new();
        for number in 0..5_u32 {
            if world.rank() == 0 {
                world.charge(Duration::from_secs(1));
                world.send(&[number], 1, 0).await?;
            } else {
                assert_eq!(world.recv::<u32>(0, 0).await?.0, [number]);
                arrived.push(world.now().since(Time::ZERO).as_secs());
            }
        }
        Ok(arrived)
    };
    let job = run_then(2, seconds, |arrived| {
        assert_eq!(arrived, [vec![], vec![1, 2, 3, 4, 5]]);
        Ok(())
    });
    simulate(job, "2x1").unwrap();
}

#[test]
fn a_long_message_leaves_before_its_sender_computes() {
    let milliseconds = async |world: Comm| {
        if world.rank() == 0 {
            // Waits for nothing but the receive, and then computes.
            world.send(&vec![7_u8; 100_000], 1, 0).await?;
            world.charge(Duration::from_secs(1));
            world.yield_now().await;
            return Ok(0);
        }
        world.charge(Duration::from_millis(100));
        world.yield_now().await;
        world.recv::<u8>(0, 0).await?;
        Ok(world.now().since(Time::ZERO).as_millis() as u64)
    };
    let job = run_then(2, milliseconds, |arrived| {
        assert!((100..200).contains(&arrived[1]), "{arrived:?}");
        Ok(())
    });
    simulate(job, "2x1").unwrap();
}

#[test]
fn what_a_collective_operation_has_left_leaves_before_its_ranks_compute() {
    // Rank 0 is the root of the tree. All ranks compute for a second afterwards.
    let milliseconds = async |world: Comm| {
        let mut numbers = [if world.rank() == 0 { 5 } else { 0 }; 4];
        world.bcast(&mut numbers, 0).await?;
        let arrived = world.now().since(Time::ZERO).as_millis() as u64;
        world.charge(Duration::from_secs(1));
        world.yield_now().await;
        Ok((numbers[3], arrived))
    };
    let job = run_then(8, milliseconds, |arrived| {
        assert!(arrived.iter().all(|(number, at)| *number == 5 && *at < 900), "{arrived:?}");
        Ok(())
    });
    simulate(job, "1x8").unwrap();
}

#[test]
fn requests_after_one_that_fails_have_ended_too() {
    check(
        2,
        async |world| {
            if world.rank() == 0 {
                let (mut one, mut two) = ([0_u32], [0_u32; 2]);
                let short = world.irecv_into(&mut one, 1, 0)?;
                let right = world.irecv_into(&mut two, 1, 1)?;
                let error = wait_all([short, right]).await;
                return Ok(matches!(error, Err(RankError::Truncated { .. })));
            }
            world.send(&[1_u32, 2], 0, 0).await?;
            world.send(&[3_u32, 4], 0, 1).await?;
            Ok(true)
        },
        |_| true,
    );
}

#[test]
fn the_null_rank_sends_and_receives_nothing() {
    check(
        2,
        async |world| {
            world.send(&[1.0], PROC_NULL, 0).await?;
            world.ssend(&[1.0], None, 0).await?;
            let (numbers, status) = world.recv::<f64>(PROC_NULL, ANY_TAG).await?;
            assert!(numbers.is_empty() && status == Status::NULL);
            let mut kept = [7.0];
            let status = world.sendrecv_replace(&mut kept, None, 0, None, 0).await?;
            assert_eq!((kept, status), ([7.0], Status::NULL));
            Ok(world.probe(None, 0).await? == Status::NULL)
        },
        |_| true,
    );
}

#[test]
fn a_probe_with_a_match_reserves_the_message_for_its_receive() {
    check(
        2,
        async |world| {
            if world.rank() == 0 {
                for number in 0..4_u64 {
                    world.isend(&vec![number; 1 + 10_000 * number as usize], 1, 0)?.free();
                }
                world.recv::<u8>(1, 1).await?;
                return Ok(vec![]);
            }
            assert_eq!(world.probe(ANY_SOURCE, ANY_TAG).await?.count::<u64>(), Some(1));
            let first = world.mprobe(0, 0).await?;
            let second = world.mprobe(0, ANY_TAG).await?;
            let third = world.mprobe(ANY_SOURCE, 0).await?;
            // The third returns to its place, before the fourth.
            drop(third);
            let mut found = vec![second.recv::<u64>().await?[0], first.recv::<u64>().await?[0]];
            found.push(world.recv::<u64>(0, 0).await?.0[0]);
            let last = loop {
                if let Some(message) = world.improbe(0, 0).await? {
                    break message;
                }
            };
            assert_eq!(last.status().count::<u64>(), Some(30_001));
            found.push(last.recv::<u64>().await?[30_000]);
            assert_eq!(world.iprobe(ANY_SOURCE, ANY_TAG).await?, None);
            world.send::<u8>(&[], 0, 1).await?;
            Ok(found)
        },
        |rank| if rank == 0 { vec![] } else { vec![1, 0, 2, 3] },
    );
}

#[test]
fn a_cancelled_receive_leaves_its_message_to_the_next() {
    check(
        2,
        async |world| {
            if world.rank() == 0 {
                world.recv::<u8>(1, 1).await?;
                world.send(&[5], 1, 0).await?;
                return Ok(0);
            }
            let mut receiving = world.irecv::<i32>(0, 0)?;
            assert!(receiving.cancel());
            assert!(matches!(receiving.await, Err(RankError::Cancelled { .. })));
            world.send::<u8>(&[], 0, 1).await?;
            Ok(world.recv::<i32>(0, 0).await?.0[0])
        },
        |rank| if rank == 0 { 0 } else { 5 },
    );
}

#[test]
fn buffered_sends_need_room() {
    check(
        2,
        async |world| {
            let (other, long) = (1 - world.rank(), vec![1_u8; 100_000]);
            let none = world.bsend(&[1_u8], other, 0).await;
            assert!(matches!(none, Err(RankError::BufferFull { needed: 1, free: 0, .. })));
            world.attach_buffer(150_000)?;
            assert_eq!(world.attach_buffer(1), Err(RankError::BufferAttached));
            world.bsend(&long, other, 0).await?;
            let full = world.bsend(&long, other, 0).await;
            assert!(matches!(full, Err(RankError::BufferFull { free: 50_000, .. })));
            assert_eq!(world.recv::<u8>(other, 0).await?.0.len(), 100_000);
            Ok(world.detach_buffer().await)
        },
        |_| 150_000,
    );
}

#[test]
fn immediate_and_prepared_buffered_sends_are_complete_when_they_begin() {
    const LONG: usize = 100_000;
    check(
        2,
        async |world| {
            let (me, other) = (world.rank(), 1 - world.rank());
            let long = |tag: u32| vec![10 * me + tag; LONG];
            world.attach_buffer(8 * LONG)?;
            let prepared = world.bsend_init(other, 1)?;
            let sending = [world.ibsend(&long(0), other, 0)?, prepared.start(&long(1))?];
            assert!(sending.iter().all(CommRequest::is_complete));
            let full = prepared.start(&long(1)).err();
            assert!(matches!(full, Some(RankError::BufferFull { free: 0, .. })));
            wait_all(sending).await?;
            let mut found = vec![];
            for tag in 0..2 {
                let (numbers, _) = world.recv::<u32>(other, tag).await?;
                found.push((numbers.len(), numbers[LONG - 1]));
            }
            assert_eq!(world.detach_buffer().await, 8 * LONG);
            Ok(found)
        },
        |rank| (0..2).map(|tag| (LONG, 10 * (1 - rank) + tag)).collect(),
    );
}

#[test]
fn of_long_sends_only_buffered_ones_end_before_their_receives_begin() {
    const LATE: Duration = Duration::from_secs(1);
    let milliseconds = async |world: Comm| {
        let long = vec![1_u8; 100_000];
        if world.rank() == 1 {
            world.recv::<u8>(0, 9).await?;
            world.sleep(LATE).await;
            for tag in 0..5 {
                world.recv::<u8>(0, tag).await?;
                // The next receive begins later.
                world.sleep(LATE).await;
            }
            return Ok(vec![]);
        }
        world.attach_buffer(2 * long.len())?;
        world.send::<u8>(&[], 1, 9).await?;
        let begin = world.now();
        let mut ends = vec![];
        for tag in 0..5 {
            match tag {
                0 => world.bsend(&long, 1, tag).await?,
                1 => world.ibsend(&long, 1, tag)?.await?,
                2 => world.ssend(&[1_u8], 1, tag).await?,
                3 => world.ssend_init(1, tag)?.start(&[1_u8])?.await?,
                _ => world.rsend(&long, 1, tag).await?,
            }
            // `now` is the time at which the present turn began.
            world.yield_now().await;
            ends.push(world.now().since(begin).as_millis() as u64);
        }
        assert_eq!(world.detach_buffer().await, 2 * long.len());
        Ok(ends)
    };
    let job = run_then(2, milliseconds, |ends| {
        let ends = &ends[0];
        // The receives begin after 1, 2, 3, 4 and 5 seconds, and take a little longer.
        assert!(ends[..2].iter().all(|end| *end < 900), "{ends:?}");
        let seconds: Vec<u64> = ends[2..].iter().map(|end| end / 1000).collect();
        assert_eq!(seconds, [3, 4, 5], "{ends:?}");
        Ok(())
    });
    simulate(job, "2x1").unwrap();
}

#[test]
fn a_dropped_exchange_sends_its_message_and_leaves_the_other() {
    const LONG: usize = 100_000;
    check(
        2,
        async |world| {
            let (me, other) = (world.rank(), 1 - world.rank());
            let (mine, mut theirs) = (vec![me; LONG], vec![9; LONG]);
            let mut short = [7_u8];
            if me == 1 {
                world.send(&[3_u8], other, 2).await?;
                world.recv::<u8>(other, 1).await?;
                world.sendrecv(&mine, other, 0, &mut theirs, other, 0).await?;
                return Ok((
                    theirs == vec![other; LONG],
                    world.recv::<u8>(other, 4).await?.0.len(),
                ));
            }
            {
                // Nothing comes before the delay is over.
                let exchange = pin!(world.sendrecv(&mine, other, 0, &mut theirs, other, 0));
                let delay = pin!(world.sleep(Duration::from_millis(60)));
                assert!(matches!(select(exchange, delay).await, Either::Right(_)));
            }
            {
                // The message has come, and the send waits for its receive.
                let exchange = pin!(world.sendrecv(&[1_u8; LONG], other, 4, &mut short, other, 2));
                let delay = pin!(world.sleep(Duration::from_millis(60)));
                assert!(matches!(select(exchange, delay).await, Either::Right(_)));
            }
            assert_eq!((theirs[0], short), (9, [7]));
            world.send(&[1_u8], other, 1).await?;
            world.recv_into(&mut theirs, other, 0).await?;
            world.recv_into(&mut short, other, 2).await?;
            Ok((theirs == vec![other; LONG], usize::from(short[0])))
        },
        |rank| (true, if rank == 0 { 3 } else { LONG }),
    );
}

/// The first rank gives vectors away, and the last one counts those that it gets without a copy.
/// Returns the number, and whether the two ranks are on one PE and at one site.
async fn receive_moved(world: Comm) -> Result<(usize, [bool; 2]), RankError> {
    // The third is longer than the eager limit. The fourth is longer than 4 MiB, so its data leave
    // only once a receive has accepted it.
    const LENGTHS: [usize; 4] = [1, 1000, 100_000, 600_000];
    let (me, last) = (world.rank(), world.size() - 1);
    let mut moved = 0;
    for (call, length) in (0..3_u8).flat_map(|call| LENGTHS.map(|length| (call, length))) {
        let expected = vec![f64::from(call) + 0.5; length];
        if me == 0 {
            let place = expected.as_ptr().addr();
            world.send_vec(expected, last, 0).await?;
            world.send(&[place], last, 1).await?;
        } else if me == last {
            assert_eq!(world.probe(0, 0).await?.count::<f64>(), Some(length));
            let numbers: Vec<f64> = match call {
                0 => world.recv(0, 0).await?.0,
                1 => world.irecv(0, 0)?.await?.0,
                _ => world.mprobe(0, 0).await?.recv().await?,
            };
            let (place, _) = world.recv::<usize>(0, 1).await?;
            moved += usize::from(place == [numbers.as_ptr().addr()]);
            assert!(numbers == expected);
        }
    }
    Ok((moved, [world.pe(0) == world.pe(last), world.site(0) == world.site(last)]))
}

#[test]
fn a_moved_vector_is_received_without_a_copy_on_one_node_and_unchanged_on_another() {
    for pes in [1, 2] {
        let job = run_then(4, receive_moved, move |found| {
            assert_eq!(found[3], (12, [pes == 1, true]));
            Ok(())
        });
        embedded::run(job.time_limit(Duration::from_secs(60)), pes).unwrap();
    }
    let between_sites = || {
        run_then(4, receive_moved, |found| {
            assert_eq!(found[3].1, [false; 2]);
            Ok(())
        })
    };
    simulate(between_sites(), "2x1,wan=5ms").unwrap();
    emulate(between_sites()).unwrap();
}

#[test]
fn a_long_message_whose_receive_was_dropped_is_not_overtaken() {
    check(
        2,
        async |world| {
            const LONG: usize = 4_000_000;
            if world.rank() == 1 {
                let sending = world.isend_vec(vec![1_u8; LONG], 0, 0)?;
                world.send(&[2_u8], 0, 0).await?;
                sending.await?;
                return Ok(vec![]);
            }
            let mut lengths = vec![];
            while lengths.len() < 2 {
                // Dropped at some time between the offer and the data, or not at all.
                let receive = pin!(world.recv::<u8>(1, ANY_TAG));
                let delay = pin!(world.sleep(Duration::from_micros(200)));
                if let Either::Left((received, _)) = select(receive, delay).await {
                    lengths.push(received?.0.len());
                }
            }
            Ok(lengths)
        },
        |rank| if rank == 0 { vec![4_000_000, 1] } else { vec![] },
    );
}

#[test]
fn errors_name_call_peer_tag_and_communicator() {
    let text = failure(async |world| world.send(&[1], 5, 3).await);
    assert_eq!(text, "rank 0: send with rank 5, tag 3, on the world: there is no rank 5 among 2");
    let text = failure(async |world| {
        world.send(&[1.0, 2.0], 1 - world.rank(), 3).await?;
        world.recv_into(&mut [0.0], 1 - world.rank(), 3).await?;
        Ok(())
    });
    assert!(
        text.ends_with(
            "recv_into with rank 1, tag 3, on the world: a message of 16 bytes does not fit into \
             a buffer of 8"
        ) || text.contains("with rank 0, tag 3"),
        "{text}"
    );
    let text = failure(async |world| {
        world.send(&[1.0], 1 - world.rank(), 3).await?;
        world.recv::<i64>(ANY_SOURCE, ANY_TAG).await?;
        Ok(())
    });
    assert!(text.contains("tag 3, on the world: f64 was sent where i64 is expected"), "{text}");
    let text = failure(async |world| {
        world.send_value(&1_u64, 1 - world.rank(), 3).await?;
        world.recv_value::<String>(ANY_SOURCE, ANY_TAG).await?;
        Ok(())
    });
    assert!(text.contains("is expected"), "{text}");
}

#[test]
fn a_rank_that_ends_with_a_receive_or_a_send_under_way_is_told() {
    let text = failure(async |world| {
        drop(world.irecv::<u8>(1 - world.rank(), 4)?);
        Ok(())
    });
    assert!(text.contains("before these operations were complete: irecv with rank"), "{text}");
    let text = failure(async |world| {
        drop(world.issend(&[1], 1 - world.rank(), 5)?);
        Ok(())
    });
    assert!(text.contains("were complete: issend with rank"), "{text}");
}
