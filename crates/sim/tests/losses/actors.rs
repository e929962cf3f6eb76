//! The actors of the random job. Each keeps an account of the messages that it has sent and
//! received, and of their order.

use crate::order::{Heard, Lane, Receiver, SECTIONS, Sender, Sent, Stamp};
use crate::phases::ledger;
use crate::questions::Questions;
use bytes::Bytes;
use gridspan_runtime::{
    Actor, CollectionRef, Context, Ix1, Ix5, Ix6, Layout, Op, PeId, Phase, Published, Reduction,
    Reply, TaggedAnswer, Time, Timer, To, Unordered,
};
use gridspan_topology::dice::Dice;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Time after which an alarm goes off: most are cancelled before.
const ALARM: Duration = Duration::from_secs(5);

/// Bytes of a member of a heavy job: as many as a PE encodes in a turn.
const BALLAST: usize = 256 << 10;

/// Whether members of the job of a seed have large states.
pub(crate) fn is_heavy(seed: u64) -> bool {
    seed % 8 == 6
}

/// Sums over the messages that an actor, or main, has sent and received.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Account {
    sent: u64,
    got: u64,
    /// Number of messages received minus those sent.
    balance: i64,
    /// Number of messages that should never have come.
    poison: u64,
}

impl Account {
    pub(crate) fn send(&mut self, value: u64, receivers: u64) {
        self.sent = self.sent.wrapping_add(value.wrapping_mul(receivers));
        self.balance -= receivers as i64;
    }

    fn get(&mut self, value: u64) {
        self.got = self.got.wrapping_add(value);
        self.balance += 1;
    }

    fn add(&mut self, other: Self) {
        self.sent = self.sent.wrapping_add(other.sent);
        self.got = self.got.wrapping_add(other.got);
        self.balance += other.balance;
        self.poison += other.poison;
    }

    pub(crate) fn contribution(self) -> Vec<u64> {
        vec![self.sent, self.got, self.balance as u64, self.poison]
    }
}

/// The collections of the job, and some of their sizes.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct World {
    pub(crate) members: u32,
    pub(crate) all: CollectionRef<Busy>,
    pub(crate) bound: CollectionRef<Bound>,
    pub(crate) late: CollectionRef<Late>,
    pub(crate) brief: CollectionRef<Brief>,
    pub(crate) tallies: CollectionRef<Tally>,
    /// Whether there is a tally on each PE, rather than on each node.
    pub(crate) are_per_pe: bool,
    pub(crate) table: Published<Vec<u64>>,
    pub(crate) is_balanced: bool,
}

impl World {
    pub(crate) fn tallies_on(&self, layout: &Layout) -> u32 {
        if self.are_per_pe { layout.pe_count() } else { layout.node_count() }
    }
}

/// A message to a busy member, with its place in the order. Messages of timers, answers, results of
/// reductions and unordered broadcasts have no place.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Mail(pub(crate) Option<Stamp>, pub(crate) Message);

#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Message {
    Meet(World),
    /// Do something, and let others do something.
    Act {
        value: u64,
        left: u8,
    },
    /// Only count this.
    Count(u64),
    /// The timer of this number, which the receiver had set, has expired.
    Alarm(u64),
    /// Count this value, and answer with the value plus one, now or later.
    Question(u64, Reply<u64>),
    /// Answer the question that waits for the longest time.
    AnswerNext,
    /// The answer to the question of this number, which the receiver had asked.
    Answered(u64, u64),
    /// Take part in a phase.
    Begin(Phase),
    Item(Phase),
    Contribute,
    Synchronise,
    Total(Account),
    Result(u64),
    Report,
}

/// A member that exists from the beginning, moves, and uses all operations.
#[derive(Serialize, Deserialize)]
pub(crate) struct Busy {
    dice: Dice,
    world: Option<World>,
    account: Account,
    sent: Sent,
    heard: Heard,
    /// Number of tallies, and how often it has changed.
    tallies: (u32, u32),
    /// The timer that is set, and its number.
    alarm: Option<(Timer, u64)>,
    alarms: u64,
    /// Timers that it has cancelled, with the times.
    cancelled: Vec<(u64, Time)>,
    questions: Questions,
    inserted: u32,
    /// Number of results that it has received from reductions to all members.
    results: u64,
    /// Large in some jobs, whose PEs then encode one member at a time for a checkpoint.
    ballast: Bytes,
}

