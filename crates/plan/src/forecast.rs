//! Predictions: a job's model, fitted from recordings, and what it says of a grid.

use crate::build::build;
use crate::costs::Costs;
use crate::error::ForecastError;
use crate::growth::Growth;
use crate::placement::{self, ActorPlacement};
use crate::replay::{Replayed, Setting, replay};
use crate::tasks::{TaskForecast, TaskModel, is_of_tasks};
use crate::trace::JobTrace;
use crate::what_if::Variation;
use gridspan_record::{Recording, What};
use gridspan_topology::{GridSpec, PeId};
use serde::Serialize;

/// A PE limits a job if it computes for at least this share of the time.
const BUSY_MIN: f64 = 0.75;
/// PEs have uneven work if the mean one has less than this share of the busiest one's.
const EVEN_MIN: f64 = 0.85;
/// A link limits a job if it is used for at least this share of the time.
const USED_MIN: f64 = 0.75;
/// Latency limits a job if it would take less than this share of its time without it.
const LATE_MAX: f64 = 0.9;
/// The first rounds do not count, since they follow the start: all rounds divided by this number.
const WARM_UP_PART: usize = 4;

/// A recording and the size of the problem that it solves, in any unit.
#[derive(Clone, Copy, Debug)]
pub struct SizedRecording<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// The size.
    pub size: f64,
}

/// What is known of a job from its recordings.
///
/// ```
/// use gridspan_plan::{ActorPlacement, JobModel};
/// use gridspan_record::{Header, PeRecord, RecordedNode, RecordedPe, Recording, Span};
/// use gridspan_topology::GridSpec;
///
/// // A handler of 30 ms, on one PE.
/// let header = Header {
///     sites: vec!["lyon".to_owned()],
///     nodes: vec![RecordedNode::default()],
///     pes: vec![RecordedPe::default()],
///     ..Header::default()
/// };
/// let span = Span { actor: 7, duration_ns: 30_000_000, ..Span::default() };
/// let pe = PeRecord { types: vec!["Cell".to_owned()], spans: vec![span], ..PeRecord::default() };
/// let recording = Recording { header, pes: vec![pe], ..Recording::default() };
///
/// let model = JobModel::of(&[&recording])?;
/// let slow = GridSpec::from_emulate("1x1,speed=1/2").unwrap();
/// let forecast = model.forecast(&slow, &ActorPlacement::Created, 1.0)?;
/// assert_eq!(forecast.total_ns, 60_000_000);
/// # Ok::<(), gridspan_plan::ForecastError>(())
/// ```
#[derive(Clone, Debug)]
pub struct JobModel {
    shape: Shape,
    notes: Vec<String>,
}

#[derive(Clone, Debug)]
enum Shape {
    /// Actors that wait for messages.
    Actors(Box<ActorModel>),
    /// Tasks that any PE may run.
    Tasks(TaskModel),
}

#[derive(Clone, Debug)]
struct ActorModel {
    trace: JobTrace,
    costs: Costs,
    growth: Growth,
}

/// What limits a job on a grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "limit", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Bottleneck {
    /// PEs compute most of the time.
    Computing,
    /// One PE computes most of the time, and others have less work.
    UnevenWork {
        /// The busiest PE.
        pe: u32,
    },
    /// The bandwidth of the link from one site to another.
    Bandwidth {
        /// The sending site.
        from: u32,
        /// The receiving site.
        to: u32,
    },
    /// PEs wait for messages of other sites, and the job would be shorter without the latency of
    /// the links between them.
    Latency,
    /// PEs wait although latency counts little, because too little work can be done at a time.
    Waiting,
}

/// A PE on the grid of a forecast.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PeForecast {
    /// Number of the PE.
    pub pe: u32,
    /// Its site.
    pub site: u32,
    /// Number of actors that it has; 0 for jobs of tasks.
    pub actors: u32,
    /// Time for which it computes, in nanoseconds, in the part of the job that was recorded.
    pub busy_ns: f64,
}

