//! Ranks that wait for each other for ever.

use crate::common::{SITES, simulate};
use gridspan_ranks::{ANY_SOURCE, ANY_TAG, Comm, RankError, run};
use gridspan_runtime::driver::embedded;
use std::time::Duration;

/// Ranks 3 and 4 receive from the next rank in a circle, rank 2 waits in a barrier, and rank 1
/// probes for a message from any rank. Rank 0 ends at once.
async fn circle(world: Comm) -> Result<(), RankError> {
    let (me, size) = (world.rank(), world.size());
    match me {
        0 => Ok(()),
        1 => world.probe(ANY_SOURCE, ANY_TAG).await.map(drop),
        2 => world.barrier().await,
        _ => world.recv::<u8>((me + 1) % size, me).await.map(drop),
    }
}

#[test]
fn a_deadlock_names_what_each_rank_waits_for() {
    let expected = "the ranks are in a deadlock: rank 1 waits in probe; rank 2 waits in barrier \
                    with rank 0, on the world; rank 3 waits in recv with rank 4, tag 3, on the \
                    world; rank 4 waits in recv with rank 0, tag 4, on the world";
    let job = run(5, circle).time_limit(Duration::from_secs(60));
    assert_eq!(embedded::run(job, 1).unwrap_err().to_string(), expected);
    // Elsewhere, rank 2 waits for another one in its tree.
    let text = simulate(run(5, circle), SITES).unwrap_err().to_string();
    assert!(text.starts_with("the ranks are in a deadlock: rank 1 waits in probe"), "{text}");
}

#[test]
fn ranks_that_wait_long_for_a_timer_or_a_computation_are_in_no_deadlock() {
    let slow = async |world: Comm| {
        if world.rank() == 0 {
            world.sleep(Duration::from_secs(30)).await;
            world.charge(Duration::from_secs(30));
            world.yield_now().await;
            world.send(&[1_u8], 1, 0).await
        } else {
            world.recv::<u8>(0, 0).await.map(drop)
        }
    };
    simulate(run(2, slow), SITES).unwrap();
    let short = async |world: Comm| {
        if world.rank() == 0 {
            world.sleep(Duration::from_secs(3)).await;
            return world.send(&[1_u8], 1, 0).await;
        }
        world.recv::<u8>(0, 0).await.map(drop)
    };
    embedded::run(run(2, short).time_limit(Duration::from_secs(60)), 2).unwrap();
}
