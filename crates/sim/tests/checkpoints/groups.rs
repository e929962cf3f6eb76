//! Groups after a restart on other numbers of PEs and nodes: no message is lost, and the right
//! members are merged and created.

use super::{every, grid, without};
use gridspan_runtime::{
    Actor, Collection, CollectionRef, Context, Grid, Image, Ix1, Job, JobError, NodeId, Op, Per,
    Progress, RestorePlan, StartError, Step, Task, TaskContext, To,
};
use gridspan_sim::{SimError, SimOptions, Simulation};
use gridspan_topology::{GridSpec, Time};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Number of messages that main sends to each group.
const SENT: u64 = 120;
/// The value that a [`Message::Later`] adds.
const LATER: u64 = 1_000_000;
const HOUR: Duration = Duration::from_secs(3600);

/// Adds up what it receives, and remembers the members that were merged into it.
#[derive(Serialize, Deserialize)]
struct Tally {
    /// A hexadecimal digit for this member and for each that was merged into it: the number with
    /// which it was created, plus one.
    names: u64,
    sum: u64,
    arrivals: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Add(u64),
    Later,
    /// Contribute to a reduction over the group.
    Contribute,
    /// Contribute to a reduction over the members with even indices. The value is the number of all
    /// members.
    InSection(u32),
    /// Contribute if this is the index of the member.
    Alone(i32),
    Report,
}

impl Actor for Tally {
    type Index = Ix1;
    type Init = u64;
    type Message = Message;

    fn create(name: u64, _: &mut Context<'_, Self>) -> Self {
        Self { names: name + 1, sum: 0, arrivals: 0 }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Add(value) => {
                self.sum += value;
                cx.charge(Duration::from_millis(3));
                if value.is_multiple_of(5) {
                    let me = cx.me();
                    cx.send_after(Duration::from_secs(10), &me, Message::Later);
                }
            }
            Message::Later => self.sum += LATER,
            Message::Contribute => cx.contribute(Op::Sum, 1_u64, To::main()),
            Message::InSection(size) => {
                let section = even(cx.collection(), size);
                cx.contribute_to_section(&section, Op::Sum, 1_u64, To::main());
            }
            Message::Alone(index) => {
                if cx.index().0 == index {
                    cx.contribute(Op::Sum, 1_u64, To::main());
                }
            }
            Message::Report => {
                cx.contribute(Op::Concat, self.names, To::main());
                cx.contribute(Op::Sum, vec![self.sum, self.arrivals], To::main());
            }
        }
    }

    fn arrived(&mut self, _: &mut Context<'_, Self>) {
        self.arrivals += 1;
    }
}

/// The section of the members with even indices.
fn even(group: CollectionRef<Tally>, size: u32) -> gridspan_runtime::SectionRef<Tally> {
    group.section(1, (0..size as i32).filter(|index| index % 2 == 0).map(Ix1))
}

/// A task without children.
#[derive(Serialize, Deserialize)]
struct Double(u64);

impl Task for Double {
    type Output = u64;
    type Join = ();

    fn run(self, _: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(2 * self.0)
    }

    fn collect((): &mut (), _: u32, _: u64) {}

    fn joined((): (), _: &mut TaskContext<'_, Self>) -> Step<Self> {
        unreachable!("it has no children")
    }
}

/// State of main in a checkpoint.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Groups {
    per_pe: CollectionRef<Tally>,
    per_node: CollectionRef<Tally>,
}

/// Features of a job besides its groups.
#[derive(Clone, Copy, Default)]
struct Features {
    is_resizable: bool,
    /// Whether one member contributes to a reduction before the checkpoint.
    contributes: bool,
}

const RESIZABLE: Features = Features { is_resizable: true, contributes: false };

#[derive(Clone, Debug, Default, PartialEq)]
struct Notes {
    is_restored: bool,
    postponed: Option<String>,
    /// The names of the members, by index, for the group of PEs and that of nodes.
    names: Vec<Vec<u64>>,
    sums: Vec<u64>,
    arrivals: Vec<u64>,
}

fn job(features: Features, notes: &Arc<Mutex<Notes>>) -> Job {
    let notes = notes.clone();
    let main = async move |grid: Grid| match grid.restored::<Groups>().await? {
        None => begin(&grid, features, &notes).await,
        Some(groups) => finish(&grid, groups, &notes).await,
    };
    let job = Job::new("groups").tasks::<Double>().main(main).checkpoints(every(1));
    match features.is_resizable {
        false => job.actor::<Tally>(),
        true => job.resizable_group::<Tally>(
            |index| 10 + index.0 as u64,
            |tally, other, _| {
                tally.names = tally.names << 4 | other.names;
                tally.sum += other.sum;
            },
        ),
    }
}

