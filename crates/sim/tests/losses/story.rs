//! The story of one job: it runs, loses nodes or changes them, and goes on, until it ends.

use crate::job::{Notes, job};
use crate::phases::{self, Begun, LossPhase, ledger};
use crate::processes::Processes;
use gridspan_runtime::pe::PlantedFault;
use gridspan_runtime::{Image, NodeId, RestorePlan};
use gridspan_sim::{Ending, FaultPlan, Halted, SimOptions, SimReport, Simulation};
use gridspan_topology::dice::Dice;
use gridspan_topology::{GridSpec, Time};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Largest number of times that a job is stopped.
const STOPS_MAX: u32 = 6;

/// Number of sets of members of which one is lost.
const LOSSES_DRAWN: u32 = 4;

/// When a job must have ended.
const END: Time = Time(600_000_000_000);

/// What happened to a job.
#[derive(Default)]
pub(crate) struct Story {
    /// Number of times that it went on from a checkpoint.
    pub(crate) recoveries: u32,
    /// Number of times that nodes left or joined as requested.
    pub(crate) changes: u32,
    /// Number of times that it began again, since no checkpoint was complete.
    pub(crate) beginnings: u32,
    /// Number of times that the lost nodes had the only copies of a part.
    pub(crate) unprotected: u32,
    /// Number of times that nothing was known since the last recovery.
    pub(crate) again: u32,
    /// What was under way when nodes were lost and work was repeated.
    pub(crate) phases: BTreeSet<LossPhase>,
    pub(crate) checkpoints: u32,
    pub(crate) postponed: BTreeSet<String>,
    pub(crate) problem: Option<String>,
}

/// When a run is stopped.
struct Stop {
    at: Time,
    /// Members that are to leave after some time, and processes that are to join then.
    change: Option<(Time, Vec<usize>, Vec<usize>)>,
}

impl Stop {
    fn draw(processes: &Processes, begun: Begun, dice: &mut Dice) -> Self {
        let begins = match begun == Begun::AfterLoss && dice.chance(0.75) {
            // Probably before all members are restored, which takes microseconds within a site.
            true => Time(1) + dice.any_scale_up_to(Duration::from_millis(40)),
            false => Time(1 + dice.below(900_000_000_u64)),
        };
        let (leaving, joining) = match dice.chance(0.6) {
            true => processes.changes(dice),
            false => (vec![], vec![]),
        };
        if leaving.is_empty() && joining.is_empty() {
            return Self { at: begins, change: None };
        }
        let at = match dice.chance(0.4) {
            true => begins + Duration::from_micros(dice.below(200_000_u64)),
            false => END,
        };
        Self { at, change: Some((begins, leaving, joining)) }
    }
}

/// Tells the story of a seed.
pub(crate) fn story(seed: u64, fault: PlantedFault) -> Story {
    let mut story = Story::default();
    let notes = Arc::<Mutex<Notes>>::default();
    let is_over = tell(&mut story, (seed, fault), &notes);
    let notes = notes.lock().unwrap();
    story.checkpoints = notes.taken;
    story.postponed = notes.postponed.iter().map(|reason| shape(reason)).collect();
    if story.problem.is_none() {
        story.problem = notes.problem.clone();
    }
    if story.problem.is_none() && is_over && !notes.is_complete {
        story.problem = Some("the sums were not checked".to_owned());
    }
    story
}

