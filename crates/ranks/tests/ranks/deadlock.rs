//! Ranks that wait for each other for ever.

use crate::common::{LONG, OTHERS_RUN, SITES, emulate, run_on, simulate, soon};
use futures_util::future::{Either, select};
use gridspan_ranks::{
    ANY_SOURCE, ANY_TAG, Comm, CommRequest, ErrorsReturn, RankError, RankFunctions, SpawnPlacement,
    ops, run, run_then, wait_all, wait_any,
};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Grid, Job};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use std::pin::pin;
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
    let expected = "the ranks are in a deadlock: rank 1 waits in probe, on the world; rank 2 waits \
                    in barrier with rank 0, on the world; rank 3 waits in recv with rank 4, tag 3, \
                    on the world; rank 4 waits in recv with rank 0, tag 4, on the world";
    let job = run(5, circle).time_limit(Duration::from_secs(60));
    assert_eq!(embedded::run(job, 1).unwrap_err().to_string(), expected);
    // On other grids, rank 2 waits for another rank of the barrier.
    for ended in [simulate(run(5, circle), SITES), emulate(run(5, circle))] {
        let text = ended.unwrap_err().to_string();
        assert!(text.starts_with("the ranks are in a deadlock: rank 1 waits in probe"), "{text}");
    }
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

#[test]
fn a_rank_that_detaches_a_buffer_of_messages_that_none_receives_is_in_a_deadlock() {
    let detaching = async |world: Comm| {
        if world.rank() == 1 {
            return world.recv::<u8>(0, 5).await.map(drop);
        }
        world.attach_buffer(1 << 20)?;
        world.bsend(&vec![1_u8; 100_000], 1, 4).await?;
        world.detach_buffer().await;
        Ok(())
    };
    let expected = "the ranks are in a deadlock: rank 0 waits in detach_buffer, on the world; \
                    rank 1 waits in recv with rank 0, tag 5, on the world";
    assert_eq!(simulate(run(2, detaching), SITES).unwrap_err().to_string(), expected);
}

/// Ranks 2 and 3 wait for each other, and rank 4 for them by a send. Rank 5 waits for rank 0. The
/// first request of rank 2 waits for rank 0, which runs.
async fn cycle(world: Comm) -> Result<(), RankError> {
    let me = world.rank();
    match me {
        0 => {
            run_on(&world).await?;
            world.send(&[1_u8], 5, 9).await
        }
        1 => run_on(&world).await,
        2 => {
            let requests = [world.irecv::<u8>(0, 1)?, world.irecv::<u8>(3, 1)?];
            wait_all(requests).await.map(drop)
        }
        3 => world.recv::<u8>(2, 1).await.map(drop),
        4 => world.ssend(&[1_u8], 2, 7).await,
        _ => world.recv::<u8>(0, 9).await.map(drop),
    }
}

#[test]
fn ranks_that_wait_in_a_circle_are_named_while_others_run() {
    let expected = "ranks are in a deadlock while others run: rank 2 waits in irecv with rank 0, \
                    tag 1, on the world and irecv with rank 3, tag 1, on the world; rank 3 waits \
                    in recv with rank 2, tag 1, on the world; rank 4 waits in ssend with rank 2, \
                    tag 7, on the world";
    for grid in ["1x1x1", SITES] {
        assert_eq!(soon(run(6, cycle), grid), expected);
    }
    let job = run(6, cycle).time_limit(Duration::from_secs(20));
    assert_eq!(embedded::run(job, 2).unwrap_err().to_string(), expected);
    assert_eq!(emulate(run(6, cycle)).unwrap_err().to_string(), expected);
}

/// Rank 2 sends a long message to rank 0, which runs and does not receive it, and receives from
/// rank 3, which waits for rank 2.
async fn exchange(world: Comm) -> Result<(), RankError> {
    let (me, long) = (world.rank(), vec![1_u8; 1 << 20]);
    let mut buffer = vec![0_u8; 1 << 20];
    match me {
        0 | 1 => run_on(&world).await,
        2 => world.sendrecv(&long, 0, 3, &mut buffer, 3, 3).await.map(drop),
        _ => world.recv::<u8>(2, 3).await.map(drop),
    }
}