impl Busy {
    fn act(&mut self, left: u8, cx: &mut Context<'_, Self>) {
        let Some(world) = self.world else { return };
        if left == 0 {
            return;
        }
        let left = left - 1;
        for _ in 0..self.dice.below(3_u32) {
            let value = self.dice.next_u64() >> 20;
            let to = self.dice.below(world.members) as i32;
            let act = Message::Act { value, left };
            match self.dice.below(19_u32) {
                0..=2 => self.send(cx, to, Lane::NORMAL, act, value),
                3 => {
                    let lane = Lane::any(&mut self.dice);
                    self.send(cx, to, lane, act, value);
                }
                4 => {
                    let lane = Lane::any(&mut self.dice);
                    self.send(cx, to, lane, Message::Count(value), value);
                }
                5 => self.multicast(cx, value),
                6 => self.broadcast(cx, value),
                7 => {
                    self.account.send(value, 1);
                    let delay = self.dice.any_scale_up_to(Duration::from_millis(300));
                    cx.send_after(delay, &world.all.at(Ix1(to)), Mail(None, act));
                }
                8 => self.set_alarm(cx),
                9 => {
                    self.account.send(value, 1);
                    let lane = Lane::any(&mut self.dice);
                    let stamp = self.sent.one(Receiver::Bound(to), lane);
                    cx.send_with(lane, &world.bound.at(Ix1(to)), Some((stamp, value)));
                }
                10 => {
                    self.account.send(value, 1);
                    let index = self.dice.below(4 * world.members) as i32;
                    let lane = Lane::any(&mut self.dice);
                    let stamp = self.sent.one(Receiver::Late(index), lane);
                    cx.send_with(lane, &world.late.at(late_index(index)), Some((stamp, value)));
                }
                11 | 12 => {
                    // Indices are never used again.
                    let index = (1 + cx.index().0) * BRIEF_OF_ONE + self.inserted as i32;
                    self.inserted += 1;
                    let pe = PeId(self.dice.below(cx.layout().pe_count()));
                    ledger(|ledger| ledger.inserted(index));
                    let brief = world.brief.at(brief_index(index));
                    cx.insert_on(&brief, (world, self.dice.next_u64()), pe);
                }
                13 => self.send_to_tally(cx, value, left),
                14 | 15 => self.ask(cx, to, value),
                _ => cx.migrate_to(PeId(self.dice.below(cx.layout().pe_count()))),
            }
        }
    }

    fn send(
        &mut self,
        cx: &mut Context<'_, Self>,
        to: i32,
        lane: Lane,
        message: Message,
        value: u64,
    ) {
        let Some(world) = self.world else { return };
        self.account.send(value, 1);
        let mail = Mail(Some(self.sent.one(Receiver::Busy(to), lane)), message);
        let to = world.all.at(Ix1(to));
        match lane {
            Lane::NORMAL => cx.send(&to, mail),
            lane => cx.send_with(lane, &to, mail),
        }
    }

    fn ask(&mut self, cx: &mut Context<'_, Self>, to: i32, value: u64) {
        let Some(world) = self.world else { return };
        self.account.send(value, 1);
        let stamp = self.sent.one(Receiver::Busy(to), Lane::NORMAL);
        let question = move |reply| Mail(Some(stamp), Message::Question(value, reply));
        let number = self.questions.open();
        cx.ask_tagged(&world.all.at(Ix1(to)), Duration::MAX, number, question);
    }

    /// Takes a question, which is answered in this handler or a later one.
    fn take_question(&mut self, cx: &mut Context<'_, Self>, value: u64, reply: Reply<u64>) {
        self.account.get(value);
        self.questions.keep(value, reply);
        if self.dice.chance(0.3) {
            return self.answer_next(cx);
        }
        let (me, delay) = (cx.me(), self.dice.any_scale_up_to(Duration::from_millis(300)));
        cx.send_after(delay, &me, Mail(None, Message::AnswerNext));
    }

    /// Answers the question that waits for the longest time. Called once for each question.
    fn answer_next(&mut self, cx: &mut Context<'_, Self>) {
        let Some((value, reply)) = self.questions.take() else {
            self.account.poison += 1;
            return;
        };
        self.account.send(value + 1, 1);
        cx.reply(reply, value + 1);
    }

    fn take_answer(&mut self, number: u64, value: u64) {
        self.account.get(value);
        self.account.poison += u64::from(!self.questions.close(number));
    }

