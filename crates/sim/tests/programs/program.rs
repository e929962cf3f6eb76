//! Random programs: main draws its collections and its steps from a seed.

use crate::cells::{
    Cell, Destination, Line, Mail, NEVER, ON_DEMAND, OPS, Round, TALLY, Work, any_options,
    late_init, pattern,
};
use crate::outcome::{Notes, Outcome};
use crate::shape::Shape;
use crate::tasks::{self, Lasting, Tree};
use crate::world::{
    Account, Brief, Set, TALLIES, Target, WIDTH, World, hash, hash_of_text, with_collection,
    with_member,
};
use gridspan_balance::StrategyName;
use gridspan_runtime::{
    Checkpoints, Collection, CollectionRef, Grid, GridError, Ix1, Ix2, Ix3, Job, JobError, List,
    NodeId, Op, PeId, Per, Placement, Priority, Progress, Reducible, SendOptions, Statistics,
    TaskPool, Unordered, Value,
};
use gridspan_topology::dice::{Dice, mix};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Names of the kinds of steps, for the count of what was covered.
pub(crate) const STEPS: [&str; 18] = [
    "work",
    "broadcast",
    "multicast",
    "phase",
    "reduction",
    "section reduction",
    "sync",
    "quiescence",
    "rebalance",
    "move coordinator",
    "publish",
    "tasks",
    "stream",
    "ask",
    "insertion",
    "sleep",
    "alarms",
    "creation",
];

#[derive(Clone, Serialize, Deserialize)]
struct State {
    round: u32,
    world: World,
    account: Account,
    /// Reductions whose results main has not awaited.
    deferred: Vec<(u8, Round)>,
    alarms: Vec<(u8, u64)>,
    tag: u32,
    /// Collections that were created on the way.
    extra: Vec<CollectionRef<Cell<Ix1, 0>>>,
    stream: Option<Lasting>,
}

fn longer(left: Value, right: Value) -> Value {
    let takes_right = match (&left, &right) {
        (Value::Bytes(left), Value::Bytes(right)) => (right.len(), left) > (left.len(), right),
        _ => false,
    };
    if takes_right { right } else { left }
}

pub(crate) fn job(
    shape: &Shape,
    checkpoints: Option<Checkpoints>,
    notes: &Arc<Mutex<Notes>>,
) -> Job {
    let (notes, its) = (notes.clone(), shape.clone());
    let (job, custom) = Job::new("program").reducer("longer", longer);
    let main = async move |grid: Grid| run(&grid, &its, &custom, &notes).await;
    let mut job = job
        .actor::<Cell<Ix1, 0>>()
        .actor::<Cell<Ix2, 0>>()
        .actor::<Cell<Ix3, 0>>()
        .actor::<Cell<Ix1, 1>>()
        .deterministic::<Cell<Ix1, 2>>()
        .kept_group::<Cell<Ix1, 3>>()
        .resizable_group::<Cell<Ix1, TALLY>>(|_| (TALLIES, 0), |tally, other, _| tally.add(other))
        .on_demand::<Cell<Ix2, ON_DEMAND>>(shape.create_at, late_init)
        .actor::<Brief>()
        .tasks::<Tree>()
        .seed(shape.seed)
        .fail_on_stall(true)
        .restartable_main(main);
    if let Some(checkpoints) = checkpoints {
        job = job.checkpoints(checkpoints);
    }
    if let Some(strategy) = shape.strategy {
        job = job.strategy(strategy.parse::<StrategyName>().unwrap()).balance_gate(shape.has_gate);
        if let Some(period) = shape.balance_every {
            job = job.balance_every(period);
        }
    }
    job
}