async fn begin(grid: &Grid, features: Features, notes: &Mutex<Notes>) -> Result<(), JobError> {
    let layout = grid.layout().clone();
    let per_pe = grid.create_group::<Tally>(Per::Pe, |index| index.0 as u64).await?;
    let per_node = grid.create_group::<Tally>(Per::Node, |index| index.0 as u64).await?;
    operate(&per_pe, layout.pe_count()).await?;
    assert_eq!(grid.run_tasks(Double(4)).await?, 8);
    for value in 0..SENT {
        per_pe.member(Ix1((value % u64::from(layout.pe_count())) as i32)).send(Message::Add(value));
        let node = (value % u64::from(layout.node_count())) as i32;
        per_node.member(Ix1(node)).send(Message::Add(value));
    }
    if features.contributes {
        per_node.broadcast(Message::Alone(1));
        grid.sleep(Duration::from_secs(1)).await?;
    }
    let groups = Groups { per_pe: per_pe.reference(), per_node: per_node.reference() };
    // Some messages are handled, and others wait.
    grid.sleep(Duration::from_millis(40)).await?;
    if let Progress::Postponed { reason } = grid.progress(&groups).await? {
        notes.lock().unwrap().postponed = Some(reason);
    }
    grid.sleep(HOUR).await?;
    Ok(())
}

/// Runs reductions over all members and over some of them.
async fn operate(group: &Collection<Tally>, size: u32) -> Result<(), JobError> {
    let section = even(group.reference(), size);
    for _ in 0..3 {
        group.broadcast(Message::Contribute);
        assert_eq!(group.reduction::<u64>(Op::Sum).await?, u64::from(size));
        group.multicast(&section, Message::InSection(size));
        let even: u64 = group.section_reduction(&section, Op::Sum).await?;
        assert_eq!(even, u64::from(size.div_ceil(2)));
    }
    Ok(())
}

async fn finish(grid: &Grid, groups: Groups, notes: &Mutex<Notes>) -> Result<(), JobError> {
    grid.sleep(Duration::from_secs(20)).await?;
    grid.quiescence().await?;
    let sizes = [grid.layout().pe_count(), grid.layout().node_count()];
    let mut found = Notes { is_restored: true, ..Notes::default() };
    for (group, size) in [groups.per_pe, groups.per_node].into_iter().zip(sizes) {
        let group = grid.collection(group);
        operate(&group, size).await?;
        group.broadcast(Message::Report);
        found.names.push(group.reduction(Op::Concat).await?);
        let [sum, arrivals] = group.reduction::<Vec<u64>>(Op::Sum).await?[..] else {
            return Err("a report is malformed".into());
        };
        found.sums.push(sum);
        found.arrivals.push(arrivals);
    }
    assert_eq!(grid.run_tasks(Double(5)).await?, 10);
    *notes.lock().unwrap() = found;
    Ok(())
}

/// The sum of all messages to a group.
fn expected() -> u64 {
    (0..SENT).sum::<u64>() + SENT.div_ceil(5) * LATER
}

/// Runs the job until it has made its checkpoint.
fn checkpoint(features: Features, text: &str, seed: u64) -> (Image, Notes) {
    let notes = Arc::<Mutex<Notes>>::default();
    let simulation =
        Simulation::new(job(features, &notes), grid(text), SimOptions::with_seed(seed));
    let halted = simulation.unwrap().run_until(Time(9_000_000_000));
    let halted = match halted {
        Ok(halted) => halted,
        Err(report) => panic!("it has ended: {:?}", report.outcome),
    };
    let notes = notes.lock().unwrap().clone();
    (halted.checkpoint().unwrap().unwrap(), notes)
}

fn restore(
    features: Features,
    spec: GridSpec,
    image: &Image,
    plan: RestorePlan,
) -> Result<Notes, SimError> {
    let notes = Arc::<Mutex<Notes>>::default();
    let options = SimOptions::with_seed(17);
    let restored = (image.clone(), plan);
    let report = Simulation::restored(job(features, &notes), spec, options, restored)?.run();
    assert_eq!(report.outcome, Ok(()));
    let notes = notes.lock().unwrap().clone();
    Ok(notes)
}

fn restart(features: Features, text: &str, image: &Image) -> Result<Notes, SimError> {
    let spec = grid(text);
    let plan = RestorePlan::restart(image.layout(), spec.layout());
    restore(features, spec, image, plan)
}

