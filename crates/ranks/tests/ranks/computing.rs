//! What makes progress while a rank computes without awaiting: the table in `docs/src/ranks.md`.

use crate::common::simulate;
use gridspan_ranks::{Comm, RankError, ops, run_then};
use gridspan_runtime::Time;
use gridspan_runtime::driver::embedded;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// For how long rank 0 computes.
const COMPUTES: Duration = Duration::from_millis(200);
/// An operation that the computation does not delay ends within this time after the computation
/// begins.
const AT_ONCE: Duration = Duration::from_millis(10);
/// Largest number of measurements: other programs may delay an operation, too.
const TRIES: u32 = 5;
/// Bytes of a message above the eager limit.
const LONG_BYTES: usize = 256 << 10;

/// Number of ranks; half of them are on the PE of rank 0.
const RANKS: u32 = 14;
/// Receives a message of `WAKES`, on the PE of rank 0.
const NEIGHBOUR: u32 = 1;
/// Those on the other PE: each carries out one operation.
const RECEIVES: u32 = 7;
const RECEIVES_LONG: u32 = 8;
const GETS: u32 = 9;
const LOCKS: u32 = 10;
const REDUCES: u32 = 11;
const SENDS: u32 = 12;
const WAKES: u32 = 13;

/// What a rank has measured: at rank 0 the beginning and the end of the computation, at others
/// twice the end of their operation.
type Times = (Duration, Duration);

/// Begins the operations in which rank 0 takes part, and computes before it awaits them.
async fn compute(
    (world, pair): (Comm, Comm),
    origin: Instant,
    computes: &AtomicBool,
) -> Result<Times, RankError> {
    let short = world.isend(&[1_u8], RECEIVES, 0)?;
    let long = world.isend(&vec![1_u8; LONG_BYTES], RECEIVES_LONG, 0)?;
    let receiving = world.irecv::<u8>(SENDS, 0)?;
    let sum = pair.iallreduce(vec![1_u32], ops::sum);
    world.yield_now().await;
    let begin = origin.elapsed();
    computes.store(true, Ordering::Release);
    thread::sleep(COMPUTES);
    let end = origin.elapsed();
    short.await?;
    long.await?;
    receiving.await?;
    assert_eq!(sum.await?, [2]);
    Ok((begin, end))
}

/// Carries out one operation with rank 0, which most ranks begin while it computes.
async fn measure(
    world: Comm,
    origin: Instant,
    computes: Arc<AtomicBool>,
) -> Result<Times, RankError> {
    let me = world.rank();
    assert_eq!(world.pe(me), Some(u32::from(me >= RANKS / 2)));
    let is_in_pair = me == 0 || me == REDUCES;
    let pair = world.split(Some(u32::from(is_in_pair)), 0).await?.ok_or("no part")?;
    let window = world.window(vec![0_u8], ops::sum).await?;
    world.barrier().await?;
    let times = if me == 0 {
        compute((world, pair), origin, &computes).await?
    } else {
        let begins_later = [RECEIVES_LONG, GETS, LOCKS, REDUCES, SENDS, WAKES].contains(&me);
        while begins_later && !computes.load(Ordering::Acquire) {
            world.yield_now().await;
        }
        match me {
            NEIGHBOUR => drop(world.recv::<u8>(WAKES, 0).await?),
            RECEIVES | RECEIVES_LONG => drop(world.recv::<u8>(0, 0).await?),
            GETS => drop(window.get(0, 0..1).await?),
            LOCKS => window.lock(0, true).await?,
            REDUCES => drop(pair.iallreduce(vec![1_u32], ops::sum).await?),
            SENDS => world.ssend(&[1_u8], 0, 0).await?,
            WAKES => world.send(&[1_u8], NEIGHBOUR, 0).await?,
            _ => {}
        }
        let ended = origin.elapsed();
        if me == LOCKS {
            window.unlock(0).await?;
        }
        (ended, ended)
    };
    window.fence().await?;
    Ok(times)
}

/// What each rank has measured on two PEs.
fn measured() -> Vec<Times> {
    let (origin, computes) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let found = Arc::new(Mutex::new(Vec::new()));
    let results = found.clone();
    let function = move |world: Comm| measure(world, origin, computes.clone());
    let job = run_then(RANKS, function, move |times| {
        *results.lock().unwrap() = times;
        Ok(())
    });
    embedded::run(job.time_limit(Duration::from_secs(60)), 2).unwrap();
    found.lock().unwrap().clone()
}

#[test]
fn a_rank_that_computes_delays_what_needs_its_pe_and_nothing_else() {
    let mut least = [Duration::MAX; 2];
    for _ in 0..TRIES {
        let times = measured();
        let (begin, end) = times[0];
        assert!(end - begin >= COMPUTES);
        for rank in [NEIGHBOUR, GETS, LOCKS, REDUCES, SENDS] {
            let (ended, _) = times[rank as usize];
            assert!(ended >= end, "rank {rank} has ended after {ended:?}, before {end:?}");
        }
        for (best, rank) in least.iter_mut().zip([RECEIVES, RECEIVES_LONG]) {
            let (ended, _) = times[rank as usize];
            *best = (*best).min(ended.saturating_sub(begin));
        }
        if least.iter().all(|least| *least <= AT_ONCE) {
            return;
        }
    }
    panic!("the messages came after {least:?}");
}

#[test]
fn a_long_message_waits_for_a_sender_that_computes_in_another_process_only() {
    for (grid, is_late) in [("1x1x2", false), ("1x2x1", true)] {
        let milliseconds = async |world: Comm| {
            if world.rank() == 1 {
                // The message or its offer has come before, and rank 0 computes.
                world.sleep(Duration::from_millis(200)).await;
                world.recv::<u8>(0, 0).await?;
                return Ok(world.now().since(Time::ZERO).as_millis() as u64);
            }
            let sending = world.isend(&vec![1_u8; LONG_BYTES], 1, 0)?;
            world.sleep(Duration::from_millis(100)).await;
            world.charge(Duration::from_secs(1));
            world.yield_now().await;
            sending.await?;
            Ok(0)
        };
        let job = run_then(2, milliseconds, move |received| {
            assert!(received[1] >= 200, "{grid}: {received:?}");
            assert_eq!(received[1] >= 900, is_late, "{grid}: {received:?}");
            Ok(())
        });
        simulate(job, grid).unwrap();
    }
}
