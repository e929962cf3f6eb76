//! Readers: each receives the notes of one member from forwarders, and migrates at random.

use super::ledger;
use gridspan_runtime::{Actor, Context, Ix1, PeId};
use serde::{Deserialize, Serialize};

/// The reader of the member of the same index.
#[derive(Serialize, Deserialize)]
pub(super) struct Reader;

/// A note of the member from a forwarder, which has counted `count` notes of the member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) forwarder: i32,
    pub(super) number: u64,
    pub(super) count: u64,
}

impl Actor for Reader {
    type Index = Ix1;
    type Init = ();
    type Message = Told;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        ledger::with(|ledger| ledger.notes.forwarders_and_readers += 1);
        Self
    }

    fn handle(&mut self, Told { forwarder, number, count }: Told, cx: &mut Context<'_, Self>) {
        let pes = u64::from(cx.layout().pe_count());
        let (problem, goes) = ledger::with(|ledger| {
            let problem = ledger.notes.read(cx.index(), forwarder, number, count).err();
            (problem, ledger.dice.chance(0.1).then(|| ledger.dice.below(pes)))
        });
        if let Some(problem) = problem {
            cx.fail(problem);
        }
        if let Some(pe) = goes {
            cx.migrate_to(PeId(pe as u32));
        }
    }
}