    fn multicast(&mut self, cx: &mut Context<'_, Self>, value: u64) {
        let Some(world) = self.world else { return };
        let name = cx.index().0 % SECTIONS;
        let section = (0..world.members as i32).filter(|index| index % SECTIONS == name).map(Ix1);
        let section = world.all.section(name as u64, section);
        self.account.send(value, section.len() as u64);
        let lane = Lane::any(&mut self.dice);
        let mail = Mail(Some(self.sent.section(lane)), Message::Count(value));
        cx.multicast_with(lane, &section, mail);
    }

    fn broadcast(&mut self, cx: &mut Context<'_, Self>, value: u64) {
        let Some(world) = self.world else { return };
        self.account.send(value, u64::from(world.members));
        let count = Message::Count(value);
        if self.dice.chance(0.3) {
            return cx.broadcast_with(Unordered, &world.all, Mail(None, count));
        }
        let lane = match self.dice.chance(0.6) {
            true => Lane::NORMAL,
            false => Lane::any_priority(&mut self.dice),
        };
        let is_to_busy = self.dice.chance(0.7);
        let stamp = match is_to_busy {
            true => self.sent.all_busy(lane),
            false => self.sent.all_bound(lane),
        };
        ledger(|ledger| ledger.broadcast_sent(&stamp, world.members));
        match is_to_busy {
            true => cx.broadcast_with(lane, &world.all, Mail(Some(stamp), count)),
            false => cx.broadcast_with(lane, &world.bound, Some((stamp, value))),
        }
    }

    fn set_alarm(&mut self, cx: &mut Context<'_, Self>) {
        if let Some((timer, number)) = self.alarm.take() {
            cx.cancel(timer);
            self.cancelled.push((number, cx.now()));
        }
        self.alarms += 1;
        let (me, delay) = (cx.me(), ALARM);
        let timer = cx.send_after(delay, &me, Mail(None, Message::Alarm(self.alarms)));
        self.alarm = Some((timer, self.alarms));
    }

    fn send_to_tally(&mut self, cx: &mut Context<'_, Self>, value: u64, left: u8) {
        let Some(world) = self.world else { return };
        self.account.send(value, 1);
        self.count_tallies(cx);
        let (tallies, changes) = self.tallies;
        let index = self.dice.below(tallies) as i32;
        let tally = world.tallies.at(Ix1(index));
        let delay = self.dice.any_scale_up_to(Duration::from_millis(300));
        if self.dice.chance(0.3) {
            let act = TallyMessage::Act { stamp: None, world, value, left };
            cx.send_after(delay, &tally, act);
            return;
        }
        let lane = Lane::any(&mut self.dice);
        let stamp = Some(self.sent.one(Receiver::Tally(index, changes), lane));
        cx.send_with(lane, &tally, TallyMessage::Act { stamp, world, value, left });
    }

    /// Notes whether the group of tallies has another size.
    fn count_tallies(&mut self, cx: &Context<'_, Self>) {
        let Some(world) = self.world else { return };
        let (tallies, changes) = self.tallies;
        let now = world.tallies_on(cx.layout());
        if now != tallies {
            self.tallies = (now, changes + 1);
        }
    }
}

impl Actor for Busy {
    type Index = Ix1;
    type Init = u64;
    type Message = Mail;

    fn create(seed: u64, cx: &mut Context<'_, Self>) -> Self {
        Self {
            dice: Dice::new(seed ^ cx.index().0 as u64),
            world: None,
            account: Account::default(),
            sent: Sent::new(Sender::Busy(cx.index().0)),
            heard: Heard::default(),
            tallies: (0, 0),
            alarm: None,
            alarms: 0,
            cancelled: Vec::new(),
            questions: Questions::default(),
            inserted: 0,
            results: 0,
            ballast: if is_heavy(seed) { vec![0; BALLAST].into() } else { Bytes::new() },
        }
    }

