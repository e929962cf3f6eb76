//! A job whose actors do everything at random, and whose sums show at the end whether every message
//! was handled once.

use gridspan_runtime::{
    Actor, CheckpointEvery, Checkpoints, CollectionRef, Context, CreateAt, Grid, InStep, Ix1, Job,
    JobError, Layout, Op, PeId, Per, Phase, Priority, Progress, Published, Reduction, Time, Timer,
    To, Unordered,
};
use gridspan_topology::dice::Dice;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Number of rounds of the job.
pub(crate) const ROUNDS: u32 = 30;

/// Time after which an alarm goes off: most are cancelled before.
const ALARM: Duration = Duration::from_secs(5);

/// What an actor, or main, has sent and received.
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
    fn send(&mut self, value: u64, receivers: u64) {
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

    fn contribution(self) -> Vec<u64> {
        vec![self.sent, self.got, self.balance as u64, self.poison]
    }
}

/// The collections, and sizes.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct World {
    pub(crate) members: u32,
    all: CollectionRef<Busy>,
    bound: CollectionRef<Bound>,
    late: CollectionRef<Late>,
    brief: CollectionRef<Brief>,
    tallies: CollectionRef<Tally>,
    /// Whether there is a tally on each PE, and not on each node.
    are_per_pe: bool,
    table: Published<Vec<u64>>,
    is_balanced: bool,
}

impl World {
    /// Number of tallies on a layout.
    fn tallies_on(&self, layout: &Layout) -> u32 {
        if self.are_per_pe { layout.pe_count() } else { layout.node_count() }
    }
}

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
    /// The sender's own timer of this number.
    Alarm(u64),
    /// Take part in a phase.
    Begin(Phase),
    Item(Phase),
    Contribute,
    Synchronise,
    Total(Account),
    Result(u64),
    Report,
}

/// A member that is there from the beginning, moves, and does everything.
#[derive(Serialize, Deserialize)]
pub(crate) struct Busy {
    dice: Dice,
    world: Option<World>,
    account: Account,
    /// The timer that is set, and its number.
    alarm: Option<(Timer, u64)>,
    alarms: u64,
    /// Timers that were cancelled, and when.
    cancelled: Vec<(u64, Time)>,
    inserted: u32,
    /// Results of reductions that went to all members.
    results: u64,
}

impl Busy {
    fn act(&mut self, left: u8, cx: &mut Context<'_, Self>) {
        let Some(world) = self.world else { return };
        let me = cx.index().0;
        if left == 0 {
            return;
        }
        let left = left - 1;
        let value = self.dice.next_u64() >> 20;
        let other = world.all.at(Ix1(self.dice.below(world.members) as i32));
        let act = Message::Act { value, left };
        for _ in 0..self.dice.below(3_u32) {
            match self.dice.below(16_u32) {
                0..=2 => {
                    self.account.send(value, 1);
                    cx.send(&other, act.clone());
                }
                3 => {
                    self.account.send(value, 1);
                    let priority = Priority(self.dice.below(5_u32) as i32 - 2);
                    cx.send_with(priority, &other, act.clone());
                }
                4 => {
                    self.account.send(value, 1);
                    let step = InStep(u64::from(self.dice.below(4_u32)));
                    cx.send_with(step, &other, Message::Count(value));
                }
                5 => {
                    let section = (0..world.members as i32).filter(|ix| ix % 3 == me % 3).map(Ix1);
                    let section = world.all.section(me as u64 % 3, section);
                    self.account.send(value, section.len() as u64);
                    cx.multicast(&section, Message::Count(value));
                }
                6 => {
                    self.account.send(value, u64::from(world.members));
                    match self.dice.chance(0.5) {
                        true => cx.broadcast(&world.all, Message::Count(value)),
                        false => cx.broadcast_with(Unordered, &world.all, Message::Count(value)),
                    }
                }
                7 => {
                    self.account.send(value, 1);
                    let delay = self.dice.any_scale_up_to(Duration::from_millis(300));
                    cx.send_after(delay, &other, act.clone());
                }
                8 => {
                    if let Some((timer, number)) = self.alarm.take() {
                        cx.cancel(timer);
                        self.cancelled.push((number, cx.now()));
                    }
                    self.alarms += 1;
                    let (me, delay) = (cx.me(), ALARM);
                    let timer = cx.send_after(delay, &me, Message::Alarm(self.alarms));
                    self.alarm = Some((timer, self.alarms));
                }
                9 => {
                    self.account.send(value, 1);
                    let index = self.dice.below(world.members) as i32;
                    cx.send(&world.bound.at(Ix1(index)), value);
                }
                10 => {
                    self.account.send(value, 1);
                    let index = self.dice.below(4 * world.members) as i32;
                    cx.send(&world.late.at(Ix1(index)), Some(value));
                }
                11 => {
                    // Indices are never used again.
                    let index = (1 + me) * 10_000 + self.inserted as i32;
                    self.inserted += 1;
                    let pe = PeId(self.dice.below(cx.layout().pe_count()));
                    cx.insert_on(&world.brief.at(Ix1(index)), (world, self.dice.next_u64()), pe);
                }
                12 => {
                    self.account.send(value, 1);
                    let index = self.dice.below(world.tallies_on(cx.layout())) as i32;
                    let delay = self.dice.any_scale_up_to(Duration::from_millis(300));
                    let tally = world.tallies.at(Ix1(index));
                    let act = TallyMessage::Act { world, value, left };
                    match self.dice.chance(0.3) {
                        true => drop(cx.send_after(delay, &tally, act)),
                        false => cx.send(&tally, act),
                    }
                }
                _ => cx.migrate_to(PeId(self.dice.below(cx.layout().pe_count()))),
            }
        }
    }
}