#[test]
fn groups_have_one_member_for_each_pe_and_node_of_any_layout() {
    let cases: [(&str, &str, &[u64], &[u64]); 5] = [
        ("1x1x4", "1x1x3", &[0x14, 2, 3], &[1]),
        ("1x1x3", "1x1x5", &[1, 2, 3, 0xe, 0xf], &[1]),
        ("1x2x2", "1x1x3", &[0x14, 2, 3], &[0x12]),
        ("2x2x1,wan=8ms", "1x1x1", &[0x1234], &[0x1234]),
        ("1x1x2", "2x2x1,wan=8ms", &[1, 2, 0xd, 0xe], &[1, 0xc, 0xd, 0xe]),
    ];
    for (before, after, per_pe, per_node) in cases {
        for seed in 0..3 {
            let (image, _) = checkpoint(RESIZABLE, before, seed);
            let notes = restart(RESIZABLE, after, &image).unwrap();
            assert_eq!(notes.names, [per_pe, per_node], "{before} to {after}, seed {seed}");
            assert_eq!(notes.sums, [expected(); 2], "{before} to {after}, seed {seed}");
            let is_former = |names: &&u64| **names & 0xf < 0xb;
            let former = [per_pe, per_node].map(|names| names.iter().filter(is_former).count());
            assert_eq!(notes.arrivals, former.map(|number| number as u64), "{before} to {after}");
        }
    }
}

#[test]
fn members_of_lost_nodes_are_merged_into_those_of_their_site() {
    let spec = grid("2x2x1,wan=8ms");
    let (image, _) = checkpoint(RESIZABLE, "2x2x1,wan=8ms", 1);
    // The names for each lost node. A member that stays on its PE comes before the one of a lost PE
    // that is merged into it.
    let names: [[u64; 3]; 4] = [[0x21, 3, 4], [0x12, 3, 4], [1, 2, 0x43], [1, 2, 0x34]];
    for (lost, names) in names.into_iter().enumerate() {
        let (left, nodes) = without(&spec, lost as u32);
        let holder = nodes[lost ^ 1].unwrap();
        let holders: Vec<_> = nodes.iter().map(|node| node.or(Some(holder))).collect();
        let plan = RestorePlan::recovery(&image, &left, &nodes, &holders).unwrap();
        let notes = restore(RESIZABLE, left, &image, plan).unwrap();
        assert_eq!(notes.names, [names, names], "node {lost}");
        assert_eq!(notes.sums, [expected(); 2], "node {lost}");
    }
}

#[test]
fn members_keep_their_indices_if_their_number_does_not_change() {
    let fixed = Features::default();
    let (image, _) = checkpoint(fixed, "1x2x2", 5);
    // The nodes change places, so the first PEs belong to another node.
    let spec = grid("1x2x2");
    let swapped = [Some(NodeId(1)), Some(NodeId(0))];
    let plan = RestorePlan::recovery(&image, &spec, &swapped, &swapped).unwrap();
    for features in [fixed, RESIZABLE] {
        let notes = restore(features, spec.clone(), &image, plan.clone()).unwrap();
        assert_eq!(notes.names, [vec![1, 2, 3, 4], vec![1, 2]]);
        assert_eq!(notes.sums, [expected(); 2]);
    }
    // One node has as many PEs, but the group of nodes would become smaller.
    let error = restart(fixed, "1x1x4", &image).unwrap_err().to_string();
    assert!(error.contains("on each of 2 nodes"), "{error}");
}

#[test]
fn a_group_that_does_not_say_how_it_changes_is_refused() {
    let (image, _) = checkpoint(Features::default(), "1x1x4", 5);
    let error = restart(Features::default(), "1x1x3", &image).unwrap_err();
    let SimError::Job(StartError::CheckpointOfGroup { was, is, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!((was.as_str(), is.as_str()), ("4 PEs", "3 PEs"));
    let text = error.to_string();
    assert!(text.contains("Tally") && text.contains("Job::resizable_group"), "{text}");
    // A later version of the program declares the group resizable.
    assert_eq!(restart(RESIZABLE, "1x1x3", &image).unwrap().sums, [expected(); 2]);
}

#[test]
fn no_checkpoint_is_made_while_a_resizable_group_contributes() {
    let contributes = Features { contributes: true, ..RESIZABLE };
    let notes = Arc::<Mutex<Notes>>::default();
    let simulation =
        Simulation::new(job(contributes, &notes), grid("1x2x2"), SimOptions::with_seed(5));
    let Ok(halted) = simulation.unwrap().run_until(Time(9_000_000_000)) else {
        panic!("it has ended")
    };
    assert!(halted.checkpoint().unwrap().is_none());
    let reason = notes.lock().unwrap().postponed.clone().unwrap();
    assert!(reason.contains("Tally") && reason.contains("under way"), "{reason}");

    // A checkpoint may contain contributions to a group that is not resizable. It can be restored
    // only on as many nodes.
    let fixed = Features { is_resizable: false, ..contributes };
    let (image, _) = checkpoint(fixed, "1x2x2", 5);
    let error = restart(RESIZABLE, "1x1x2", &image).unwrap_err();
    let is_busy = matches!(&error, SimError::Job(StartError::CheckpointOfBusyGroup { .. }));
    assert!(is_busy, "{error}");
}
