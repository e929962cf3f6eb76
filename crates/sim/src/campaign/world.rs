//! What members of the campaign know of each other, and what they do to each other.

use super::ledger::{self, Ledger};
use super::walker::{Call, Msg, Walker};
use gridspan_runtime::{ActorId, ActorRef, CollectionRef, Context, Ix1, PeId, SectionRef};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest wait for an answer that will come; with all pauses and outages it takes seconds.
const PATIENT: Duration = Duration::from_secs(60);
/// The longest wait for an answer that may not come.
const IMPATIENT: Duration = Duration::from_millis(300);
/// The longest time until a timer fires.
const TIMER_MAX: Duration = Duration::from_secs(2);
/// Members of the second collection from this index on were inserted.
pub(super) const FIRST_INSERTED: i32 = 1000;

/// What members may do beyond sending messages.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Freedom {
    pub(super) insert: bool,
    pub(super) destroy: bool,
    pub(super) migrate: bool,
}

/// All that members know of each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct World {
    /// The collection whose members stay.
    pub(super) old: CollectionRef<Walker>,
    /// The collection whose members come and go; the first `immortal` stay.
    pub(super) young: CollectionRef<Walker>,
    pub(super) immortal: i32,
    /// Some of the old.
    pub(super) section: SectionRef<Walker>,
    pub(super) pes: u32,
}

/// What members do with each other.
impl World {
    pub(super) fn member(&self, id: ActorId) -> ActorRef<Walker> {
        let collection = if id.collection == self.old.id() { self.old } else { self.young };
        collection.at(Ix1(id.key.0 as u32 as i32))
    }

    pub(super) fn in_section(&self, index: Ix1) -> bool {
        in_section(index.0)
    }

    /// Any member that lives or is expected.
    fn anyone(&self, ledger: &mut Ledger) -> ActorId {
        let collection = if ledger.dice.chance(0.6) { self.old.id() } else { self.young.id() };
        let living = ledger.living(collection);
        ledger.dice.one_of(&living)
    }

    pub(super) fn send(&self, left: u8, freedom: Freedom, cx: &mut Context<'_, Walker>) {
        let me = cx.me().id();
        let (to, priority, burst) = ledger::with(|ledger| {
            let to = self.anyone(ledger);
            (to, ledger.dice.one_of(&[0, 0, 0, -1, 3]), 1 + ledger.dice.below(3))
        });
        for position in 0..burst {
            let number = ledger::with(|ledger| ledger.sent(me, &[to], priority));
            let left = if position == 0 { left - 1 } else { 0 };
            let message = Msg::Act { number, left, freedom };
            cx.send_with_priority(&self.member(to), priority, message);
        }
    }

    pub(super) fn multicast(&self, left: u8, freedom: Freedom, cx: &mut Context<'_, Walker>) {
        let me = cx.me().id();
        let number = ledger::with(|ledger| {
            let all = ledger.living(self.old.id());
            let members: Vec<_> =
                all.into_iter().filter(|id| in_section(id.key.0 as u32 as i32)).collect();
            ledger.sent(me, &members, 0)
        });
        let left = left.saturating_sub(2);
        cx.multicast(&self.section, Msg::Act { number, left, freedom });
    }

    pub(super) fn ask(&self, cx: &mut Context<'_, Walker>) {
        let me = cx.me().id();
        let (to, token, number, patient) = ledger::with(|ledger| {
            let to = self.anyone(ledger);
            ledger.doings.questions += 1;
            let patient = to.collection == self.old.id() && ledger.dice.chance(0.9);
            (to, ledger.begun(me), ledger.sent(me, &[to], 0), patient)
        });
        let timeout = if patient { PATIENT } else { IMPATIENT };
        cx.ask(
            &self.member(to),
            timeout,
            |reply| Msg::Question { number, token, reply },
            move |answer| Msg::Answer { token, value: answer.ok(), must: patient },
        );
    }

    pub(super) fn set_timer(&self, left: u8, freedom: Freedom, cx: &mut Context<'_, Walker>) {
        let (token, delay, to) = ledger::with(|ledger| {
            let living = ledger.living(self.old.id());
            let to = ledger.dice.one_of(&living);
            (ledger.begun(to), ledger.dice.span(TIMER_MAX), to)
        });
        cx.send_after(delay, &self.member(to), Msg::Tick { token, left: left - 1, freedom });
    }

    pub(super) fn broadcast(&self, call: Call, cx: &mut Context<'_, Walker>) {
        let me = cx.me().id();
        let (collection, number) = ledger::with(|ledger| {
            let collection = ledger.dice.one_of(&[self.old, self.young]);
            ledger.doings.broadcasts += 1;
            (collection, ledger.broadcasts.asked(me, collection.id()))
        });
        cx.broadcast(&collection, Msg::Call { number, call });
    }

    pub(super) fn insert(&self, left: u8, freedom: Freedom, cx: &mut Context<'_, Walker>) {
        let (fresh, pe, greet) = ledger::with(|ledger| {
            let fresh = ledger.free_index(self.young.id(), FIRST_INSERTED);
            let pe = PeId(ledger.dice.below(u64::from(self.pes)) as u32);
            (self.young.at(Ix1(fresh)), pe, ledger.dice.below(3))
        });
        ledger::with(|ledger| ledger.insertion_asked(fresh.id()));
        cx.insert_on(&fresh, Some(self.clone()), pe);
        let me = cx.me().id();
        for _ in 0..greet {
            let number = ledger::with(|ledger| ledger.sent(me, &[fresh.id()], 0));
            cx.send(&fresh, Msg::Act { number, left: left.saturating_sub(1), freedom });
        }
    }

    pub(super) fn destroy(&self, cx: &mut Context<'_, Walker>) {
        let me = cx.me().id();
        if me.collection == self.young.id() && me.key.0 >= self.immortal as u128 {
            cx.destroy();
            // The model hears of it now; nothing that is sent to it from here on counts.
            ledger::with(|ledger| ledger.destroyed(me));
        }
    }
}

/// Which of the old members are in the section.
pub(super) fn in_section(index: i32) -> bool {
    index % 3 != 1
}
