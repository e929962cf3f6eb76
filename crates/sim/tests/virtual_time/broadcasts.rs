//! Broadcasts over planned trees, in virtual time.

use crate::common::speaker::times_ms;
use bytes::Bytes;
use gridspan_bcast::Mode;
use gridspan_runtime::{
    Actor, BroadcastReport, Context, Ix1, Job, JobError, Layout, Op, SectionRef, To,
};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::{GridSpec, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;

/// Confirms each message with the sum of its bytes.
#[derive(Serialize, Deserialize)]
struct Listener;

impl Actor for Listener {
    type Index = Ix1;
    type Init = ();
    type Message = Bytes;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Bytes, cx: &mut Context<'_, Self>) {
        let sum: u64 = message.iter().map(|&byte| u64::from(byte)).sum();
        cx.contribute(Op::Sum, sum, To::main());
    }
}

/// Broadcasts `rounds` times, with a pause of a second after each. Returns the time until all
/// members had confirmed each broadcast.
fn broadcasts(spec: &GridSpec, rounds: u8, bytes: usize) -> (SimReport, Vec<Duration>) {
    broadcasts_where(spec, rounds, bytes, false)
}

/// Like [`broadcasts`]. With `is_known`, the places of nodes are measured before the first
/// broadcast; otherwise only when a broadcast is large enough for that to matter.
fn broadcasts_where(
    spec: &GridSpec,
    rounds: u8,
    bytes: usize,
    is_known: bool,
) -> (SimReport, Vec<Duration>) {
    let job = Job::new("listeners");
    run(job, spec, &vec![bytes; usize::from(rounds)], (is_known, Duration::from_secs(1)))
}

/// Makes broadcasts of these sizes in bytes, with a pause after each.
fn run(
    job: Job,
    spec: &GridSpec,
    sizes: &[usize],
    (is_known, pause): (bool, Duration),
) -> (SimReport, Vec<Duration>) {
    let (out, results) = mpsc::channel();
    let pes = spec.layout().pe_count();
    let sizes = sizes.to_vec();
    let job = job.actor::<Listener>().main(async move |grid| {
        let listeners = grid.create::<Listener>(Ix1::range(pes), |_| ()).await?;
        if is_known {
            grid.places().await?;
        }
        for (round, bytes) in (1_u8..).zip(sizes) {
            let begin = grid.now().await?;
            listeners.broadcast(vec![round; bytes].into());
            let sum: u64 = listeners.reduction(Op::Sum).await?;
            if sum != u64::from(pes) * u64::from(round) * bytes as u64 {
                return Err(JobError::Failed(format!("round {round}: {sum}")));
            }
            let took = grid.now().await?.since(begin);
            out.send(took).map_err(|_| "the test has ended")?;
            grid.sleep(pause).await?;
        }
        Ok(())
    });
    let report = Simulation::new(job, spec.clone(), SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    (report, results.try_iter().collect())
}

fn mean(times: &[Duration]) -> Duration {
    times.iter().sum::<Duration>() / times.len() as u32
}

#[test]
fn broadcasts_avoid_a_slow_link_once_it_is_known() {
    let spec = GridSpec::from_emulate("4x2,wan=10ms,rate=50mbit").unwrap();
    let spec = spec.with_change("at 0s link a-d rate=3mbit").unwrap();

    let (_, times) = broadcasts(&spec, 20, 200_000);

    // A broadcast takes 0.53 s over the slow link, and little more than twice 32 ms through another
    // site.
    let (first, last) = (times[0], mean(&times[15..]));
    assert!(first > Duration::from_millis(500), "{times:?}");
    assert!(last < Duration::from_millis(150), "{times:?}");
}

#[test]
fn broadcasts_adapt_to_a_link_that_is_slow_for_a_time() {
    let spec = GridSpec::from_emulate("4x2,wan=10ms,rate=50mbit").unwrap();
    let spec = spec.with_change("at 15s link a-d rate=3mbit").unwrap();
    let spec = spec.with_change("at 45s link a-d rate=50mbit").unwrap();

    let (_, times) = broadcasts(&spec, 80, 200_000);

    let quiet = mean(&times[5..12]);
    assert!(mean(&times[25..35]) < 2 * quiet, "under load: {times:?}");
    assert!(mean(&times[65..]) < quiet + quiet / 5, "afterwards: {times:?}");
}

#[test]
fn small_broadcasts_and_their_confirmations_take_a_faster_detour() {
    let spec = GridSpec::from_emulate("4x2,wan=10ms").unwrap();
    let spec = spec.with_change("at 0s link a-d latency=60ms").unwrap();

    let (_, times) = broadcasts_where(&spec, 20, 10, true);

    // A round trip takes 120 ms directly, and 40 ms through another site.
    assert!(times[0] > Duration::from_millis(120), "{times:?}");
    assert!(mean(&times[15..]) < Duration::from_millis(50), "{times:?}");
}

#[test]
fn small_broadcasts_and_those_inside_one_site_do_not_become_slower() {
    let layout = Layout::new(vec![("a".to_owned(), vec![1; 8])]);
    for (spec, bytes) in [
        (GridSpec::from_layout(&layout).unwrap(), 100_000),
        (GridSpec::from_emulate("2x4,wan=10ms").unwrap(), 10),
    ] {
        let (_, times) = broadcasts(&spec, 12, bytes);
        assert!(mean(&times[8..]) < times[0] + times[0] / 20, "{bytes} bytes: {times:?}");
    }
}

#[test]
fn plans_become_no_slower_than_the_default_tree_and_nearly_optimal() {
    // Each case gives the time in ms of the best strategy of `gridctl bcast`, and of the
    // confirmation, which takes one latency.
    let cases: [(&str, &[usize], f64, f64); 2] = [
        ("3x2,wan=10ms,rate=50mbit", &[300_000], 45.7, 10.0),
        // Earlier sizes make no difference.
        ("3x2,wan=10ms,rate=50mbit", &[40_000, 300_000], 45.7, 10.0),
    ];
    for (spec, sizes, best_ms, confirming_ms) in cases {
        let spec = GridSpec::from_emulate(spec).unwrap();
        let sizes: Vec<usize> = sizes.iter().flat_map(|&bytes| [bytes; 13]).collect();
        let pause = Duration::from_millis(20);
        let times = |mode| {
            let job = Job::new("listeners").broadcasts(mode);
            let (_, times) = run(job, &spec, &sizes, (false, pause));
            // The mean of the last three, which follow ten broadcasts of the last size.
            mean(&times[times.len() - 3..]).as_secs_f64() * 1e3
        };
        let (planned_ms, tree_ms) = (times(Mode::Planned), times(Mode::Layout));
        assert!(planned_ms < 1.01 * tree_ms, "{spec:?}: {planned_ms} instead of {tree_ms} ms");
        let best_ms = best_ms + confirming_ms;
        assert!(planned_ms < 1.15 * best_ms, "{spec:?}: {planned_ms} ms, best {best_ms} ms");
    }
}

/// Confirms the messages to a section.
#[derive(Serialize, Deserialize)]
struct Member;

#[derive(Clone, Serialize, Deserialize)]
struct Part {
    bytes: Bytes,
    section: SectionRef<Member>,
}

impl Actor for Member {
    type Index = Ix1;
    type Init = ();
    type Message = Part;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, Part { bytes, section }: Part, cx: &mut Context<'_, Self>) {
        let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
        cx.contribute_to_section(&section, Op::Sum, sum, To::main());
    }
}

