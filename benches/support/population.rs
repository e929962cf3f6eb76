//! Many actors: the rate of creation, the memory of an idle one, and the rate of migration.

use crate::suite::Sample;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Actor, Context, Ix1, Job, Numbers, Op, PeId, To};
use serde::{Deserialize, Serialize};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// An actor with a state of eight bytes.
#[derive(Serialize, Deserialize)]
struct Idle {
    number: u64,
}

impl Actor for Idle {
    type Index = Ix1;
    type Init = u64;
    type Message = ();

    fn create(number: u64, _cx: &mut Context<'_, Self>) -> Self {
        Self { number }
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, Self>) {
        cx.contribute(Op::Sum, self.number, To::main());
    }
}

/// The cost of a population of idle actors: time to create all, and memory of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Population {
    pub(crate) creation: Sample,
    pub(crate) bytes_each: f64,
}

/// The first argument of a process that only measures a population.
pub(crate) const ROLE: &str = "--population";

/// Creates `actors` actors in a fresh process, whose memory holds nothing else.
pub(crate) fn in_fresh_process(actors: u64) -> Population {
    let path = std::env::current_exe().expect("the bench knows its own path");
    let mut command = Command::new(path);
    let output = command.args([ROLE, &actors.to_string()]).output().expect("the bench starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (Some(nanoseconds), Some(bytes)) = (numbers.next(), numbers.next()) else {
        panic!("the population failed: {text} {}", String::from_utf8_lossy(&output.stderr));
    };
    let creation = Sample { elapsed: Duration::from_nanos(nanoseconds), operations: actors };
    Population { creation, bytes_each: bytes as f64 / actors as f64 }
}

/// Creates `actors` actors in this process, and prints nanoseconds and bytes.
pub(crate) fn report(actors: u32) {
    let job = Job::new("population").actor::<Idle>().main(async move |grid| {
        let before = resident_bytes();
        let begin = Instant::now();
        let all = grid.create::<Idle>(Ix1::range(actors), |_| 1).await?;
        let elapsed = begin.elapsed();
        let bytes = resident_bytes().saturating_sub(before);
        println!("{} {bytes}", elapsed.as_nanos());
        all.broadcast(());
        let sum: u64 = all.reduction(Op::Sum).await?;
        assert_eq!(sum, u64::from(actors), "all of them live");
        Ok(())
    });
    embedded::run(job, 1).expect("the population lives");
}

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// An actor that migrates again as soon as it has arrived.
#[derive(Serialize, Deserialize)]
struct MigratingActor {
    moves: u32,
    state: Numbers<u8>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Go;

impl MigratingActor {
    fn go(&mut self, cx: &mut Context<'_, Self>) {
        if self.moves == 0 {
            return cx.contribute(Op::Sum, self.state.len() as u64, To::main());
        }
        self.moves -= 1;
        cx.migrate_to(PeId(1 - cx.pe().0));
    }
}

impl Actor for MigratingActor {
    type Index = Ix1;
    type Init = (u32, u32);
    type Message = Go;

    fn create((moves, bytes): (u32, u32), _cx: &mut Context<'_, Self>) -> Self {
        Self { moves, state: vec![7; bytes as usize].into() }
    }

    fn handle(&mut self, Go: Go, cx: &mut Context<'_, Self>) {
        self.go(cx);
    }

    fn arrived(&mut self, cx: &mut Context<'_, Self>) {
        self.go(cx);
    }
}

/// Moves `actors` actors of `bytes` bytes between two PEs, `moves` times each.
pub(crate) fn migrate(actors: u32, moves: u32, bytes: u32) -> Sample {
    let (send, receive) = mpsc::channel();
    let job = Job::new("migration").actor::<MigratingActor>().main(async move |grid| {
        let members = grid.create::<MigratingActor>(Ix1::range(actors), |_| (moves, bytes)).await?;
        let begin = Instant::now();
        members.broadcast(Go);
        let state_bytes: u64 = members.reduction(Op::Sum).await?;
        let elapsed = begin.elapsed();
        assert_eq!(state_bytes, u64::from(actors) * u64::from(bytes), "nothing was left behind");
        send.send(elapsed).expect("the bench waits for the figure");
        Ok(())
    });
    embedded::run(job, 2).expect("the actors migrate");
    let elapsed = receive.recv().expect("main has sent it");
    Sample { elapsed, operations: u64::from(actors) * u64::from(moves) }
}
