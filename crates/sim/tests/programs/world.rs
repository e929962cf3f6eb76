//! The collections of a random program, and how to reach their members.

use crate::cells::{
    BOUND, Cell, DETERMINISTIC, KEPT, Late, Mail, NEVER, PLAIN, Tally, Work, any_options,
};
use gridspan_runtime::{
    Actor, ActorIndex, BroadcastOptions, CollectionRef, Context, Ix1, Ix2, Ix3, Key, Layout, Op,
    PeId, Reply, SendOptions, To, Value,
};
use gridspan_topology::dice::{Dice, mix};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The number of the set of members that messages create.
pub(crate) const LATE: u8 = 250;
/// The number of the resizable group.
pub(crate) const TALLIES: u8 = 251;
/// Number of members that messages may create.
const LATE_MAX: u32 = 40;
/// Number of sections of the members of a set.
const SECTIONS: u32 = 3;

pub(crate) fn hash(words: &[u64]) -> u64 {
    words.iter().fold(0x1234_5678_9abc_def1, |hash, &word| {
        mix(hash.rotate_left(5) ^ word.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    })
}

/// What an actor was given: sums that do not depend on the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) count: u64,
    pub(crate) sum: u64,
    pub(crate) xor: u64,
}

thread_local! {
    /// What was delivered, by its part of an account: what, token and the time.
    pub(crate) static DELIVERED: std::cell::RefCell<std::collections::BTreeMap<u64, String>> =
        std::cell::RefCell::default();
}

/// Notes a delivery, to explain a difference.
pub(crate) fn note(what: u64, text: impl FnOnce() -> String) {
    if std::env::var_os("PROGRAMS_TRACE").is_some() {
        DELIVERED.with_borrow_mut(|all| _ = all.entry(mix(what)).or_insert_with(text));
    }
}

impl Account {
    pub(crate) fn deliver(&mut self, what: u64) {
        self.add(Self { count: 1, sum: what, xor: mix(what) });
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.xor ^= other.xor;
    }
}

/// A member of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) set: u8,
    pub(crate) number: u32,
}

/// A collection whose members stay.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Set {
    Line(CollectionRef<Cell<Ix1, PLAIN>>),
    Sparse(CollectionRef<Cell<Ix1, PLAIN>>),
    Plane(CollectionRef<Cell<Ix2, PLAIN>>),
    Space(CollectionRef<Cell<Ix3, PLAIN>>),
    Bound(CollectionRef<Cell<Ix1, BOUND>>),
    Deterministic(CollectionRef<Cell<Ix1, DETERMINISTIC>>),
    Kept(CollectionRef<Cell<Ix1, KEPT>>),
}

/// The width of planes and spaces.
pub(crate) const WIDTH: i32 = 3;

impl Set {
    /// The key of a member.
    pub(crate) fn key(&self, number: u32) -> Key {
        let number = number as i32;
        match self {
            Self::Sparse(_) => Ix1(number * 9973 - 30_000).key(),
            Self::Plane(_) => Ix2(number / WIDTH, number % WIDTH).key(),
            Self::Space(_) => {
                Ix3(number / (WIDTH * WIDTH), number / WIDTH % WIDTH, number % WIDTH).key()
            }
            _ => Ix1(number).key(),
        }
    }
}

/// Evaluates an expression with the collection of a set.
macro_rules! with_collection {
    ($set:expr, $collection:ident => $value:expr) => {
        match $set {
            $crate::world::Set::Line($collection) => $value,
            $crate::world::Set::Sparse($collection) => $value,
            $crate::world::Set::Plane($collection) => $value,
            $crate::world::Set::Space($collection) => $value,
            $crate::world::Set::Bound($collection) => $value,
            $crate::world::Set::Deterministic($collection) => $value,
            $crate::world::Set::Kept($collection) => $value,
        }
    };
}
pub(crate) use with_collection;

