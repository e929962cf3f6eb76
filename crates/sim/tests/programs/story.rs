//! The story of one program: it runs on a random grid, loses or changes nodes again and again, and
//! must end with the result that it has without losses and without checkpoints.

use crate::outcome::{Notes, Outcome};
use crate::processes::{Before, Processes};
use crate::program::job;
use crate::shape::Shape;
use gridspan_runtime::{CheckpointEvery, Checkpoints, Image, Job, NodeId, RestorePlan};
use gridspan_sim::{
    Ending, FaultPlan, Halted, PauseFaults, QuicFaults, SessionFaults, SimOptions, SimReport,
    Simulation,
};
use gridspan_topology::dice::Dice;
use gridspan_topology::{
    Bandwidth, GridSpec, HostSpec, Latency, Link, SiteId, SiteSpec, Speed, Time,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Largest number of times that a job is stopped.
const STOPS_MAX: u32 = 7;

/// Time by which a job must have ended.
const END: Time = Time(20_000_000_000_000);

/// Number of events after which a run counts as endless.
const EVENTS_MAX: u64 = 30_000_000;

/// What has happened in one story, or in several.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) programs: u64,
    pub(crate) runs: u64,
    pub(crate) repeated: u64,
    pub(crate) events: u64,
    pub(crate) messages: u64,
    pub(crate) checkpoints: u64,
    pub(crate) recoveries: u64,
    pub(crate) lost: u64,
    pub(crate) lost_sites: u64,
    pub(crate) changes: u64,
    pub(crate) beginnings: u64,
    pub(crate) unprotected: u64,
    pub(crate) refused: u64,
    pub(crate) steps: BTreeMap<&'static str, u64>,
    pub(crate) postponed: BTreeMap<String, u32>,
    pub(crate) problem: Option<String>,
    /// Hashes of all runs, to compare with those of another time.
    pub(crate) trace: Vec<(u64, u64)>,
}

impl Story {
    pub(crate) fn add(&mut self, other: Self) {
        self.programs += 1;
        self.runs += other.runs;
        self.repeated += other.repeated;
        self.events += other.events;
        self.messages += other.messages;
        self.checkpoints += other.checkpoints;
        self.recoveries += other.recoveries;
        self.lost += other.lost;
        self.lost_sites += other.lost_sites;
        self.changes += other.changes;
        self.beginnings += other.beginnings;
        self.unprotected += other.unprotected;
        self.refused += other.refused;
        for (step, count) in other.steps {
            *self.steps.entry(step).or_default() += count;
        }
        for (reason, count) in other.postponed {
            *self.postponed.entry(reason).or_default() += count;
        }
    }

    fn saw(&mut self, report: &SimReport, is_quic: bool) {
        self.runs += 1;
        self.events += report.events;
        self.messages += report.messages;
        self.refused += report.faults.refused;
        // Over QUIC, the sizes of datagrams with random keys may differ.
        let hash = if is_quic { 0 } else { report.log_hash };
        self.trace.push((report.virtual_time.as_nanos(), hash));
    }
}

