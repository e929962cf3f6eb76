//! The actors of a random program. What an actor does follows from the token of a message alone,
//! never from its state, its place or the time. So the messages that each actor gets are the same
//! in every run, in whatever order they come.

use crate::world::{Account, Brief, BriefInit, LATE, Target, World, hash, note};
use gridspan_runtime::{
    Actor, ActorIndex, Context, InStep, Ix1, List, Op, PeId, Phase, Priority, Published, Reduction,
    Reply, SendOptions, TaggedAnswer, Timer, To, Unordered,
};
use gridspan_topology::dice::{Dice, mix};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::time::Duration;

/// A member of a collection, of any index.
pub(crate) const PLAIN: u8 = 0;
/// A member that is bound to a plain one.
pub(crate) const BOUND: u8 = 1;
/// A member of a deterministic type.
pub(crate) const DETERMINISTIC: u8 = 2;
/// A member of a group that keeps its members.
pub(crate) const KEPT: u8 = 3;
/// A member of a resizable group.
pub(crate) const TALLY: u8 = 4;
/// A member that a message creates.
pub(crate) const ON_DEMAND: u8 = 5;

/// A time that no job takes.
pub(crate) const NEVER: Duration = Duration::from_secs(100_000);

/// Longest delay of a message.
const DELAY_MAX: Duration = Duration::from_millis(300);

/// Work to do: what, and how many messages it may cause, including itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) token: u64,
    pub(crate) budget: u32,
}

/// A reduction in which all members of a set, or of a section of it, take part.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) token: u64,
    pub(crate) op: u8,
    pub(crate) to: Destination,
    /// Whether contributions are the accounts, rather than numbers that follow from the token.
    pub(crate) is_of_accounts: bool,
    pub(crate) is_of_section: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Destination {
    Main,
    Member(Target, u32),
    All(u8, u32),
}

/// The line of a member in the result.
pub(crate) type Line = (u8, u32, Account, u64, Vec<String>);

#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Mail {
    Meet(World),
    Work(Work),
    Cargo(Work, Vec<u8>),
    Question(u64, Reply<u64>),
    AnswerHeld,
    Answered(u64, Option<u64>),
    Contribute(Round),
    Result(u32, u64),
    Begin(Phase, u64),
    Item(Phase, u64),
    Sync,
    SetAlarm(u64),
    CancelAlarm(u64),
    Alarm(u64),
    AwaitQuiescence(u64),
    Quiet(u64),
    Read(Published<Vec<u64>>, u64),
    Total(Account),
    /// A question that may come twice.
    Peek(u64, Reply<u64>),
    Report,
}

/// A pattern of bytes, which shows whether any of them were changed.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (seed >> (8 * (at % 8))) as u8 ^ (at / 8) as u8).collect()
}

/// A member of any collection.
#[derive(Serialize, Deserialize)]
pub(crate) struct Cell<I, const KIND: u8> {
    set: u8,
    number: u32,
    world: Option<World>,
    account: Account,
    ballast_seed: u64,
    ballast: Vec<u8>,
    held: Vec<(u64, Reply<u64>)>,
    /// The questions without an answer, and the budget of what follows.
    open: BTreeMap<u64, u32>,
    alarms: BTreeMap<u64, Timer>,
    is_synced: bool,
    syncs: u32,
    resumed: u64,
    problems: Vec<String>,
    index: PhantomData<I>,
}

impl<I: ActorIndex, const KIND: u8> Cell<I, KIND> {
    /// Merges another member of a resizable group into this one.
    pub(crate) fn add(&mut self, other: Self) {
        self.account.add(other.account);
        self.held.extend(other.held);
        self.open.extend(other.open);
        self.problems.extend(other.problems);
    }

    fn problem(&mut self, text: String) {
        if self.problems.len() < 3 {
            self.problems.push(text);
        }
    }

    fn get(&mut self, what: u64, token: u64) {
        let (set, number) = (self.set, self.number);
        note(hash(&[what, token]), || {
            format!("{what} of token {token:x}, first at {set}/{number}")
        });
        self.account.deliver(hash(&[what, token]));
    }