    fn handle(&mut self, Mail(stamp, message): Mail, cx: &mut Context<'_, Self>) {
        ledger(|ledger| ledger.handled(stamp.as_ref(), cx.now()));
        if let Some(stamp) = stamp {
            self.heard.hear(&stamp);
        }
        match message {
            Message::Meet(world) => self.world = Some(world),
            Message::Act { value, left } => {
                self.account.get(value);
                self.act(left, cx);
            }
            Message::Count(value) => self.account.get(value),
            Message::Alarm(number) => {
                let now = cx.now();
                // A timer that is about to expire may be cancelled too late.
                let is_late = |&(other, at): &(u64, Time)| {
                    other == number && now.since(at) > Duration::from_secs(1)
                };
                self.account.poison += u64::from(self.cancelled.iter().any(is_late));
            }
            Message::Question(value, reply) => self.take_question(cx, value, reply),
            Message::AnswerNext => self.answer_next(cx),
            Message::Answered(number, value) => self.take_answer(number, value),
            Message::Begin(phase) => {
                let Some(world) = self.world else { return };
                for _ in 0..self.dice.below(3_u32) {
                    cx.produce(phase, 1);
                    let to = self.dice.below(world.members) as i32;
                    let stamp = self.sent.one(Receiver::Busy(to), Lane::NORMAL);
                    cx.send(&world.all.at(Ix1(to)), Mail(Some(stamp), Message::Item(phase)));
                }
                cx.producer_done(phase);
            }
            Message::Item(phase) => cx.consume(phase, 1),
            Message::Contribute => {
                let Some(world) = self.world else { return };
                if let Some(table) = cx.read(&world.table)
                    && table.len() != 100
                {
                    cx.fail("the published table has another length");
                }
                cx.contribute(Op::Sum, 1_u64, To::all(world.all, 0));
            }
            Message::Synchronise => cx.at_sync(),
            Message::Total(account) => self.account.add(account),
            Message::Result(count) => {
                self.results += 1;
                if self.world.is_some_and(|world| u64::from(world.members) != count) {
                    cx.fail(format!("a reduction of {count} members"));
                }
            }
            Message::Report => {
                let mut sums = self.account.contribution();
                sums.push(self.results);
                report(sums, &self.heard, cx);
            }
        }
    }

    fn reduced(reduction: Reduction) -> Option<Mail> {
        Some(Mail(None, Message::Result(reduction.get()?)))
    }

    fn answered(answer: TaggedAnswer) -> Option<Mail> {
        let number = answer.tag;
        Some(Mail(None, Message::Answered(number, answer.get().ok()?)))
    }

    fn arrived(&mut self, cx: &mut Context<'_, Self>) {
        self.count_tallies(cx);
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        self.act(2, cx);
    }
}

/// State of a member that only receives.
#[derive(Default, Serialize, Deserialize)]
struct Inbox {
    account: Account,
    heard: Heard,
}

impl Inbox {
    /// Takes a message. `None` is the request for a report.
    fn handle<A: Actor>(&mut self, message: Option<(Stamp, u64)>, cx: &mut Context<'_, A>) {
        let Some((stamp, value)) = message else {
            return report(self.account.contribution(), &self.heard, cx);
        };
        ledger(|ledger| ledger.handled(Some(&stamp), cx.now()));
        self.heard.hear(&stamp);
        self.account.get(value);
    }
}

/// A member that is bound to the [`Busy`] member of the same index.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Bound(Inbox);

impl Actor for Bound {
    type Index = Ix1;
    type Init = CollectionRef<Busy>;
    type Message = Option<(Stamp, u64)>;

    fn create(_: CollectionRef<Busy>, _: &mut Context<'_, Self>) -> Self {
        Self::default()
    }

    fn handle(&mut self, message: Option<(Stamp, u64)>, cx: &mut Context<'_, Self>) {
        self.0.handle(message, cx);
    }
}

/// The index of the [`Late`] member with this number.
fn late_index(number: i32) -> Ix5 {
    Ix5((number / 4) as i16, 0, (number / 2 % 2) as i16, 0, (number % 2) as i16)
}

/// A member that the first message to it creates.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Late(Inbox);

impl Actor for Late {
    type Index = Ix5;
    type Init = ();
    type Message = Option<(Stamp, u64)>;

    fn create((): (), _: &mut Context<'_, Self>) -> Self {
        Self::default()
    }

    fn handle(&mut self, message: Option<(Stamp, u64)>, cx: &mut Context<'_, Self>) {
        self.0.handle(message, cx);
    }
}

/// Number of [`Brief`] members that a [`Busy`] member may insert.
const BRIEF_OF_ONE: i32 = 10_000;

/// The index of the [`Brief`] member with this number.
fn brief_index(number: i32) -> Ix6 {
    Ix6((number / BRIEF_OF_ONE) as i16, 0, (number % BRIEF_OF_ONE) as i16, 0, 0, 0)
}

/// A member that is inserted, sends a little, hands over its account and ends.
#[derive(Serialize, Deserialize)]
pub(crate) struct Brief {
    world: World,
    dice: Dice,
    account: Account,
    sent: Sent,
    left: u8,
}

