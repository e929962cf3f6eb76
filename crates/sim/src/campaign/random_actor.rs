//! The main actor of the campaign, which takes random actions in its handlers.

use super::ballast::Ballast;
use super::broadcasts::LARGE_AMID_ONE_IN;
use super::forwarder::Forwarders;
use super::ledger::{self, Ledger};
use super::numbered::Numbered;
use super::orders::{Call, FIRST_INSERTED, Freedom, Receiver, in_section, load};
use super::rounds::{Total, ops};
use bytes::Bytes;
use gridspan_runtime::{
    Actor, ActorId, ActorRef, CollectionRef, Context, Ix1, PeId, Priority, Reduction, Reply,
    SectionRef, To, Unordered,
};
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::time::Duration;

/// The longest wait for an answer that will come; with all pauses and outages it takes seconds.
const PATIENT: Duration = Duration::from_secs(60);
/// The longest wait for an answer that may not come.
const IMPATIENT: Duration = Duration::from_millis(300);
/// The longest time until a timer fires.
const TIMER_MAX: Duration = Duration::from_secs(2);
/// One in this number of multicasts is large.
const LARGE_ONE_IN: u64 = 30;

/// The references that members have to each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct World<I> {
    /// The collection whose members stay.
    pub(super) old: CollectionRef<RandomActor<I>>,
    /// The collection whose members come and go; the first `immortal` stay.
    pub(super) young: CollectionRef<RandomActor<I>>,
    pub(super) immortal: i32,
    /// A section of the old collection.
    pub(super) section: SectionRef<RandomActor<I>>,
    /// Deterministic actors to which old members write.
    pub(super) forwarders: Forwarders,
    pub(super) pes: u32,
}

/// Messages of members. The numbers are those of the model.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) enum Msg<I> {
    Meet(World<I>),
    /// Command to broadcast, with messages to some of the receivers before and after.
    Broadcast {
        number: u64,
    },
    Act {
        number: u64,
        left: u8,
        freedom: Freedom,
    },
    /// A large message.
    Load {
        number: u64,
        load: Bytes,
    },
    Question {
        number: u64,
        token: u64,
        reply: Reply<u64>,
    },
    /// A question that another member passed on.
    Delegate {
        number: u64,
        token: u64,
        reply: Reply<u64>,
    },
    Answer {
        token: u64,
        value: Option<u64>,
        must: bool,
    },
    Tick {
        token: u64,
        left: u8,
        freedom: Freedom,
    },
    Call {
        number: u64,
        call: Call,
        load: Bytes,
    },
    /// An unordered broadcast.
    Unordered {
        number: u64,
        load: Bytes,
    },
    Result {
        round: u64,
        total: Box<Total>,
    },
}

/// An actor that takes random actions, with an index of this type.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct RandomActor<I> {
    moves: u32,
    world: Option<World<I>>,
    ballast: Ballast,
    #[serde(skip)]
    index: PhantomData<fn() -> I>,
}

impl<I: Numbered> Actor for RandomActor<I> {
    type Index = I;
    type Init = Option<World<I>>;
    type Message = Msg<I>;

    fn create(world: Option<World<I>>, cx: &mut Context<'_, Self>) -> Self {
        let (id, pe) = (cx.me().id(), cx.pe());
        let ballast = ledger::with(|ledger| {
            ledger.created(id, pe);
            Ballast::of(ledger)
        });
        Self { moves: 0, world, ballast, index: PhantomData }
    }

    fn handle(&mut self, message: Msg<I>, cx: &mut Context<'_, Self>) {
        let (id, pe) = (cx.me().id(), cx.pe());
        ledger::with(|ledger| ledger.runs(id, pe, self.moves));
        match message {
            Msg::Meet(world) => self.world = Some(world),
            Msg::Act { number, left, freedom } => {
                ledger::with(|ledger| ledger.handled(id, number));
                self.act(left, freedom, cx);
            }
            Msg::Broadcast { number } => {
                ledger::with(|ledger| ledger.handled(id, number));
                if let Some(world) = &self.world {
                    world.broadcast_amid_messages(cx);
                    world.broadcast_unordered(cx);
                }
            }
            Msg::Load { number, load } => {
                ledger::with(|ledger| ledger.handled_load(id, number, &load));
            }
            Msg::Question { number, token, reply } => {
                ledger::with(|ledger| ledger.handled(id, number));
                self.answer_or_delegate(token, reply, cx);
            }
            Msg::Delegate { number, token, reply } => {
                ledger::with(|ledger| ledger.handled(id, number));
                cx.reply(reply, !token);
            }
            Msg::Answer { token, value, must } => {
                ledger::with(|ledger| ledger.answered(token, value, must));
            }
            Msg::Tick { token, left, freedom } => {
                ledger::with(|ledger| ledger.ended(token, "timer"));
                self.act(left, freedom, cx);
            }
            Msg::Call { number, call, load } => {
                ledger::with(|ledger| ledger.handled_broadcast(id, number, &load));
                self.obey(call, cx);
            }
            Msg::Unordered { number, load } => {
                ledger::with(|ledger| ledger.handled_unordered(id, number, &load));
            }
            Msg::Result { round, total } => {
                ledger::with(|ledger| ledger.result(id, round, &total));
            }
        }
        if let Some(problem) = ledger::with(|ledger| ledger.problem().map(str::to_owned)) {
            cx.fail(problem);
        }
    }

