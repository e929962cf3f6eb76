//! What makes progress while a rank computes without awaiting: the table in `docs/src/ranks.md`.

use crate::common::simulate;
use gridspan_ranks::{Comm, RankError, ops, run_then};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Job, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// For how long rank 0 computes in real time.
const COMPUTES: Duration = Duration::from_millis(200);
/// For how long it computes in virtual time.
const CHARGES: Duration = Duration::from_secs(1);
/// Virtual time after which the others begin operations while rank 0 computes.
const LATER: Duration = Duration::from_millis(100);
/// An operation that the computation does not delay ends within this time after the computation
/// begins. In virtual time, one that it delays ends within this time after the computation ends.
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

/// The clock of a run.
#[derive(Clone)]
enum Clock {
    /// `computes` is true once rank 0 computes.
    Real {
        origin: Instant,
        computes: Arc<AtomicBool>,
    },
    Virtual,
}

impl Clock {
    fn real() -> Self {
        Self::Real { origin: Instant::now(), computes: Arc::default() }
    }

    /// The time; in virtual time that at which the present turn began.
    fn now(&self, world: &Comm) -> Duration {
        match self {
            Self::Real { origin, .. } => origin.elapsed(),
            Self::Virtual => world.now().since(Time::ZERO),
        }
    }

    /// Computes at rank 0. Returns the beginning and the end.
    fn compute(&self, world: &Comm) -> Times {
        let begin = self.now(world);
        match self {
            Self::Real { computes, .. } => {
                computes.store(true, Ordering::Release);
                thread::sleep(COMPUTES);
                (begin, self.now(world))
            }
            Self::Virtual => {
                world.charge(CHARGES);
                (begin, begin + CHARGES)
            }
        }
    }

    /// Waits at another rank until rank 0 computes.
    async fn wait_for_computation(&self, world: &Comm) {
        match self {
            Self::Real { computes, .. } => {
                while !computes.load(Ordering::Acquire) {
                    world.yield_now().await;
                }
            }
            Self::Virtual => world.sleep(LATER).await,
        }
    }
}

/// Begins the operations in which rank 0 takes part, and computes before it awaits them.
async fn compute((world, pair): (Comm, Comm), clock: &Clock) -> Result<Times, RankError> {
    let short = world.isend(&[1_u8], RECEIVES, 0)?;
    let long = world.isend(&vec![1_u8; LONG_BYTES], RECEIVES_LONG, 0)?;
    let receiving = world.irecv::<u8>(SENDS, 0)?;
    let sum = pair.iallreduce(vec![1_u32], ops::sum);
    world.yield_now().await;
    let times = clock.compute(&world);
    short.await?;
    long.await?;
    receiving.await?;
    assert_eq!(sum.await?, [2]);
    Ok(times)
}

/// Carries out one operation with rank 0, which most ranks begin while it computes.
async fn measure(world: Comm, clock: Clock) -> Result<Times, RankError> {
    let me = world.rank();
    assert_eq!(world.pe(me), Some(u32::from(me >= RANKS / 2)));
    let is_in_pair = me == 0 || me == REDUCES;
    let pair = world.split(Some(u32::from(is_in_pair)), 0).await?.ok_or("no part")?;
    let window = world.window(vec![0_u8], ops::sum).await?;
    world.barrier().await?;
    let times = if me == 0 {
        compute((world, pair), &clock).await?
    } else {
        if [RECEIVES_LONG, GETS, LOCKS, REDUCES, SENDS, WAKES].contains(&me) {
            clock.wait_for_computation(&world).await;
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
        let ended = clock.now(&world);
        if me == LOCKS {
            window.unlock(0).await?;
        }
        (ended, ended)
    };
    window.fence().await?;
    Ok(times)
}

/// What each rank has measured. `run` runs the job on two PEs of a process.
fn measured(clock: Clock, run: impl FnOnce(Job)) -> Vec<Times> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let results = found.clone();
    let function = move |world: Comm| measure(world, clock.clone());
    let job = run_then(RANKS, function, move |times| {
        *results.lock().unwrap() = times;
        Ok(())
    });
    run(job);
    found.lock().unwrap().clone()
}

/// The ranks whose operations wait for rank 0 or its PE.
const DELAYED: [u32; 5] = [NEIGHBOUR, GETS, LOCKS, REDUCES, SENDS];

#[test]
fn a_rank_that_computes_delays_what_needs_its_pe_and_nothing_else() {
    let mut least = [Duration::MAX; 2];
    for _ in 0..TRIES {
        let times = measured(Clock::real(), |job| {
            embedded::run(job.time_limit(Duration::from_secs(60)), 2).unwrap();
        });
        let (begin, end) = times[0];
        assert!(end - begin >= COMPUTES);
        for rank in DELAYED {
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
fn what_waits_for_a_rank_that_computes_ends_right_after_the_computation() {
    let times = measured(Clock::Virtual, |job| simulate(job, "1x1x2").unwrap());

    let (begin, end) = times[0];
    for rank in DELAYED {
        let (ended, _) = times[rank as usize];
        assert!((end..=end + AT_ONCE).contains(&ended), "rank {rank}: {ended:?}, {end:?}");
    }
    for (rank, begun) in [(RECEIVES, begin), (RECEIVES_LONG, begin + LATER)] {
        let (ended, _) = times[rank as usize];
        assert!(ended <= begun + AT_ONCE, "rank {rank}: {ended:?}, {begun:?}");
    }
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