#[test]
fn a_sendrecv_waits_for_both_of_its_partners() {
    let expected = "ranks are in a deadlock while others run: rank 2 waits in sendrecv with rank \
                    3, tag 3, on the world and sendrecv with rank 0, tag 3, on the world; rank 3 \
                    waits in recv with rank 2, tag 3, on the world";
    for grid in ["1x1x1", SITES] {
        assert_eq!(soon(run(4, exchange), grid), expected);
    }
}

/// Rank 1 waits for messages of ranks 0 and 2, and rank 2 for one of rank 0, which comes late.
async fn all_late(world: Comm) -> Result<(), RankError> {
    match world.rank() {
        0 => {
            world.sleep(OTHERS_RUN).await;
            world.send(&[1_u8], 2, 0).await?;
            world.sleep(OTHERS_RUN).await;
            world.send(&[1_u8], 1, 0).await
        }
        1 => {
            let requests = [world.irecv::<u8>(2, 0)?, world.irecv::<u8>(0, 0)?];
            wait_all(requests).await.map(drop)
        }
        _ => {
            world.recv::<u8>(0, 0).await?;
            world.send(&[1_u8], 1, 0).await
        }
    }
}

#[test]
fn ranks_that_wait_for_all_of_several_that_can_go_on_are_in_no_deadlock() {
    for grid in ["1x1x1", SITES, "2x1x1,wan=3000ms"] {
        simulate(run(3, all_late), grid).unwrap_or_else(|error| panic!("{grid}: {error}"));
    }
}

/// Ranks 2 to 4 each wait for any of the two others. If `is_open`, rank 4 also waits for rank 0,
/// and passes the message on.
async fn any_of_others(world: Comm, is_open: bool) -> Result<(), RankError> {
    let me = world.rank();
    if me < 2 {
        run_on(&world).await?;
        return match me == 0 && is_open {
            true => world.send(&[1_u8], 4, 6).await,
            false => Ok(()),
        };
    }
    let mut requests = Vec::new();
    for other in (2..5).filter(|other| *other != me) {
        requests.push(world.irecv::<u8>(other, 6)?);
    }
    if is_open && me == 4 {
        requests.push(world.irecv::<u8>(0, 6)?);
    }
    if let Some((_, received)) = wait_any(&mut requests).await {
        received?;
    }
    requests.into_iter().for_each(CommRequest::free);
    if me == 4 {
        world.send(&[1_u8], 2, 6).await?;
        world.send(&[1_u8], 3, 6).await?;
    }
    Ok(())
}

#[test]
fn ranks_that_wait_for_any_request_of_several_are_in_a_deadlock_only_if_none_can_end() {
    let text = soon(run(5, |world: Comm| any_of_others(world, false)), SITES);
    let expected = "ranks are in a deadlock while others run: rank 2 waits in irecv with rank 3, \
                    tag 6, on the world and irecv with rank 4, tag 6, on the world; rank 3 waits \
                    in irecv with rank 2, tag 6, on the world and irecv with rank 4, tag 6, on the \
                    world; rank 4 waits in irecv with rank 2, tag 6, on the world and irecv with \
                    rank 3, tag 6, on the world";
    assert_eq!(text, expected);
    simulate(run(5, |world: Comm| any_of_others(world, true)), SITES).unwrap();
}

#[test]
fn ranks_of_a_job_with_other_actors_are_never_reported() {
    let waiting = async |world: Comm| world.recv::<u8>(1 - world.rank(), 0).await.map(drop);
    let (job, ranks) = RankFunctions::add(Job::new("beside actors"), waiting);
    let job = job.main(async move |grid: Grid| {
        let running = pin!(ranks.run(&grid, 2));
        let delay = pin!(grid.sleep(LONG));
        match select(running, delay).await {
            Either::Left((ended, _)) => ended.map(drop),
            Either::Right(_) => Ok(()),
        }
    });
    simulate(job, SITES).unwrap();
}

/// Ranks 2 to 4 wait for a message of any of them, and rank 5 for one of rank 6, which has ended.
async fn knot(world: Comm) -> Result<(), RankError> {
    let me = world.rank();
    let part = world.split(Some(u32::from((2..5).contains(&me))), 0).await?.ok_or("no part")?;
    match me {
        0 | 1 => run_on(&world).await,
        2 | 3 => part.recv::<u8>(ANY_SOURCE, ANY_TAG).await.map(drop),
        4 => part.probe(ANY_SOURCE, 3).await.map(drop),
        5 => world.recv_value::<String>(6, 4).await.map(drop),
        _ => Ok(()),
    }
}

