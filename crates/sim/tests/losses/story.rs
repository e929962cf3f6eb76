//! The story of one job: it runs, loses nodes or changes them, and goes on, until it ends.

use crate::actors::is_heavy;
use crate::job::{Notes, job, protects_sites};
use crate::phases::{self, Begun, LossPhase, LostPlace, ledger};
use crate::processes::{Before, Processes};
use gridspan_runtime::{Image, Job, NodeId, RestorePlan};
use gridspan_sim::campaign::Planted;
use gridspan_sim::{
    Ending, FaultPlan, Halted, PauseFaults, QuicFaults, SessionFaults, SimOptions, Simulation,
};
use gridspan_topology::dice::Dice;
use gridspan_topology::{Bandwidth, GridSpec, Time};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Largest number of times that a job is stopped.
const STOPS_MAX: u32 = 6;

/// Number of random sets of members from which the test chooses the one to lose.
const LOSSES_DRAWN: u32 = 6;

/// Chance that such a set is all members of a site that has several, in jobs that protect sites.
const SITE_CHANCE: f64 = 0.5;

/// Time by which a job must have ended.
const END: Time = Time(600_000_000_000);

/// Summary of the events of a job.
#[derive(Default)]
pub(crate) struct Story {
    /// Number of times that it went on from a checkpoint after a loss.
    pub(crate) recoveries: u32,
    /// Number of times that nodes left or joined as requested.
    pub(crate) changes: u32,
    /// Number of times that it began again, since no checkpoint was complete.
    pub(crate) beginnings: u32,
    /// Number of times that the lost nodes had the only copies of a part.
    pub(crate) unprotected: u32,
    /// Number of recoveries to the same checkpoint as the recovery before.
    pub(crate) again: u32,
    /// Number of frames that lost nodes sent again after they had come back, and that were refused.
    pub(crate) refused: u64,
    /// Activities that were under way when nodes were lost and work was repeated.
    pub(crate) phases: BTreeSet<LossPhase>,
    /// What ran on nodes that were lost before the job went on from a checkpoint.
    pub(crate) places: BTreeSet<LostPlace>,
    pub(crate) checkpoints: u32,
    pub(crate) postponed: BTreeSet<String>,
    pub(crate) problem: Option<String>,
}

/// When a run is stopped.
struct Stop {
    at: Time,
    /// A time, the members that leave after it, and the processes that join then.
    change: Option<(Time, Vec<usize>, Vec<usize>)>,
}

