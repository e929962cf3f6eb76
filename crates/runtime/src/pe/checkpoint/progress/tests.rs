//! Tests of main's progress points.

use crate::address::id::MAIN_PE;
use crate::error::{JobError, Warning};
use crate::job::program::Program;
use crate::message::CheckpointMessage;
use crate::pe::Pe;
use crate::pe::checkpoint::state::main::RETRY;
use crate::{CheckpointEvery, Checkpoints, Job};
use bytes::Bytes;
use gridspan_topology::{Layout, Time};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The PE of main in a job that makes a checkpoint each minute.
fn main_pe() -> Pe {
    let every = CheckpointEvery::Time(Duration::from_secs(60));
    let job = Job::new("postponed")
        .checkpoints(Checkpoints::every(every))
        .main(async |_| Ok::<(), JobError>(()));
    Program::new(job, Layout::single(1)).unwrap().pe(MAIN_PE)
}

#[test]
fn the_first_checkpoint_is_tried_again_at_the_first_progress_point_after_a_pause() {
    let mut pe = main_pe();
    let mut is_requested_at = |at: Duration, streamed| {
        pe.core.now = Time::ZERO + at;
        pe.core.progress(Bytes::new(), 0, streamed, |_| {});
        pe.core.checkpointing.main.is_requested
    };

    assert!(!is_requested_at(Duration::ZERO, 1), "it is postponed");
    assert!(!is_requested_at(RETRY / 2, 0));
    assert!(is_requested_at(RETRY, 0));
}

#[test]
fn checkpoints_that_cannot_be_stored_are_tried_again_later_each_time() {
    let mut pe = main_pe();
    let (mut number, mut delays) = (0, Vec::new());
    let mut fail = |pe: &mut Pe| {
        number += 1;
        let now = pe.core.now;
        pe.core.checkpointing.main.note_captured(number, now, Duration::ZERO);
        pe.handle_checkpoint(MAIN_PE, CheckpointMessage::Resume { checkpoint: number });
        pe.core.checkpointing.main.retry_at.since(now)
    };

    for _ in 0..3 {
        delays.push(fail(&mut pe));
        pe.core.progress(Bytes::new(), 0, 0, |_| {});
        assert!(!pe.core.checkpointing.main.is_requested, "too early");
    }
    assert_eq!(delays, [2, 4, 8].map(|times| RETRY * times));
    pe.core.now = pe.core.checkpointing.main.retry_at;
    pe.core.progress(Bytes::new(), 0, 0, |_| {});
    assert!(pe.core.checkpointing.main.is_requested, "it does not wait for a whole interval");

    let cost = Duration::ZERO;
    pe.core.checkpointing.main.note_captured(10, pe.core.now, cost);
    pe.core.checkpointing.main.note_complete(10, cost);
    pe.core.checkpointing.main.note_captured(11, pe.core.now, cost);
    pe.core.checkpointing.main.note_resumed(11, pe.core.now);
    assert_eq!(pe.core.checkpointing.main.retry_at.since(pe.core.now), RETRY * 2);

    // Nodes wait to leave.
    pe.core.pause(vec![], true).unwrap();
    pe.core.checkpointing.main.note_captured(12, pe.core.now, cost);
    pe.core.checkpointing.main.note_resumed(12, pe.core.now);
    assert_eq!(pe.core.checkpointing.main.retry_at.since(pe.core.now), RETRY);
}

#[test]
fn after_a_loss_the_next_checkpoint_comes_early_only_if_that_one_is_not_safe() {
    let at = Time::ZERO + Duration::from_secs(100);
    let is_requested = |is_again: bool, lacks_copy: bool, after: Duration| {
        let mut pe = main_pe();
        pe.core.checkpointing.main.note_restored(at, Duration::ZERO, is_again);
        pe.core.now = at;
        if lacks_copy {
            pe.handle_checkpoint(MAIN_PE, CheckpointMessage::LacksCopy);
        }
        pe.core.now = at + after;
        pe.core.progress(Bytes::new(), 0, 0, |_| {});
        pe.core.checkpointing.main.is_requested
    };
    let minute = Duration::from_secs(60);

    assert!(!is_requested(false, false, minute - RETRY), "copies are made again meanwhile");
    assert!(is_requested(false, false, minute));
    assert!(is_requested(true, false, Duration::ZERO), "the job went back there before");
    assert!(!is_requested(false, true, RETRY / 2));
    assert!(is_requested(false, true, RETRY), "a copy cannot be made again");
}

#[test]
fn main_is_named_in_one_warning_if_it_reaches_no_progress_point_for_three_intervals() {
    let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = warnings.clone();
    let every = CheckpointEvery::Time(Duration::from_secs(60));
    let job = Job::new("quiet")
        .checkpoints(Checkpoints::every(every))
        .on_warning(move |warning| heard.lock().unwrap().push(warning.to_string()))
        .main(async |_| Ok::<(), JobError>(()));
    let mut pe = Program::new(job, Layout::single(1)).unwrap().pe(MAIN_PE);
    let warnings_at = |pe: &mut Pe, seconds: u64| {
        pe.core.now = Time::ZERO + Duration::from_secs(seconds);
        pe.core.warn_without_progress();
        warnings.lock().unwrap().len()
    };

    assert_eq!(warnings_at(&mut pe, 179), 0, "three intervals since the start are not over");
    // The checkpoint is postponed, but main has reached a progress point.
    pe.core.progress(Bytes::new(), 0, 1, |_| {});
    assert_eq!([180, 358].map(|seconds| warnings_at(&mut pe, seconds)), [0, 0]);
    assert_eq!([359, 360, 900].map(|seconds| warnings_at(&mut pe, seconds)), [1, 1, 1]);

    let expected = "main of quiet has reached no progress point for 180 s, so no checkpoints are \
                    made; call `Grid::progress` where it can begin again";
    assert_eq!(*warnings.lock().unwrap(), [expected]);
}

#[test]
fn regular_long_steps_of_main_cause_one_warning_and_a_much_longer_one_another() {
    let warnings: Arc<Mutex<Vec<u64>>> = Arc::default();
    let heard = warnings.clone();
    let every = CheckpointEvery::Time(Duration::from_secs(60));
    let job = Job::new("quiet")
        .checkpoints(Checkpoints::every(every))
        .on_warning(move |warning| {
            if let Warning::NoProgressPoint { since, .. } = warning {
                heard.lock().unwrap().push(since.as_secs());
            }
        })
        .main(async |_| Ok::<(), JobError>(()));
    let mut pe = Program::new(job, Layout::single(1)).unwrap().pe(MAIN_PE);

    for second in 1..=9_000 {
        pe.core.now = Time::ZERO + Duration::from_secs(second);
        if [200, 400, 600].contains(&second) {
            // The checkpoint is postponed.
            pe.core.progress(Bytes::new(), 0, 1, |_| {});
        }
        pe.core.warn_without_progress();
    }

    assert_eq!(*warnings.lock().unwrap(), [180, 400]);
}
