//! Reductions of several values at once, and the completion of phases, under all three drivers and
//! while members migrate.

use futures_util::future::join;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{
    Actor, Context, Grid, GridError, Ix1, Job, JobError, List, NodeId, Op, PeId, Phase, Statistics,
    To,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

const MEMBERS: u64 = 24;
const ITEMS: u64 = 40;
const HOPS: u32 = 5;

#[derive(Serialize, Deserialize)]
struct Worker {
    consumed: u64,
    noise: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    /// Contribute five values to one reduction.
    Describe,
    /// Produce items, which several members pass on before one consumes them.
    Produce(Phase),
    Travel(Phase, u32),
    /// Contribute the number of consumed items.
    Count,
    /// Keep the job from being quiescent.
    Chatter,
    /// Consume an item that no member has produced.
    Invent(Phase),
}

impl Actor for Worker {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { consumed: 0, noise: 0 }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        let index = cx.index().0 as u64;
        let all = cx.collection();
        let at = |place: u64| all.at(Ix1((place % MEMBERS) as i32));
        match message {
            Message::Describe => {
                let team = BTreeSet::from([format!("team {}", index % 3)]);
                let name = List(vec![(index, format!("worker {index}"))]);
                let ops = (Op::Sum, Op::Max, Op::Statistics, Op::Union, Op::Concat);
                cx.contribute(ops, (index, -(index as f64), index as f64, team, name), To::main());
            }
            Message::Produce(phase) => {
                for item in 0..ITEMS {
                    let to = at(index + 7 * item + 1);
                    cx.send(&to, Message::Travel(phase, (item % 6) as u32));
                }
                cx.produce(phase, ITEMS);
                cx.producer_done(phase);
                cx.migrate_to(PeId((index as u32 + 1) % cx.layout().pe_count()));
            }
            Message::Travel(phase, hops) if hops < HOPS => {
                let to = at(index * 5 + u64::from(hops) + 1);
                cx.send(&to, Message::Travel(phase, hops + 1));
            }
            Message::Travel(phase, _) => {
                self.consumed += 1;
                cx.consume(phase, 1);
                if self.consumed.is_multiple_of(16) {
                    cx.migrate_to(PeId((index + self.consumed) as u32 % cx.layout().pe_count()));
                }
            }
            Message::Count => cx.contribute(Op::Sum, self.consumed, To::main()),
            Message::Chatter => {
                self.noise += 1;
                cx.send_after(Duration::from_millis(1), &cx.me(), Message::Chatter);
            }
            Message::Invent(phase) => {
                cx.producer_done(phase);
                cx.consume(phase, 1);
            }
        }
    }
}

async fn reduce_and_complete(grid: Grid) -> Result<(), JobError> {
    let workers = grid.create::<Worker>(Ix1::range(MEMBERS as u32), |_| ()).await?;

    workers.broadcast(Message::Describe);
    let ops = (Op::Sum, Op::Max, Op::Statistics, Op::Union, Op::Concat);
    type Description = (u64, f64, Statistics, BTreeSet<String>, List<(u64, String)>);
    let (sum, max, numbers, teams, names): Description = workers.reduction(ops).await?;
    assert_eq!((sum, max), (MEMBERS * (MEMBERS - 1) / 2, 0.0));
    // Of the integers from 0 to n - 1, the mean is (n - 1) / 2 and the variance (n² - 1) / 12.
    let n = MEMBERS as f64;
    assert_eq!((numbers.count, numbers.min, numbers.max), (MEMBERS, 0.0, n - 1.0));
    let expected = ((n - 1.0) / 2.0, (n * n - 1.0) / 12.0);
    assert_eq!((numbers.mean, numbers.variance), expected);
    assert_eq!(teams, BTreeSet::from(["team 0", "team 1", "team 2"].map(str::to_owned)));
    let all: Vec<_> = (0..MEMBERS).map(|index| (index, format!("worker {index}"))).collect();
    assert_eq!(names, List(all));

    // A member keeps sending messages to itself, so that the job is never quiescent.
    workers.member(Ix1(3)).send(Message::Chatter);
    for round in 1..=3 {
        let phase = grid.phase(MEMBERS);
        workers.broadcast(Message::Produce(phase));
        grid.completion(phase).await?;
        workers.broadcast(Message::Count);
        let consumed: u64 = workers.reduction(Op::Sum).await?;
        assert_eq!(consumed, round * MEMBERS * ITEMS);
    }

    let phase = grid.phase(1);
    workers.member(Ix1(0)).send(Message::Invent(phase));
    let error = grid.completion(phase).await;
    let expected = GridError::Phase { producers: 1, done: 1, produced: 0, consumed: 1 };
    assert_eq!(error, Err(expected));
    Ok(())
}

fn job() -> Job {
    Job::new("collectives").actor::<Worker>().main(reduce_and_complete)
}

fn simulated(job: Job) -> gridspan_sim::SimReport {
    let spec = GridSpec::from_emulate("3x2,wan=20ms").expect("a valid grid");
    Simulation::new(job, spec, SimOptions::default()).expect("a valid job").run()
}

#[test]
fn reductions_and_phases_complete_in_virtual_time() {
    let report = simulated(job());
    assert_eq!(report.outcome, Ok(()));
    assert_eq!(report.statistics.dead_letters, 0);
}

#[test]
fn reductions_and_phases_complete_on_threads() {
    embedded::run(job(), 3).unwrap();
}

#[test]
fn reductions_and_phases_complete_over_quic() {
    let spec = GridSpec::from_emulate("2x2,wan=2ms").unwrap();
    embedded::run_emulated(job(), &spec).unwrap();
}

#[test]
fn a_stalled_job_names_the_phase_that_is_incomplete() {
    let job = Job::new("unfinished").actor::<Worker>().main(async |grid: Grid| {
        let workers = grid.create::<Worker>(Ix1::range(MEMBERS as u32), |_| ()).await?;
        let phase = grid.phase(MEMBERS + 1);
        workers.broadcast(Message::Produce(phase));
        grid.completion(phase).await?;
        Ok(())
    });

    let error = simulated(job).outcome.unwrap_err().to_string();

    let expected = "phase 0 (24 of 25 producers are done, 960 of 960 items consumed)";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_phase_goes_on_while_the_coordinator_moves() {
    let job = Job::new("moving").actor::<Worker>().main(async |grid: Grid| {
        let workers = grid.create::<Worker>(Ix1::range(MEMBERS as u32), |_| ()).await?;
        for round in 1..=6 {
            let phase = grid.phase(MEMBERS);
            workers.broadcast(Message::Produce(phase));
            let moved = grid.move_coordinator(NodeId(round % 6));
            let (moved, complete) = join(moved, grid.completion(phase)).await;
            moved.and(complete)?;
            workers.broadcast(Message::Count);
            let consumed: u64 = workers.reduction(Op::Sum).await?;
            assert_eq!(consumed, u64::from(round) * MEMBERS * ITEMS);
        }
        Ok(())
    });

    assert_eq!(simulated(job).outcome, Ok(()));
}