impl Stop {
    fn draw(processes: &Processes, begun: Begun, dice: &mut Dice) -> Self {
        let begins = match begun == Begun::AfterLoss && dice.chance(0.85) {
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

/// Runs the job of a seed to its end, and returns its story.
pub(crate) fn story(seed: u64, planted: Planted) -> Story {
    let notes = Arc::<Mutex<Notes>>::default();
    let make = || job(seed, &notes).planted_fault(planted.in_pe());
    let mut dice = Dice::new(seed);
    let mut telling = Telling {
        story: Story::default(),
        processes: Processes::new(grid(&mut dice)),
        dice,
        from: None,
        begun: Begun::FromStart,
        handled: Time::ZERO,
        before: None,
        planted,
        protects_sites: protects_sites(seed),
        checkpoint_rate: match is_heavy(seed) {
            true => Bandwidth::from_bits_per_second(1_000_000_000),
            false => Bandwidth::UNLIMITED,
        },
    };
    let is_at_end = (0..=STOPS_MAX).find_map(|stops| telling.go_on(make(), stops == STOPS_MAX));
    let (mut story, notes) = (telling.story, notes.lock().unwrap());
    story.checkpoints = notes.taken;
    story.postponed = notes.postponed.iter().map(|reason| shape(reason)).collect();
    if story.problem.is_none() {
        story.problem = notes.problem.clone();
    }
    if story.problem.is_none() && is_at_end == Some(true) && !notes.is_complete {
        story.problem = Some("the sums were not checked".to_owned());
    }
    story
}

/// A story that is not over.
struct Telling {
    story: Story,
    processes: Processes,
    dice: Dice,
    /// The image from which the next run continues, and the plan.
    from: Option<(Image, RestorePlan)>,
    begun: Begun,
    /// Time at which the last message was handled since the checkpoint from which the next run
    /// continues.
    handled: Time,
    /// The run before, if some of its members were lost.
    before: Option<Before>,
    planted: Planted,
    protects_sites: bool,
    checkpoint_rate: Bandwidth,
}

impl Telling {
    /// Runs the job until it is stopped, and changes its nodes. Returns whether it has reached its
    /// end, if the story is over.
    fn go_on(&mut self, job: Job, is_last: bool) -> Option<bool> {
        let members = self.processes.members().to_vec();
        let Stop { at, change } = match is_last || members.len() == 1 {
            true => Stop { at: END, change: None },
            false => Stop::draw(&self.processes, self.begun, &mut self.dice),
        };
        let mut simulation = self.simulation(job);
        if let Some((after, leaving, _)) = &change {
            let number = |process| members.iter().position(|member| member == process);
            let leaving = leaving.iter().filter_map(number).map(NodeId::from).collect();
            simulation = simulation.pausing_at(*after, leaving);
        }
        phases::begin(self.begun);
        let mut halted = match simulation.run_until(at) {
            Ok(halted) if halted.is_paused || at != END => halted,
            Ok(_) => return self.fail("it did not end"),
            Err(report) => {
                self.story.refused += report.faults.refused;
                let is_fine = report.ending == Ending::Finished && report.outcome.is_ok();
                let problem = format!("{:?} ({:?})", report.outcome, report.ending);
                self.story.problem = Some(problem).filter(|_| !is_fine);
                return Some(true);
            }
        };
        let (stores, report) = (std::mem::take(&mut halted.stores), &halted.report);
        self.story.refused += report.faults.refused;
        let requested = change.as_ref().map(|(after, ..)| *after);
        let is_changing = requested.is_some_and(|after| report.virtual_time >= after);
        let phases = ledger(|ledger| ledger.under_way(&report.pending, &stores, is_changing));
        for (&process, store) in members.iter().zip(stores) {
            self.processes.stores[process] = Some(store);
        }
        match change {
            Some((_, leaving, joining)) if halted.is_paused => self.change(&leaving, &joining),
            _ => self.lose(phases, halted),
        }
    }

    /// A run of the job by the present members.
    fn simulation(&mut self, job: Job) -> Simulation {
        let members = self.processes.members();
        let (spec, options) = (self.processes.grid(members), options(&mut self.dice));
        let options = options.with_checkpoint_rate(self.checkpoint_rate);
        let simulation = match self.from.take() {
            None => Simulation::new(job, spec, options),
            Some(image) => Simulation::restored(job, spec, options, image),
        };
        let stores = members.iter().map(|&it| self.processes.stores[it].clone().unwrap());
        let simulation = simulation.unwrap().keeping(stores.collect());
        match self.before.take() {
            Some(before) => before.returning(simulation, members),
            None => simulation,
        }
    }

    /// Lets members leave and processes join, after the job has stopped for that.
    fn change(&mut self, leaving: &[usize], joining: &[usize]) -> Option<bool> {
        let Ok(image) = self.processes.change(leaving, joining) else {
            return self.fail("a part was lost in a change");
        };
        self.story.changes += 1;
        (self.from, self.begun, self.handled) = (Some(image), Begun::AfterChange, Time::ZERO);
        None
    }

    /// Loses members of a stopped run while these activities are under way.
    fn lose(&mut self, phases: BTreeSet<LossPhase>, mut halted: Halted) -> Option<bool> {
        let sites = if self.protects_sites { self.processes.sites() } else { Vec::new() };
        let lost = losses(&self.processes, &sites, &mut self.dice);
        let handled = ledger(|ledger| ledger.last_handled());
        halted.planting(self.planted.in_session());
        let members = self.processes.members().to_vec();
        let places = places(&self.processes, &lost, halted.coordinator);
        self.before = Some(Before { halted, members, lost: lost.clone() });
        match self.processes.lose(&lost) {
            Ok(Some((image, plan))) => {
                self.story.recoveries += 1;
                self.story.places.extend(places);
                let last = self.processes.runs.len() - 1;
                let is_again = self.processes.runs[last].0 == self.processes.runs[last - 1].0;
                self.story.again += u32::from(is_again);
                self.handled = if is_again { self.handled.max(handled) } else { handled };
                if self.handled > image.at() {
                    self.story.phases.extend(phases);
                }
                (self.from, self.begun) = (Some((image, plan)), Begun::AfterLoss);
                None
            }
            Ok(None) => {
                self.story.beginnings += 1;
                (self.begun, self.handled) = (Begun::FromStart, Time::ZERO);
                None
            }
            Err(()) => {
                self.story.unprotected += 1;
                Some(false)
            }
        }
    }

    fn fail(&mut self, problem: &str) -> Option<bool> {
        self.story.problem = Some(problem.to_owned());
        Some(false)
    }
}

/// Some of the members, but not all: often those of one of `sites`. Prefers a set without which
/// every part still has a copy.
fn losses(processes: &Processes, sites: &[Vec<usize>], dice: &mut Dice) -> Vec<usize> {
    let members = processes.members();
    let mut draw = || {
        if !sites.is_empty() && dice.chance(SITE_CHANCE) {
            return sites[dice.below(sites.len())].clone();
        }
        let several = members.iter().copied().filter(|_| dice.chance(0.25)).collect::<Vec<_>>();
        let is_one = several.is_empty() || several.len() == members.len() || dice.chance(0.5);
        if is_one { vec![dice.one_of(members)] } else { several }
    };
    let drawn: Vec<_> = (0..LOSSES_DRAWN).map(|_| draw()).collect();
    let survived = drawn.iter().find(|lost| processes.clone().lose(lost).is_ok());
    survived.unwrap_or(&drawn[0]).clone()
}

/// What runs on the members that are lost.
fn places(processes: &Processes, lost: &[usize], coordinator: NodeId) -> Vec<LostPlace> {
    let members = processes.members();
    let is_lost = |member: Option<&usize>| member.is_some_and(|member| lost.contains(member));
    let is_whole = |site: &Vec<usize>| site.iter().all(|member| lost.contains(member));
    let found = [
        (LostPlace::Main, is_lost(members.first())),
        (LostPlace::Coordinator, is_lost(members.get(coordinator.index()))),
        (LostPlace::Site, processes.sites().iter().any(is_whole)),
    ];
    found.into_iter().filter(|(_, is_it)| *is_it).map(|(place, _)| place).collect()
}

fn grid(dice: &mut Dice) -> GridSpec {
    let (sites, nodes, pes) = (1 + dice.below(3_u32), 1 + dice.below(3_u32), 1 + dice.below(3_u32));
    let nodes = if sites == 1 { nodes + 1 } else { nodes };
    GridSpec::from_emulate(&format!("{sites}x{nodes}x{pes},wan=8ms")).unwrap()
}

/// A random network: without faults, with delays, with connections that break and nodes that pause,
/// or QUIC over a network that fails.
fn options(dice: &mut Dice) -> SimOptions {
    let options = SimOptions::with_seed(dice.next_u64());
    let delayed = FaultPlan::default()
        .with_frame_delay(0.2)
        .with_local_delay(0.1)
        .with_delay_max(Duration::from_millis(20))
        .with_reorder(dice.chance(0.5));
    let pauses = PauseFaults::new(0.001, Duration::from_millis(100));
    match dice.below(10_u32) {
        0..3 => options,
        3..6 => options.with_faults(delayed),
        6..9 => {
            let sessions =
                SessionFaults::default().with_partitions(0.1, Duration::from_millis(400));
            options.with_faults(delayed.with_sessions(sessions).with_pauses(pauses))
        }
        _ => {
            let quic = QuicFaults::default().with_partitions(0.1, Duration::from_secs(1));
            options.with_faults(delayed.with_quic(quic).with_pauses(pauses))
        }
    }
}

/// A reason without its numbers.
fn shape(reason: &str) -> String {
    reason.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}
