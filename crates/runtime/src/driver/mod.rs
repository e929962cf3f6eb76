//! Runs the state machines of PEs on threads, in real time.
//!
//! - [`embedded`]: all PEs are threads of this process; optionally several nodes with emulated
//!   links.
//! - [`cluster`]: this process is one node of a job (feature `net`).
//!
//! Inside: `worker` is the thread of a PE, `park` its sleep, `inbox` its queue of packets, `switch`
//! delivers packets to other PEs, `net_driver` sends frames to other nodes. `watchdog` reports on
//! PEs that cannot answer because they are inside a handler. `checkpoints` keeps checkpoints in
//! memory and files. `gauge`, `readings` and `traffic` count what a node does, for tools that watch
//! the job; `processor_time` measures what that costs. `affinity` binds threads to processors.

mod affinity;
#[cfg(feature = "net")]
mod arrivals;
#[cfg(feature = "net")]
mod brake;
mod checkpoints;
#[cfg(feature = "net")]
pub mod cluster;
mod coordinator;
mod cores;
pub mod embedded;
mod ending;
mod gauge;
mod handle;
mod inbox;
#[cfg(feature = "net")]
mod locks;
#[cfg(feature = "net")]
mod loss;
mod main_state;
mod main_thread;
mod memory;
#[cfg(feature = "net")]
mod net_driver;
mod node;
mod park;
mod processor_speed;
mod processor_time;
mod readings;
mod share;
mod switch;
#[cfg(feature = "net")]
mod traffic;
mod watchdog;
mod worker;

pub use checkpoints::{CheckpointArchive, CheckpointKeeper, Witness};
pub use cores::cores;
pub use handle::NodeHandle;
pub use memory::Memory;