/// The messages from one site to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkForecast {
    /// The sending site.
    pub from: u32,
    /// The receiving site.
    pub to: u32,
    /// Packets, each with all messages of a handler to one PE.
    pub packets: u64,
    /// Bytes of their messages.
    pub bytes: u64,
    /// Share of the time in which the link transmits; `None` if its bandwidth is unlimited.
    pub used: Option<f64>,
}

/// What a job would do on a grid.
///
/// ```
/// use gridspan_plan::JobForecast;
///
/// let forecast = JobForecast { total_ns: 3_000_000_000, steps: 100, ..JobForecast::default() };
/// assert_eq!(forecast.total().as_secs(), 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobForecast {
    /// Time of the job, in nanoseconds.
    pub total_ns: u64,
    /// Time of a step, if the job has steps, or its actors send in rounds.
    pub step_ns: Option<f64>,
    /// Number of steps in the recording; 0 if it has none. The first round is not one of them: it
    /// belongs to the start.
    pub steps: u32,
    /// Time of the part that was recorded, on this grid.
    pub recorded_part_ns: u64,
    /// The PEs.
    pub pes: Vec<PeForecast>,
    /// What crosses links between sites in the part that was recorded. Empty for a job of tasks.
    pub links: Vec<LinkForecast>,
    /// What limits the job.
    pub bottleneck: Option<Bottleneck>,
}

impl JobForecast {
    /// Time of the job.
    pub fn total(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.total_ns)
    }
}

impl JobModel {
    /// Fits the model of a job to recordings of it. For a job of actors, the last recording is
    /// replayed; the model of a job of tasks is fitted to all recordings.
    ///
    /// # Errors
    /// If a recording has nothing to replay, or misses a part.
    pub fn of(recordings: &[&Recording]) -> Result<Self, ForecastError> {
        let Some(last) = recordings.last() else { return Err(ForecastError::Empty) };
        for recording in recordings {
            check(recording)?;
            same_job(last, recording)?;
        }
        let mut notes = notes(last);
        if is_of_tasks(last) {
            return Ok(Self { shape: Shape::Tasks(TaskModel::of(recordings)), notes });
        }
        if recordings.len() > 1 {
            notes.push("of several recordings, the last one is replayed".to_owned());
        }
        let (trace, costs) = traced(last)?;
        let model = ActorModel { trace, costs, growth: Growth::default() };
        Ok(Self { shape: Shape::Actors(Box::new(model)), notes })
    }