async fn begin(grid: &Grid, shape: &Shape, custom: &Op) -> Result<State, JobError> {
    let mut dice = Dice::new(shape.seed ^ 0x0062_6567_696e);
    let mut sets: Vec<(Set, u32)> = Vec::new();
    for number in 0..1 + dice.below(5_u32) as u8 {
        let placement = match dice.below(6_u32) {
            0 => Placement::RoundRobin,
            1 => Placement::BySite,
            2 => Placement::Scatter,
            _ => Placement::Block,
        };
        let members = 1 + dice.below(16_u32);
        let last_line = sets.iter().find_map(|(set, members)| match set {
            Set::Line(line) => Some((*line, *members)),
            _ => None,
        });
        // Members are numbered by their indices.
        let set = match dice.below(10_u32) {
            0..=1 => {
                let init = |ix: Ix1| (number, ix.0 as u32);
                let line = grid.create_placed::<Cell<Ix1, 0>>(placement, Ix1::range(members), init);
                (Set::Line(line.await?.reference()), members)
            }
            2 => {
                let indices: Vec<Ix1> =
                    (0..members as i32).map(|number| Ix1(number * 9973 - 30_000)).collect();
                let init = |ix: Ix1| (number, ((ix.0 + 30_000) / 9973) as u32);
                (
                    Set::Sparse(grid.create::<Cell<Ix1, 0>>(indices, init).await?.reference()),
                    members,
                )
            }
            3..=4 => {
                let rows = 1 + members / 4;
                let init = |ix: Ix2| (number, (ix.0 * WIDTH + ix.1) as u32);
                let plane = Ix2::grid(rows, WIDTH as u32);
                let plane = grid.create_placed::<Cell<Ix2, 0>>(placement, plane, init).await?;
                (Set::Plane(plane.reference()), rows * WIDTH as u32)
            }
            5 => {
                let (rows, width) = (1 + members / 8, WIDTH as u32);
                let init = |ix: Ix3| (number, ((ix.0 * WIDTH + ix.1) * WIDTH + ix.2) as u32);
                let space = Ix3::grid(rows, width, width);
                let space = grid.create_placed::<Cell<Ix3, 0>>(placement, space, init).await?;
                (Set::Space(space.reference()), rows * width * width)
            }
            6 | 7 if last_line.is_some() => {
                let (line, members) = last_line.unwrap();
                let line = grid.collection(line);
                let init = |ix: Ix1| (number, ix.0 as u32);
                let bound =
                    grid.create_bound::<Cell<Ix1, 1>>(&line, Ix1::range(members), init).await?;
                (Set::Bound(bound.reference()), members)
            }
            8 => {
                let init = |ix: Ix1| (number, ix.0 as u32);
                let group = grid.create_group::<Cell<Ix1, 3>>(Per::Pe, init).await?;
                (Set::Kept(group.reference()), grid.layout().pe_count())
            }
            _ => {
                let init = |ix: Ix1| (number, ix.0 as u32);
                let set = grid.create_placed::<Cell<Ix1, 2>>(placement, Ix1::range(members), init);
                (Set::Deterministic(set.await?.reference()), members)
            }
        };
        sets.push(set);
    }
    let late = grid.create::<Cell<Ix2, ON_DEMAND>>(Ix2::grid(1, 1), late_init).await?.reference();
    let per = if shape.are_per_pe { Per::Pe } else { Per::Node };
    let tallies = grid.create_group::<Cell<Ix1, TALLY>>(per, |_| (TALLIES, 0)).await?.reference();
    let brief = grid.create::<Brief>(Vec::<Ix2>::new(), |_| unreachable!("no index")).await?;
    let all: u64 = sets.iter().map(|(_, members)| u64::from(*members)).sum();
    let world = World {
        sets,
        late,
        tallies,
        are_per_pe: shape.are_per_pe,
        brief: brief.reference(),
        custom: custom.clone(),
        state_bytes: shape.state_bytes.min((64 << 20) / all),
        closures: if shape.has_closures { 0.3 } else { 0.0 },
    };
    for set in 0..world.sets.len() as u8 {
        broadcast(grid, &world, set, Mail::Meet(world.clone()));
    }
    grid.quiescence().await?;
    Ok(State {
        round: 0,
        world,
        account: Account::default(),
        deferred: Vec::new(),
        alarms: Vec::new(),
        tag: 0,
        extra: Vec::new(),
        stream: None,
    })
}

fn broadcast(grid: &Grid, world: &World, set: u8, mail: Mail) {
    with_collection!(world.sets[usize::from(set)].0, it => grid.collection(it).broadcast(mail));
}

