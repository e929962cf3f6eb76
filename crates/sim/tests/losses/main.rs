//! Random jobs lose random nodes at random moments, again and again, and go on from their
//! checkpoints, and nodes leave and join: every message is handled once.
#![allow(missing_docs, clippy::unwrap_used)]

mod job;

use gridspan_runtime::pe::PlantedFault;
use gridspan_runtime::{CheckpointStore, Image, NodeId, RestorePlan};
use gridspan_sim::{Ending, FaultPlan, SimOptions, Simulation};
use gridspan_topology::dice::Dice;
use gridspan_topology::{GridSpec, Time};
use job::{Notes, job};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Largest number of losses of a job.
const LOSSES_MAX: u32 = 4;

/// What happened to a job.
#[derive(Default)]
struct Story {
    /// Number of times that it went on from a checkpoint.
    recoveries: u32,
    /// Number of times that nodes left or joined as requested.
    changes: u32,
    /// Number of times that it began again, since no checkpoint was complete.
    beginnings: u32,
    /// Number of times that the lost nodes had the only copies of a part.
    unprotected: u32,
    /// Number of times that nothing was known since the last recovery.
    repeated: u32,
    checkpoints: u32,
    postponed: BTreeSet<String>,
    problem: Option<String>,
}

/// The processes of a job, whose numbers do not change.
struct Processes {
    spec: GridSpec,
    /// What each process has of checkpoints; `None` for a lost one.
    stores: Vec<Option<CheckpointStore>>,
    /// For each run, the checkpoint with which it began, and its members.
    runs: Vec<(u64, Vec<usize>)>,
}

impl Processes {
    fn new(spec: GridSpec) -> Self {
        let nodes = spec.layout().node_count() as usize;
        let stores = vec![Some(CheckpointStore::default()); nodes];
        Self { spec, stores, runs: vec![(0, (0..nodes).collect())] }
    }

    fn members(&self) -> &[usize] {
        &self.runs.last().unwrap().1
    }

    /// Members that are to leave, and others that are to join, of the processes that are not members.
    fn changes(&self, dice: &mut Dice) -> (Vec<usize>, Vec<usize>) {
        let members = self.members();
        let mut leaving: Vec<usize> =
            members.iter().copied().filter(|_| dice.chance(0.3)).collect();
        if leaving.len() == members.len() {
            leaving.pop();
        }
        let others = (0..self.stores.len()).filter(|process| !members.contains(process));
        (leaving, others.filter(|_| dice.chance(0.5)).collect())
    }

    /// The grid of the present members.
    fn grid(&self, members: &[usize]) -> GridSpec {
        let lost = (0..self.stores.len()).filter(|process| !members.contains(process));
        self.spec.without(&lost.map(NodeId::from).collect::<Vec<_>>()).unwrap()
    }

    /// Loses some of the members, and returns the image to go on from, if there is any, and whether
    /// parts are missing.
    fn lose(&mut self, lost: &[usize]) -> Result<Option<(Image, RestorePlan)>, ()> {
        for &process in lost {
            self.stores[process] = None;
        }
        let members = self.members().iter().copied().filter(|it| !lost.contains(it)).collect();
        self.go_on(members)
    }

    /// Lets some members leave and other processes join, and returns the image to go on from.
    fn change(&mut self, leaving: &[usize], joining: &[usize]) -> Result<(Image, RestorePlan), ()> {
        let mut members = self.members().to_vec();
        members.retain(|process| !leaving.contains(process));
        members.extend(joining);
        members.sort_unstable();
        let image = self.go_on(members.clone())?.ok_or(())?;
        for process in 0..self.stores.len() {
            if !members.contains(&process) {
                self.stores[process] = None;
            } else if joining.contains(&process) {
                self.stores[process] = Some(CheckpointStore::default());
            }
        }
        Ok(image)
    }