impl Actor for Busy {
    type Index = Ix1;
    type Init = u64;
    type Message = Message;

    fn create(seed: u64, cx: &mut Context<'_, Self>) -> Self {
        Self {
            dice: Dice::new(seed ^ cx.index().0 as u64),
            world: None,
            account: Account::default(),
            alarm: None,
            alarms: 0,
            cancelled: Vec::new(),
            inserted: 0,
            results: 0,
        }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
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
            Message::Begin(phase) => {
                let Some(world) = self.world else { return };
                for _ in 0..self.dice.below(3_u32) {
                    cx.produce(phase, 1);
                    let to = world.all.at(Ix1(self.dice.below(world.members) as i32));
                    cx.send(&to, Message::Item(phase));
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
                let mut report = self.account.contribution();
                report.push(self.results);
                cx.contribute(Op::Sum, report, To::main());
            }
        }
    }

    fn reduced(reduction: Reduction) -> Option<Message> {
        Some(Message::Result(reduction.get()?))
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        self.act(2, cx);
    }
}

/// A member that lives with the member of [`Busy`] of its index.
#[derive(Serialize, Deserialize)]
pub(crate) struct Bound(Account);

impl Actor for Bound {
    type Index = Ix1;
    type Init = CollectionRef<Busy>;
    type Message = u64;

    fn create(_: CollectionRef<Busy>, _: &mut Context<'_, Self>) -> Self {
        Self(Account::default())
    }

    /// The number 0 asks for a report.
    fn handle(&mut self, value: u64, cx: &mut Context<'_, Self>) {
        match value {
            0 => cx.contribute(Op::Sum, self.0.contribution(), To::main()),
            value => self.0.get(value),
        }
    }
}

/// A member that the first message to it creates.
#[derive(Serialize, Deserialize)]
pub(crate) struct Late(Account);

impl Actor for Late {
    type Index = Ix1;
    type Init = ();
    type Message = Option<u64>;

    fn create((): (), _: &mut Context<'_, Self>) -> Self {
        Self(Account::default())
    }

    fn handle(&mut self, value: Option<u64>, cx: &mut Context<'_, Self>) {
        match value {
            None => cx.contribute(Op::Sum, self.0.contribution(), To::main()),
            Some(value) => self.0.get(value),
        }
    }
}

/// A member that is inserted, sends a little, hands over its account and ends.
#[derive(Serialize, Deserialize)]
pub(crate) struct Brief {
    world: World,
    dice: Dice,
    account: Account,
    left: u8,
}

impl Actor for Brief {
    type Index = Ix1;
    type Init = (World, u64);
    type Message = ();