fn send(grid: &Grid, world: &World, options: SendOptions, to: Target, mail: Mail) {
    with_member!(world, to, (it, at) => {
        grid.collection(it).member(at).send_with(options, mail);
    });
}

/// Takes the result of a reduction.
async fn result(grid: &Grid, world: &World, set: u8, round: &Round) -> Result<u64, GridError> {
    async fn get<T: Reducible + std::fmt::Debug, A: gridspan_runtime::Actor>(
        world: &World,
        (set, it): (u8, &Collection<A>),
        round: &Round,
        op: impl Into<Op>,
    ) -> Result<u64, GridError> {
        let value: T = match round.is_of_section {
            true => {
                let section = it.reference().section(0, world.section_of(set, 0));
                it.section_reduction(&section, op).await?
            }
            false => it.reduction(op).await?,
        };
        Ok(hash_of_text(&format!("{value:?}")))
    }
    let number = set;
    with_collection!(world.sets[usize::from(set)].0, it => {
        let it = (number, &grid.collection(it));
        match round.op {
            0 => get::<u64, _>(world, it, round, Op::Sum).await,
            1 => get::<f64, _>(world, it, round, Op::Sum).await,
            2 => get::<u64, _>(world, it, round, Op::Product).await,
            3 => get::<f64, _>(world, it, round, Op::Min).await,
            4 => get::<Vec<u64>, _>(world, it, round, Op::Max).await,
            5 => get::<u64, _>(world, it, round, Op::And).await,
            6 => get::<bool, _>(world, it, round, Op::Or).await,
            7 => get::<String, _>(world, it, round, Op::Concat).await,
            8 => get::<List<(u32, String)>, _>(world, it, round, Op::Concat).await,
            9 => get::<BTreeSet<u64>, _>(world, it, round, Op::Union).await,
            10 => get::<Statistics, _>(world, it, round, Op::Statistics).await,
            11 => {
                let ops = (Op::Sum, Op::Statistics, Op::Union, Op::Concat, Op::Max);
                type All = (u64, Statistics, BTreeSet<String>, Vec<u8>, i64);
                get::<All, _>(world, it, round, ops).await
            }
            12 => get::<String, _>(world, it, round, world.custom.clone()).await,
            _ => get::<(), _>(world, it, round, Op::Sum).await,
        }
    })
}

impl State {
    fn work(&mut self, grid: &Grid, shape: &Shape, dice: &mut Dice) {
        for _ in 0..1 + dice.below(4_u32) {
            let to = self.world.any_target(dice, grid.layout());
            let work = Work { token: dice.next_u64(), budget: 1 + dice.below(shape.budget) };
            let mail = match dice.chance(0.2) {
                true => {
                    let len = (self.world.state_bytes.min(100_000) >> dice.below(12_u32)) as usize;
                    Mail::Cargo(work, pattern(work.token, len))
                }
                false => Mail::Work(work),
            };
            send(grid, &self.world, any_options(dice), to, mail);
        }
    }

    /// Awaits deferred reductions: those of one set, or all.
    async fn settle(&mut self, grid: &Grid, of: Option<(u8, bool)>) -> Result<(), JobError> {
        let is_due = |set: u8, round: &Round| {
            of.is_none_or(|(its, section)| its == set && section == round.is_of_section)
        };
        while let Some(at) = self.deferred.iter().position(|(set, round)| is_due(*set, round)) {
            let (set, round) = self.deferred.remove(at);
            let value = result(grid, &self.world, set, &round).await?;
            self.account.deliver(hash(&[round.token, value]));
        }
        Ok(())
    }