    fn go_on(&mut self, members: Vec<usize>) -> Result<Option<(Image, RestorePlan)>, ()> {
        let stores = || self.stores.iter().flatten();
        let known = stores().filter_map(CheckpointStore::last).max_by_key(|image| image.number());
        let Some(known) = known else {
            self.runs = vec![(0, members)];
            return Ok(None);
        };
        let manifest = known.manifest().clone();
        let number = known.number();
        let parts: Vec<Option<Image>> = self
            .stores
            .iter()
            .map(|store| store.as_ref().map(|store| store.image(&manifest).unwrap()))
            .collect();
        let mut image = Image::new(manifest).unwrap();
        for has in parts.iter().flatten() {
            for part in has.parts() {
                for at in has.segments_of(part) {
                    image.add(part, at, has.segment(part, at).unwrap().clone()).unwrap();
                }
            }
        }
        let before = image.layout().clone();
        let (_, were) = self.runs.iter().rev().find(|(began, _)| *began < number).unwrap();
        let position =
            |process: &usize| members.iter().position(|member| member == process).map(NodeId::from);
        let successors: Vec<_> = were.iter().map(position).collect();
        let holder = |node: NodeId| {
            let pes: Vec<_> = before.place(node).pes.clone().map(gridspan_topology::PeId).collect();
            let has_all = |process: &usize| {
                let has = parts[*process].as_ref().map(Image::parts).unwrap_or_default();
                pes.iter().all(|pe| has.contains(pe))
            };
            members.iter().filter(|it| has_all(it)).find_map(position)
        };
        let holders: Vec<_> = before.nodes().map(holder).collect();
        let layout = self.grid(&members);
        let plan = RestorePlan::recovery(&before, layout.layout(), &successors, &holders);
        let plan = plan.map_err(|_| ())?;
        self.runs.push((number, members));
        Ok(Some((image, plan)))
    }
}

fn grid(dice: &mut Dice) -> GridSpec {
    let (sites, nodes, pes) = (1 + dice.below(3_u32), 1 + dice.below(3_u32), 1 + dice.below(3_u32));
    let nodes = if sites == 1 { nodes + 1 } else { nodes };
    GridSpec::from_emulate(&format!("{sites}x{nodes}x{pes},wan=8ms")).unwrap()
}

fn options(dice: &mut Dice) -> SimOptions {
    let faults = FaultPlan::default()
        .with_frame_delay(0.2)
        .with_local_delay(0.1)
        .with_delay_max(Duration::from_millis(20))
        .with_reorder(dice.chance(0.5));
    let options = SimOptions::with_seed(dice.next_u64());
    if dice.chance(0.7) { options.with_faults(faults) } else { options }
}

fn story(seed: u64, fault: PlantedFault) -> Story {
    let mut dice = Dice::new(seed);
    let mut processes = Processes::new(grid(&mut dice));
    let notes = Arc::<Mutex<Notes>>::default();
    let mut story = Story::default();
    let mut from = None;
    for loss in 0.. {
        let spec = processes.grid(processes.members());
        let job = job(seed, &notes).planted_fault(fault);
        let options = options(&mut dice);
        let simulation = match from.take() {
            None => Simulation::new(job, spec, options).unwrap(),
            Some(image) => Simulation::restored(job, spec, options, image).unwrap(),
        };
        let members = processes.members().to_vec();
        let stores = members.iter().map(|&it| processes.stores[it].clone().unwrap()).collect();
        let simulation = simulation.keeping(stores);
        let is_last = loss == LOSSES_MAX || members.len() == 1;
        let until = match is_last {
            true => Time(600_000_000_000),
            false => Time(1 + dice.below(900_000_000_u64)),
        };
        let (leaving, joining) = match dice.chance(0.5) && !is_last {
            true => processes.changes(&mut dice),
            false => (vec![], vec![]),
        };
        let is_change = !leaving.is_empty() || !joining.is_empty();
        let halted = match is_change {
            true => {
                let number = |process| members.iter().position(|member| member == process);
                let leaving = leaving.iter().filter_map(number).map(NodeId::from).collect();
                simulation.run_until_paused(until, leaving)
            }
            false => simulation.run_until(until),
        };
        let halted = match halted {
            Ok(halted) => halted,
            Err(report) => {
                if report.ending != Ending::Finished || report.outcome.is_err() {
                    story.problem = Some(format!("{:?} ({:?})", report.outcome, report.ending));
                }
                break;
            }
        };
        if is_last {
            story.problem = Some("it did not end".to_owned());
            break;
        }
        for (&process, store) in members.iter().zip(halted.stores) {
            processes.stores[process] = Some(store);
        }
        if is_change {
            story.changes += 1;
            match processes.change(&leaving, &joining) {
                Ok(image) => from = Some(image),
                Err(()) => {
                    story.problem = Some("a part was lost in a change".to_owned());
                    return story;
                }
            }
            continue;
        }
        let mut lost: Vec<usize> = members.iter().copied().filter(|_| dice.chance(0.25)).collect();
        if lost.is_empty() || lost.len() == members.len() {
            lost = vec![dice.one_of(&members)];
        }
        match processes.lose(&lost) {
            Ok(Some(image)) => {
                story.recoveries += 1;
                let last = processes.runs.len() - 1;
                story.repeated += u32::from(processes.runs[last].0 == processes.runs[last - 1].0);
                from = Some(image);
            }
            Ok(None) => story.beginnings += 1,
            Err(()) => {
                story.unprotected += 1;
                return story;
            }
        }
    }
    let notes = notes.lock().unwrap();
    story.checkpoints = notes.taken;
    story.postponed = notes.postponed.iter().map(|reason| shape(reason)).collect();
    if story.problem.is_none() {
        story.problem = notes.problem.clone();
    }
    if story.problem.is_none() && !notes.is_complete {
        story.problem = Some("the sums were not checked".to_owned());
    }
    story
}