    fn resize(&mut self, dice: &mut Dice) {
        self.check();
        let Some(world) = &self.world else { return };
        let len = (world.state_bytes >> dice.below(10_u32)) as usize;
        let len = if dice.chance(0.2) { 0 } else { len };
        self.ballast_seed = dice.next_u64();
        self.ballast = pattern(self.ballast_seed, len);
    }

    fn check(&mut self) {
        if self.ballast != pattern(self.ballast_seed, self.ballast.len()) {
            self.problem("its bytes were changed".to_owned());
        }
    }

    fn act(&mut self, work: Work, cx: &mut Context<'_, Self>) {
        // A member that did not exist at the beginning does not know the world. What a
        // deterministic member sends must not depend on the order of messages of different senders.
        if matches!(KIND, TALLY | ON_DEMAND | DETERMINISTIC) {
            return;
        }
        let Some(world) = self.world.clone() else {
            return self.problem("a message before it knows the world".to_owned());
        };
        // Others may have got the same message.
        let me = [u64::from(self.set), u64::from(self.number)];
        let mut dice = Dice::new(hash(&[work.token, me[0], me[1]]));
        if dice.chance(0.15) {
            self.resize(&mut dice);
        }
        if dice.chance(0.3) {
            cx.charge(dice.any_scale_up_to(Duration::from_millis(4)));
        }
        if KIND <= BOUND && dice.chance(0.12) {
            cx.migrate_to(PeId(dice.below(cx.layout().pe_count())));
        }
        let mut left = work.budget.saturating_sub(1);
        for _ in 0..1 + dice.below(3_u32) {
            if left == 0 {
                return;
            }
            let budget = if dice.chance(0.3) { left } else { 1 + dice.below(left) };
            left -= budget;
            let work = Work { token: dice.next_u64(), budget };
            self.cause(&world, work, &mut dice, cx);
        }
    }

    /// Sends a message, or does something else, that causes `work`.
    fn cause(&mut self, world: &World, work: Work, dice: &mut Dice, cx: &mut Context<'_, Self>) {
        let to = world.any_target(dice, cx.layout());
        let options = any_options(dice);
        let may_wait = KIND != DETERMINISTIC;
        match dice.below(20_u32) {
            0..=1 if may_wait => {
                let delay = dice.any_scale_up_to(DELAY_MAX);
                world.send_after(delay, to, Mail::Work(work), cx);
            }
            2 => {
                let len = (world.state_bytes.min(100_000) >> dice.below(12_u32)) as usize;
                world.send(options, to, Mail::Cargo(work, pattern(work.token, len)), cx);
            }
            3..=4 if may_wait => {
                self.open.insert(work.token, work.budget);
                world.ask(to, work.token, dice.chance(world.closures), cx);
            }
            5 => {
                let set = world.any_fixed_set(dice);
                let leaf = Mail::Work(Work { budget: 0, ..work });
                match dice.below(4_u32) {
                    0 => world.broadcast(Unordered, set, leaf, cx),
                    1 => world.broadcast((Unordered, Priority(1)), set, leaf, cx),
                    2 => world.broadcast(Priority(dice.below(5_u32) as i32 - 2), set, leaf, cx),
                    _ => world.broadcast((), set, leaf, cx),
                }
            }
            6..=7 => {
                let set = world.any_fixed_set(dice);
                let part = dice.below(3_u32);
                world.multicast(
                    options,
                    set,
                    part,
                    Mail::Work(Work { budget: (work.budget / 8).min(2), ..work }),
                    cx,
                );
            }
            8..=9 if may_wait => {
                let messages = 1 + dice.below(3_u32);
                let home = world.any_member(dice);
                let init = BriefInit { world: world.clone(), home, messages, work };
                let at = world.brief.at(Brief::index(work.token));
                let pe = PeId(dice.below(cx.layout().pe_count()));
                let is_first = dice.chance(0.3);
                if is_first {
                    cx.send(&at, mix(work.token));
                }
                cx.insert_on(&at, init, pe);
                for number in u32::from(is_first)..messages {
                    let token = work.token.wrapping_add(u64::from(number));
                    match dice.chance(0.3) {
                        true => {
                            cx.send_after(dice.any_scale_up_to(DELAY_MAX), &at, mix(token));
                        }
                        false => cx.send(&at, mix(token)),
                    }
                }
            }
            _ => world.send(options, to, Mail::Work(work), cx),
        }
    }

