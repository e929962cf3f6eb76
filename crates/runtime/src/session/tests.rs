//! Random runs of a session against a reference model, and planted bugs that they must find.

use super::{Class, FrameVerdict, PlantedSessionFault, Received, Session};
use crate::message::frame::Frame;
use gridspan_topology::dice::Dice;
use std::collections::BTreeSet;

/// Data in transit on a connection: small frames in order, bulk frames, and acknowledgements.
#[derive(Default)]
struct Wire {
    small: Vec<(u64, Frame)>,
    bulk: Vec<(u64, Frame)>,
    acknowledgements: Vec<Received>,
}

struct Model {
    from: Session,
    to: Session,
    wire: Wire,
    /// Frames of earlier connections that may still arrive.
    late: Vec<(Class, u64, Frame)>,
    sent: [u64; 2],
    small_delivered: Vec<u64>,
    bulk_delivered: Vec<u64>,
}

/// Runs `steps` random actions, then lets everything arrive. Returns the first violation.
fn run(seed: u64, steps: usize, fault: PlantedSessionFault) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let mut model = Model {
        from: Session::new(u64::MAX, fault),
        to: Session::new(u64::MAX, fault),
        wire: Wire::default(),
        late: vec![],
        sent: [0, 0],
        small_delivered: vec![],
        bulk_delivered: vec![],
    };
    for _ in 0..steps {
        model.step(&mut dice)?;
    }
    for _ in 0..10_000 {
        if model.from.sender.is_flushed() {
            break;
        }
        model.write(usize::MAX);
        while !model.wire.small.is_empty() {
            model.deliver_small()?;
        }
        while !model.wire.bulk.is_empty() {
            model.deliver_bulk(0)?;
        }
        let received = model.to.receiver.received().clone();
        model.from.sender.acknowledge(&received).map_err(|e| e.to_string())?;
    }
    model.check()
}

impl Model {
    fn step(&mut self, dice: &mut Dice) -> Result<(), String> {
        match dice.below(100_u32) {
            0..25 => self.send(Class::Small),
            25..35 => self.send(Class::Bulk),
            35..55 => self.write(1 + dice.below(4_usize)),
            55..70 => {
                if !self.wire.small.is_empty() {
                    self.deliver_small()?;
                }
            }
            70..80 => {
                if !self.wire.bulk.is_empty() {
                    let at = dice.below(self.wire.bulk.len());
                    self.deliver_bulk(at)?;
                }
            }
            80..84 => {
                if !self.wire.bulk.is_empty() {
                    let number = self.wire.bulk[dice.below(self.wire.bulk.len())].0;
                    self.to.receiver.begin_bulk(number);
                }
            }
            84..90 => self.wire.acknowledgements.push(self.to.receiver.received().clone()),
            90..95 => {
                // Acknowledgements are repeated, lost and overtaken.
                if !self.wire.acknowledgements.is_empty() {
                    let at = dice.below(self.wire.acknowledgements.len());
                    let received = self.wire.acknowledgements[at].clone();
                    self.from.sender.acknowledge(&received).map_err(|e| e.to_string())?;
                }
            }
            95..98 => {
                // A packet of an earlier connection arrives.
                if !self.late.is_empty() {
                    let (class, number, frame) = self.late.swap_remove(dice.below(self.late.len()));
                    self.accept(class, number, &frame)?;
                }
            }
            _ => self.reconnect(dice)?,
        }
        Ok(())
    }

    fn send(&mut self, class: Class) {
        let count = &mut self.sent[class as usize];
        let frame = count.to_le_bytes().to_vec();
        *count += 1;
        self.from.sender.push(class, frame).unwrap();
    }

    fn write(&mut self, frames: usize) {
        for _ in 0..frames {
            match self.from.sender.next(Class::Small) {
                Some(frame) => self.wire.small.push(frame),
                None => break,
            }
        }
        while self.wire.bulk.len() < 4
            && let Some(frame) = self.from.sender.next(Class::Bulk)
        {
            self.wire.bulk.push(frame);
        }
    }

    fn deliver_small(&mut self) -> Result<(), String> {
        let (number, frame) = self.wire.small.remove(0);
        self.accept(Class::Small, number, &frame)
    }

    fn deliver_bulk(&mut self, at: usize) -> Result<(), String> {
        let (number, frame) = self.wire.bulk.remove(at);
        self.to.receiver.begin_bulk(number);
        self.accept(Class::Bulk, number, &frame)
    }

    fn accept(&mut self, class: Class, number: u64, frame: &Frame) -> Result<(), String> {
        match self.to.receiver.accept(class, number, frame.len() as u64) {
            FrameVerdict::Deliver => {
                let content = u64::from_le_bytes(frame.body[..].try_into().unwrap());
                match class {
                    Class::Small => self.small_delivered.push(content),
                    Class::Bulk => self.bulk_delivered.push(content),
                }
                Ok(())
            }
            FrameVerdict::Duplicate => Ok(()),
            FrameVerdict::OutOfOrder { expected } => {
                Err(format!("{class:?} {number} came before {expected}"))
            }
        }
    }

    fn reconnect(&mut self, dice: &mut Dice) -> Result<(), String> {
        // Some frames under way arrive before the connection breaks, some long after, and most
        // never. Small frames of the old connection can only arrive later as repetitions, since
        // frames out of order on a stream are not delivered.
        let wire = std::mem::take(&mut self.wire);
        let arrived = self.to.receiver.received().clone();
        for (number, frame) in wire.small {
            if number < arrived.small && dice.chance(0.5) {
                self.late.push((Class::Small, number, frame));
            }
        }
        for (number, frame) in wire.bulk {
            if dice.chance(0.25) {
                self.late.push((Class::Bulk, number, frame));
            }
        }
        let received = self.to.receiver.resume();
        self.from.sender.resume(&received).map_err(|e| e.to_string())
    }

    fn check(&self) -> Result<(), String> {
        let expected: Vec<u64> = (0..self.sent[0]).collect();
        if self.small_delivered != expected {
            return Err(format!("small frames: {:?} of {}", self.small_delivered, self.sent[0]));
        }
        let bulk: BTreeSet<u64> = self.bulk_delivered.iter().copied().collect();
        if bulk.len() != self.bulk_delivered.len() || bulk.len() as u64 != self.sent[1] {
            return Err(format!("bulk frames: {:?} of {}", self.bulk_delivered, self.sent[1]));
        }
        if self.from.sender.bytes_unacknowledged() != 0 {
            return Err("bytes are kept that were acknowledged".to_owned());
        }
        Ok(())
    }
}

#[test]
fn every_frame_arrives_exactly_once_and_small_ones_in_order() {
    for seed in 0..2_000 {
        if let Err(problem) = run(seed, 400, PlantedSessionFault::None) {
            panic!("seed {seed}: {problem}");
        }
    }
}

#[test]
fn planted_bugs_are_found() {
    for fault in [
        PlantedSessionFault::ResendWithoutSequence,
        PlantedSessionFault::ForgottenReceiveState,
        PlantedSessionFault::AcknowledgeBeforeApply,
    ] {
        let found = (0..100).filter(|&seed| run(seed, 400, fault).is_err()).count();
        assert!(found >= 50, "{fault:?} was found in {found} of 100 seeds");
    }
}