/// A random grid, and the bytes that cross its slowest link in a second.
fn grid(dice: &mut Dice) -> (GridSpec, u64) {
    let site_count = match dice.below(6_u32) {
        0 => 1,
        1..=2 => 2,
        3 => 3,
        _ => 1 + dice.below(8_u32),
    };
    let is_uneven = dice.chance(0.5);
    let (nodes, pes) = (1 + dice.below(4_u32), 1 + dice.below(4_u32));
    let speeds = dice.chance(0.3);
    let may_reorder = dice.chance(0.3);
    let mut slowest = u64::MAX;
    let mut any_link = |dice: &mut Dice, latency: (f64, f64), rate: (f64, f64)| {
        let latency = dice.logarithmic(latency.0, latency.1);
        let bits = dice.logarithmic(rate.0, rate.1);
        slowest = slowest.min((bits / 8.0) as u64);
        let mut link = Link::new(
            Latency(Duration::from_secs_f64(latency / 1e3)),
            Bandwidth::from_bits_per_second(bits as u64),
        );
        if dice.chance(0.4) {
            link = link.with_jitter(Duration::from_secs_f64(latency / 1e3 * dice.unit()));
        }
        if dice.chance(0.3) {
            link = link.with_loss(dice.logarithmic(0.0001, 0.05));
        }
        link.with_reorder(may_reorder && dice.chance(0.4))
    };
    let mut sites = Vec::new();
    for site in 0..site_count {
        let its = if is_uneven { 1 + dice.below(4_u32) } else { nodes };
        let its = if site_count == 1 { its + 1 } else { its };
        let hosts = (0..its).map(|host| {
            let pes = if is_uneven { 1 + dice.below(4_u32) } else { pes };
            let host = HostSpec::new(format!("s{site}h{host}"), pes);
            match speeds {
                true => {
                    host.with_speed(Speed::new(1.0 / f64::from(1 + dice.below(4_u32))).unwrap())
                }
                false => host,
            }
        });
        let hosts: Vec<HostSpec> = hosts.collect();
        let lan = match dice.chance(0.7) {
            true => Link::lan(),
            false => any_link(dice, (0.01, 2.0), (1e8, 1e10)),
        };
        sites.push(SiteSpec::new(format!("s{site}"), hosts, lan));
    }
    let wan = any_link(dice, (0.05, 400.0), (1e6, 1e10));
    let mut spec = GridSpec::new(sites).unwrap().with_wan(wan);
    for from in 0..site_count {
        for to in (0..site_count).filter(|&to| to != from) {
            if dice.chance(0.4) {
                let link = any_link(dice, (0.05, 400.0), (1e6, 1e10));
                spec.set_link(SiteId(from), SiteId(to), link);
            }
        }
    }
    (spec, slowest)
}

/// Settings of the runs of a story.
struct Settings {
    spec: GridSpec,
    shape: Shape,
    checkpoints: Checkpoints,
    checkpoint_rate: Bandwidth,
    /// Whether runs may use QUIC: partitions and slow links would be losses there.
    may_use_quic: bool,
    /// How close together losses are.
    haste: f64,
}

impl Settings {
    fn draw(seed: u64, dice: &mut Dice) -> Self {
        let (spec, bytes_per_second) = grid(dice);
        let shape = Shape::draw(seed, bytes_per_second);
        let every = match dice.below(8_u32) {
            0 => CheckpointEvery::Time(
                dice.any_scale_up_to(Duration::from_secs(2)).max(Duration::from_millis(1)),
            ),
            1..=4 => CheckpointEvery::Points(1 + dice.below(3_u64)),
            _ => CheckpointEvery::Points(1 + dice.below(50_u64)),
        };
        let every = if dice.chance(0.05) { CheckpointEvery::Auto } else { every };
        let mut checkpoints = Checkpoints::every(every)
            .with_node_mtbf(Duration::from_secs(1 + dice.below(1000_u64)))
            .with_copies(dice.one_of(&[1, 2, 2, 2, 2, 3]))
            .protecting_sites(dice.chance(0.4));
        if dice.chance(0.3) {
            let bits = dice.logarithmic(1e6, 1e9) as u64;
            checkpoints = checkpoints.with_copy_rate(Bandwidth::from_bits_per_second(bits));
        }
        let checkpoint_rate = match dice.chance(0.5) {
            true => Bandwidth::UNLIMITED,
            false => Bandwidth::from_bits_per_second(dice.logarithmic(1e7, 1e10) as u64),
        };
        let may_use_quic = bytes_per_second > 2_000_000;
        Self { spec, shape, checkpoints, checkpoint_rate, may_use_quic, haste: dice.unit() }
    }

    /// The result of a run without losses and without checkpoints on a grid.
    fn undisturbed(&self, spec: GridSpec, story: &mut Story) -> Result<Outcome, String> {
        let notes = Arc::<Mutex<Notes>>::default();
        let options = SimOptions::with_seed(self.shape.seed);
        let options = options.with_time_limit(Duration::from_secs(15_000));
        let simulation = Simulation::new(job(&self.shape, None, &notes), spec, options).unwrap();
        let report = simulation.cancelled_by(limit()).run();
        story.saw(&report, false);
        if let Some(problem) = problem_of(&report) {
            return Err(format!("without losses: {problem}"));
        }
        let expected = notes.lock().unwrap().result.take().unwrap();
        match expected.problems.first() {
            Some(problem) => Err(format!("without losses: {problem}")),
            None => Ok(expected),
        }
    }