#[test]
fn ranks_that_wait_for_any_of_each_other_are_named_while_others_run() {
    let text = soon(run(7, knot), SITES);
    let expected = "ranks are in a deadlock while others run: rank 2 waits in recv, on \
                    communicator 2; rank 3 waits in recv, on communicator 2; rank 4 waits in \
                    probe, tag 3, on communicator 2; rank 5 waits in recv_value with rank 6, tag \
                    4, on the world";
    assert_eq!(text, expected);
}

#[test]
fn parents_and_children_that_wait_for_each_other_are_named_while_others_run() {
    let family = async |world: Comm| {
        if let Some(parents) = world.parent() {
            return parents.recv::<u8>(0, 0).await.map(drop);
        }
        let alone = world.split(Some(world.rank()), 0).await?.ok_or("no part")?;
        match world.rank() {
            2 => {
                let children = alone.spawn(2, SpawnPlacement::Block).await?;
                children.recv::<u8>(ANY_SOURCE, 0).await.map(drop)
            }
            _ => run_on(&world).await,
        }
    };
    let text = soon(run(3, family), SITES);
    let expected = "ranks are in a deadlock while others run: rank 2 waits in recv, tag 0, on \
                    connected group 0; rank 3 waits in recv with rank 0, tag 0, on \
                    connected group 0; rank 4 waits in recv with rank 0, tag 0, on \
                    connected group 0";
    assert_eq!(text, expected);
}

/// Ranks 2 and 3 hold the locks of ranks 0 and 1, which run, and each waits for the other lock.
/// Rank 4 waits for one of them.
async fn crossed(world: Comm) -> Result<(), RankError> {
    let me = world.rank();
    let window = world.window(vec![0_u8], ops::sum).await?;
    if me == 2 || me == 3 {
        window.lock(me - 2, true).await?;
    }
    world.barrier().await?;
    match me {
        0 | 1 => run_on(&world).await,
        2 | 3 => window.lock(3 - me, true).await,
        _ => window.lock(0, false).await,
    }
}

#[test]
fn ranks_that_wait_for_the_locks_of_each_other_are_named_while_others_run() {
    let expected = "ranks are in a deadlock while others run: rank 2 waits in lock with rank 1, \
                    on communicator 1; rank 3 waits in lock with rank 0, on communicator 1; rank 4 \
                    waits in lock with rank 0, on communicator 1";
    for grid in ["1x1x1", SITES] {
        assert_eq!(soon(run(5, crossed), grid), expected);
    }
    let job = run(5, crossed).time_limit(Duration::from_secs(20));
    assert_eq!(embedded::run(job, 2).unwrap_err().to_string(), expected);
}

#[test]
fn ranks_that_share_a_lock_and_both_want_it_alone_are_named_while_others_run() {
    let both = async |world: Comm| {
        let me = world.rank();
        let window = world.window(vec![0_u8], ops::sum).await?;
        if me > 1 {
            window.lock(0, false).await?;
        }
        world.barrier().await?;
        match me {
            0 | 1 => run_on(&world).await,
            _ => window.lock(0, true).await,
        }
    };
    let expected = "ranks are in a deadlock while others run: rank 2 waits in lock with rank 0, \
                    on communicator 1; rank 3 waits in lock with rank 0, on communicator 1";
    for grid in ["1x1x1", SITES] {
        assert_eq!(soon(run(4, both), grid), expected);
    }
}

#[test]
fn a_rank_that_waits_for_a_lock_of_one_that_has_ended_is_named_while_others_run() {
    let late = async |world: Comm| {
        let window = world.window(vec![0_u8], ops::sum).await?;
        match world.rank() {
            0 | 1 => run_on(&world).await,
            2 => {
                world.sleep(Duration::from_secs(1)).await;
                window.lock(3, true).await
            }
            _ => Ok(()),
        }
    };
    let expected = "ranks are in a deadlock while others run: rank 2 waits in lock with rank 3, on \
                    communicator 1";
    assert_eq!(soon(run(4, late), SITES), expected);
}