/// Creates a member on each PE, and sends multicasts to those with the indices `to`. Returns the
/// time until all of these had confirmed each multicast.
fn multicasts(spec: &GridSpec, rounds: u8, bytes: usize, to: &[i32]) -> (SimReport, Vec<Duration>) {
    let (out, results) = mpsc::channel();
    let pes = spec.layout().pe_count();
    let members = to.to_vec();
    let job = Job::new("members").actor::<Member>().main(async move |grid| {
        let all = grid.create::<Member>(Ix1::range(pes), |_| ()).await?;
        let section = all.section(1, members.iter().map(|&index| Ix1(index)));
        for round in 1..=rounds {
            let begin = grid.now().await?;
            all.multicast(
                &section,
                Part { bytes: vec![round; bytes].into(), section: section.clone() },
            );
            let sum: u64 = all.section_reduction(&section, Op::Sum).await?;
            if sum != members.len() as u64 * u64::from(round) * bytes as u64 {
                return Err(JobError::Failed(format!("round {round}: {sum}")));
            }
            out.send(grid.now().await?.since(begin)).map_err(|_| "the test has ended")?;
            grid.sleep(Duration::from_secs(1)).await?;
        }
        Ok(())
    });
    let report = Simulation::new(job, spec.clone(), SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    (report, results.try_iter().collect())
}

#[test]
fn large_multicasts_avoid_a_slow_link_through_nodes_outside_the_section() {
    let spec = GridSpec::from_emulate("4x2,wan=10ms,rate=50mbit").unwrap();
    let spec = spec.with_change("at 0s link a-d rate=3mbit").unwrap();

    // The receivers are the two nodes of the site behind the slow link.
    let (report, times) = multicasts(&spec, 20, 200_000, &[6, 7]);

    let (first, last) = (times[0], mean(&times[15..]));
    assert!(first > Duration::from_millis(500), "{times:?}");
    assert!(last < Duration::from_millis(150), "{times:?}");
    let (again, same) = multicasts(&spec, 20, 200_000, &[6, 7]);
    assert_eq!((report.log_hash, times), (again.log_hash, same), "the same seed, the same run");
}

#[test]
fn large_multicasts_are_passed_on_as_they_arrive() {
    let spec = GridSpec::from_emulate("2x4,wan=10ms,rate=80mbit").unwrap();

    let (_, times) = multicasts(&spec, 3, 1_000_000, &[4, 5, 6, 7]);

    // A multicast takes 100 ms over the wide area, and at most one segment more inside the site.
    assert!(times[0] < Duration::from_millis(150), "{times:?}");
}

/// Mean time of the last three broadcasts from the node `root` until all members have them, in ms.
fn from_root_ms(spec: &GridSpec, root: u32, bytes: usize, mode: Mode) -> f64 {
    let job = Job::new("speakers").broadcasts(mode);
    // The planner needs measurements, which the first broadcasts give.
    let rounds = if mode == Mode::Planned { 16 } else { 8 };
    let times = times_ms(job, spec, root, (bytes, true), rounds);
    times[rounds - 3..].iter().sum::<f64>() / 3.0
}

#[test]
fn large_broadcasts_take_as_long_from_any_node_and_small_ones_at_most_a_latency_more() {
    for (name, latency_ms) in [
        ("4x2,wan=10ms,rate=50mbit", 10.0),
        ("3x3,wan=20ms,rate=100mbit", 20.0),
        ("2x1,wan=5ms,rate=20mbit", 5.0),
    ] {
        let spec = GridSpec::from_emulate(name).unwrap();
        let last = spec.layout().node_count() - 1;
        let sizes = [(100_000, false), (1_000_000, false), (300_000, true)];
        // Planning takes long in unoptimised builds, so it is tested once.
        let is_planned = name.starts_with("4x2");
        for (bytes, plans) in sizes.into_iter().filter(|(_, plans)| is_planned || !plans) {
            let mode = if plans { Mode::Planned } else { Mode::Layout };
            let first_ms = from_root_ms(&spec, 0, bytes, mode);
            let last_ms = from_root_ms(&spec, last, bytes, mode);
            // The number of the broadcast arrives after one latency to the coordinator and one
            // back.
            assert!(
                last_ms <= 1.1 * first_ms.max(2.0 * latency_ms),
                "{name}, {bytes} bytes, planned: {plans}: {last_ms} ms instead of {first_ms}"
            );
        }
        for bytes in [8, 10_000] {
            let first_ms = from_root_ms(&spec, 0, bytes, Mode::Layout);
            let last_ms = from_root_ms(&spec, last, bytes, Mode::Layout);
            assert!(
                last_ms <= 1.1 * first_ms + latency_ms,
                "{name}, {bytes} bytes: {last_ms} ms instead of {first_ms}"
            );
        }
    }
}

#[test]
fn large_broadcasts_are_reported_with_their_trees_and_times() {
    let spec = GridSpec::from_emulate("3x3,wan=10ms,rate=50mbit").unwrap();
    let layout = spec.layout();
    for mode in [Mode::Planned, Mode::Layout] {
        let (tell, told) = mpsc::channel();
        let job = Job::new("listeners")
            .broadcasts(mode)
            .on_broadcast(move |report| tell.send(report.clone()).unwrap_or_default());
        let sizes = [200_000, 100, 200_000];

        let (_, times) = run(job, &spec, &sizes, (true, Duration::from_secs(1)));

        let reports: Vec<BroadcastReport> = told.try_iter().collect();
        assert_eq!(reports.len(), 2, "small ones are left out: {reports:?}");
        for (report, took) in reports.iter().zip([times[0], times[2]]) {
            assert_eq!((report.root, report.reached), (NodeId(0), 8));
            assert!(report.bytes >= 200_000, "{report:?}");
            assert!(report.took <= took, "main knows it after {took:?}: {report:?}");
            let trees: BTreeSet<u32> = report.edges.iter().map(|edge| edge.tree).collect();
            assert!(!trees.is_empty(), "{report:?}");
            for tree in trees {
                let mut reached = BTreeSet::from([report.root]);
                for edge in report.edges.iter().filter(|edge| edge.tree == tree) {
                    assert!(reached.contains(&edge.from), "{report:?}");
                    assert!(reached.insert(edge.to), "{report:?}");
                    assert!(edge.after <= Some(report.took), "{report:?}");
                }
                assert_eq!(reached.len(), 9);
            }
        }
        // The first one takes the tree of the layout, which crosses once to each other site: 32 ms
        // for its bytes, and 10 ms of latency.
        let first = &reports[0];
        assert_eq!(first.plan, 0);
        assert!(first.took > Duration::from_millis(40), "{first:?}");
        let site = |node| layout.site_of_node(node);
        let crossings = first.edges.iter().filter(|edge| site(edge.from) != site(edge.to));
        assert_eq!(crossings.count(), 2);
    }
}
