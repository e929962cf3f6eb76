//! Tests of a PE that stops for checkpoints.

use super::*;
use crate::error::JobError;
use crate::job::program::Program;
use crate::message::{Content, Packet};
use crate::{Actor, Context, Ix1, Job};
use gridspan_topology::Layout;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Idle;

impl Actor for Idle {
    type Index = Ix1;
    type Init = ();
    type Message = u8;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, _message: u8, _cx: &mut Context<'_, Self>) {}
}

/// A PE of a job, which is not that of main.
fn pe() -> Pe {
    let layout = Layout::new(vec![("a".to_owned(), vec![2])]);
    let job = Job::new("late").actor::<Idle>().main(async |_| Ok::<(), JobError>(()));
    Program::new(job, layout).unwrap().pe(PeId(1))
}

/// Ends a turn of the PE. Returns the rounds of draining that it has answered.
fn answered(pe: &mut Pe) -> Vec<u64> {
    pe.finish_turn();
    let round = |(_, packet): (PeId, Packet)| match packet.0 {
        Content::Control(control) => match *control {
            Control::Checkpoint(message) => match *message {
                CheckpointMessage::Drained { round, .. } => Some(round),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    pe.take_output().packets.filter_map(round).collect()
}

#[test]
fn a_pe_stops_answers_each_round_and_continues() {
    let mut pe = pe();
    for round in [1, 2] {
        pe.handle_checkpoint(MAIN_PE, CheckpointMessage::Drain { checkpoint: 1, round });
        assert!(pe.core.checkpointing.is_stopped);
        assert_eq!(answered(&mut pe), [round]);
    }
    pe.handle_checkpoint(MAIN_PE, CheckpointMessage::Resume { checkpoint: 1 });
    assert!(!pe.core.checkpointing.is_stopped);
    assert!(answered(&mut pe).is_empty());
}

#[test]
fn a_pe_that_stops_after_the_checkpoint_was_given_up_answers_and_continues_at_once() {
    let mut pe = pe();
    // It has been told to stop, and waits for the end of a replica.
    (pe.core.checkpointing.stop, pe.core.checkpointing.first_round) = (1, Some(1));

    pe.handle_checkpoint(MAIN_PE, CheckpointMessage::Resume { checkpoint: 1 });

    assert!(!pe.core.checkpointing.is_stopped, "the replica ends while it goes on");
    assert_eq!(answered(&mut pe), [1], "no replica is left");
    assert!(!pe.core.checkpointing.is_stopped);
    assert!(answered(&mut pe).is_empty());
    pe.handle_checkpoint(MAIN_PE, CheckpointMessage::Drain { checkpoint: 2, round: 1 });
    assert!(pe.core.checkpointing.is_stopped, "it stops for the next one");
    assert_eq!(answered(&mut pe), [1]);
}
