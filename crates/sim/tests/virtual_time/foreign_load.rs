//! Other users' processes on simulated nodes: their effect, and the runtime's view of them.

use gridspan_balance::{Greedy, Snapshot};
use gridspan_runtime::{Actor, Context, Ix1, Job, Op, To};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Computes ten milliseconds per message.
#[derive(Serialize, Deserialize)]
struct Worker {
    left: u32,
}

#[derive(Clone, Serialize, Deserialize)]
enum Msg {
    Compute,
    MoveTo(u32),
}

impl Actor for Worker {
    type Index = Ix1;
    type Init = u32;
    type Message = Msg;

    fn create(left: u32, _cx: &mut Context<'_, Self>) -> Self {
        Self { left }
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        if let Msg::MoveTo(pe) = message {
            return cx.migrate_to(gridspan_runtime::PeId(pe));
        }
        if self.left == 0 {
            return cx.contribute(Op::Sum, 1_u64, To::main());
        }
        self.left -= 1;
        cx.charge(10 * MS);
        let me = cx.me();
        cx.send(&me, Msg::Compute);
    }
}

/// Runs one worker on each PE of a grid whose nodes have this number of processors. A worker
/// computes `pieces` times for 10 ms.
fn run(spec: &str, processors: Option<u32>, pieces: u32) -> SimReport {
    let job = Job::new("work").actor::<Worker>().main(async move |grid| {
        let count = grid.layout().pe_count();
        let workers = grid.create::<Worker>(Ix1::range(count), |_| pieces).await?;
        workers.broadcast(Msg::Compute);
        let done: u64 = workers.reduction(Op::Sum).await?;
        if done == u64::from(count) { Ok(()) } else { Err("a worker is missing".into()) }
    });
    let options = SimOptions::default().with_processors(processors);
    let report =
        Simulation::new(job, GridSpec::from_emulate(spec).unwrap(), options).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    report
}

fn millis(report: &SimReport) -> u64 {
    report.virtual_time.0 / 1_000_000
}

#[test]
fn a_foreign_process_takes_half_of_a_processor_while_it_runs() {
    // The work takes 1 s, but half of the processor is lost from 0.2 s to 0.7 s.
    let report = run("1x1; at 200ms node a1 load=1; at 700ms node a1 load=0", None, 100);

    assert_eq!(millis(&report), 1250);
}

#[test]
fn three_tasks_of_one_processor_lose_a_quarter_to_a_fourth_process() {
    // Iskra et al. (2000), "Performance Measurements on Dynamite/DPVM", section 3.3: "no more than
    // 33 %" longer.
    let alone = run("1x1x3", Some(1), 100);
    let loaded = run("1x1x3; at 0s node a1 load=1", Some(1), 100);

    assert_eq!((millis(&alone), millis(&loaded) / 100), (3000, 40));
}

#[test]
fn foreign_load_affects_only_its_node_and_does_not_prolong_the_job() {
    let report = run("1x2; at 0s node a2 load=3; at 10h node a2 load=0", None, 10);

    assert_eq!(millis(&report) / 100, 4);
}

#[test]
fn the_same_seed_gives_the_same_run_under_load() {
    let spec = "1x2x3; at 3ms node a1 load=2; at 77ms node a1 load=1; at 90ms node a2 load=5";
    let [one, other] = [(); 2].map(|()| run(spec, Some(2), 20));

    assert_eq!(one.log_hash, other.log_hash);
    assert_eq!(one.virtual_time, other.virtual_time);
}

#[test]
fn the_runtime_measures_its_share_of_processors_even_on_an_idle_pe() {
    let (send, receive) = mpsc::channel::<Snapshot>();
    let job = Job::new("seen")
        .actor::<Worker>()
        .strategy(Greedy)
        .balance_gate(false)
        .on_snapshot(move |snapshot, _| drop(send.send(snapshot.clone())))
        .main(async move |grid| {
            let workers = grid.create::<Worker>(Ix1::range(2), |_| 1000).await?;
            workers.broadcast(Msg::Compute);
            grid.sleep(1500 * MS).await?;
            grid.rebalance().await?;
            // The second PE becomes empty. Its foreign load ends at 3 s.
            workers.member(Ix1(0)).send(Msg::MoveTo(0));
            workers.member(Ix1(1)).send(Msg::MoveTo(0));
            grid.sleep(1000 * MS).await?;
            grid.rebalance().await?;
            workers.member(Ix1(0)).send(Msg::MoveTo(0));
            workers.member(Ix1(1)).send(Msg::MoveTo(0));
            grid.sleep(2500 * MS).await?;
            grid.rebalance().await?;
            Ok(())
        });
    let spec = "1x2; at 0s node a2 load=1; at 3s node a2 load=0";
    let spec = GridSpec::from_emulate(spec).unwrap();
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));

    let seen: Vec<Snapshot> = receive.iter().collect();

    // The runtime also takes snapshots by itself when it notices a change.
    let mut available: Vec<_> =
        seen.iter().map(|seen| [seen.pes[0].available, seen.pes[1].available]).collect();
    available.dedup();
    assert_eq!(available, [[1.0, 0.5], [1.0, 1.0]]);
    // The actor that got half of a processor did half of the work.
    let loads: Vec<_> = seen[0].actors.iter().map(|actor| actor.load.as_secs_f64()).collect();
    assert!((loads[0] / loads[1] - 2.0).abs() < 0.1, "{loads:?}");
}
