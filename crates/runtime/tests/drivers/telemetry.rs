//! Samples of the counters of a running job, over QUIC between its nodes.

use crate::cell::{Cell, MEMBERS, Msg};
use crate::{job, two_sites};
use gridspan_runtime::driver::{NodeHandle, embedded};
use gridspan_runtime::message::telemetry::{NodeTelemetry, TelemetryLease, TelemetrySample};
use gridspan_runtime::{Ix1, Job, NodeId, PeId, SiteId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const LEASE: TelemetryLease = TelemetryLease { period_ms: 200, focus: None };

/// Three periods, less the times by which samples may be early or late.
const THREE_PERIODS_US: u64 = 500_000;

/// Returns the time between two samples of a node, in microseconds.
fn time_us(before: &NodeTelemetry, after: &NodeTelemetry) -> u64 {
    let [before_us, after_us] = [before, after].map(|node| node.counts.time_us());
    after_us.saturating_sub(before_us) / u64::from(after.pes)
}

/// Ends the job when it is dropped, also if a test fails.
struct GoesOn(Arc<AtomicBool>);

impl Drop for GoesOn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// A job whose actors send messages until `goes_on` is false.
fn hopping(goes_on: Arc<AtomicBool>) -> Job {
    job().main(async move |grid| {
        let cells = grid.create::<Cell>(Ix1::range(MEMBERS), |_| 0).await?;
        while goes_on.load(Ordering::SeqCst) {
            cells.member(Ix1(0)).send(Msg::Hop(250));
            grid.quiescence().await?;
        }
        Ok(())
    })
}

/// Asks for samples until one is as wanted.
fn await_sample(
    node: &NodeHandle,
    is_wanted: impl Fn(&TelemetrySample) -> bool,
) -> TelemetrySample {
    let begin = Instant::now();
    loop {
        if let Some(sample) = node.sample(LEASE).filter(|sample| is_wanted(sample)) {
            return sample;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "there should be a sample");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_node_of_main_gets_samples_of_all_nodes_while_it_asks_for_them() {
    let is_watched = Arc::new(AtomicBool::new(true));
    let job = hopping(is_watched.clone());
    let (mut watching, goes_on) = (None, GoesOn(is_watched));
    let begun = |node: NodeHandle| {
        watching = Some(thread::spawn(move || {
            let _goes_on = goes_on;
            let is_whole = |it: &TelemetrySample| {
                it.node_count() == 3 && it.nodes.iter().all(|node| node.counts.handled > 0)
            };
            let first = await_sample(&node, is_whole);
            // On a busy machine, the counters of a node may come too late for some samples.
            let is_later = |it: &TelemetrySample| {
                let is_of_later = |(before, after): (&NodeTelemetry, &NodeTelemetry)| {
                    time_us(before, after) >= THREE_PERIODS_US
                        && after.counts.handled > before.counts.handled
                        && after.counts.idle_us > before.counts.idle_us
                };
                is_whole(it) && first.nodes.iter().zip(&it.nodes).all(is_of_later)
            };
            let second = await_sample(&node, is_later);
            (first, second)
        }));
    };
    embedded::run_emulated_with(job, &two_sites(), begun).unwrap();
    let (first, second) = watching.unwrap().join().unwrap();

    assert!(second.at_us > first.at_us);
    assert_eq!(second.depth, 2, "both other nodes are children of the root");
    let pes: Vec<PeId> = second.pes.iter().map(|pe| pe.pe).collect();
    assert_eq!(pes, (0..second.total().pes).map(PeId).collect::<Vec<PeId>>());
    for sample in [&first, &second] {
        assert_eq!(sample.total().counts.actors, u64::from(MEMBERS));
        assert!(sample.telemetry_ns > 0 && sample.telemetry_ns_max <= sample.telemetry_ns);
        assert!(sample.processor_ns > 0 && sample.processor_ns_max <= sample.processor_ns);
        let name = sample.type_names.iter().position(|name| name.ends_with("cell::Cell"));
        let number = name.unwrap() as u16;
        let cells = sample.types.iter().filter(|it| it.number == number);
        assert_eq!(cells.map(|it| it.actors).sum::<u64>(), u64::from(MEMBERS));
    }
    for (before, after) in first.nodes.iter().zip(&second.nodes) {
        let time_us = time_us(before, after);
        assert!(time_us < 60_000_000, "{time_us} us on {}", after.node);
        assert_eq!(after.site, SiteId(u32::from(after.node == NodeId(2))));
    }
    let sent = |sample: &TelemetrySample| {
        let mut links = sample.links.iter();
        let link = links.find(|link| (link.from, link.to) == (SiteId(0), SiteId(1))).unwrap();
        (link.messages, link.bytes)
    };
    assert!(sent(&second) > sent(&first), "{:?} after {:?}", sent(&second), sent(&first));
}

#[test]
fn a_job_of_one_node_is_sampled_without_a_network() {
    let is_watched = Arc::new(AtomicBool::new(true));
    let job = hopping(is_watched.clone());
    let (mut watching, goes_on) = (None, GoesOn(is_watched));
    let begun = |node: NodeHandle| {
        watching = Some(thread::spawn(move || {
            let _goes_on = goes_on;
            let is_whole = |it: &TelemetrySample| it.pes.iter().all(|pe| pe.counts.handled > 0);
            let first = await_sample(&node, is_whole);
            let has_grown =
                |it: &TelemetrySample| it.total().counts.handled > first.total().counts.handled;
            let second = await_sample(&node, has_grown);
            (first, second)
        }));
    };
    embedded::run_with(job, 2, begun).unwrap();
    let (first, second) = watching.unwrap().join().unwrap();

    assert!(second.at_us > first.at_us);
    for sample in [&first, &second] {
        assert_eq!((sample.node_count(), sample.total().pes, sample.pes.len()), (1, 2, 2));
        assert_eq!(sample.total().counts.actors, u64::from(MEMBERS));
        assert!(sample.links.is_empty(), "{sample:?}");
    }
}