    fn reduced(reduction: Reduction) -> Option<Msg<I>> {
        let round = u64::from(reduction.tag);
        Some(Msg::Result { round, total: Box::new(reduction.get()?) })
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        let (id, pe) = (cx.me().id(), cx.pe());
        let freedom = ledger::with(|ledger| {
            ledger.runs(id, pe, self.moves);
            if let Err(problem) = ledger.rounds.sync_left(id) {
                ledger.violated(problem);
            }
            ledger.dice.chance(0.3)
        });
        if freedom {
            self.act(1, Freedom { insert: false, destroy: false, migrate: true }, cx);
        }
    }

    fn arrived(&mut self, cx: &mut Context<'_, Self>) {
        self.moves += 1;
        let (id, pe, moves) = (cx.me().id(), cx.pe(), self.moves);
        let talkative = ledger::with(|ledger| {
            ledger.arrived(id, pe, moves);
            ledger.actions.arrived_in(I::DIMENSIONS);
            ledger.dice.chance(0.2)
        });
        if talkative {
            self.act(1, Freedom { insert: false, destroy: false, migrate: true }, cx);
        }
    }
}

impl<I: Numbered> RandomActor<I> {
    /// Takes up to three random actions.
    fn act(&mut self, left: u8, freedom: Freedom, cx: &mut Context<'_, Self>) {
        let Some(world) = &self.world else { return };
        let count = ledger::with(|ledger| ledger.dice.below(4_u32));
        for _ in 0..count {
            match ledger::with(|ledger| ledger.dice.below(100_u32)) {
                0..40 if left > 0 => world.send(left, freedom, cx),
                40..50 if left > 0 => world.multicast(left, freedom, cx),
                50..58 => world.ask(cx),
                58..62 if cx.me().id().collection == world.old.id() => {
                    world.forwarders.write(Ix1(cx.index().number()), cx);
                }
                62..70 if left > 0 => world.set_timer(left, freedom, cx),
                70..72 => world.broadcast_amid_messages(cx),
                72..73 => world.broadcast_unordered(cx),
                73..78 if freedom.insert => world.insert(left, freedom, cx),
                78..82 if freedom.destroy => world.destroy(cx),
                82.. if freedom.migrate => {
                    let pe = ledger::with(|ledger| ledger.dice.below(u64::from(world.pes)));
                    cx.migrate_to(PeId(pe as u32));
                }
                _ => {}
            }
        }
        cx.charge(Duration::from_micros(ledger::with(|ledger| ledger.dice.below(200))));
    }

    fn answer_or_delegate(&self, token: u64, reply: Reply<u64>, cx: &mut Context<'_, Self>) {
        let Some(world) = &self.world else { return cx.reply(reply, !token) };
        let me = cx.me().id();
        let other = ledger::with(|ledger| {
            let others = ledger.living(world.old.id());
            let other = ledger.dice.one_of(&others);
            ledger.dice.chance(0.3).then(|| (other, ledger.sent(me, &[other], 0)))
        });
        match other {
            Some((other, number)) => {
                cx.send(&world.member(other), Msg::Delegate { number, token, reply });
            }
            None => cx.reply(reply, !token),
        }
    }

    fn obey(&self, call: Call, cx: &mut Context<'_, Self>) {
        let Some(world) = &self.world else { return };
        let id = cx.me().id();
        let contribute = |round| ledger::with(|ledger| ledger.contributed(id, round));
        match call {
            Call::Hear => {}
            Call::Contribute { round, to } => {
                let tag = round as u32;
                let to = match to {
                    Receiver::Main => To::main(),
                    Receiver::Member(index) => To::member(world.old.at(I::of(index)), tag),
                    Receiver::AllOld => To::all(world.old, tag),
                    Receiver::AllYoung => To::all(world.young, tag),
                };
                cx.contribute(ops(), contribute(round), to);
            }
            Call::ContributeToSection { round } => {
                let to = To::member(world.old.at(I::of(0)), round as u32);
                if in_section(cx.index().number()) {
                    cx.contribute_to_section(&world.section, ops(), contribute(round), to);
                }
            }
            Call::Sync => {
                ledger::with(|ledger| ledger.rounds.sync_reached(id));
                cx.at_sync();
            }
        }
    }
}

/// The actions of members.
impl<I: Numbered> World<I> {
    fn member(&self, id: ActorId) -> ActorRef<RandomActor<I>> {
        let collection = if id.collection == self.old.id() { self.old } else { self.young };
        collection.at(I::from_key(id.key))
    }

    /// A random member that lives or is expected.
    fn anyone(&self, ledger: &mut Ledger) -> ActorId {
        let collection = if ledger.dice.chance(0.6) { self.old.id() } else { self.young.id() };
        let living = ledger.living(collection);
        ledger.dice.one_of(&living)
    }