    fn contribute(&mut self, round: Round, cx: &mut Context<'_, Self>) {
        if KIND == TALLY {
            return cx.contribute(Op::Sum, 1_u64, To::main());
        }
        let Some(world) = self.world.clone() else {
            cx.fail("a reduction before the world is known");
            return;
        };
        let to = match round.to {
            Destination::Main => To::main(),
            Destination::Member(member, tag) => world.to_member(member, tag),
            Destination::All(set, tag) => world.to_all(set, tag),
        };
        let me = hash(&[round.token, u64::from(self.set), u64::from(self.number)]);
        let me = match round.is_of_accounts {
            true => me ^ hash(&[self.account.count, self.account.sum, self.account.xor]),
            false => me,
        };
        let float = (me >> 12) as f64 / 3.0 - 7e14;
        let (any, text) = ((me >> 7) as i64, format!("{},", me % 1000));
        macro_rules! give {
            ($op:expr, $value:expr) => {
                match round.is_of_section {
                    true => {
                        let section =
                            cx.collection().section(0, world.section_of::<I>(self.set, 0));
                        cx.contribute_to_section(&section, $op, $value, to);
                    }
                    false => cx.contribute($op, $value, to),
                }
            };
        }
        match round.op {
            0 => give!(Op::Sum, me),
            1 => give!(Op::Sum, float),
            2 => give!(Op::Product, me | 1),
            3 => give!(Op::Min, float),
            4 => give!(Op::Max, vec![me, !me, me >> 3]),
            5 => give!(Op::And, me | 0xff00_ff00),
            6 => give!(Op::Or, me % 8 == 0),
            7 => give!(Op::Concat, text),
            8 => give!(Op::Concat, List(vec![(self.number, text)])),
            9 => give!(Op::Union, BTreeSet::from([me % 5, me % 11])),
            10 => give!(Op::Statistics, float),
            11 => {
                let ops = (Op::Sum, Op::Statistics, Op::Union, Op::Concat, Op::Max);
                let team = BTreeSet::from([format!("{}", me % 4)]);
                give!(ops, (me, float, team, vec![me as u8], any));
            }
            12 => give!(world.custom, text),
            _ => give!(Op::Sum, ()),
        }
    }

    fn report(&mut self, cx: &mut Context<'_, Self>) {
        self.check();
        if !self.open.is_empty() {
            self.problem(format!("{} questions without an answer", self.open.len()));
        }
        if !self.held.is_empty() {
            self.problem(format!("{} questions that it has not answered", self.held.len()));
        }
        let line: Line = (self.set, self.number, self.account, self.resumed, self.problems.clone());
        cx.contribute(Op::Concat, List(vec![line]), To::main());
    }
}

/// The number of operations of reductions.
pub(crate) const OPS: u32 = 14;

pub(crate) fn any_options(dice: &mut Dice) -> SendOptions {
    match dice.below(10_u32) {
        0..=5 => SendOptions::default(),
        6..=8 => Priority(dice.below(5_u32) as i32 - 2).into(),
        _ => InStep(u64::from(dice.below(4_u32))).into(),
    }
}

impl<I: ActorIndex, const KIND: u8> Actor for Cell<I, KIND> {
    type Index = I;
    type Init = (u8, u32);
    type Message = Mail;

    fn create((set, number): (u8, u32), _: &mut Context<'_, Self>) -> Self {
        Self {
            set,
            number,
            world: None,
            account: Account::default(),
            ballast_seed: 0,
            ballast: Vec::new(),
            held: Vec::new(),
            open: BTreeMap::new(),
            alarms: BTreeMap::new(),
            is_synced: false,
            syncs: 0,
            resumed: 0,
            problems: Vec::new(),
            index: PhantomData,
        }
    }