    async fn reduce(
        &mut self,
        grid: &Grid,
        dice: &mut Dice,
        is_of_section: bool,
    ) -> Result<(), JobError> {
        let set = self.world.any_fixed_set(dice);
        self.tag += 1;
        let to = match dice.below(4_u32) {
            0..=1 => Destination::Main,
            2 => Destination::Member(self.world.any_member(dice), self.tag),
            _ => Destination::All(self.world.any_fixed_set(dice), self.tag),
        };
        let is_of_accounts = dice.chance(0.3);
        let (op, token, is_deferred) = (dice.below(OPS) as u8, dice.next_u64(), dice.chance(0.4));
        let round = Round { token, op, to, is_of_accounts, is_of_section };
        if is_of_accounts {
            self.rest(grid).await?;
        }
        if matches!(to, Destination::Main) {
            self.settle(grid, Some((set, is_of_section))).await?;
            self.deferred.push((set, round));
        }
        match is_of_section {
            true => with_collection!(self.world.sets[usize::from(set)].0, it => {
                let section = it.section(0, self.world.section_of(set, 0));
                grid.collection(it).multicast(&section, Mail::Contribute(round));
            }),
            false => broadcast(grid, &self.world, set, Mail::Contribute(round)),
        }
        if is_of_accounts {
            // Nothing may change the accounts before all have contributed.
            grid.quiescence().await?;
        }
        if !is_deferred {
            self.settle(grid, Some((set, is_of_section))).await?;
        }
        Ok(())
    }

    async fn step(
        &mut self,
        grid: &Grid,
        shape: &Shape,
        pool: &TaskPool<Tree>,
        notes: &Arc<Mutex<Notes>>,
        dice: &mut Dice,
    ) -> Result<(), JobError> {
        let kind = match dice.below(24_u32) {
            kind @ 0..18 => kind as usize,
            18..20 => 0,
            20 => 4,
            21 => 5,
            _ => 15,
        };
        *notes.lock().unwrap().steps.entry(STEPS[kind]).or_default() += 1;
        if std::env::var_os("PROGRAMS_TRACE").is_some() {
            println!("  round {} {}", self.round, STEPS[kind]);
        }
        match kind {
            0 => self.work(grid, shape, dice),
            1 => {
                let set = self.world.any_fixed_set(dice);
                let leaf = Mail::Work(Work { token: dice.next_u64(), budget: 1 });
                let how = dice.below(4_u32);
                with_collection!(self.world.sets[usize::from(set)].0, it => {
                    let it = grid.collection(it);
                    match how {
                        0 => it.broadcast_with(Unordered, leaf),
                        1 => it.broadcast_with((Unordered, Priority(-1)), leaf),
                        2 => it.broadcast_with(Priority(1), leaf),
                        _ => it.broadcast(leaf),
                    }
                });
            }
            2 => {
                let set = self.world.any_fixed_set(dice);
                let leaf = Mail::Work(Work { token: dice.next_u64(), budget: 2 });
                let (part, options) = (dice.below(3_u32), any_options(dice));
                with_collection!(self.world.sets[usize::from(set)].0, it => {
                    let section = it.section(u64::from(part), self.world.section_of(set, part));
                    grid.collection(it).multicast_with(options, &section, leaf);
                });
            }
            3 => {
                let set = self.world.any_fixed_set(dice);
                let phase = grid.phase(u64::from(self.world.sets[usize::from(set)].1));
                broadcast(grid, &self.world, set, Mail::Begin(phase, dice.next_u64()));
                if dice.chance(0.7) {
                    grid.completion(phase).await?;
                }
            }
            4 => self.reduce(grid, dice, false).await?,
            5 => self.reduce(grid, dice, true).await?,
            6 => {
                let set = self.world.any_fixed_set(dice);
                let (its, _) = self.world.sets[usize::from(set)];
                if !matches!(its, Set::Deterministic(_) | Set::Kept(_)) {
                    broadcast(grid, &self.world, set, Mail::Sync);
                }
            }
            7 if dice.chance(0.5) => {
                let to = self.world.any_member(dice);
                let (set, _) = self.world.sets[usize::from(to.set)];
                let token = dice.next_u64();
                let mail = match set {
                    Set::Deterministic(_) => Mail::Work(Work { token, budget: 0 }),
                    _ => Mail::AwaitQuiescence(token),
                };
                send(grid, &self.world, SendOptions::default(), to, mail);
            }
            7 => self.rest(grid).await?,
            8 => drop(grid.rebalance().await?),
            9 => {
                let node = NodeId(dice.below(grid.layout().node_count()));
                grid.move_coordinator(node).await?;
            }
            10 => {
                let len = dice.below(2000_u64) >> dice.below(10_u32);
                let token = dice.next_u64();
                let table: Vec<u64> = (0..len).map(|at| mix(at ^ token)).collect();
                let published = grid.publish(&table).await?;
                let set = self.world.any_fixed_set(dice);
                broadcast(grid, &self.world, set, Mail::Read(published, token));
            }
            11 => tasks::run(pool, dice).await?,
            12 => {
                let sum = tasks::stream(grid, pool, dice).await?;
                self.account.deliver(sum);
            }
            13 => {
                let (to, token) = (self.world.any_target(dice, grid.layout()), dice.next_u64());
                let question = move |reply| Mail::Question(token, reply);
                let answer: u64 = with_member!(self.world, to, (it, at) => {
                    grid.collection(it).member(at).ask(NEVER, question).await?
                });
                if answer != mix(token) {
                    return Err("another answer".into());
                }
            }
            14 => {
                let work = Work { token: dice.next_u64(), budget: shape.budget };
                let init = crate::world::BriefInit {
                    world: self.world.clone(),
                    home: self.world.any_member(dice),
                    messages: 2,
                    work,
                };
                let pe = PeId(dice.below(grid.layout().pe_count()));
                let brief = grid.collection(self.world.brief);
                let index = Brief::index(work.token);
                brief.member(index).send(dice.next_u64());
                brief.insert_on(index, init, pe);
                brief.member(index).send(dice.next_u64());
            }
            15 => grid.sleep(dice.any_scale_up_to(Duration::from_millis(400))).await?,
            17 => {
                let set = 100 + self.extra.len() as u8;
                let members = 1 + dice.below(6_u32);
                let init = |ix: Ix1| (set, ix.0 as u32);
                let extra = grid.create::<Cell<Ix1, 0>>(Ix1::range(members), init).await?;
                extra.broadcast(Mail::Meet(self.world.clone()));
                for _ in 0..3 {
                    let work = Work { token: dice.next_u64(), budget: 3 };
                    let to = Ix1(dice.below(members) as i32);
                    extra.member(to).send(Mail::Work(work));
                }
                extra.broadcast(Mail::Work(Work { token: dice.next_u64(), budget: 2 }));
                self.extra.push(extra.reference());
            }
            _ => match self.alarms.pop() {
                Some((set, token)) if dice.chance(0.8) => {
                    broadcast(grid, &self.world, set, Mail::CancelAlarm(token));
                }
                last => {
                    self.alarms.extend(last);
                    let set = self.world.any_fixed_set(dice);
                    let (its, _) = self.world.sets[usize::from(set)];
                    if !matches!(its, Set::Deterministic(_)) {
                        let token = dice.next_u64();
                        self.alarms.push((set, token));
                        broadcast(grid, &self.world, set, Mail::SetAlarm(token));
                    }
                }
            },
        }
        Ok(())
    }