    fn create((world, seed): (World, u64), cx: &mut Context<'_, Self>) -> Self {
        let me = cx.me();
        cx.send_after(Duration::from_millis(seed % 20), &me, ());
        Self { world, dice: Dice::new(seed), account: Account::default(), left: 3 }
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, Self>) {
        let world = self.world;
        let any = world.all.at(Ix1(self.dice.below(world.members) as i32));
        if self.left == 0 {
            cx.send(&any, Message::Total(self.account));
            return cx.destroy();
        }
        self.left -= 1;
        let value = self.dice.next_u64() >> 20;
        self.account.send(value, 1);
        cx.send(&any, Message::Act { value, left: 2 });
        cx.migrate_to(PeId(self.dice.below(cx.layout().pe_count())));
        let me = cx.me();
        cx.send_after(self.dice.any_scale_up_to(Duration::from_millis(200)), &me, ());
    }
}

/// A member of a group, which is merged with others when nodes are lost.
#[derive(Serialize, Deserialize)]
pub(crate) struct Tally {
    account: Account,
    dice: Dice,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum TallyMessage {
    Act { world: World, value: u64, left: u8 },
    Contribute,
    Report,
}

impl Actor for Tally {
    type Index = Ix1;
    type Init = ();
    type Message = TallyMessage;

    fn create((): (), cx: &mut Context<'_, Self>) -> Self {
        Self { account: Account::default(), dice: Dice::new(cx.index().0 as u64) }
    }

    fn handle(&mut self, message: TallyMessage, cx: &mut Context<'_, Self>) {
        match message {
            TallyMessage::Act { world, value, left } => {
                self.account.get(value);
                // It takes a while, so that messages wait.
                cx.charge(Duration::from_millis(self.dice.below(3_u64)));
                if left > 0 && self.dice.chance(0.5) {
                    let value = self.dice.next_u64() >> 20;
                    self.account.send(value, 1);
                    let any = world.all.at(Ix1(self.dice.below(world.members) as i32));
                    cx.send(&any, Message::Act { value, left: left - 1 });
                }
            }
            TallyMessage::Contribute => cx.contribute(Op::Sum, 1_u64, To::main()),
            TallyMessage::Report => {
                cx.contribute(Op::Sum, self.account.contribution(), To::main());
            }
        }
    }
}

/// What main remembers.
#[derive(Clone, Serialize, Deserialize)]
struct State {
    round: u32,
    world: World,
    dice: Dice,
    account: Account,
    /// Number of reductions that went to all members.
    reductions: u64,
}

/// What main noted, in all runs.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) restored: u32,
    pub(crate) taken: u32,
    pub(crate) postponed: Vec<String>,
    /// The reason why the sums are wrong.
    pub(crate) problem: Option<String>,
    pub(crate) is_complete: bool,
}

pub(crate) fn job(seed: u64, notes: &Arc<Mutex<Notes>>) -> Job {
    let notes = notes.clone();
    let main = async move |grid: Grid| run(grid, seed, &notes).await;
    let job = Job::new("everything")
        .actor::<Busy>()
        .actor::<Bound>()
        .on_demand::<Late>(CreateAt::Sender, |_| ())
        .actor::<Brief>()
        .resizable_group::<Tally>(|_| (), |tally, other, _| tally.account.add(other.account))
        .restartable_main(main)
        .checkpoints(Checkpoints::every(CheckpointEvery::Points(1 + seed % 3)));
    match seed % 3 {
        0 => job.strategy(gridspan_balance::Rotate),
        _ => job,
    }
}

