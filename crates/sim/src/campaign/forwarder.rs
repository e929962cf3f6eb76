//! Forwarders: deterministic actors, which the campaign's strategy replicates on a second PE at
//! random. They count the notes of each member and forward them to its reader.

use super::ballast::Ballast;
use super::ledger;
use super::reader::{Reader, Told};
use gridspan_runtime::{
    Actor, CollectionRef, Context, InStep, Ix1, PeId, Priority, SectionRef, SendOptions,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A deterministic actor. Its messages to a reader follow from the notes of one member, whatever
/// the order in which members write.
#[derive(Serialize, Deserialize)]
pub(super) struct Forwarder {
    readers: CollectionRef<Reader>,
    /// Number of notes seen from each member.
    counts: BTreeMap<i32, u64>,
    ballast: Ballast,
}

/// A note of a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Note {
    writer: i32,
    number: u64,
}

impl Actor for Forwarder {
    type Index = Ix1;
    type Init = CollectionRef<Reader>;
    type Message = Note;

    fn create(readers: Self::Init, _cx: &mut Context<'_, Self>) -> Self {
        let ballast = ledger::with(|ledger| {
            ledger.notes.forwarders_and_readers += 1;
            Ballast::of(ledger)
        });
        Self { readers, counts: BTreeMap::new(), ballast }
    }

    fn handle(&mut self, Note { writer, number }: Note, cx: &mut Context<'_, Self>) {
        let count = self.counts.entry(writer).or_default();
        *count += 1;
        let told = Told { forwarder: cx.index().0, number, count: *count };
        let reader = self.readers.at(Ix1(writer));
        cx.send_with(options(writer, number), &reader, told);
        let pes = u64::from(cx.layout().pe_count());
        // Migrate at random: the PE of a forwarder does not affect its messages.
        let goes = ledger::with(|ledger| ledger.dice.chance(0.03).then(|| ledger.dice.below(pes)));
        if let Some(pe) = goes {
            cx.migrate_to(PeId(pe as u32));
        }
    }
}

/// The options with which a member sends a note, and forwarders send it on to its reader. They keep
/// the notes of a member in order.
fn options(writer: i32, number: u64) -> SendOptions {
    match writer % 3 {
        0 => SendOptions::default(),
        1 => Priority(-2).into(),
        _ => InStep(number).into(),
    }
}

/// References to all forwarders, for the members that write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Forwarders {
    pub(super) all: CollectionRef<Forwarder>,
    pub(super) section: SectionRef<Forwarder>,
}

impl Forwarders {
    /// Sends a note of a member to a random forwarder or to all.
    pub(super) fn write<A: Actor>(&self, writer: Ix1, cx: &mut Context<'_, A>) {
        let count = self.section.len() as i32;
        let (one, number) = ledger::with(|ledger| {
            let one = ledger.dice.chance(0.5).then(|| ledger.dice.below(count as u64) as i32);
            let number = match one {
                Some(one) => ledger.notes.written(writer, std::iter::once(one)),
                None => ledger.notes.written(writer, 0..count),
            };
            (one, number)
        });
        let note = Note { writer: writer.0, number };
        let options = options(writer.0, number);
        match one.map(|one| self.all.at(Ix1(one))) {
            Some(to) => cx.send_with(options, &to, note),
            None => cx.multicast_with(options, &self.section, note),
        }
    }
}
