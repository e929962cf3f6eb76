//! The model of a job, fitted from recordings, which predicts the job on a grid.

use crate::build::build;
use crate::costs::Costs;
use crate::error::ForecastError;
use crate::forecast::{JobForecast, PeForecast, bottleneck, links, pes, step_ns};
use crate::growth::Growth;
use crate::placement::{self, ActorPlacement};
use crate::replay::{Setting, replay};
use crate::tasks::{TaskForecast, TaskModel, is_of_tasks};
use crate::trace::JobTrace;
use gridspan_record::{Recording, What};
use gridspan_topology::{GridSpec, PeId};

/// A recording and the size of the problem that it solves, in any unit.
#[derive(Clone, Copy, Debug)]
pub struct SizedRecording<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// The size.
    pub size: f64,
}

/// The model of a job, fitted to its recordings.
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

impl JobModel {
    /// Fits the model of a job to recordings of it. The model of a job of actors replays the last
    /// recording; that of a job of tasks is fitted to all.
    ///
    /// # Errors
    /// If there is no recording, if the recordings are of different jobs, if nodes were lost, left
    /// or joined in one of them, or if one has nothing to replay or misses a part.
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
        notes.extend(note_on_main(last));
        let (trace, costs) = traced(last)?;
        let model = ActorModel { trace, costs, growth: Growth::default() };
        Ok(Self { shape: Shape::Actors(Box::new(model)), notes })
    }

    /// Fits the model to two recordings of different sizes, for a problem of a third size. It
    /// replays the second recording.
    ///
    /// # Errors
    /// If sizes are equal or not above 0, if the recordings are of different jobs, if they have
    /// different numbers of actors, miss a part or have nothing to replay, if nodes were lost, left
    /// or joined in one of them, and for jobs of tasks, whose work cannot be predicted.
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
        let mut notes = notes(second.recording);
        notes.extend(note_on_main(second.recording));
        Ok(Self { shape: Shape::Actors(Box::new(model)), notes })
    }

    /// The effects that a prediction ignores, one sentence each.
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

    /// Predicts the job on a grid, with `times` times as many steps as in the recording.
    ///
    /// # Errors
    /// If `times` is not above 0, or not 1 for a recording without steps; if the strategy is
    /// unknown or its plan does not fit, if a link delivers nothing, and if the recording lacks
    /// messages for which actors wait.
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

/// Refuses recordings of jobs whose nodes have changed, and recordings without the file of a node.
fn check(recording: &Recording) -> Result<(), ForecastError> {
    let is_change =
        |what: &What| matches!(what, What::Lost { .. } | What::Left { .. } | What::Joined { .. });
    let changes = recording.events.iter().any(|event| is_change(&event.what));
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

/// Returns the graph of a recording, and the costs of its messages.
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
    let has = |is: fn(&What) -> bool| recording.events.iter().any(|it| is(&it.what));
    let mut notes = Vec::new();
    if recording.ending.is_none() {
        notes.push("the recorded job was cut off, so that its end is not known".to_owned());
    }
    if has(|what| matches!(what, What::Balanced { moved, .. } if *moved > 0)) {
        notes.push("actors moved in the recording, and stay at their first places here".to_owned());
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

/// Notes that a recording lacks the answers for which main waited: it is of an earlier version, or
/// there were too many answers.
fn note_on_main(recording: &Recording) -> Option<String> {
    let has_answers = recording.pes.iter().any(|record| !record.answers.is_empty());
    let text = "the recording has no answers for which main waited, so that its round trips are \
                derived from times; record the job with this version, and with a larger \
                --record-bytes if main makes very many requests";
    (!has_answers).then(|| text.to_owned())
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

#[cfg(test)]
mod tests;