    /// Waits until no actor has anything to do.
    async fn rest(&mut self, grid: &Grid) -> Result<(), JobError> {
        self.cancel_alarms(grid);
        grid.quiescence().await?;
        // Actors may have waited for that, too, and get a message then.
        grid.quiescence().await?;
        Ok(())
    }

    /// Takes the outputs of a stream, between which the job may make checkpoints.
    async fn go_on_with_stream(
        &mut self,
        grid: &Grid,
        pool: &TaskPool<Tree>,
        notes: &Arc<Mutex<Notes>>,
    ) -> Result<(), JobError> {
        let Some(mut lasting) = self.stream.take() else { return Ok(()) };
        *notes.lock().unwrap().steps.entry("lasting stream").or_default() += 1;
        let (mut stream, numbers) = lasting.begin(pool);
        while let Some(next) = stream.next().await {
            let (at, count) = next?;
            lasting.take(numbers[at as usize], count)?;
            self.stream = Some(lasting);
            progress(grid, self, notes).await?;
            lasting = self.stream.take().ok_or("the stream is gone")?;
        }
        self.account.deliver(lasting.end()?);
        Ok(())
    }

    fn cancel_alarms(&mut self, grid: &Grid) {
        for (set, token) in std::mem::take(&mut self.alarms) {
            broadcast(grid, &self.world, set, Mail::CancelAlarm(token));
        }
    }
}

