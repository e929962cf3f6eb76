//! How long a recorded job takes on another grid.
//!
//! - [`JobModel`]: fitted from one or several [`Recording`](gridspan_record::Recording)s; a
//!   [`SizedRecording`] has the size of its problem.
//! - [`JobForecast`]: what the model predicts for a grid: the time of the job and of a step,
//!   [`PeForecast`]s, [`LinkForecast`]s and the [`Bottleneck`].
//! - [`ActorPlacement`]: where actors live. [`Variation`]: grids to compare with.
//! - [`ForecastError`]: why nothing can be predicted.
//!
//! # The model
//!
//! A job of actors is *replayed*. `build`, `dependencies` and `barriers` make a graph of its
//! recording (`trace`): the handlers, the messages between actors, the points at which actors send,
//! and the actions of main. `replay` runs this graph over modelled links. `costs` fits the costs of
//! messages, `growth` how handlers grow with the problem, and `placement` puts actors on the PEs of
//! the other grid.
//!
//! A job of tasks is not replayed, because the runtime decides while the job runs where tasks run
//! and what waits: `tasks` has a formula for it.
//!
//! Everything here is pure: no clock, no files, no threads.

mod barriers;
mod build;
mod costs;
mod dependencies;
mod error;
mod forecast;
mod growth;
mod model;
mod placement;
mod recorded_grid;
mod replay;
mod tasks;
mod trace;
mod what_if;

pub use error::ForecastError;
pub use forecast::{Bottleneck, JobForecast, LinkForecast, PeForecast};
pub use model::{JobModel, SizedRecording};
pub use placement::ActorPlacement;
pub use what_if::Variation;

#[cfg(test)]
mod fixtures;
