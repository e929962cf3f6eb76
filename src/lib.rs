//! Gridspan runs one tightly-coupled parallel job across many sites as if they were one computer.
//!
//! A job is written as many small message-driven [actors](prelude::Actor), which the runtime
//! places. The same program runs on the threads of one process, on many processes connected by
//! QUIC, and in virtual time; [`main`] selects one of these by the environment, so that programs do
//! not depend on it.
//!
//! In this example, heat spreads along a ring of cells for ten steps, and none gets lost:
//!
//! ```
//! use gridspan::prelude::*;
//!
//! const CELLS: i32 = 100;
//! const STEPS: u32 = 10;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Cell { temperature: f64, step: u32, heard: [Vec<f64>; 2] }
//!
//! #[derive(Clone, Serialize, Deserialize)]
//! enum Msg { Start, Neighbour { step: u32, temperature: f64 } }
//!
//! impl Cell {
//!     fn tell(&self, cx: &mut Context<Self>) {
//!         for side in [1, CELLS - 1] {
//!             let neighbour = Ix1((cx.index().0 + side) % CELLS);
//!             let message = Msg::Neighbour { step: self.step, temperature: self.temperature };
//!             cx.send(&cx.collection().at(neighbour), message);
//!         }
//!     }
//! }
//!
//! impl Actor for Cell {
//!     type Index = Ix1;
//!     type Init = f64;
//!     type Message = Msg;
//!
//!     fn create(temperature: f64, _cx: &mut Context<Self>) -> Self {
//!         Cell { temperature, step: 0, heard: [vec![], vec![]] }
//!     }
//!
//!     fn handle(&mut self, message: Msg, cx: &mut Context<Self>) {
//!         match message {
//!             Msg::Start => self.tell(cx),
//!             // A neighbour may be one step ahead, never two.
//!             Msg::Neighbour { step, temperature } => {
//!                 self.heard[step as usize % 2].push(temperature);
//!             }
//!         }
//!         while self.step < STEPS && self.heard[self.step as usize % 2].len() == 2 {
//!             let around: f64 = self.heard[self.step as usize % 2].drain(..).sum();
//!             self.temperature = 0.5 * self.temperature + 0.25 * around;
//!             self.step += 1;
//!             if self.step < STEPS {
//!                 self.tell(cx);
//!             } else {
//!                 cx.contribute(Sum, self.temperature, To::main());
//!             }
//!         }
//!     }
//! }
//!
//! fn job() -> Job {
//!     Job::new("heat").actor::<Cell>().main(async |grid: Grid| {
//!         let warm = |at: Ix1| if at.0 == 0 { 100.0 } else { 20.0 };
//!         let cells = grid.create::<Cell>(Ix1::range(CELLS as u32), warm).await?;
//!         cells.broadcast(Msg::Start);
//!         let total: f64 = cells.reduction(Sum).await?;
//!         println!("{STEPS} steps later, {total:.6} degrees in all");
//!         if (total - 2080.0).abs() < 1e-9 { Ok(()) } else { Err("heat was lost".into()) }
//!     })
//! }
//!
//! fn main() -> ExitCode {
//!     gridspan::main(job())
//! }
//! ```
//!
//! A program that derives [`Serialize`](prelude::Serialize) also needs `serde` among its own
//! dependencies.
//!
//! - [`prelude`]: the names that most programs use.
//! - [`main`], [`run`]: start a job; [`Start`]: the driver, the seed and the strategy.
//! - [`variables`]: the environment variables.
//! - [`control`]: messages from a process of the job to the launcher that started it.
//! - [`links`]: the estimates of a job's links.
//! - [`runtime`], [`topology`], [`balance`], [`bcast`], [`rpc`], [`sim`]: the parts, for programs
//!   that need more.
//!   need more.

pub mod advice;
mod build;
pub mod control;
mod dump;
pub mod embed;
pub mod links;
mod node;
mod outcome;
pub mod prelude;
mod settings;
pub mod simulated;
mod start;
pub mod variables;

pub use gridspan_balance as balance;
pub use gridspan_bcast as bcast;
pub use gridspan_rpc as rpc;
pub use gridspan_runtime as runtime;
pub use gridspan_sim as sim;
pub use gridspan_topology as topology;
pub use gridspan_workflow as workflow;
pub use outcome::{EXIT_FAILED, EXIT_USAGE};
pub use settings::{Driver, Settings, Start};
pub use start::{main, run};

/// The README's example compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