async fn run(
    grid: &Grid,
    shape: &Shape,
    custom: &Op,
    notes: &Arc<Mutex<Notes>>,
) -> Result<(), JobError> {
    notes.lock().unwrap().points.clear();
    let mut state = match grid.restored::<State>().await? {
        Some(state) => state,
        None => begin(grid, shape, custom).await?,
    };
    let pool = grid.task_pool::<Tree>().await?;
    loop {
        if state.stream.is_some() {
            state.go_on_with_stream(grid, &pool, notes).await?;
        }
        if state.round == shape.rounds {
            break;
        }
        let mut dice = Dice::new(hash(&[shape.seed, u64::from(state.round)]));
        match dice.chance(0.1) {
            true => {
                let (to, token) = (state.world.any_member(&mut dice), dice.next_u64());
                let question = move |reply| Mail::Peek(token, reply);
                let (answer, progress) = with_member!(state.world, to, (it, at) => {
                    let member = grid.collection(it).member(at);
                    let answer = member.ask_repeatable::<u64>(NEVER, question);
                    futures_util::future::join(answer, progress(grid, &state, notes)).await
                });
                progress?;
                if answer? != mix(token) {
                    return Err("another answer to a question that may be repeated".into());
                }
            }
            false => progress(grid, &state, notes).await?,
        }
        for _ in 0..1 + dice.below(3_u32) {
            state.step(grid, shape, &pool, notes, &mut dice).await?;
        }
        state.round += 1;
        if dice.chance(0.1) {
            state.stream = Some(Lasting::draw(&mut dice));
        }
    }
    state.cancel_alarms(grid);
    state.settle(grid, None).await?;
    pool.close();
    state.rest(grid).await?;
    if std::env::var_os("PROGRAMS_TRACE").is_some() {
        println!("  collects");
    }
    let outcome = collect(grid, &state).await?;
    notes.lock().unwrap().result = Some(outcome);
    Ok(())
}

/// A progress point, with notes for the test.
async fn progress(grid: &Grid, state: &State, notes: &Arc<Mutex<Notes>>) -> Result<(), JobError> {
    let at = grid.now().await?;
    let progress = grid.progress(state).await?;
    let mut notes = notes.lock().unwrap();
    notes.points.push((at, matches!(progress, Progress::Taken { .. })));
    match progress {
        Progress::Taken { .. } => notes.taken += 1,
        Progress::Postponed { reason } => {
            let letters = reason.chars().filter(|letter| !letter.is_ascii_digit());
            *notes.postponed.entry(letters.collect()).or_default() += 1;
        }
        _ => {}
    }
    Ok(())
}

/// Collects the accounts of all members.
async fn collect(grid: &Grid, state: &State) -> Result<Outcome, JobError> {
    let world = &state.world;
    let mut all: Vec<Line> = Vec::new();
    for &(set, _) in &world.sets {
        let List(lines): List<Line> = with_collection!(set, it => {
            let it = grid.collection(it);
            it.broadcast(Mail::Report);
            it.reduction(Op::Concat).await?
        });
        all.extend(lines);
    }
    for &extra in &state.extra {
        let it = grid.collection(extra);
        it.broadcast(Mail::Report);
        let List(lines): List<Line> = it.reduction(Op::Concat).await?;
        all.extend(lines);
    }
    let late = grid.collection(world.late);
    late.broadcast(Mail::Report);
    let List(lines): List<Line> = late.reduction(Op::Concat).await?;
    all.extend(lines);
    let tallies = grid.collection(world.tallies);
    tallies.broadcast(Mail::Report);
    let List(lines): List<Line> = tallies.reduction(Op::Concat).await?;
    let mut outcome = Outcome { main: state.account, ..Outcome::default() };
    if lines.len() != world.tallies_on(grid.layout()) as usize {
        outcome.problems.push(format!("{} members of a group", lines.len()));
    }
    all.extend(lines);
    for (set, number, account, resumed, problems) in all {
        let (sum, resumes) = outcome.lines.entry((set, number)).or_default();
        sum.add(account);
        *resumes += resumed;
        let named = problems.into_iter().map(|text| format!("member {:?}: {text}", (set, number)));
        outcome.problems.extend(named);
    }
    Ok(outcome)
}