/// Runs the job again and again. Returns whether it reached its end.
fn tell(story: &mut Story, (seed, fault): (u64, PlantedFault), notes: &Arc<Mutex<Notes>>) -> bool {
    let mut dice = Dice::new(seed);
    let mut processes = Processes::new(grid(&mut dice));
    let (mut from, mut begun) = (None, Begun::Anew);
    // When the last message was handled since the checkpoint from which the job goes on.
    let mut handled = Time::ZERO;
    for stops in 0..=STOPS_MAX {
        let members = processes.members().to_vec();
        let is_last = stops == STOPS_MAX || members.len() == 1;
        let Stop { at, change } = match is_last {
            true => Stop { at: END, change: None },
            false => Stop::draw(&processes, begun, &mut dice),
        };
        let job = job(seed, notes).planted_fault(fault);
        let mut simulation = simulation(job, &processes, options(&mut dice), from.take());
        if let Some((after, leaving, _)) = &change {
            let number = |process| members.iter().position(|member| member == process);
            let leaving = leaving.iter().filter_map(number).map(NodeId::from).collect();
            simulation = simulation.pausing_at(*after, leaving);
        }
        phases::begin(begun);
        let halted = match simulation.run_until(at) {
            Ok(halted) => halted,
            Err(report) => {
                story.problem = problem_of(&report);
                return true;
            }
        };
        if !halted.is_paused && at == END {
            story.problem = Some("it did not end".to_owned());
            return true;
        }
        let Halted { stores, report, is_paused, .. } = halted;
        let phases = ledger(|ledger| {
            let is_change_requested =
                change.as_ref().is_some_and(|(after, ..)| report.virtual_time >= *after);
            ledger.under_way(&report.pending, &stores, is_change_requested)
        });
        let handled_now = ledger(|ledger| ledger.last_handled());
        for (&process, store) in members.iter().zip(stores) {
            processes.stores[process] = Some(store);
        }
        if let Some((_, leaving, joining)) = change.filter(|_| is_paused) {
            story.changes += 1;
            match processes.change(&leaving, &joining) {
                Ok(image) => (from, begun) = (Some(image), Begun::AfterChange),
                Err(()) => {
                    story.problem = Some("a part was lost in a change".to_owned());
                    return false;
                }
            }
            handled = Time::ZERO;
            continue;
        }
        let lost = losses(&processes, &mut dice);
        match processes.lose(&lost) {
            Ok(Some((image, plan))) => {
                story.recoveries += 1;
                let last = processes.runs.len() - 1;
                let is_again = processes.runs[last].0 == processes.runs[last - 1].0;
                story.again += u32::from(is_again);
                handled = if is_again { handled.max(handled_now) } else { handled_now };
                if handled > image.at() {
                    story.phases.extend(phases);
                }
                (from, begun) = (Some((image, plan)), Begun::AfterLoss);
            }
            Ok(None) => {
                story.beginnings += 1;
                (begun, handled) = (Begun::Anew, Time::ZERO);
            }
            Err(()) => {
                story.unprotected += 1;
                return false;
            }
        }
    }
    unreachable!("the last run has no loss")
}

/// A run of the job by the present members.
fn simulation(
    job: gridspan_runtime::Job,
    processes: &Processes,
    options: SimOptions,
    from: Option<(Image, RestorePlan)>,
) -> Simulation {
    let members = processes.members();
    let spec = processes.grid(members);
    let simulation = match from {
        None => Simulation::new(job, spec, options),
        Some(image) => Simulation::restored(job, spec, options, image),
    };
    let stores = members.iter().map(|&it| processes.stores[it].clone().unwrap());
    simulation.unwrap().keeping(stores.collect())
}

/// Some of the members, but not all. Mostly those without which every part has a copy.
fn losses(processes: &Processes, dice: &mut Dice) -> Vec<usize> {
    let members = processes.members();
    let mut draw = || {
        let several = members.iter().copied().filter(|_| dice.chance(0.25)).collect::<Vec<_>>();
        let is_one = several.is_empty() || several.len() == members.len() || dice.chance(0.5);
        if is_one { vec![dice.one_of(members)] } else { several }
    };
    let drawn: Vec<_> = (0..LOSSES_DRAWN).map(|_| draw()).collect();
    let survived = drawn.iter().find(|lost| processes.clone().lose(lost).is_ok());
    survived.unwrap_or(&drawn[0]).clone()
}

fn problem_of(report: &SimReport) -> Option<String> {
    let is_fine = report.ending == Ending::Finished && report.outcome.is_ok();
    (!is_fine).then(|| format!("{:?} ({:?})", report.outcome, report.ending))
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

/// A reason without its numbers.
fn shape(reason: &str) -> String {
    reason.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}