    /// A random network, and whether it is under QUIC.
    fn options(&self, dice: &mut Dice) -> (SimOptions, bool) {
        let options = SimOptions::with_seed(dice.next_u64())
            .with_checkpoint_rate(self.checkpoint_rate)
            .with_time_limit(Duration::from_secs(15_000));
        let delayed = FaultPlan::default()
            .with_frame_delay(0.2)
            .with_local_delay(0.1)
            .with_delay_max(dice.any_scale_up_to(Duration::from_millis(200)))
            .with_reorder(dice.chance(0.5));
        let pauses = PauseFaults::new(0.001, Duration::from_millis(300));
        match dice.below(12_u32) {
            0..4 => (options, false),
            4..7 => (options.with_faults(delayed), false),
            11 if self.may_use_quic => {
                let quic = QuicFaults::default().with_partitions(0.1, Duration::from_secs(1));
                (options.with_faults(delayed.with_quic(quic).with_pauses(pauses)), true)
            }
            _ => {
                let sessions =
                    SessionFaults::default().with_partitions(0.1, Duration::from_millis(400));
                (options.with_faults(delayed.with_sessions(sessions).with_pauses(pauses)), false)
            }
        }
    }
}

/// Runs a program with losses, once or twice, and returns its story.
pub(crate) fn story(seed: u64) -> Story {
    let mut first = tell(seed);
    if seed % 8 == 3 && first.problem.is_none() {
        let second = tell(seed);
        first.repeated = 1;
        if second.trace != first.trace {
            let differs =
                first.trace.iter().zip(&second.trace).position(|(one, other)| one != other);
            first.problem =
                Some(format!("another time it runs differently, from run {differs:?} on"));
        }
    }
    first
}

fn tell(seed: u64) -> Story {
    let mut dice = Dice::new(seed ^ 0x73_746f_7279);
    let settings = Settings::draw(seed, &mut dice);
    let mut story = Story::default();
    let expected = match settings.undisturbed(settings.spec.clone(), &mut story) {
        Ok(expected) => expected,
        Err(problem) => {
            story.problem = Some(problem);
            return story;
        }
    };
    let mut telling = Telling {
        processes: Processes::new(settings.spec.clone()),
        settings,
        story,
        dice,
        expected,
        from: None,
        is_after_loss: false,
        before: None,
        is_safe: true,
    };
    for stops in 0..=STOPS_MAX {
        if telling.go_on(stops == STOPS_MAX) {
            break;
        }
    }
    telling.story
}

/// Prints what happens, if the variable is set.
fn trace(text: impl Fn() -> String) {
    if std::env::var_os("PROGRAMS_TRACE").is_some() {
        println!("{}", text());
    }
}

/// Ends a run that has no end.
fn limit() -> impl Fn() -> bool + Send + 'static {
    let events = std::sync::atomic::AtomicU64::new(0);
    move || events.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > EVENTS_MAX
}

/// What is wrong with a run that has come to its end.
fn problem_of(report: &SimReport) -> Option<String> {
    if report.ending != Ending::Finished || report.outcome.is_err() {
        return Some(format!(
            "{:?} ({:?}) at {:?}",
            report.outcome, report.ending, report.virtual_time
        ));
    }
    let pending = &report.pending;
    if pending.rebalances > 0 {
        // The job ended during a periodic rebalance, with members on their way.
        return None;
    }
    let left = [
        pending.held,
        pending.awaiting,
        pending.early,
        pending.early_broadcasts,
        pending.reductions,
        pending.questions,
    ];
    // Messages to the workers of a pool that was closed are dropped.
    let are_dropped = pending.absent_members.iter().any(|member| member.contains("programs::"));
    let is_pool = |member: &String| member.contains("tasks::worker::Worker");
    let are_dropped = are_dropped && !pending.absent_members.iter().all(is_pool);
    (left != [0; 6] || are_dropped).then(|| format!("work is left at the end: {pending:?}"))
}

/// A story that is not over.
struct Telling {
    settings: Settings,
    story: Story,
    processes: Processes,
    dice: Dice,
    expected: Outcome,
    from: Option<(Image, RestorePlan)>,
    is_after_loss: bool,
    before: Option<Before>,
    /// Whether each part has all its copies: no node was lost or changed since.
    is_safe: bool,
}

