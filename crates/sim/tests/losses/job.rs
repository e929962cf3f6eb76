//! A job whose actors do everything at random, and whose sums show at the end whether every message
//! was handled once, and in order.

use crate::actors::{
    Account, Bound, Brief, Busy, Late, Mail, Message, REPORT, Report, Tally, TallyMessage, World,
};
use crate::order::{Lane, Receiver, Sender, Sent};
use crate::phases::ledger;
use crate::tasks::{self, Tree};
use gridspan_runtime::{
    CheckpointEvery, Checkpoints, CreateAt, Grid, Ix1, Ix5, Ix6, Job, JobError, NodeId, Op, Per,
    Progress,
};
use gridspan_topology::dice::Dice;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Number of rounds of the job.
const ROUNDS: u32 = 30;

/// State of main in a checkpoint.
#[derive(Clone, Serialize, Deserialize)]
struct State {
    round: u32,
    world: World,
    dice: Dice,
    account: Account,
    sent: Sent,
    /// Number of reductions that went to all members.
    reductions: u64,
}

/// Notes of main for the test, from all runs.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) taken: u32,
    pub(crate) postponed: Vec<String>,
    /// Description of messages that were lost, repeated or out of order.
    pub(crate) problem: Option<String>,
    pub(crate) is_complete: bool,
}

/// Whether the copies of the job of a seed are at other sites.
pub(crate) fn protects_sites(seed: u64) -> bool {
    seed % 4 == 1
}

pub(crate) fn job(seed: u64, notes: &Arc<Mutex<Notes>>) -> Job {
    let notes = notes.clone();
    let checkpoints = Checkpoints::every(CheckpointEvery::Points(1 + seed % 3))
        .with_copies(match seed % 16 {
            15 => 1,
            14 => 3,
            _ => 2,
        })
        .protecting_sites(protects_sites(seed));
    let main = async move |grid: Grid| run(grid, seed, &notes).await;
    let job = Job::new("everything")
        .actor::<Busy>()
        .actor::<Bound>()
        .on_demand::<Late>(CreateAt::Sender, |_| ())
        .actor::<Brief>()
        .tasks::<Tree>()
        .resizable_group::<Tally>(|_| (), |tally, other, _| tally.add(other))
        .restartable_main(main)
        .checkpoints(checkpoints);
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
    let late = grid.create::<Late>(Ix5::grid(1, 1, 1, 1, 1), |_| ()).await?;
    let table = grid.publish(&vec![7_u64; 100]).await?;
    let brief = grid.create::<Brief>(Vec::<Ix6>::new(), |_| unreachable!("no index")).await?;
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
    let (account, sent) = (Account::default(), Sent::new(Sender::Main));
    let mut state = State { round: 0, world, dice, account, sent, reductions: 0 };
    state.broadcast(grid, Message::Meet(world));
    Ok(state)
}

impl State {
    fn send(&mut self, grid: &Grid) {
        let value = self.dice.next_u64() >> 20;
        let to = self.dice.below(self.world.members) as i32;
        let lane = Lane::any(&mut self.dice);
        self.account.send(value, 1);
        let stamp = self.sent.one(Receiver::Busy(to), lane);
        let mail = Mail(Some(stamp), Message::Act { value, left: 6 });
        grid.collection(self.world.all).member(Ix1(to)).send_with(lane, mail);
    }

    fn broadcast(&mut self, grid: &Grid, message: Message) {
        let stamp = self.sent.all_busy(Lane::NORMAL);
        ledger(|ledger| ledger.broadcast_sent(&stamp, self.world.members));
        grid.collection(self.world.all).broadcast(Mail(Some(stamp), message));
    }
}

