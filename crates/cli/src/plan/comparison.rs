//! A prediction for a grid, beside predictions for changes of it.

use super::recorded_sites::check_calls;
use crate::args::{Change, PlanArgs};
use crate::error::CliError;
use gridspan_plan::{ActorPlacement, ForecastError, JobForecast, JobModel, Variation};
use gridspan_record::Recording;
use gridspan_topology::{GridSpec, SiteId};
use serde::Serialize;

/// Strategy that is compared with the placement of the program, if the user names none.
const STRATEGY: &str = "auto";

/// The changes that are compared if none is named.
const CHANGES: [(&str, Variation); 5] = [
    ("latency*2", Variation::Latency(2.0)),
    ("latency*0.5", Variation::Latency(0.5)),
    ("rate*2", Variation::Bandwidth(2.0)),
    ("sites+1", Variation::OneMoreSite),
    ("sites-1", Variation::OneSiteLess),
];

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    /// Version of the object.
    version: u32,
    /// Name of the job.
    pub(super) job: String,
    /// Names of the sites, by number.
    pub(super) sites: Vec<String>,
    /// Where actors are: `created`, or the name of a strategy.
    pub(super) placement: String,
    /// Whether it is a job of tasks.
    pub(super) is_of_tasks: bool,
    /// Number of predicted steps, divided by that of recorded ones.
    pub(super) times: f64,
    /// The prediction for the grid.
    pub(super) forecast: JobForecast,
    /// Predictions for changes.
    pub(super) changes: Vec<Changed>,
    /// What the predictions do not consider.
    pub(super) notes: Vec<String>,
}

/// The prediction for a change.
#[derive(Debug, Serialize)]
pub(super) struct Changed {
    /// Name of the change.
    pub(super) name: String,
    /// Number of PEs.
    pub(super) pes: u32,
    /// Time of the job, in nanoseconds.
    pub(super) total_ns: u64,
    /// Time of a step, in nanoseconds.
    pub(super) step_ns: Option<f64>,
}

impl Comparison {
    /// Predicts the job of a recording on a grid and on its changes.
    pub(super) fn new(
        recording: &Recording,
        model: &JobModel,
        grid: &GridSpec,
        placement: &ActorPlacement,
        args: &PlanArgs,
    ) -> Result<Self, CliError> {
        let forecast = model.forecast(grid, placement, args.times)?;
        let (mut changes, mut notes) = (Vec::new(), model.notes().to_vec());
        for Change { name, variation } in wanted(args) {
            let Some(other) = variation.of(grid) else {
                if !args.what_if.is_empty() {
                    notes.push(format!("{name} has no effect on this grid, or is not possible"));
                }
                continue;
            };
            match check_calls(recording, &other) {
                Err(_) if args.what_if.is_empty() => continue,
                checked => checked?,
            }
            // A grid of one site says nothing about the links of a second one.
            let is_guess = variation == Variation::OneMoreSite && grid.layout().site_count() == 1;
            let latency = is_guess.then(|| other.link_between(SiteId(0), SiteId(1)).latency);
            let guess = latency.map(|latency| {
                format!(
                    "the site of {name} is taken to be {latency} away, since the grid has no other"
                )
            });
            match changed(name, model, &other, placement, args.times) {
                // The recording has tasks at one site, and does not show the effect of another one.
                Err(ForecastError::OneSite) if args.what_if.is_empty() => {}
                change => {
                    changes.push(change?);
                    notes.extend(guess);
                }
            }
        }
        if !model.is_of_tasks() && args.what_if.is_empty() {
            let (name, other) = match placement {
                ActorPlacement::Created => {
                    let auto =
                        ActorPlacement::Strategy { name: STRATEGY.to_owned(), seed: args.seed };
                    (format!("strategy {STRATEGY}"), auto)
                }
                ActorPlacement::Strategy { .. } => {
                    ("without a strategy".to_owned(), ActorPlacement::Created)
                }
            };
            changes.push(changed(name, model, grid, &other, args.times)?);
        }
        let layout = grid.layout();
        let placement = match placement {
            ActorPlacement::Created => "created".to_owned(),
            ActorPlacement::Strategy { name, .. } => name.clone(),
        };
        Ok(Self {
            version: 1,
            job: recording.header.job.clone(),
            sites: layout.sites().map(|site| layout.site_name(site).to_owned()).collect(),
            placement,
            is_of_tasks: model.is_of_tasks(),
            times: args.times,
            forecast,
            changes,
            notes,
        })
    }
}

fn wanted(args: &PlanArgs) -> Vec<Change> {
    match args.what_if.is_empty() {
        false => args.what_if.clone(),
        true => {
            let change =
                |(name, variation): (&str, Variation)| Change { name: name.to_owned(), variation };
            CHANGES.map(change).into()
        }
    }
}

fn changed(
    name: String,
    model: &JobModel,
    grid: &GridSpec,
    placement: &ActorPlacement,
    times: f64,
) -> Result<Changed, ForecastError> {
    let JobForecast { total_ns, step_ns, .. } = model.forecast(grid, placement, times)?;
    Ok(Changed { name, pes: grid.layout().pe_count(), total_ns, step_ns })
}
