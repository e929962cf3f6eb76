//! The loops around PE machines, in real time.
//!
//! - [`embedded`]: one node, whose PEs are threads of this process.

pub mod embedded;
mod inbox;
mod main_thread;
mod switch;
mod worker;
