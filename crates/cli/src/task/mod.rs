//! Tasks of Slurm that run nodes, and the protocol between their agents and the launcher.
//!
//! One `srun` starts all tasks, and mixes what they print. So a task runs an agent, `gridctl
//! __task`, in place of the node. The agent starts the node, and passes on its input and output
//! over a connection to the launcher, as `sshd` does for a node over ssh.
//!
//! # Start
//!
//! 1. The agent reads an [`EnrolmentToken`](gridspan_runtime::net::EnrolmentToken) from its
//!    standard input, which `srun` copies to all tasks, and connects to the launcher.
//! 2. It makes the key of its node, and sends a [`Hello`] with the secret, the number of its task
//!    (`SLURM_PROCID`), its host and the public half of the key.
//! 3. The launcher answers with the program of the node, or refuses: a secret is good for
//!    one enrolment of each task.
//! 4. The agent starts the program. The bundle of the node is the first line of its input. It
//!    contains a certificate, and the agent adds the key and the address of this host.
//!
//! # Steady state
//!
//! Both sides send [`Frame`]s. The agent passes lines of the launcher to the pipe of the node, and
//! output of the node to the launcher. At the end of the allocation, Slurm sends SIGTERM to the
//! agent, which then announces to the launcher that its node leaves the job.
//!
//! # Failure
//!
//! The end of the connection counts as the end of the other side. An agent kills its node then; the
//! launcher considers the node lost. Both send heartbeats, and end a connection that is
//! [silent](Watched) for two minutes: TCP itself may take a quarter of an hour to notice that a
//! host has gone, if data was on its way there.

mod agent;
mod bundle;
#[cfg(test)]
pub(crate) mod fixtures;
mod frame;
mod hello;
mod output;
mod watched;

pub(crate) use agent::run;
pub(crate) use frame::{Frame, TO_LAUNCHER_BYTES_MAX};
pub(crate) use hello::{HELLO_BYTES_MAX, Hello};
pub(crate) use output::Output;
pub(crate) use watched::{BEAT, Watched};