impl Telling {
    /// Runs the job to its end, and then again until it is stopped. Returns whether the story is
    /// over.
    fn go_on(&mut self, is_last: bool) -> bool {
        let (options, is_quic) = self.settings.options(&mut self.dice);
        let members = self.processes.members().to_vec();
        let wants_change = !is_last && self.dice.chance(0.3);
        let (leaving, joining) = match wants_change {
            true => self.processes.changes(&mut self.dice),
            false => (vec![], vec![]),
        };
        // The whole run, which shows when main is where.
        let notes = Arc::<Mutex<Notes>>::default();
        let simulation = self.simulation(&options, &notes);
        let report = match simulation.cancelled_by(limit()).run_until(END) {
            Ok(_) => return self.fail("it did not end"),
            Err(report) => report,
        };
        trace(|| {
            format!(
                "a run of {members:?}, with QUIC: {is_quic}, faults {:?}, ends at {:?}: {:?}; {:?}; points {:?}",
                options.faults.is_some(),
                report.virtual_time,
                report.outcome,
                report.pending,
                notes.lock().unwrap().points
            )
        });
        self.story.saw(&report, is_quic);
        let (result, points) = self.noted(&notes);
        if let Some(problem) = problem_of(&report) {
            return self
                .fail(&format!("a run after {} stops: {problem}", self.processes.runs.len() - 1));
        }
        let Some(result) = result else { return self.fail("it has no result") };
        if let Some(difference) = result.difference(&self.expected) {
            return self
                .fail(&format!("after {} stops: {difference}", self.processes.runs.len() - 1));
        }
        if is_last || members.len() == 1 {
            return true;
        }
        // The same run until it is stopped.
        let is_changing = !leaving.is_empty() || !joining.is_empty();
        let at = self.moment(&points, report.virtual_time);
        let notes = Arc::<Mutex<Notes>>::default();
        let mut simulation = self.simulation(&options, &notes);
        let mut stop = at;
        if is_changing {
            let number = |process| members.iter().position(|member| member == process);
            let leaving = leaving.iter().filter_map(number).map(NodeId::from).collect();
            simulation = simulation.pausing_at(at, leaving);
            stop = match self.dice.chance(0.3) {
                true => at + Duration::from_micros(self.dice.below(300_000_u64)),
                false => END,
            };
        }
        trace(|| {
            format!("stops at {at:?} or {stop:?}, lets {leaving:?} leave and {joining:?} join")
        });
        let halted = match simulation.cancelled_by(limit()).run_until(stop) {
            Ok(halted) if stop == END && !halted.is_paused => {
                return self.fail("it did not end");
            }
            Ok(halted) => halted,
            Err(report) => {
                // It has ended before it was to stop.
                self.story.saw(&report, is_quic);
                let (result, _) = self.noted(&notes);
                if let Some(problem) = problem_of(&report) {
                    return self.fail(&format!("a run that was to change: {problem}"));
                }
                let difference = result.and_then(|result| result.difference(&self.expected));
                if let Some(difference) = difference {
                    return self.fail(&format!("a run that was to change: {difference}"));
                }
                return true;
            }
        };
        self.story.saw(&halted.report, is_quic);
        self.noted(&notes);
        for store in &halted.stores {
            let numbers: BTreeSet<u64> = store.holdings().iter().map(|it| it.number).collect();
            if numbers.len() > 3 {
                return self.fail(&format!("a node keeps the checkpoints {numbers:?}"));
            }
        }
        for (&process, store) in members.iter().zip(halted.stores.clone()) {
            self.processes.stores[process] = Some(store);
        }
        self.from = None;
        self.before = None;
        match halted.is_paused {
            true => self.change(&leaving, &joining),
            false => self.lose(halted),
        }
    }

    /// Adds the notes of a run to the story.
    fn noted(&mut self, notes: &Arc<Mutex<Notes>>) -> (Option<Outcome>, Vec<(Time, bool)>) {
        let mut notes = notes.lock().unwrap();
        self.story.checkpoints += u64::from(notes.taken);
        for (step, count) in std::mem::take(&mut notes.steps) {
            *self.story.steps.entry(step).or_default() += count;
        }
        for (reason, count) in std::mem::take(&mut notes.postponed) {
            *self.story.postponed.entry(reason).or_default() += count;
        }
        (notes.result.take(), std::mem::take(&mut notes.points))
    }

