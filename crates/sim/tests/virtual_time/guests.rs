//! Guests in virtual time: every task counts exactly once, whichever guests join, leave, die or are
//! declared lost.

use crate::common::comb::Comb;
use gridspan_balance::stealing::{STEALING_POLICIES, StealingPolicyName};
use gridspan_runtime::{
    CheckpointEvery, Checkpoints, GuestEvent, Job, JobError, Limits, PeId, Progress, SiteId, Step,
    Task, TaskContext,
};
use gridspan_sim::{
    Departure, FaultPlan, GuestPlan, SessionFaults, SimOptions, SimReport, Simulation,
};
use gridspan_topology::dice::Dice;
use gridspan_topology::{GridSpec, Latency, Layout, Link};
use serde::{Deserialize, Serialize};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

const COST: Duration = Duration::from_micros(400);

fn sites(nodes: usize) -> GridSpec {
    let site = |name: &str| (name.to_owned(), vec![2; nodes]);
    GridSpec::from_layout(&Layout::new(vec![site("a"), site("b")]))
        .expect("a valid layout")
        .with_wan(Link::wan().with_latency(Latency::from_millis(5)))
}

const TEETH: u32 = 12;

/// A job that counts the tree as a search or as tasks, and then waits for quiescence.
fn job(policy: &str, is_search: bool) -> (Job, Arc<Mutex<Vec<GuestEvent>>>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let job = Job::new("comb")
        .search::<Comb>()
        .tasks::<Comb>()
        .stealing(policy.parse::<StealingPolicyName>().expect("it is a name"));
    let job = job.on_guests(move |event| told.lock().unwrap().push(event.clone()));
    let job = job.main(async move |grid| {
        let nodes = match is_search {
            true => {
                let pool = grid.search_pool::<Comb>().await?;
                let nodes = pool.run_on(PeId(1), Comb::new(TEETH, COST)).await?.0;
                pool.close();
                nodes
            }
            false => grid.run_tasks(Comb::new(TEETH, COST)).await?,
        };
        assert_eq!(nodes, 1 << TEETH);
        grid.quiescence().await?;
        Ok(())
    });
    (job, events)
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn guest(site: u32, joins: u64, departs: Option<(u64, Departure)>) -> GuestPlan {
    let departs = departs.map(|(at, how)| (ms(at), how));
    GuestPlan::new(SiteId(site), 2, ms(joins)).with_departure(departs)
}

fn run(job: Job, spec: GridSpec, guests: Vec<GuestPlan>) -> SimReport {
    let options = SimOptions::default().with_guests(guests).with_silence(ms(30));
    Simulation::new(job, spec, options).expect("a valid job").run()
}

#[test]
fn guests_make_a_search_faster() {
    let alone = run(job("directory", true).0, sites(1), Vec::new());
    let guests = vec![guest(0, 10, None), guest(1, 10, None)];
    let (job, events) = job("directory", true);
    let helped = run(job, sites(1), guests);

    assert_eq!((alone.outcome, helped.outcome), (Ok(()), Ok(())));
    // Eight PEs work instead of four for nearly all of the time.
    let (alone, helped) = (alone.virtual_time.as_secs_f64(), helped.virtual_time.as_secs_f64());
    assert!(helped < 0.7 * alone, "{helped} s with guests, {alone} s without");
    let events = events.lock().unwrap();
    assert!(matches!(events[..], [GuestEvent::Joined { .. }, GuestEvent::Joined { .. }]));
}

#[test]
fn under_every_policy_guests_join_leave_and_die_and_counts_are_exact() {
    for policy in STEALING_POLICIES {
        for is_search in [true, false] {
            let guests = vec![
                guest(0, 5, Some((120, Departure::Killed))),
                guest(1, 20, Some((150, Departure::Leaves))),
                guest(0, 30, Some((90, Departure::Mistaken))),
                guest(1, 100, None),
            ];
            let (job, events) = job(policy, is_search);
            let report = run(job.tolerate_lost_guests(true), sites(2), guests);
            assert_eq!(report.outcome, Ok(()), "{policy}, {is_search}");
            let events = events.lock().unwrap();
            let lost = events.iter().filter(|event| matches!(event, GuestEvent::Lost { .. }));
            assert_eq!(lost.count(), 2, "{policy}, {is_search}: {events:?}");
        }
    }
}

#[test]
fn a_lost_guest_ends_a_job_that_does_not_tolerate_it_and_is_named() {
    let guests = vec![guest(1, 5, Some((100, Departure::Killed)))];
    let (job, _) = job("directory", true);

    let report = run(job, sites(1), guests);

    let Err(JobError::NodeLost { node, site, .. }) = report.outcome else {
        panic!("{:?}", report.outcome)
    };
    assert_eq!((node.0, site.as_str()), (3, "b"));
}

#[test]
fn a_guest_lost_before_it_is_active_does_not_end_the_job() {
    // The request to join takes 5 ms. After 10 ms more, the coordinator knows that all nodes know
    // the guest.
    let guests = vec![guest(1, 0, Some((8, Departure::Mistaken)))];
    let (job, events) = job("directory", true);

    let report = run(job, sites(1), guests);

    assert_eq!(report.outcome, Ok(()));
    let events = events.lock().unwrap();
    assert!(matches!(events[..], [GuestEvent::Lost { .. }]), "{events:?}");
}

#[test]
fn one_founder_with_one_pe_shares_its_work_with_guests() {
    let spec = GridSpec::from_layout(&Layout::single(1)).unwrap();
    for is_search in [true, false] {
        let (job, _) = job("directory", is_search);
        let job = job.main(async move |grid| {
            let nodes = match is_search {
                true => grid.run_search(Comb::new(TEETH, COST)).await?.0,
                false => grid.run_tasks(Comb::new(TEETH, COST)).await?,
            };
            assert_eq!(nodes, 1 << TEETH);
            Ok(())
        });
        let report = run(job, spec.clone(), vec![guest(0, 5, None), guest(0, 6, None)]);
        assert_eq!(report.outcome, Ok(()));
        // The founder alone would take 1.6 s; five PEs could do it in 0.33 s.
        assert!(report.virtual_time.as_secs_f64() < 0.5, "{}", report.virtual_time);
    }
}

#[test]
fn a_pool_that_main_gives_up_before_it_is_open_is_closed() {
    let (job, events) = job("directory", true);
    let job = job.checkpoints(Checkpoints::every(CheckpointEvery::Points(1)));
    let job = job.main(async |grid| {
        // Main drops the call once before the workers of the pool exist, and once after that.
        for wait in [0, 100] {
            let mut run = pin!(grid.run_search(Comb::new(TEETH, COST)));
            let polled = poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
            grid.sleep(ms(wait)).await?;
        }
        grid.sleep(ms(300)).await?;
        // A checkpoint is postponed while guests work for a pool.
        if let Progress::Postponed { reason } = grid.progress(&()).await? {
            assert!(!reason.contains("pool of tasks"), "{reason}");
        }
        Ok(())
    });

    let report = run(job, sites(1), vec![guest(0, 200, None)]);

    assert_eq!(report.outcome, Ok(()));
    let events = events.lock().unwrap();
    assert!(matches!(events[..], [GuestEvent::Joined { .. }, ..]), "{events:?}");
}

/// A task of 100 ms with a text. The text has 300 KiB at depth 0, and is empty above.
#[derive(Serialize, Deserialize)]
struct Text {
    depth: u32,
    text: String,
}

impl Task for Text {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        cx.charge(ms(100));
        if self.depth == 0 {
            return Step::Done(1);
        }
        let depth = self.depth - 1;
        let bytes = if depth == 0 { 300 << 10 } else { 0 };
        (0..6).for_each(|_| cx.spawn(Self { depth, text: "x".repeat(bytes) }));
        Step::Sync(1)
    }

    fn collect(sum: &mut u64, _child: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

#[test]
fn a_guest_that_leaves_keeps_tasks_that_a_busy_founder_could_not_hold() {
    // At most 1 MiB of the guest's tasks may wait at the founder, whose PE is busy for 100 ms.
    let limits = Limits::default().with_hard_bytes(16 << 20);
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let job = Job::new("texts")
        .tasks::<Text>()
        .limits(limits)
        .on_guests(move |event| told.lock().unwrap().push(event.clone()))
        .main(async |grid| {
            let tasks = grid.run_tasks(Text { depth: 2, text: String::new() }).await?;
            assert_eq!(tasks, 1 + 6 + 36);
            Ok(())
        });
    let spec = GridSpec::from_layout(&Layout::single(1)).unwrap();

    let report = run(job, spec, vec![guest(0, 5, Some((450, Departure::Leaves)))]);

    assert_eq!(report.outcome, Ok(()));
    let events = events.lock().unwrap();
    let has_left = |event: &GuestEvent| matches!(event, GuestEvent::Left { .. });
    assert!(events.iter().any(has_left), "{events:?}");
}

/// Guests that join and depart at random.
fn random_guests(dice: &mut Dice) -> Vec<GuestPlan> {
    let mut below = |bound: u64| dice.below(bound);
    let plan = |_| {
        let joins = below(250);
        let departs = joins + below(250);
        let how = match below(4) {
            0 => None,
            1 => Some(Departure::Leaves),
            2 => Some(Departure::Killed),
            _ => Some(Departure::Mistaken),
        };
        let pes = 1 + below(3) as u32;
        let departs = how.map(|how| (ms(departs), how));
        let site = SiteId(below(2) as u32);
        GuestPlan::new(site, pes, ms(joins)).with_departure(departs)
    };
    (0..6).map(plan).collect()
}

#[test]
fn with_random_guests_on_a_faulty_network_counts_are_exact_and_runs_repeat() {
    for seed in 0..16 {
        let mut dice = Dice::new(seed);
        let guests = random_guests(&mut dice);
        let policy = STEALING_POLICIES[seed as usize % STEALING_POLICIES.len()];
        let simulate = || {
            let faults = FaultPlan::default()
                .with_local_delay(0.05)
                .with_delay_max(ms(2))
                .with_sessions(SessionFaults::default().with_outage_max(ms(20)));
            let options = SimOptions::with_seed(seed)
                .with_faults(faults)
                .with_guests(guests.clone())
                .with_silence(ms(30));
            let (job, _) = job(policy, seed % 2 == 0);
            let job = job.tolerate_lost_guests(true).seed(seed);
            Simulation::new(job, sites(2), options).expect("a valid job").run()
        };
        let report = simulate();
        assert_eq!(report.outcome, Ok(()), "seed {seed}, {policy}");
        // Repeat one run under each policy.
        if seed < STEALING_POLICIES.len() as u64 {
            assert_eq!(report.log_hash, simulate().log_hash, "seed {seed}");
        }
    }
}
