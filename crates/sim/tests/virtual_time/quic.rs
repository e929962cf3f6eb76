//! Nodes that communicate over QUIC in virtual time: a seed repeats its run, whatever else the
//! process does; faults happen and change no result; and transports alone detect dead nodes.

use crate::common::comb::{Comb, Nodes};
use gridspan_balance::stealing::Directory;
use gridspan_runtime::session::PlantedSessionFault;
use gridspan_runtime::{GuestEvent, Job, JobError, Layout, SiteId};
use gridspan_sim::campaign::{Campaign, Planted, Scenario, run_scenario};
use gridspan_sim::{
    Departure, FaultPlan, GuestPlan, LostNode, QuicFaults, SimError, SimOptions, SimReport,
    Simulation,
};
use gridspan_topology::{GridSpec, Latency, Link, NodeId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const COST: Duration = Duration::from_millis(3);
const TEETH: u32 = 14;

fn quic_faults() -> QuicFaults {
    QuicFaults::default()
        .with_bulk_bytes(64)
        .with_loss(0.02)
        .with_duplicate(0.05)
        .with_disconnect(0.02)
        .with_partitions(0.3, Duration::from_millis(800))
}

/// Two nodes at each of two sites.
fn grid() -> GridSpec {
    let site = |name: &str| (name.to_owned(), vec![2; 2]);
    let wan = Link::wan().with_latency(Latency::from_millis(5));
    GridSpec::from_layout(&Layout::new(vec![site("a"), site("b")])).unwrap().with_wan(wan)
}

/// Counts the tree over QUIC, with a guest that joins at 100 ms and may depart at 1 s. Also returns
/// the guests that were lost.
fn count(seed: u64, departs: Option<Departure>) -> (SimReport, Vec<NodeId>) {
    let lost = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&lost);
    let job =
        Job::new("comb").search::<Comb>().stealing(Directory::default()).tolerate_lost_guests(true);
    let job = job.on_guests(move |event| {
        if let GuestEvent::Lost { guest, .. } = event {
            told.lock().unwrap().push(*guest);
        }
    });
    let job = job.main(async move |grid| {
        assert_eq!(grid.run_search(Comb::new(TEETH, COST)).await?, Nodes(1 << TEETH));
        grid.quiescence().await?;
        Ok(())
    });
    let departs = departs.map(|how| (Duration::from_secs(1), how));
    let joins = Duration::from_millis(100);
    let options = SimOptions::with_seed(seed)
        .with_guests(vec![GuestPlan::new(SiteId(1), 2, joins).with_departure(departs)])
        // The simulation itself reports no loss within the duration of the job.
        .with_silence(Duration::from_secs(3_600))
        .with_faults(
            FaultPlan::default()
                .with_frame_delay(0.2)
                .with_delay_max(Duration::from_millis(10))
                .with_reorder(true)
                .with_quic(quic_faults()),
        );
    let report = Simulation::new(job, grid(), options).unwrap().run();
    let lost = lost.lock().unwrap().clone();
    (report, lost)
}

fn guest() -> NodeId {
    grid().layout().guest(SiteId(1), 0).unwrap()
}

/// All fields of a report except its log.
fn figures(report: &SimReport) -> String {
    let mut report = report.clone();
    report.log.clear();
    format!("{report:?}")
}

/// Runs `act` while another thread runs other seeds.
fn beside_other_runs<T>(act: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for seed in 1_000.. {
                if is_done.load(Ordering::Relaxed) {
                    return;
                }
                count(seed, Some(Departure::Killed));
            }
        });
        let result = act();
        is_done.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn a_seed_repeats_events_times_and_sizes_of_datagrams() {
    let run = |seed| count(seed, Some(Departure::Killed));
    let (one, lost) = run(5);
    let (other, also_lost) = beside_other_runs(|| run(5));
    let (another, _) = run(6);

    assert_eq!(figures(&one), figures(&other));
    assert_eq!(lost, also_lost);
    assert_ne!(one.log_hash, another.log_hash);
}

#[test]
fn a_seed_of_the_campaign_repeats_its_packets() {
    let scenario = |seed| Scenario::new(seed, Duration::from_secs(3), Planted::None);
    let run = |seed| run_scenario(&scenario(seed), true);
    for seed in (0..).filter(|&seed| Scenario::is_over_quic(seed)).take(2) {
        let (one, actions, problem) = run(seed);
        let (other, same_actions, _) = beside_other_runs(|| run(seed));

        assert_eq!(problem, None, "seed {seed}");
        assert!(one.quic.datagrams > 1_000, "seed {seed}: {:?}", one.quic);
        assert_eq!(one.log, other.log, "seed {seed}");
        assert_eq!(figures(&one), figures(&other), "seed {seed}");
        assert_eq!(actions, same_actions, "seed {seed}");
    }
}

#[test]
fn the_result_is_exact_under_all_faults_of_the_network() {
    let mut happened = [0; 8];
    for seed in 1..=4 {
        let (report, lost) = count(seed, None);

        assert_eq!(report.outcome, Ok(()));
        assert_eq!(lost, [], "a guest that lives is not lost");
        let (faults, quic) = (report.faults, report.quic);
        assert!(
            quic.connections > 6,
            "four founders need six, and no broken one was made again: {quic:?}"
        );
        assert_eq!(quic.lost_nodes, 0);
        let counts = [
            quic.connections,
            quic.datagrams,
            quic.datagrams_lost,
            faults.reordered,
            faults.duplicated,
            faults.disconnects,
            faults.partitions,
            faults.cut_off,
        ];
        happened.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    assert!(happened.iter().all(|&count| count > 0), "too little happened: {happened:?}");
}

#[test]
fn transports_alone_declare_a_dead_or_cut_off_guest_lost() {
    for how in [Departure::Killed, Departure::Mistaken] {
        let (report, lost) = count(2, Some(how));

        assert_eq!(report.outcome, Ok(()), "{how:?}");
        assert_eq!(lost, [guest()], "{how:?}");
        assert!(report.quic.lost_nodes >= 4, "each founder finds out: {:?}", report.quic);
        let patience = Duration::from_secs(3);
        assert!(report.virtual_time.as_secs_f64() > 1.0 + patience.as_secs_f64(), "{how:?}");
    }
}

#[test]
fn losses_of_nodes_of_the_layout_are_refused() {
    let job = Job::new("empty").main(async |_| Ok::<(), JobError>(()));
    let options = SimOptions::default()
        .with_lost_nodes(vec![LostNode::new(NodeId(1), Duration::from_secs(1))])
        .with_faults(FaultPlan::default().with_quic(quic_faults()));
    let refusal = Simulation::new(job, grid(), options).err();
    assert_eq!(refusal, Some(SimError::LostNodesOverQuic));
}

#[test]
fn a_transport_that_does_not_resume_its_session_is_found_on_seeds_over_quic() {
    let planted = Planted::Session(PlantedSessionFault::NotResumed);
    let campaign = |seeds| Campaign {
        virtual_seconds: 6,
        threads: 2,
        only_quic: true,
        planted,
        ..Campaign::new(seeds)
    };
    let failure = campaign(0..100).run().failure.expect("it is found within ten seeds over QUIC");

    assert!(Scenario::is_over_quic(failure.seed));
    let repeated = campaign(failure.seed..failure.seed + 1).run();
    assert_eq!(repeated.failure, Some(failure), "a seed repeats its failure");
}