    /// Draws the moment at which the run is stopped, from the progress points of the whole run.
    fn moment(&mut self, points: &[(Time, bool)], end: Time) -> Time {
        let dice = &mut self.dice;
        let taken: Vec<Time> =
            points.iter().filter(|(_, taken)| *taken).map(|(at, _)| *at).collect();
        let first = points.first().map_or(end, |(at, _)| *at);
        let at = match dice.below(10_u32) {
            0..=2 if self.is_after_loss && dice.chance(0.3 + self.settings.haste) => {
                Time(1) + dice.any_scale_up_to(Duration::from_millis(500))
            }
            0 => first + dice.any_scale_up_to(Duration::from_millis(800)),
            1..=6 if !taken.is_empty() => {
                dice.one_of(&taken) + dice.any_scale_up_to(Duration::from_millis(800))
            }
            _ => Time(1 + dice.below(end.as_nanos().max(1))),
        };
        at.min(Time(end.as_nanos().saturating_sub(1).max(1)))
    }

    /// A run of the job by the present members.
    fn simulation(&self, options: &SimOptions, notes: &Arc<Mutex<Notes>>) -> Simulation {
        let job: Job = job(&self.settings.shape, Some(self.settings.checkpoints), notes);
        let members = self.processes.members();
        let (spec, options) = (self.processes.grid(members), options.clone());
        let simulation = match self.from.clone() {
            None => Simulation::new(job, spec, options),
            Some(image) => Simulation::restored(job, spec, options, image),
        };
        let stores = members.iter().map(|&it| self.processes.stores[it].clone().unwrap());
        let simulation = simulation.unwrap().keeping(stores.collect());
        match &self.before {
            Some(before) => before.returning(simulation, members),
            None => simulation,
        }
    }

    fn change(&mut self, leaving: &[usize], joining: &[usize]) -> bool {
        let Ok(image) = self.processes.change(leaving, joining) else {
            return self.fail("a part was lost in a change");
        };
        self.story.changes += 1;
        (self.from, self.is_after_loss, self.is_safe) = (Some(image), false, false);
        false
    }

    fn lose(&mut self, halted: Halted) -> bool {
        let sites = self.processes.sites();
        let members = self.processes.members().to_vec();
        let may_lose_site = !sites.is_empty() && self.settings.checkpoints.protects_site;
        let mut is_site = false;
        let mut lost = Vec::new();
        for _ in 0..6 {
            is_site = may_lose_site && self.dice.chance(0.5);
            lost = if is_site {
                sites[self.dice.below(sites.len())].clone()
            } else {
                let several: Vec<usize> =
                    members.iter().copied().filter(|_| self.dice.chance(0.25)).collect();
                let is_one =
                    several.is_empty() || several.len() == members.len() || self.dice.chance(0.6);
                if is_one { vec![self.dice.one_of(&members)] } else { several }
            };
            if self.is_safe || self.processes.clone().lose(&lost).is_ok() {
                break;
            }
        }
        self.story.lost += lost.len() as u64;
        self.story.lost_sites += u64::from(is_site);
        let settings = &self.settings.checkpoints;
        let copies = members.len().min(settings.copies as usize);
        let protects = settings.protects_site && copies > 1;
        let must_survive = self.is_safe && (lost.len() < copies || is_site && protects);
        trace(|| format!("loses {lost:?}"));
        self.before = Some(Before { halted, members, lost: lost.clone() });
        match self.processes.lose(&lost) {
            Ok(Some((image, plan))) => {
                trace(|| format!("goes back to {} of {:?}", image.number(), image.at()));
                self.story.recoveries += 1;
                (self.from, self.is_after_loss, self.is_safe) = (Some((image, plan)), true, false);
                false
            }
            Ok(None) => {
                self.story.beginnings += 1;
                (self.from, self.is_after_loss, self.is_safe) = (None, false, true);
                // The job begins on fewer PEs, and some groups have fewer members.
                let spec = self.processes.grid(self.processes.members());
                match self.settings.undisturbed(spec, &mut self.story) {
                    Ok(expected) => {
                        self.expected = expected;
                        false
                    }
                    Err(problem) => self.fail(&problem),
                }
            }
            Err(()) if must_survive => {
                self.fail(&format!("no copy is left without {lost:?}, though each part had two"))
            }
            Err(()) => {
                self.story.unprotected += 1;
                true
            }
        }
    }

    fn fail(&mut self, problem: &str) -> bool {
        self.story.problem = Some(format!(
            "{problem} [{} nodes of {}, {:?}, {:?}]",
            self.processes.members().len(),
            self.processes.stores.len(),
            self.settings.checkpoints,
            self.settings.shape
        ));
        true
    }
}