/// Rank 1 holds a lock of rank 5, for which rank 2 waits. Rank 1 sleeps, gives the lock back, and
/// waits for a message of rank 2. The lock passes over rank 5, which may take longer than a message
/// between ranks 1 and 2.
async fn handed_over(world: Comm) -> Result<(), RankError> {
    let me = world.rank();
    let window = world.window(vec![0_u8], ops::sum).await?;
    if me == 1 {
        window.lock(5, true).await?;
    }
    world.barrier().await?;
    match me {
        1 => {
            world.sleep(Duration::from_secs(10)).await;
            window.unlock(5).await?;
            world.recv::<u8>(2, 0).await?;
        }
        2 => {
            window.lock(5, false).await?;
            world.send(&[1_u8], 1, 0).await?;
            window.unlock(5).await?;
        }
        5 => world.sleep(OTHERS_RUN).await,
        _ => {}
    }
    window.fence().await
}

/// Rank 0 holds a lock until it has a message of rank 1. Rank 1 waits for this lock, gives up after
/// ten seconds, and sends the message.
async fn given_up(world: Comm) -> Result<(), RankError> {
    let me = world.rank();
    let window = world.window(vec![0_u8], ops::sum).await?;
    if me == 0 {
        window.lock(2, true).await?;
    }
    world.barrier().await?;
    match me {
        0 => {
            world.recv::<u8>(1, 0).await?;
            window.unlock(2).await?;
        }
        1 => {
            {
                let lock = pin!(window.lock(2, true));
                let delay = pin!(world.sleep(Duration::from_secs(10)));
                assert!(matches!(select(lock, delay).await, Either::Right(_)));
            }
            world.send(&[1_u8], 0, 0).await?;
        }
        _ => {}
    }
    window.fence().await
}

#[test]
fn ranks_that_wait_for_a_lock_that_can_still_be_given_back_are_in_no_deadlock() {
    for grid in ["1x1x1", SITES, "2x1x1,wan=3000ms"] {
        simulate(run(6, handed_over), grid).unwrap_or_else(|error| panic!("{grid}: {error}"));
        simulate(run(3, given_up), grid).unwrap_or_else(|error| panic!("{grid}: {error}"));
    }
}

#[test]
fn ranks_that_wait_for_messages_on_a_slow_way_are_in_no_deadlock() {
    // Both ranks wait for each other while a message is on its way for three seconds.
    let slow = async |world: Comm| {
        let (me, other) = (world.rank(), 1 - world.rank());
        for round in 0..4 {
            // The last ones are longer than the eager limit.
            let numbers = vec![round; if round < 2 { 1 } else { 50_000 }];
            if me == round % 2 {
                world.send(&numbers, other, round).await?;
            } else {
                assert_eq!(world.recv::<u32>(other, round).await?.0, numbers);
            }
        }
        world.barrier().await?;
        // A receive that was posted before matches a synchronous send.
        if me == 0 {
            let receiving = world.irecv::<u8>(1, 20)?;
            world.recv::<u8>(1, 21).await?;
            receiving.await.map(drop)
        } else {
            world.ssend(&[1_u8], 0, 20).await?;
            world.send(&[1_u8], 0, 21).await
        }
    };
    simulate(run(2, slow), "2x1x1,wan=3000ms").unwrap();
    // All others wait for a rank that computes for long, and then for one that sleeps for long.
    let long = async |world: Comm| {
        let (me, size) = (world.rank(), world.size());
        if me == 0 {
            world.charge(Duration::from_secs(10));
            world.yield_now().await;
            world.sleep(Duration::from_secs(10)).await;
            for _ in 1..size {
                world.recv::<u8>(ANY_SOURCE, 0).await?;
            }
        } else {
            world.ssend(&[1_u8], 0, 0).await?;
        }
        world.barrier().await
    };
    simulate(run(6, long), SITES).unwrap();
}

/// Pairs of ranks wait for each other on the world until rank 0 revokes it. Returns whether the
/// wait failed for this reason.
async fn revoked_late(world: Comm) -> Result<bool, RankError> {
    let me = world.rank();
    let other = if me % 2 == 1 { me + 1 } else { me.saturating_sub(1) };
    let waited = match me {
        0 => {
            world.sleep(OTHERS_RUN).await;
            world.revoke()?;
            return Ok(true);
        }
        1 | 2 => world.recv::<u8>(other, 0).await.map(drop),
        3 | 4 => world.ssend(&[1_u8], other, 0).await,
        5 | 6 => world.probe(other, 0).await.map(drop),
        7 => world.irecv::<u8>(other, 0)?.await.map(drop),
        _ => world.send(&vec![1_u8; 1 << 20], other, 1).await,
    };
    Ok(matches!(waited, Err(RankError::Revoked { .. })))
}