impl Actor for Brief {
    type Index = Ix6;
    type Init = (World, u64);
    type Message = ();

    fn create((world, seed): (World, u64), cx: &mut Context<'_, Self>) -> Self {
        let me = cx.me();
        cx.send_after(Duration::from_millis(seed % 20), &me, ());
        let Ix6(busy, _, of_busy, ..) = cx.index();
        let index = i32::from(busy) * BRIEF_OF_ONE + i32::from(of_busy);
        ledger(|ledger| ledger.created(index));
        Self {
            world,
            dice: Dice::new(seed),
            account: Account::default(),
            sent: Sent::new(Sender::Brief(index)),
            left: 3,
        }
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, Self>) {
        let world = self.world;
        let any = self.dice.below(world.members) as i32;
        let stamp = Some(self.sent.one(Receiver::Busy(any), Lane::NORMAL));
        let any = world.all.at(Ix1(any));
        if self.left == 0 {
            cx.send(&any, Mail(stamp, Message::Total(self.account)));
            return cx.destroy();
        }
        self.left -= 1;
        let value = self.dice.next_u64() >> 20;
        self.account.send(value, 1);
        cx.send(&any, Mail(stamp, Message::Act { value, left: 2 }));
        cx.migrate_to(PeId(self.dice.below(cx.layout().pe_count())));
        let me = cx.me();
        cx.send_after(self.dice.any_scale_up_to(Duration::from_millis(200)), &me, ());
    }
}

/// A member of a group, which is merged with others when nodes are lost.
#[derive(Serialize, Deserialize)]
pub(crate) struct Tally {
    account: Account,
    sent: Sent,
    heard: Heard,
    dice: Dice,
}

impl Tally {
    /// Merges another member into this one, after the group has become smaller.
    pub(crate) fn add(&mut self, other: Self) {
        self.account.add(other.account);
        self.heard.add(other.heard);
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum TallyMessage {
    Act {
        /// Its place in the order, unless a timer sent it.
        stamp: Option<Stamp>,
        world: World,
        value: u64,
        left: u8,
    },
    Contribute,
    Report,
}

impl Actor for Tally {
    type Index = Ix1;
    type Init = ();
    type Message = TallyMessage;

    fn create((): (), cx: &mut Context<'_, Self>) -> Self {
        let (index, now) = (cx.index().0, cx.now());
        Self {
            account: Account::default(),
            sent: Sent::new(Sender::Tally(index, now)),
            heard: Heard::default(),
            dice: Dice::new(index as u64),
        }
    }

    fn handle(&mut self, message: TallyMessage, cx: &mut Context<'_, Self>) {
        match message {
            TallyMessage::Act { stamp, world, value, left } => {
                if let Some(stamp) = stamp {
                    self.heard.hear(&stamp);
                }
                self.account.get(value);
                // The handler takes a while, so that messages wait.
                cx.charge(Duration::from_millis(self.dice.below(3_u64)));
                if left > 0 && self.dice.chance(0.5) {
                    let value = self.dice.next_u64() >> 20;
                    self.account.send(value, 1);
                    let any = self.dice.below(world.members) as i32;
                    let stamp = self.sent.one(Receiver::Busy(any), Lane::NORMAL);
                    let act = Message::Act { value, left: left - 1 };
                    cx.send(&world.all.at(Ix1(any)), Mail(Some(stamp), act));
                }
            }
            TallyMessage::Contribute => cx.contribute(Op::Sum, 1_u64, To::main()),
            TallyMessage::Report => {
                report(self.account.contribution(), &self.heard, cx);
            }
        }
    }
}

/// The combined reports of all members of a collection: sums, a line for each member that got
/// messages out of order, and the least and the greatest hashes over the orders of broadcasts.
pub(crate) type Report = (Vec<u64>, String, Vec<u64>, Vec<u64>);

/// The operations by which reports are reduced.
pub(crate) const REPORT: (Op, Op, Op, Op) = (Op::Sum, Op::Concat, Op::Min, Op::Max);

fn report<A: Actor>(sums: Vec<u64>, heard: &Heard, cx: &mut Context<'_, A>) {
    let broadcasts = heard.broadcasts();
    let me = cx.me();
    let problem = heard.problem().map(|problem| format!("{me:?}: {problem}\n"));
    let report: Report = (sums, problem.unwrap_or_default(), broadcasts.clone(), broadcasts);
    cx.contribute(REPORT, report, To::main());
}