/// Evaluates an expression with the collection and the index of a target.
macro_rules! with_member {
    ($world:expr, $target:expr, ($collection:ident, $index:ident) => $value:expr) => {
        match $target.set {
            $crate::world::LATE => {
                let number = $target.number as i32;
                let ($collection, $index) =
                    ($world.late, gridspan_runtime::Ix2(number / 1000, number % 1000));
                $value
            }
            $crate::world::TALLIES => {
                let ($collection, $index) =
                    ($world.tallies, gridspan_runtime::Ix1($target.number as i32));
                $value
            }
            set => {
                let (set, _) = $world.sets[usize::from(set)];
                let key = set.key($target.number);
                $crate::world::with_collection!(set, $collection => {
                    let $index = gridspan_runtime::ActorIndex::from_key(key);
                    $value
                })
            }
        }
    };
}
pub(crate) use with_member;

/// All that an actor must know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct World {
    /// The collections whose members stay, with the number of members.
    pub(crate) sets: Vec<(Set, u32)>,
    pub(crate) late: CollectionRef<Late>,
    pub(crate) tallies: CollectionRef<Tally>,
    pub(crate) are_per_pe: bool,
    pub(crate) brief: CollectionRef<Brief>,
    pub(crate) custom: Op,
    /// The largest size of a state.
    pub(crate) state_bytes: u64,
    /// How many questions have answers that go to closures, as a probability.
    pub(crate) closures: f64,
}

impl World {
    pub(crate) fn tallies_on(&self, layout: &Layout) -> u32 {
        if self.are_per_pe { layout.pe_count() } else { layout.node_count() }
    }

    /// Draws a receiver. The number of draws does not depend on the layout.
    pub(crate) fn any_target(&self, dice: &mut Dice, layout: &Layout) -> Target {
        match dice.below(12_u32) {
            0 => Target { set: TALLIES, number: dice.below(self.tallies_on(layout)) },
            1 => Target { set: LATE, number: dice.below(LATE_MAX) * 70 },
            _ => self.any_member(dice),
        }
    }

    /// Draws a member of a set whose members stay.
    pub(crate) fn any_member(&self, dice: &mut Dice) -> Target {
        let set = self.any_fixed_set(dice);
        Target { set, number: dice.below(self.sets[usize::from(set)].1) }
    }

    pub(crate) fn any_fixed_set(&self, dice: &mut Dice) -> u8 {
        dice.below(self.sets.len()) as u8
    }

    /// The indices of a section of a set.
    pub(crate) fn section_of<I: ActorIndex>(&self, set: u8, part: u32) -> Vec<I> {
        let (set, members) = self.sets[usize::from(set)];
        let members = (0..members).filter(|number| number % SECTIONS == part);
        members.map(|number| I::from_key(set.key(number))).collect()
    }

    pub(crate) fn send<A: Actor>(
        &self,
        options: SendOptions,
        to: Target,
        mail: Mail,
        cx: &mut Context<'_, A>,
    ) {
        with_member!(self, to, (it, at) => cx.send_with(options, &it.at(at), mail));
    }

    pub(crate) fn send_after<A: Actor>(
        &self,
        delay: Duration,
        to: Target,
        mail: Mail,
        cx: &mut Context<'_, A>,
    ) {
        with_member!(self, to, (it, at) => {
            cx.send_after(delay, &it.at(at), mail);
        });
    }

    /// Asks a question; the answer goes to a closure or to the type.
    pub(crate) fn ask<A: Actor<Message = Mail>>(
        &self,
        to: Target,
        token: u64,
        goes_to_closure: bool,
        cx: &mut Context<'_, A>,
    ) {
        let question = move |reply: Reply<u64>| Mail::Question(token, reply);
        with_member!(self, to, (it, at) => match goes_to_closure {
            true => {
                let answered = move |answer: Result<u64, _>| Mail::Answered(token, answer.ok());
                cx.ask(&it.at(at), NEVER, question, answered);
            }
            false => cx.ask_tagged(&it.at(at), NEVER, token, question),
        });
    }