#[test]
fn ranks_whose_communicator_another_one_may_still_revoke_are_in_no_deadlock() {
    for grid in ["1x1x1", SITES] {
        let job = run_then(9, revoked_late, |found| {
            assert_eq!(found, [true; 9]);
            Ok(())
        });
        simulate(job.resource(ErrorsReturn), grid).unwrap();
    }
}

/// Rank 0 waits in a barrier, which ends with an error once rank 2 has failed; rank 1 waits for a
/// message of rank 0. Returns whether the wait ended like this.
async fn failing_late(world: Comm) -> Result<bool, RankError> {
    match world.rank() {
        0 => {
            let ended = world.barrier().await;
            world.send(&[1_u8], 1, 0).await?;
            Ok(matches!(ended, Err(RankError::PeerFailed { rank: 2, .. })))
        }
        1 => Ok(world.recv::<u8>(0, 0).await?.0 == [1]),
        _ => {
            world.sleep(OTHERS_RUN).await;
            Err("this rank fails".into())
        }
    }
}

#[test]
fn ranks_that_the_failure_of_another_one_lets_go_on_are_in_no_deadlock() {
    for grid in ["1x1x1", SITES] {
        let job = run_then(3, failing_late, |found| {
            assert_eq!(found, [true; 2]);
            Ok(())
        });
        simulate(job.resource(ErrorsReturn), grid).unwrap();
    }
}

#[test]
fn ranks_that_none_can_revoke_are_named_while_others_run() {
    let pairs = async |world: Comm| {
        let pair = world.split(Some(world.rank() / 2), 0).await?.ok_or("no pair")?;
        match world.rank() {
            0 | 1 => run_on(&world).await,
            _ => pair.recv::<u8>(1 - pair.rank(), 0).await.map(drop),
        }
    };
    let expected = "ranks are in a deadlock while others run: rank 2 waits in recv with rank 1, \
                    tag 0, on communicator 2; rank 3 waits in recv with rank 0, tag 0, on \
                    communicator 2";
    assert_eq!(soon(run(4, pairs).resource(ErrorsReturn), SITES), expected);
}

#[test]
fn a_rank_no_longer_waits_in_a_probe_that_was_dropped() {
    let probed = async |world: Comm| match world.rank() {
        0 | 1 => run_on(&world).await,
        2 => {
            {
                let probe = pin!(world.probe(ANY_SOURCE, 9));
                let receive = pin!(world.recv::<u8>(3, 0));
                assert!(matches!(select(probe, receive).await, Either::Right(_)));
            }
            world.recv::<u8>(3, 1).await.map(drop)
        }
        _ => {
            world.send(&[1_u8], 2, 0).await?;
            world.recv::<u8>(2, 1).await.map(drop)
        }
    };
    let expected = "ranks are in a deadlock while others run: rank 2 waits in recv with rank 3, \
                    tag 1, on the world; rank 3 waits in recv with rank 2, tag 1, on the world";
    assert_eq!(soon(run(4, probed), SITES), expected);
}

/// Rank 0 receives a message of rank 1, for which it would wait for an hour.
async fn receive_in_time(world: &Comm) -> Result<(), RankError> {
    if world.rank() == 1 {
        // Longer than the time after which main asks whether all ranks wait.
        world.sleep(Duration::from_secs(3)).await;
        return world.send(&[1_u8], 0, 0).await;
    }
    let receive = pin!(world.recv::<u8>(1, 0));
    let delay = pin!(world.sleep(Duration::from_secs(3600)));
    assert!(matches!(select(receive, delay).await, Either::Left(_)));
    Ok(())
}

#[test]
fn a_delay_for_which_no_rank_waits_any_more_holds_up_neither_the_end_nor_a_report() {
    let in_time = async |world: Comm| receive_in_time(&world).await;
    let deadlocked = async |world: Comm| {
        receive_in_time(&world).await?;
        world.recv::<u8>(1 - world.rank(), 1).await.map(drop)
    };
    let report_of = |job: Job| {
        let spec = GridSpec::from_emulate(SITES).unwrap();
        let report = Simulation::new(job, spec, SimOptions::with_seed(5)).unwrap().run();
        assert!(report.virtual_time.since(gridspan_runtime::Time::ZERO) < Duration::from_secs(60));
        report.outcome
    };
    report_of(run(2, in_time)).unwrap();
    let text = report_of(run(2, deadlocked)).unwrap_err().to_string();
    assert!(text.contains("in a deadlock"), "{text}");
}
