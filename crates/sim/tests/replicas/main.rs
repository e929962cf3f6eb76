//! Deterministic actors with replicas at two sites give the same results, in half of the time where
//! latency decides, whatever happens to their replicas meanwhile.
#![allow(missing_docs, clippy::unwrap_used)]

mod cells;
mod checkpoints;

use cells::{Cells, PAIRS};
use gridspan_balance::{ActorKey, Move, Plan, Replica, Snapshot, Strategy, StrategyName};
use gridspan_runtime::{Ix1, Job, PeId};
use gridspan_sim::{FaultPlan, PauseFaults, SessionFaults, SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use std::time::Duration;

/// The plan of a rebalance. Each rebalance takes the next plan of a list, and `Nothing` after the
/// end of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Every deterministic actor without a replica gets one on this PE. The replica serves cell 1.
    Begin(u32),
    End,
    /// Every deterministic actor moves to this PE.
    Move(u32),
    Nothing,
}

#[derive(Clone)]
struct Play {
    acts: &'static [Act],
    next: usize,
}

impl Strategy for Play {
    fn name(&self) -> &'static str {
        "play"
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        let act = self.acts.get(self.next).copied().unwrap_or(Act::Nothing);
        self.next += 1;
        let deterministic =
            || snapshot.deterministic.iter().map(|&at| &snapshot.actors[at as usize]);
        let mut plan = Plan::none();
        match act {
            Act::Begin(pe) => {
                let has_one = |id| snapshot.replicas.iter().any(|replica| replica.actor == id);
                let new =
                    deterministic().filter(|actor| !has_one(actor.id) && actor.pe != PeId(pe));
                let serves = vec![ActorKey { collection: 0, index: 1 }];
                let replica = |actor: &gridspan_balance::ActorLoad| Replica {
                    actor: actor.id,
                    at: PeId(pe),
                    serves: serves.clone(),
                };
                plan.begin = new.map(replica).collect();
            }
            Act::End => plan.end = snapshot.replicas.clone(),
            Act::Move(to) => {
                let to = PeId(to);
                let away = deterministic().filter(|actor| actor.pe != to);
                plan.moves =
                    away.map(|actor| Move { actor: actor.id, from: actor.pe, to }).collect();
            }
            Act::Nothing => {}
        }
        plan
    }
}

fn play(job: Job, acts: &'static [Act]) -> Job {
    job.strategy(Play { acts, next: 0 }).balance_gate(false)
}

fn simulate(job: Job, emulate: &str, options: SimOptions) -> SimReport {
    let spec = GridSpec::from_emulate(emulate).unwrap();
    Simulation::new(job, spec, options).unwrap().run()
}

const SLOW: Cells = Cells {
    steps: 60,
    work: Duration::from_micros(100),
    migrates: false,
    rebalances: 1,
    is_faithless: false,
    busy_turns: 0,
};

#[test]
fn with_replicas_a_step_between_two_sites_takes_one_latency_instead_of_two() {
    let run = |acts| simulate(play(SLOW.job(), acts), "2x2,wan=40ms", SimOptions::default());
    let [one, two] = [run(&[]), run(&[Act::Begin(3)])];

    assert_eq!((&one.outcome, &two.outcome), (&Ok(()), &Ok(())));
    assert_eq!(two.statistics.replicas, u64::from(PAIRS));
    let ratio = two.virtual_time.as_nanos() as f64 / one.virtual_time.as_nanos() as f64;
    // The first steps, in which members learn places, and the end take as long as without replicas.
    assert!((0.5..0.62).contains(&ratio), "{ratio} of the time");
}

const BUSY: &[Act] = &[
    Act::Begin(3),
    Act::End,
    Act::Begin(2),
    Act::Move(0),
    Act::Begin(3),
    Act::Move(2),
    Act::Begin(1),
    Act::End,
    Act::Move(1),
    Act::Begin(2),
];

#[test]
fn results_are_right_while_replicas_begin_and_end_and_actors_move() {
    let cells = Cells { steps: 150, migrates: true, rebalances: 12, ..SLOW };

    let report = simulate(play(cells.job(), BUSY), "2x2,wan=15ms", SimOptions::default());

    assert_eq!(report.outcome, Ok(()));
    assert_eq!(report.statistics.replicas, 5 * u64::from(PAIRS));
}

#[test]
fn nothing_is_lost_or_repeated_under_faults_and_a_seed_repeats_a_run() {
    let run = |seed| {
        let faults = FaultPlan::default()
            .with_frame_delay(0.3)
            .with_local_delay(0.1)
            .with_delay_max(Duration::from_millis(80))
            .with_reorder(true)
            .with_pauses(PauseFaults::new(0.001, Duration::from_millis(200)))
            .with_sessions((seed % 2 == 0).then(SessionFaults::default));
        let cells = Cells { steps: 60, migrates: seed % 3 == 0, rebalances: 14, ..SLOW };
        let options = SimOptions::with_seed(seed).with_faults(faults);
        simulate(play(cells.job(), BUSY), "2x2,wan=15ms", options)
    };
    for seed in 0..20 {
        let report = run(seed);
        assert_eq!(report.outcome, Ok(()), "seed {seed}: {:?}", report.ending);
        assert!(report.statistics.replicas > 0, "seed {seed}");
        if seed < 3 {
            assert_eq!(run(seed).log_hash, report.log_hash, "seed {seed}");
        }
    }
}

#[test]
fn a_deterministic_actor_that_sets_a_timer_ends_the_job_with_the_reason() {
    let job = Job::new("misuse").deterministic::<cells::Pair>().actor::<cells::Cell>().main(
        async |grid| {
            let cells = grid.create::<cells::Cell>(Ix1::range(1), |_| ()).await?;
            let init = (cells.reference(), Duration::ZERO, false);
            let pairs = grid.create::<cells::Pair>(Ix1::range(1), |_| init).await?;
            pairs.member(Ix1(0)).send(cells::PairMessage::SetTimer);
            grid.quiescence().await?;
            Ok(())
        },
    );

    let outcome = simulate(job, "2x1,wan=1ms", SimOptions::default()).outcome;

    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("Pair was declared deterministic and cannot set timers"), "{error}");
}

#[test]
fn replicas_that_send_different_messages_end_the_job_and_stall_no_rebalance() {
    let cells = Cells { steps: 100, rebalances: 3, is_faithless: true, ..SLOW };
    let job = play(cells.job(), &[Act::Begin(3), Act::End]);

    let outcome = simulate(job, "2x2,wan=15ms", SimOptions::default()).outcome;

    let error = outcome.unwrap_err().to_string();

    assert!(
        error.contains("Pair was declared deterministic, but two replicas of an actor"),
        "{error}"
    );
}

#[test]
fn strategies_replicate_only_where_latency_decides() {
    let replicas = |strategy: &str, emulate: &str| {
        let cells = Cells { steps: 300, ..SLOW };
        let job = cells
            .job()
            .strategy(strategy.parse::<StrategyName>().expect("it is a name"))
            .balance_every(Duration::from_millis(1500));
        let report = simulate(job, emulate, SimOptions::default());
        assert_eq!(report.outcome, Ok(()), "{strategy}");
        report.statistics.replicas
    };

    assert!(replicas("replicate", "2x2,wan=40ms") >= u64::from(PAIRS));
    assert!(replicas("auto", "2x2,wan=40ms") >= u64::from(PAIRS));
    assert_eq!(replicas("auto", "2x2,wan=100us"), 0);
    assert_eq!(replicas("grid-cut", "2x2,wan=40ms"), 0);
}