async fn run(grid: Grid, seed: u64, notes: &Arc<Mutex<Notes>>) -> Result<(), JobError> {
    let mut state = match grid.restored::<State>().await? {
        Some(state) => {
            ledger(|ledger| ledger.restored());
            state
        }
        None => begin(&grid, seed).await?,
    };
    let pool = grid.task_pool::<Tree>().await?;
    while state.round < ROUNDS {
        ledger(|ledger| ledger.is_at_checkpoint = true);
        let progress = grid.progress(&state).await?;
        ledger(|ledger| ledger.is_at_checkpoint = false);
        match progress {
            Progress::Taken { .. } => notes.lock().unwrap().taken += 1,
            Progress::Postponed { reason } => notes.lock().unwrap().postponed.push(reason),
            _ => {}
        }
        for _ in 0..1 + state.dice.below(4_u32) {
            state.send(&grid);
        }
        match state.dice.below(10_u32) {
            0 => {
                let phase = grid.phase(u64::from(state.world.members));
                state.broadcast(&grid, Message::Begin(phase));
                if state.dice.chance(0.7) {
                    grid.completion(phase).await?;
                }
            }
            1 | 2 => {
                state.broadcast(&grid, Message::Contribute);
                state.reductions += 1;
            }
            3 => state.broadcast(&grid, Message::Synchronise),
            4 if state.dice.chance(0.3) => grid.quiescence().await?,
            4 => {
                let tallies = grid.collection(state.world.tallies);
                tallies.broadcast(TallyMessage::Contribute);
                let count: u64 = tallies.reduction(Op::Sum).await?;
                if count != u64::from(state.world.tallies_on(grid.layout())) {
                    return Err(format!("{count} tallies have contributed").into());
                }
            }
            5 if state.dice.chance(0.5) => {
                let node = NodeId(state.dice.below(grid.layout().node_count()));
                grid.move_coordinator(node).await?;
            }
            5 => drop(grid.rebalance().await?),
            6 | 7 => tasks::run(&pool, &mut state.dice).await?,
            _ => grid.sleep(state.dice.any_scale_up_to(Duration::from_millis(60))).await?,
        }
        state.round += 1;
    }
    pool.close();
    grid.quiescence().await?;
    check(&grid, state, notes).await
}

/// Adds up the messages that all have sent and received, and compares the orders in which members
/// handled broadcasts.
async fn check(grid: &Grid, mut state: State, notes: &Arc<Mutex<Notes>>) -> Result<(), JobError> {
    let world = state.world;
    state.broadcast(grid, Message::Report);
    let all = grid.collection(world.all);
    let mut busy: Report = all.reduction(REPORT).await?;
    let results = busy.0.pop().unwrap_or_default();
    let bound = grid.collection(world.bound);
    bound.broadcast(None);
    let bound: Report = bound.reduction(REPORT).await?;
    let late = grid.collection(world.late);
    late.broadcast(None);
    let late: Report = late.reduction(REPORT).await?;
    let tallies = grid.collection(world.tallies);
    tallies.broadcast(TallyMessage::Report);
    let tallies: Report = tallies.reduction(REPORT).await?;
    let reports = [busy, bound, late, tallies];
    let sums: Vec<u64> = (0..4)
        .map(|at| {
            let own = state.account.contribution()[at];
            reports.iter().fold(own, |sum, (sums, ..)| sum.wrapping_add(sums[at]))
        })
        .collect();
    let mut problems: Vec<String> = Vec::new();
    let lines: Vec<&str> = reports.iter().flat_map(|(_, lines, ..)| lines.lines()).collect();
    if let Some(first) = lines.first() {
        problems.push(format!("{first}, and {} other members report problems", lines.len() - 1));
    }
    if reports.iter().any(|(_, _, least, most)| least != most) {
        problems.push("members handled broadcasts in different orders".to_owned());
    }
    let expected = state.reductions * u64::from(world.members);
    if sums[0] != sums[1] || sums[2] != 0 || sums[3] != 0 || results != expected {
        problems.push(format!(
            "sent {}, received {}; {} messages too many, {} that should not come; {results} \
             results of {expected}",
            sums[0], sums[1], sums[2] as i64, sums[3]
        ));
    }
    let mut notes = notes.lock().unwrap();
    notes.is_complete = true;
    notes.problem = (!problems.is_empty()).then(|| problems.join(". "));
    Ok(())
}