    /// Fits the model to two recordings of different sizes, for a problem of a third size. The
    /// second one is replayed.
    ///
    /// # Errors
    /// If sizes are equal or not above 0, if the recordings have different numbers of actors or
    /// miss a part, and for jobs of tasks, whose work cannot be predicted.
    pub fn of_size(
        [first, second]: [SizedRecording<'_>; 2],
        size: f64,
    ) -> Result<Self, ForecastError> {
        same_job(second.recording, first.recording)?;
        if is_of_tasks(second.recording) {
            return Err(ForecastError::SizedTasks);
        }
        let (before, _) = traced(first.recording)?;
        let (trace, costs) = traced(second.recording)?;
        let growth = Growth::between([&before, &trace], [first.size, second.size], size)?;
        let model = ActorModel { trace, costs, growth };
        Ok(Self { shape: Shape::Actors(Box::new(model)), notes: notes(second.recording) })
    }

    /// Returns sentences on what a prediction does not consider.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Time of a step in the recording that is replayed, on the grid of that recording; see
    /// [`JobForecast::step_ns`].
    pub fn recorded_step_ns(&self) -> Option<f64> {
        match &self.shape {
            Shape::Actors(model) => step_ns(&model.trace.round_done_ns),
            Shape::Tasks(_) => None,
        }
    }

    /// Whether the job consists of tasks, which have no places.
    pub fn is_of_tasks(&self) -> bool {
        matches!(self.shape, Shape::Tasks(_))
    }

    /// Predicts the job on a grid, with `times` as many steps as in the recording.
    ///
    /// # Errors
    /// If `times` is not above 0, or not 1 for a recording without steps; if the strategy is
    /// unknown or its plan does not fit, if a link delivers nothing, and if what actors wait for is
    /// missing in the recording.
    pub fn forecast(
        &self,
        grid: &GridSpec,
        placement: &ActorPlacement,
        times: f64,
    ) -> Result<JobForecast, ForecastError> {
        if !times.is_finite() || times <= 0.0 {
            return Err(ForecastError::Times);
        }
        let forecast = match &self.shape {
            Shape::Actors(model) => model.forecast(grid, placement, times)?,
            Shape::Tasks(model) => of_tasks(grid, model)?,
        };
        match times != 1.0 && forecast.step_ns.is_none() {
            true => Err(ForecastError::NoSteps),
            false => Ok(forecast),
        }
    }
}

impl ActorModel {
    fn forecast(
        &self,
        grid: &GridSpec,
        placement: &ActorPlacement,
        times: f64,
    ) -> Result<JobForecast, ForecastError> {
        let Self { trace, costs, growth } = self;
        let places = placement::places(trace, grid, placement)?;
        let found = replay(&Setting { trace, costs, growth, grid, places: &places })?;
        let steps = trace.rounds.saturating_sub(1);
        let step_ns = step_ns(&found.round_done_ns);
        let more = step_ns.map_or(0.0, |step| step * f64::from(steps) * (times - 1.0));
        let total_ns = (found.end_ns as f64 + more).max(0.0) as u64;
        let links = links(grid, &found);
        let pes = pes(grid, &places, &found);
        let without_latency_ns = |near: &GridSpec| -> Result<f64, ForecastError> {
            let setting = Setting { trace, costs, growth, grid: near, places: &places };
            Ok(replay(&setting)?.end_ns as f64)
        };
        let bottleneck = Some(bottleneck(grid, &pes, &links, found.end_ns, without_latency_ns)?);
        let recorded_part_ns = found.end_ns;
        Ok(JobForecast { total_ns, step_ns, steps, recorded_part_ns, pes, links, bottleneck })
    }
}

/// Refuses recordings of jobs whose nodes have changed.
fn check(recording: &Recording) -> Result<(), ForecastError> {
    let is_change =
        |what: &What| matches!(what, What::Lost { .. } | What::Left { .. } | What::Joined { .. });
    let changes = recording.happenings.iter().any(|happening| is_change(&happening.what));
    match changes || !recording.missing.is_empty() {
        true => Err(ForecastError::NodesChanged),
        false => Ok(()),
    }
}

/// Refuses recordings of different jobs.
fn same_job(last: &Recording, other: &Recording) -> Result<(), ForecastError> {
    let (first, second) = (&other.header.job, &last.header.job);
    match first == second {
        true => Ok(()),
        false => Err(ForecastError::OtherJob { first: first.clone(), second: second.clone() }),
    }
}

/// Returns the graph of a recording, and what its messages cost.
fn traced(recording: &Recording) -> Result<(JobTrace, Costs), ForecastError> {
    check(recording)?;
    let share = recording.dropped_share();
    if share > 0.0 {
        return Err(ForecastError::Sampled { percent: (share * 100.0).ceil() as u32 });
    }
    let (trace, costs) = build(recording)?;
    match trace.handlings.is_empty() {
        true => Err(ForecastError::Empty),
        false => Ok((trace, costs)),
    }
}

fn notes(recording: &Recording) -> Vec<String> {
    let has = |is: fn(&What) -> bool| recording.happenings.iter().any(|it| is(&it.what));
    let mut notes = Vec::new();
    if recording.ending.is_none() {
        notes.push("the recorded job was cut off, so that its end is not known".to_owned());
    }
    if has(|what| matches!(what, What::Balanced { moved, .. } if *moved > 0)) {
        notes.push("actors moved in the recording, and are where they were first".to_owned());
    }
    if has(|what| matches!(what, What::Checkpoint { .. })) {
        notes.push("checkpoints of the recording count as time of main".to_owned());
    }
    if has(|what| matches!(what, What::LinkChanged { .. })) {
        notes
            .push("links changed in the recording, and count as they were at its start".to_owned());
    }
    notes
}

fn of_tasks(grid: &GridSpec, model: &TaskModel) -> Result<JobForecast, ForecastError> {
    let TaskForecast { total_ns, busy_ns } = model.forecast(grid)?;
    let layout = grid.layout();
    let pe = |(pe, busy_ns): (PeId, &f64)| PeForecast {
        pe: pe.0,
        site: layout.site_of(pe).0,
        actors: 0,
        busy_ns: *busy_ns,
    };
    let pes: Vec<PeForecast> = layout.pes().zip(&busy_ns).map(pe).collect();
    let total_ns = total_ns as u64;
    let without_latency_ns =
        |near: &GridSpec| -> Result<f64, ForecastError> { Ok(model.forecast(near)?.total_ns) };
    let bottleneck = Some(bottleneck(grid, &pes, &[], total_ns, without_latency_ns)?);
    let recorded_part_ns = total_ns;
    Ok(JobForecast { total_ns, recorded_part_ns, pes, bottleneck, ..JobForecast::default() })
}

/// Returns the mean time of a round, without the first ones.
fn step_ns(done_ns: &[u64]) -> Option<f64> {
    let last = done_ns.len().checked_sub(1).filter(|last| *last > 0)?;
    let first = last / WARM_UP_PART;
    Some(done_ns[last].saturating_sub(done_ns[first]) as f64 / (last - first) as f64)
}

fn pes(grid: &GridSpec, places: &[u32], found: &Replayed) -> Vec<PeForecast> {
    let layout = grid.layout();
    let mut actors = vec![0; layout.pe_count() as usize];
    for place in places {
        actors[*place as usize] += 1;
    }
    let pe = |pe: PeId| PeForecast {
        pe: pe.0,
        site: layout.site_of(pe).0,
        actors: actors[pe.0 as usize],
        busy_ns: found.busy_ns[pe.0 as usize],
    };
    layout.pes().map(pe).collect()
}

fn links(grid: &GridSpec, found: &Replayed) -> Vec<LinkForecast> {
    let link = |(&(from, to), &(packets, bytes)): (&_, &_)| {
        let bandwidth = grid.link_between(from, to).bandwidth;
        let rate = bandwidth.bits_per_second() as f64 / 8.0 * 1e-9;
        let used = bytes as f64 / (rate * found.end_ns.max(1) as f64);
        let used = Some(used).filter(|_| !bandwidth.is_unlimited());
        LinkForecast { from: from.0, to: to.0, packets, bytes, used }
    };
    found.links.iter().map(link).collect()
}

/// Returns what limits a job of this time. `without_latency_ns` predicts its time on a grid without
/// latency between sites.
fn bottleneck(
    grid: &GridSpec,
    pes: &[PeForecast],
    links: &[LinkForecast],
    took_ns: u64,
    without_latency_ns: impl FnOnce(&GridSpec) -> Result<f64, ForecastError>,
) -> Result<Bottleneck, ForecastError> {
    let used = |link: &&LinkForecast| link.used.unwrap_or(0.0);
    let fullest = links.iter().max_by(|a, b| used(a).total_cmp(&used(b)));
    if let Some(link) = fullest.filter(|link| used(link) >= USED_MIN) {
        return Ok(Bottleneck::Bandwidth { from: link.from, to: link.to });
    }
    let busiest = pes.iter().max_by(|a, b| a.busy_ns.total_cmp(&b.busy_ns));
    let mean = pes.iter().map(|pe| pe.busy_ns).sum::<f64>() / pes.len().max(1) as f64;
    if let Some(pe) = busiest.filter(|pe| pe.busy_ns >= BUSY_MIN * took_ns as f64) {
        return Ok(match mean < EVEN_MIN * pe.busy_ns {
            true => Bottleneck::UnevenWork { pe: pe.pe },
            false => Bottleneck::Computing,
        });
    }
    let Some(near) = Variation::Latency(0.0).of(grid) else { return Ok(Bottleneck::Waiting) };
    Ok(match without_latency_ns(&near)? < LATE_MAX * took_ns as f64 {
        true => Bottleneck::Latency,
        false => Bottleneck::Waiting,
    })
}

#[cfg(test)]
mod tests;