/// A reason without its numbers.
fn shape(reason: &str) -> String {
    reason.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

#[test]
fn every_message_is_handled_once_whatever_nodes_are_lost() {
    let seeds = std::env::var("LOSSES_SEEDS").ok().and_then(|text| text.parse().ok());
    let mut sum = Story::default();
    for seed in 0..seeds.unwrap_or(200_u64) {
        let story = story(seed, PlantedFault::None);
        assert_eq!(story.problem, None, "seed {seed}");
        sum.recoveries += story.recoveries;
        sum.changes += story.changes;
        sum.beginnings += story.beginnings;
        sum.unprotected += story.unprotected;
        sum.repeated += story.repeated;
        sum.checkpoints += story.checkpoints;
        sum.postponed.extend(story.postponed);
    }
    println!(
        "{} recoveries, {} of them to the checkpoint of the one before; {} changes of the nodes; {} \
         beginnings, {} ends without a copy; {} checkpoints; postponed: {:?}",
        sum.recoveries,
        sum.repeated,
        sum.changes,
        sum.beginnings,
        sum.unprotected,
        sum.checkpoints,
        sum.postponed
    );
    assert!(sum.recoveries > 100, "{}", sum.recoveries);
    assert!(sum.changes > 50, "{}", sum.changes);
}

/// Finds a planted bug within 100 seeds.
fn assert_found(fault: PlantedFault) {
    let is_found = |seed: &u64| story(*seed, fault).problem.is_some();
    let found = (0..100).find(is_found);
    assert!(found.is_some(), "{fault:?} was not found");
    println!("{fault:?} was found by seed {}", found.unwrap_or_default());
}

#[test]
fn planted_bugs_are_found() {
    for fault in [
        PlantedFault::MailboxesLeftOut,
        PlantedFault::TimersLeftOut,
        PlantedFault::EncodedInFlight,
        PlantedFault::HomeNotMoved,
        PlantedFault::MergedMailboxesLeftOut,
    ] {
        assert_found(fault);
    }
}

#[test]
fn a_copy_on_the_same_node_protects_against_no_loss() {
    let protected = |fault| {
        let stories = (0..40).map(|seed| story(seed, fault));
        stories.map(|story| u64::from(story.recoveries > 0)).sum::<u64>()
    };
    let (right, wrong) = (protected(PlantedFault::None), protected(PlantedFault::CopyOnSameNode));
    assert!(wrong == 0 && right > 20, "{wrong} of 40 jobs recovered, and {right} without the bug");
}
