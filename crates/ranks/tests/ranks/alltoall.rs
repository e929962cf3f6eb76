//! Exchanges of long blocks, of which some are held back.

use crate::common::simulate;
use gridspan_ranks::{Comm, RankError, TypedBlock, run_then};
use gridspan_runtime::Time;
use std::time::Duration;

/// The number of elements of a block, which differs so much that ranks hold back some blocks and
/// not others.
fn length(from: u32, to: u32) -> usize {
    [0, 1, 300, 3000, 9000][((from + 2 * to) % 5) as usize]
}

fn block(from: u32, to: u32) -> Vec<u32> {
    (0..length(from, to) as u32).map(|at| from << 24 | to << 16 | at).collect()
}

/// Exchanges blocks twice. Returns whether the rank has got the right ones.
async fn exchange_twice(world: Comm) -> Result<bool, RankError> {
    let (me, size) = (world.rank(), world.size());
    let blocks = || (0..size).map(|to| block(me, to)).collect::<Vec<_>>();
    let later = world.ialltoallv(blocks());
    let mut is_right = true;
    for found in [world.alltoallv(blocks()).await?, later.await?] {
        is_right &= found.into_iter().eq((0..size).map(|from| block(from, me)));
    }
    Ok(is_right)
}

#[test]
fn blocks_of_any_lengths_reach_their_receivers() {
    for (grid, ranks) in [("2x4,wan=5ms", 8), ("3x3,wan=20ms,rate=100mbit", 9), ("2x2,wan=5ms", 11)]
    {
        let job = run_then(ranks, exchange_twice, |right| {
            assert!(right.iter().all(|right| *right), "{right:?}");
            Ok(())
        });
        simulate(job, grid).unwrap();
    }
}

#[test]
fn a_rank_that_is_late_gets_its_blocks_and_the_others_theirs() {
    const LATE: Duration = Duration::from_millis(300);
    for late in [0, 3, 7] {
        let function = move |world: Comm| async move {
            if world.rank() == late {
                world.sleep(LATE).await;
            }
            exchange_twice(world).await
        };
        let job = run_then(8, function, |right| {
            assert!(right.iter().all(|right| *right), "{right:?}");
            Ok(())
        });
        simulate(job, "2x4,wan=5ms").unwrap();
    }
}

#[test]
fn exchanges_in_a_row_keep_the_links_busy() {
    const REPETITIONS: u32 = 5;
    const BLOCK: usize = 8 << 10;
    let function = async |world: Comm| {
        let (me, size) = (world.rank(), world.size());
        let block = |other: u32| vec![(me + other) as u8; BLOCK];
        let mine = (0..size).map(block).collect::<Vec<_>>().concat();
        world.barrier().await?;
        let begin = world.now();
        for _ in 0..REPETITIONS {
            let found = world.alltoall(&mine).await?;
            assert!(found.chunks(BLOCK).eq((0..size).map(block)));
        }
        // `now` is the time at which the PE's turn began.
        world.yield_now().await;
        Ok(world.now().since(begin).as_secs_f64() * 1e3 / f64::from(REPETITIONS))
    };
    let job = run_then(32, function, |times| {
        // 64 blocks take 33.6 ms on each link. If all are sent at once, the links are idle for
        // most of a latency after each exchange, which then takes 50 ms.
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert!((33.0..44.0).contains(&mean), "{mean} ms");
        Ok(())
    });
    simulate(job, "4x8,wan=20ms,rate=125mbit").unwrap();
}

#[test]
fn typed_blocks_leave_before_their_sender_computes() {
    // Rank 0 already has the block of rank 1 when it calls `alltoallw`, so it waits for nothing.
    let milliseconds = async |world: Comm| {
        if world.rank() == 0 {
            world.sleep(Duration::from_millis(100)).await;
        }
        let blocks = vec![TypedBlock::from(vec![world.rank()]); 2];
        world.alltoallw(blocks).await?;
        let arrived = world.now().since(Time::ZERO).as_millis() as u64;
        world.charge(Duration::from_secs(1));
        world.yield_now().await;
        Ok(arrived)
    };
    let job = run_then(2, milliseconds, |arrived| {
        assert!((100..900).contains(&arrived[1]), "{arrived:?}");
        Ok(())
    });
    simulate(job, "2x1").unwrap();
}
