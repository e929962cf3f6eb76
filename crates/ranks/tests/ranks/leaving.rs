//! Messages of a rank leave before the rank computes, whatever it has awaited in between.

use crate::common::simulate;
use gridspan_ranks::{Comm, RankError, ops, run_then, test_all, wait_all, wait_any};
use gridspan_runtime::Time;
use std::time::Duration;

#[test]
fn an_answer_to_a_synchronous_send_leaves_before_its_receiver_computes() {
    let milliseconds = async |world: Comm| {
        if world.rank() == 0 {
            world.ssend(&[7_u8], 1, 0).await?;
            return Ok(world.now().since(Time::ZERO).as_millis() as u64);
        }
        world.recv::<u8>(0, 0).await?;
        world.charge(Duration::from_secs(1));
        world.yield_now().await;
        Ok(0)
    };
    let job = run_then(2, milliseconds, |ended| {
        assert!(ended[0] < 900, "{ended:?}");
        Ok(())
    });
    simulate(job, "2x1").unwrap();
}

/// Rank 1 begins a send, looks at a message that has arrived, and computes. Returns the time in ms
/// at which rank 0 receives the message of rank 1.
async fn look_and_compute(world: Comm, look: &str) -> Result<u64, RankError> {
    if world.rank() == 0 {
        world.send(&[1_u8], 1, 0).await?;
        world.recv::<u8>(1, 1).await?;
        return Ok(world.now().since(Time::ZERO).as_millis() as u64);
    }
    world.sleep(Duration::from_millis(100)).await;
    let leaving = world.isend(&[2_u8], 0, 1)?;
    match look {
        "probe" => assert_eq!(world.probe(0, 0).await?.tag, Some(0)),
        "iprobe" => assert!(world.iprobe(0, 0).await?.is_some()),
        "mprobe" => drop(world.mprobe(0, 0).await?),
        "improbe" => assert!(world.improbe(0, 0).await?.is_some()),
        "test_all" => assert!(test_all(&mut [world.irecv::<u8>(0, 0)?]).await),
        _ => assert!(world.irecv::<u8>(0, 0)?.test().await?.is_some()),
    }
    world.charge(Duration::from_secs(1));
    world.yield_now().await;
    leaving.await?;
    if look != "test" {
        // The other calls have left the message to the next receive.
        world.recv::<u8>(0, 0).await?;
    }
    Ok(0)
}

#[test]
fn a_message_leaves_before_its_sender_has_looked_at_another_and_computes() {
    for look in ["probe", "iprobe", "mprobe", "improbe", "test_all", "test"] {
        let function = move |world: Comm| look_and_compute(world, look);
        let job = run_then(2, function, move |arrived| {
            assert!((100..900).contains(&arrived[0]), "{look}: {arrived:?}");
            Ok(())
        });
        simulate(job, "2x1").unwrap();
    }
}

#[test]
fn results_leave_between_the_requests_of_which_each_is_complete() {
    let milliseconds = async |world: Comm| {
        if world.rank() == 0 {
            world.send(&[1_u8], 1, 0).await?;
            world.send(&[2_u8], 1, 1).await?;
            world.recv::<u8>(1, 2).await?;
            world.recv::<u8>(1, 3).await?;
            let first = world.now().since(Time::ZERO).as_millis() as u64;
            world.recv::<u8>(1, 3).await?;
            return Ok(first);
        }
        world.sleep(Duration::from_millis(100)).await;
        let mut requests = vec![world.irecv::<u8>(0, 0)?, world.irecv::<u8>(0, 1)?];
        // Because of this send, `wait_any` yields to the PE although both receives are complete.
        let mut results = vec![world.isend(&[0_u8], 0, 2)?];
        while let Some((_, received)) = wait_any(&mut requests).await {
            received?;
            world.charge(Duration::from_secs(1));
            results.push(world.isend(&[0_u8], 0, 3)?);
        }
        wait_all(results).await?;
        Ok(0)
    };
    let job = run_then(2, milliseconds, |arrived| {
        // The computations end after 1.1 and 2.1 s.
        assert!((1_100..2_000).contains(&arrived[0]), "{arrived:?}");
        Ok(())
    });
    simulate(job, "2x1").unwrap();
}

#[test]
fn an_immediate_collective_operation_begins_before_its_rank_computes() {
    let milliseconds = async |world: Comm| {
        if world.rank() == 1 {
            world.send(&[1_u8], 0, 0).await?;
            assert_eq!(world.ibcast(vec![0_u8], 0)?.await?, [7]);
            return Ok(world.now().since(Time::ZERO).as_millis() as u64);
        }
        world.sleep(Duration::from_millis(100)).await;
        let sending = world.ibcast(vec![7_u8], 0)?;
        // This message has arrived already.
        world.recv::<u8>(1, 0).await?;
        world.charge(Duration::from_secs(1));
        world.yield_now().await;
        sending.await?;
        Ok(0)
    };
    let job = run_then(2, milliseconds, |arrived| {
        assert!((100..900).contains(&arrived[1]), "{arrived:?}");
        Ok(())
    });
    simulate(job, "2x1").unwrap();
}

#[test]
fn an_agreement_reaches_all_ranks_before_that_which_collects_it_computes() {
    // Rank 0 collects the agreement. It waits already when rank 1, the last one, calls.
    let milliseconds = async |world: Comm| {
        if world.rank() == 1 {
            world.sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(world.agree(7).await?, 7);
        let agreed = world.now().since(Time::ZERO).as_millis() as u64;
        world.charge(Duration::from_secs(1));
        world.yield_now().await;
        Ok(agreed)
    };
    let job = run_then(3, milliseconds, |agreed| {
        assert!(agreed.iter().all(|at| (100..900).contains(at)), "{agreed:?}");
        Ok(())
    });
    simulate(job, "3x1").unwrap();
}

/// Rank 0 releases the lock on the window of `owner`, and computes. Returns the time in ms for
/// which rank 1 waits for the lock.
async fn unlock_and_compute(world: Comm, owner: u32) -> Result<u64, RankError> {
    let window = world.window(vec![0_u8], ops::sum).await?;
    let mut waited = 0;
    if world.rank() == 0 {
        window.lock(owner, true).await?;
        world.send(&[0_u8], 1, 0).await?;
        world.sleep(Duration::from_millis(100)).await;
        window.unlock(owner).await?;
        world.charge(Duration::from_secs(1));
        world.yield_now().await;
    } else {
        world.recv::<u8>(0, 0).await?;
        let begin = world.now();
        window.lock(owner, true).await?;
        waited = world.now().since(begin).as_millis() as u64;
        window.unlock(owner).await?;
    }
    window.fence().await?;
    Ok(waited)
}

#[test]
fn a_lock_is_given_back_before_its_rank_computes() {
    for owner in [0, 1] {
        let function = move |world: Comm| unlock_and_compute(world, owner);
        let job = run_then(2, function, move |waited| {
            assert!((50..900).contains(&waited[1]), "window of {owner}: {waited:?}");
            Ok(())
        });
        simulate(job, "2x1").unwrap();
    }
}
