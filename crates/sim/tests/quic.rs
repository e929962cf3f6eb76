//! Nodes that talk over QUIC in virtual time: a run can be repeated, and the transport's own faults
//! are found.
#![allow(missing_docs)]

use gridspan_runtime::session::PlantedFault;
use gridspan_sim::campaign::{Campaign, Planted, Scenario, run_scenario};
use std::time::Duration;

const SECONDS: u64 = 6;

fn campaign(seeds: std::ops::Range<u64>, planted: Planted) -> Campaign {
    let only_quic = true;
    Campaign { virtual_seconds: SECONDS, threads: 2, planted, only_quic, ..Campaign::new(seeds) }
}

#[test]
fn nothing_is_lost_or_repeated_and_everything_that_can_happen_to_connections_does() {
    let report = campaign(0..150, Planted::None).run();

    assert_eq!(report.failure, None, "{report}");
    assert_eq!((report.runs, report.quic_runs), (15, 15), "{report}");
    let (faults, quic) = (report.faults, report.quic);
    let happened = [
        quic.connections,
        quic.datagrams_lost,
        quic.suspicions,
        quic.lost_nodes,
        faults.disconnects,
        faults.partitions,
        faults.cut_off,
        faults.duplicated,
        faults.reordered,
        report.doings.migrations,
        report.doings.guests,
    ];
    assert!(happened.iter().all(|&count| count > 0), "too little happened: {report}");
    // Each frame travels in some datagram, and connections cost some more.
    assert!(quic.datagrams > report.frames, "{report}");
}

/// Keys and ciphertext differ from run to run; when datagrams leave, how long they are, and what
/// follows do not.
#[test]
fn the_same_seed_gives_the_same_datagrams_at_the_same_times() {
    let scenario = |seed| Scenario::new(seed, Duration::from_secs(SECONDS), Planted::None);
    let over_quic: Vec<u64> = (0..100).filter(|&seed| Scenario::is_over_quic(seed)).collect();
    assert_eq!(over_quic.len(), 10, "every tenth seed");
    for &seed in &over_quic[..3] {
        let (one, _, _) = run_scenario(&scenario(seed), true);
        run_scenario(&scenario(seed + 10), false);
        let (other, _, _) = run_scenario(&scenario(seed), true);

        assert!(one.quic.datagrams > 1_000, "{:?}", one.quic);
        assert_eq!(one.log, other.log);
        assert_eq!(one.log_hash, other.log_hash, "it has all datagrams");
        assert_eq!((one.quic, one.faults), (other.quic, other.faults));
        assert_eq!(one.virtual_time, other.virtual_time);
    }
}

fn assert_found(planted: PlantedFault) {
    let report = campaign(0..100, Planted::Session(planted)).run();

    assert!(report.failure.is_some(), "a planted bug is found within 10 seeds: {report}");
}

#[test]
fn sending_frames_again_as_new_ones_is_found() {
    assert_found(PlantedFault::ResendWithoutSequence);
}

#[test]
fn acknowledging_before_handing_up_is_found() {
    assert_found(PlantedFault::AcknowledgeBeforeApply);
}

#[test]
fn beginning_a_session_again_where_it_should_be_resumed_is_found() {
    assert_found(PlantedFault::NotResumed);
}