    pub(crate) fn broadcast<A: Actor>(
        &self,
        options: impl Into<MaybeOptions>,
        set: u8,
        mail: Mail,
        cx: &mut Context<'_, A>,
    ) {
        let options = options.into().0;
        with_collection!(self.sets[usize::from(set)].0, it => cx.broadcast_with(options, &it, mail));
    }

    pub(crate) fn multicast<A: Actor>(
        &self,
        options: SendOptions,
        set: u8,
        part: u32,
        mail: Mail,
        cx: &mut Context<'_, A>,
    ) {
        with_collection!(self.sets[usize::from(set)].0, it => {
            let section = it.section(u64::from(part), self.section_of(set, part));
            cx.multicast_with(options, &section, mail);
        });
    }

    pub(crate) fn to_member(&self, member: Target, tag: u32) -> To {
        with_member!(self, member, (it, at) => To::member(it.at(at), tag))
    }

    pub(crate) fn to_all(&self, set: u8, tag: u32) -> To {
        with_collection!(self.sets[usize::from(set)].0, it => To::all(it, tag))
    }

    pub(crate) fn hash_of(value: &Value) -> u64 {
        hash_of_text(&format!("{value:?}"))
    }
}

pub(crate) fn hash_of_text(text: &str) -> u64 {
    let words: Vec<u64> = text.bytes().map(u64::from).collect();
    hash(&words)
}

/// Options of a broadcast, or none.
pub(crate) struct MaybeOptions(BroadcastOptions);

impl From<()> for MaybeOptions {
    fn from((): ()) -> Self {
        Self(BroadcastOptions::default())
    }
}

macro_rules! maybe {
    ($($type:ty),*) => {
        $(impl From<$type> for MaybeOptions {
            fn from(options: $type) -> Self {
                Self(options.into())
            }
        })*
    };
}
maybe!(
    gridspan_runtime::Priority,
    gridspan_runtime::Unordered,
    (gridspan_runtime::Unordered, gridspan_runtime::Priority)
);

/// What a [`Brief`] member begins with.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct BriefInit {
    pub(crate) world: World,
    /// The member that gets its account.
    pub(crate) home: Target,
    /// The number of messages that it gets.
    pub(crate) messages: u32,
    pub(crate) work: Work,
}

/// A member that is inserted, and ends when it has got its messages.
#[derive(Serialize, Deserialize)]
pub(crate) struct Brief {
    init: BriefInit,
    got: u32,
    account: Account,
}

impl Brief {
    /// The index for a token, which no other member has.
    pub(crate) fn index(token: u64) -> Ix2 {
        Ix2((token >> 32) as i32, token as i32)
    }
}

impl Actor for Brief {
    type Index = Ix2;
    type Init = BriefInit;
    type Message = u64;

    fn create(init: BriefInit, _: &mut Context<'_, Self>) -> Self {
        Self { init, got: 0, account: Account::default() }
    }

    fn handle(&mut self, token: u64, cx: &mut Context<'_, Self>) {
        self.got += 1;
        self.account.deliver(hash(&[10, token]));
        let BriefInit { world, home, messages, work } = &self.init;
        let mut dice = Dice::new(token);
        if self.got < *messages {
            if dice.chance(0.5) {
                cx.migrate_to(PeId(dice.below(cx.layout().pe_count())));
            }
            return;
        }
        let mut dice = Dice::new(work.token);
        world.send(SendOptions::default(), *home, Mail::Total(self.account), cx);
        if work.budget > 1 {
            let next = Work { token: dice.next_u64(), budget: work.budget - 1 };
            let to = world.any_member(&mut dice);
            world.send(any_options(&mut dice), to, Mail::Work(next), cx);
        }
        cx.destroy();
    }
}