    fn handle(&mut self, mail: Mail, cx: &mut Context<'_, Self>) {
        match mail {
            Mail::Meet(world) => {
                let is_changed = self.world.replace(world).is_some();
                if is_changed {
                    self.problem("it met the world twice".to_owned());
                }
                self.resize(&mut Dice::new(hash(&[u64::from(self.set), u64::from(self.number)])));
            }
            Mail::Work(work) => {
                self.get(1, work.token);
                if work.budget > 0 {
                    self.act(work, cx);
                }
            }
            Mail::Cargo(work, bytes) => {
                self.get(2, hash(&[work.token, bytes.len() as u64]));
                if bytes != pattern(work.token, bytes.len()) {
                    self.problem("the bytes of a message were changed".to_owned());
                }
                self.act(work, cx);
            }
            Mail::Question(token, reply) => {
                self.get(3, token);
                if KIND == DETERMINISTIC || token % 3 != 0 {
                    return cx.reply(reply, mix(token));
                }
                self.held.push((token, reply));
                let me = cx.me();
                cx.send_after(Duration::from_millis(token % 97), &me, Mail::AnswerHeld);
            }
            Mail::AnswerHeld => match self.held.is_empty() {
                true => self.problem("an answer too many".to_owned()),
                false => {
                    let (token, reply) = self.held.remove(0);
                    cx.reply(reply, mix(token));
                }
            },
            Mail::Answered(token, answer) => {
                self.get(4, token);
                if answer != Some(mix(token)) {
                    self.problem(format!("the answer {answer:?}"));
                }
                match self.open.remove(&token) {
                    None => self.problem("an answer to no question".to_owned()),
                    Some(budget) => self.act(Work { token: !token, budget }, cx),
                }
            }
            Mail::Contribute(round) => self.contribute(round, cx),
            Mail::Result(tag, value) => self.get(5, hash(&[u64::from(tag), value])),
            Mail::Begin(phase, token) => {
                let Some(world) = self.world.clone() else { return };
                let mut dice =
                    Dice::new(hash(&[token, u64::from(self.set), u64::from(self.number)]));
                for _ in 0..dice.below(3_u32) {
                    cx.produce(phase, 1);
                    let to = world.any_target(&mut dice, cx.layout());
                    let item = Mail::Item(phase, dice.next_u64());
                    world.send(any_options(&mut dice), to, item, cx);
                }
                cx.producer_done(phase);
            }
            Mail::Item(phase, token) => {
                self.get(6, token);
                cx.consume(phase, 1);
            }
            Mail::Sync => match self.is_synced {
                true => self.syncs += 1,
                false => {
                    self.is_synced = true;
                    cx.at_sync();
                }
            },
            Mail::SetAlarm(token) => {
                let me = cx.me();
                let timer = cx.send_after(NEVER / 10, &me, Mail::Alarm(token));
                self.alarms.insert(token, timer);
            }
            Mail::CancelAlarm(token) => match self.alarms.remove(&token) {
                Some(timer) => cx.cancel(timer),
                None => self.problem("no alarm to cancel".to_owned()),
            },
            Mail::Alarm(token) => self.problem(format!("alarm {token} went off")),
            Mail::AwaitQuiescence(token) => {
                self.get(7, token);
                cx.when_quiescent(Mail::Quiet(token));
            }
            Mail::Quiet(token) => self.get(8, token),
            Mail::Read(published, token) => match cx.read(&published) {
                Some(table) => self.get(9, hash(&[token, hash(&table)])),
                None => self.problem("no published value".to_owned()),
            },
            Mail::Total(account) => self.account.add(account),
            Mail::Peek(token, reply) => cx.reply(reply, mix(token)),
            Mail::Report => self.report(cx),
        }
    }

    fn reduced(reduction: Reduction) -> Option<Mail> {
        let value = World::hash_of(&reduction.value);
        Some(Mail::Result(reduction.tag, value))
    }

    fn answered(answer: TaggedAnswer) -> Option<Mail> {
        let token = answer.tag;
        Some(Mail::Answered(token, answer.get().ok()))
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        self.resumed += 1;
        self.is_synced = false;
        let token = hash(&[u64::from(self.set), u64::from(self.number), self.resumed]);
        if self.syncs > 0 {
            self.syncs -= 1;
            self.is_synced = true;
            cx.at_sync();
        }
        self.act(Work { token, budget: 3 }, cx);
    }
}

/// The members that messages create.
pub(crate) type Late = Cell<gridspan_runtime::Ix2, ON_DEMAND>;
/// The members of a resizable group.
pub(crate) type Tally = Cell<Ix1, TALLY>;

/// The initial value of a member that a message creates.
pub(crate) fn late_init(index: gridspan_runtime::Ix2) -> (u8, u32) {
    (LATE, (index.0 * 1000 + index.1) as u32)
}