    fn send(&self, left: u8, freedom: Freedom, cx: &mut Context<'_, RandomActor<I>>) {
        let me = cx.me().id();
        let (to, priority, burst) = ledger::with(|ledger| {
            let to = self.anyone(ledger);
            (to, ledger.dice.one_of(&[0, 0, 0, -1, 3]), 1 + ledger.dice.below(3_u32))
        });
        for position in 0..burst {
            let number = ledger::with(|ledger| ledger.sent(me, &[to], priority));
            let left = if position == 0 { left - 1 } else { 0 };
            let message = Msg::Act { number, left, freedom };
            cx.send_with(Priority(priority), &self.member(to), message);
        }
    }

    fn multicast(&self, left: u8, freedom: Freedom, cx: &mut Context<'_, RandomActor<I>>) {
        let me = cx.me().id();
        let (number, is_large) = ledger::with(|ledger| {
            let all = ledger.living(self.old.id());
            let members: Vec<_> =
                all.into_iter().filter(|id| in_section(I::from_key(id.key).number())).collect();
            (ledger.sent(me, &members, 0), ledger.dice.below(LARGE_ONE_IN) == 0)
        });
        if is_large {
            return cx.multicast(&self.section, Msg::Load { number, load: load(number) });
        }
        let left = left.saturating_sub(2);
        cx.multicast(&self.section, Msg::Act { number, left, freedom });
    }

    fn ask(&self, cx: &mut Context<'_, RandomActor<I>>) {
        let me = cx.me().id();
        let (to, token, number, patient) = ledger::with(|ledger| {
            let to = self.anyone(ledger);
            ledger.actions.questions += 1;
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

    fn set_timer(&self, left: u8, freedom: Freedom, cx: &mut Context<'_, RandomActor<I>>) {
        let (token, delay, to) = ledger::with(|ledger| {
            let living = ledger.living(self.old.id());
            let to = ledger.dice.one_of(&living);
            (ledger.begun(to), ledger.dice.any_scale_up_to(TIMER_MAX), to)
        });
        cx.send_after(delay, &self.member(to), Msg::Tick { token, left: left - 1, freedom });
    }

    /// Broadcasts, and sends messages to random members of the same collection before and after.
    fn broadcast_amid_messages(&self, cx: &mut Context<'_, RandomActor<I>>) {
        let me = cx.me().id();
        let (of_old, before, after) = ledger::with(|ledger| {
            (ledger.dice.chance(0.5), ledger.dice.below(4_u32), ledger.dice.below(4_u32))
        });
        let collection = if of_old { self.old } else { self.young };
        let freedom = Freedom { insert: false, destroy: false, migrate: false };
        let some = |count, cx: &mut Context<'_, RandomActor<I>>| {
            for _ in 0..count {
                let (to, number) = ledger::with(|ledger| {
                    let living = ledger.living(collection.id());
                    let to = ledger.dice.one_of(&living);
                    (to, ledger.sent(me, &[to], 0))
                });
                cx.send(&self.member(to), Msg::Act { number, left: 0, freedom });
            }
        };
        some(before, cx);
        let (number, load) =
            ledger::with(|ledger| ledger.asked_broadcast(me, collection.id(), LARGE_AMID_ONE_IN));
        cx.broadcast(&collection, Msg::Call { number, call: Call::Hear, load });
        some(after, cx);
    }

    /// Sends two unordered broadcasts, so that the second may overtake the first.
    fn broadcast_unordered(&self, cx: &mut Context<'_, RandomActor<I>>) {
        for _ in 0..2 {
            let (collection, priority, (number, load)) = ledger::with(|ledger| {
                let collection = if ledger.dice.chance(0.5) { self.old } else { self.young };
                let priority = ledger.dice.one_of(&[0, 0, 2]);
                (collection, priority, ledger.sent_unordered(collection.id()))
            });
            let message = Msg::Unordered { number, load };
            cx.broadcast_with((Unordered, Priority(priority)), &collection, message);
        }
    }

    fn insert(&self, left: u8, freedom: Freedom, cx: &mut Context<'_, RandomActor<I>>) {
        let (fresh, pe, greet) = ledger::with(|ledger| {
            let fresh = ledger.free_index(self.young.id(), FIRST_INSERTED);
            let pe = PeId(ledger.dice.below(u64::from(self.pes)) as u32);
            (self.young.at(fresh), pe, ledger.dice.below(3_u32))
        });
        ledger::with(|ledger| ledger.insertion_asked(fresh.id()));
        cx.insert_on(&fresh, Some(self.clone()), pe);
        let me = cx.me().id();
        for _ in 0..greet {
            let number = ledger::with(|ledger| ledger.sent(me, &[fresh.id()], 0));
            cx.send(&fresh, Msg::Act { number, left: left.saturating_sub(1), freedom });
        }
    }

    fn destroy(&self, cx: &mut Context<'_, RandomActor<I>>) {
        let me = cx.me().id();
        if me.collection == self.young.id() && cx.index().number() >= self.immortal {
            cx.destroy();
            // Update the model now: messages that are sent to this member from here on do not
            // count.
            ledger::with(|ledger| ledger.destroyed(me));
        }
    }
}
