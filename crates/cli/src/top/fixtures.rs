//! A job for the tests of the screens: two sites with two nodes of one PE each.

use super::moment::Moment;
use crate::request::{JobEvent, JobEventKind};
use gridspan::links::LinkReport;
use gridspan_runtime::message::telemetry::{
    LinkTelemetry, NodeTelemetry, PeTelemetry, SiteTelemetry, TelemetryCounts, TelemetrySample,
    TypeTelemetry,
};
use gridspan_topology::{
    Bandwidth, GridSpec, Hierarchy, Latency, LinkEstimate, NodeId, PeId, SiteId, Time,
};
use std::time::Duration;

/// The job after this number of seconds. Each PE is busy for a share of the time: 10 % on node 0,
/// 30 % on node 1, and so on.
pub(crate) fn moment(seconds: u64) -> Moment {
    let grid = GridSpec::from_emulate("2x2").unwrap();
    let sample = sample(seconds);
    Moment {
        job: "leanmd-4711".to_owned(),
        program: "leanmd".to_owned(),
        began_ms: 1_700_000_000_000,
        links: Some(links(&grid)),
        grid,
        sample,
        rebalances: 2,
        losses: 1,
        run: 1,
        events: vec![
            JobEvent {
                at: Duration::from_secs(3),
                kind: JobEventKind::Rebalance,
                text: "sync point: auto: 12 of 64 actors moved (48 KiB)".to_owned(),
            },
            JobEvent {
                at: Duration::from_secs(125),
                kind: JobEventKind::Warning,
                text: "one handler takes long".to_owned(),
            },
        ],
    }
}

fn counts(node: u64, seconds: u64) -> TelemetryCounts {
    let us = seconds * 1_000_000;
    let busy_us = us * (1 + 2 * node) / 10;
    TelemetryCounts {
        busy_us,
        network_us: us / 20,
        idle_us: us - busy_us - us / 20,
        ran_us: us / 2,
        waited_us: us / 2 * node / 4,
        handled: 1000 * seconds * (node + 1),
        waiting: 10 * node,
        waiting_bytes: 12_000 * node,
        actors: 16,
        migrations: 3,
        tasks_done: 0,
        tasks_waiting: 0,
    }
}

fn sample(seconds: u64) -> TelemetrySample {
    let of_node = |node: u32| NodeTelemetry {
        node: NodeId(node),
        site: SiteId(node / 2),
        pes: 1,
        counts: counts(u64::from(node), seconds),
        memory_bytes: 52_400_000,
        busy_permille: 100 + 200 * node as u16,
        late_pes: u32::from(node == 3),
        is_focus: false,
    };
    let of_pe = |node: u32| PeTelemetry {
        pe: PeId(node),
        counts: counts(u64::from(node), seconds),
        is_late: node == 3,
    };
    let of_site = |site: u32| {
        let mut sum = counts(u64::from(2 * site), seconds);
        sum += counts(u64::from(2 * site) + 1, seconds);
        let memory_bytes = 104_800_000;
        SiteTelemetry { site: SiteId(site), nodes: 2, pes: 2, counts: sum, memory_bytes }
    };
    let of_type = |(number, site, per_s): (u16, u32, u64)| TypeTelemetry {
        number,
        site: SiteId(site),
        actors: if number == 0 { 30 } else { 2 },
        handled: seconds * per_s,
        waiting: 10 * u64::from(site),
    };
    let link = |(from, to, per_s): (u32, u32, u64)| LinkTelemetry {
        from: SiteId(from),
        to: SiteId(to),
        messages: seconds * per_s,
        bytes: seconds * per_s * 5000,
    };
    TelemetrySample {
        tick: seconds,
        at_us: seconds * 1_000_000,
        depth: 3,
        received: 2,
        received_bytes: 900,
        newest_step: 5 * seconds + 1,
        telemetry_ns: 36_000,
        telemetry_ns_max: 12_000,
        processor_ns: 20_000,
        processor_ns_max: 7_000,
        sites: vec![of_site(0), of_site(1)],
        nodes: (0..4).map(of_node).collect(),
        pes: (0..4).map(of_pe).collect(),
        types: [(0, 0, 2990), (0, 1, 5980), (1, 0, 10), (1, 1, 20)].map(of_type).to_vec(),
        links: [(0, 0, 900), (0, 1, 1000), (1, 0, 800), (1, 1, 700)].map(link).to_vec(),
        type_names: vec!["jobs::leanmd::Cell".to_owned(), "jobs::leanmd::Clock".to_owned()],
    }
}

/// Links between the sites. Only that from the first to the second is measured.
fn links(grid: &GridSpec) -> LinkReport {
    let hierarchy = Hierarchy::from_grid(grid);
    let ends = hierarchy.ends(NodeId(0), NodeId(2)).unwrap();
    let mut estimate = LinkEstimate::new(Latency::from_millis(10), Time::ZERO);
    estimate.bandwidth = Some(Bandwidth::from_bits_per_second(100_000_000));
    let mut report = LinkReport::of_places(Time::ZERO, hierarchy);
    report.estimates = vec![(ends, estimate)];
    report
}