async fn begin(grid: &Grid, seed: u64) -> Result<State, JobError> {
    let mut dice = Dice::new(seed);
    let members = 8 + dice.below(40_u32);
    let all = grid.create::<Busy>(Ix1::range(members), |_| seed).await?;
    let reference = all.reference();
    let bound = grid.create_bound::<Bound>(&all, Ix1::range(members), |_| reference).await?;
    let late = grid.create::<Late>(Ix1::range(1), |_| ()).await?;
    let table = grid.publish(&vec![7_u64; 100]).await?;
    let brief = grid.create::<Brief>(Vec::<Ix1>::new(), |_| unreachable!("no index")).await?;
    let are_per_pe = !seed.is_multiple_of(4);
    let per = if are_per_pe { Per::Pe } else { Per::Node };
    let tallies = grid.create_group::<Tally>(per, |_| ()).await?.reference();
    let world = World {
        members,
        all: reference,
        bound: bound.reference(),
        late: late.reference(),
        brief: brief.reference(),
        tallies,
        are_per_pe,
        table,
        is_balanced: seed.is_multiple_of(3),
    };
    all.broadcast(Message::Meet(world));
    Ok(State { round: 0, world, dice, account: Account::default(), reductions: 0 })
}

async fn run(grid: Grid, seed: u64, notes: &Arc<Mutex<Notes>>) -> Result<(), JobError> {
    let mut state = match grid.restored::<State>().await? {
        Some(state) => {
            notes.lock().unwrap().restored += 1;
            state
        }
        None => begin(&grid, seed).await?,
    };
    let all = grid.collection(state.world.all);
    while state.round < ROUNDS {
        match grid.progress(&state).await? {
            Progress::Taken { .. } => notes.lock().unwrap().taken += 1,
            Progress::Postponed { reason } => notes.lock().unwrap().postponed.push(reason),
            _ => {}
        }
        for _ in 0..1 + state.dice.below(4_u32) {
            let value = state.dice.next_u64() >> 20;
            let index = Ix1(state.dice.below(state.world.members) as i32);
            state.account.send(value, 1);
            all.member(index).send(Message::Act { value, left: 6 });
        }
        match state.dice.below(6_u32) {
            0 => {
                let phase = grid.phase(u64::from(state.world.members));
                all.broadcast(Message::Begin(phase));
                if state.dice.chance(0.7) {
                    grid.completion(phase).await?;
                }
            }
            1 | 2 => {
                all.broadcast(Message::Contribute);
                state.reductions += 1;
            }
            3 => all.broadcast(Message::Synchronise),
            4 if state.dice.chance(0.3) => grid.quiescence().await?,
            4 => {
                let tallies = grid.collection(state.world.tallies);
                tallies.broadcast(TallyMessage::Contribute);
                let count: u64 = tallies.reduction(Op::Sum).await?;
                if count != u64::from(state.world.tallies_on(grid.layout())) {
                    return Err(format!("{count} tallies have contributed").into());
                }
            }
            _ => grid.sleep(state.dice.any_scale_up_to(Duration::from_millis(60))).await?,
        }
        state.round += 1;
    }
    grid.quiescence().await?;
    check(&grid, &state, notes).await
}

/// Adds up what all have sent and received.
async fn check(grid: &Grid, state: &State, notes: &Arc<Mutex<Notes>>) -> Result<(), JobError> {
    let world = state.world;
    let all = grid.collection(world.all);
    all.broadcast(Message::Report);
    let mut busy: Vec<u64> = all.reduction(Op::Sum).await?;
    let results = busy.pop().unwrap_or_default();
    let bound = grid.collection(world.bound);
    bound.broadcast(0);
    let bound: Vec<u64> = bound.reduction(Op::Sum).await?;
    let late = grid.collection(world.late);
    late.broadcast(None);
    let late: Vec<u64> = late.reduction(Op::Sum).await?;
    let tallies = grid.collection(world.tallies);
    tallies.broadcast(TallyMessage::Report);
    let tallies: Vec<u64> = tallies.reduction(Op::Sum).await?;
    let sums: Vec<u64> = (0..4)
        .map(|at| {
            let parts = [&busy, &bound, &late, &tallies, &state.account.contribution()];
            parts.into_iter().fold(0_u64, |sum, part| sum.wrapping_add(part[at]))
        })
        .collect();
    let expected = state.reductions * u64::from(world.members);
    let mut notes = notes.lock().unwrap();
    notes.is_complete = true;
    if sums[0] != sums[1] || sums[2] != 0 || sums[3] != 0 || results != expected {
        notes.problem = Some(format!(
            "sent {}, received {}; {} messages too many, {} that should not come; {results} \
             results of {expected}",
            sums[0], sums[1], sums[2] as i64, sums[3]
        ));
    }
    Ok(())
}
