//! A job to launch: what to run, where, and as which processes.

use crate::hosts::Hosts;
use crate::program::Program;
use crate::surroundings::Surroundings;
use gridspan::Settings;
use gridspan_topology::{GridSpec, NodeId};
use std::ffi::OsString;

/// A job to launch.
pub(crate) struct Launch<'a> {
    /// What to run.
    pub(crate) program: &'a Program,
    /// Where.
    pub(crate) spec: &'a GridSpec,
    /// As which processes.
    pub(crate) processes: Processes,
    /// Whether to print JSON.
    pub(crate) json: bool,
    /// Whether others may see that it runs and what it knows of its links, and the user is told of
    /// links that change.
    pub(crate) is_listed: bool,
    /// How many nodes may join at each site while it runs.
    pub(crate) guests: u32,
    /// Whether the job runs in virtual time.
    pub(crate) is_simulated: bool,
    /// What its processes find around them.
    pub(crate) surroundings: Surroundings,
}

/// Which processes a job consists of.
pub(crate) enum Processes {
    /// One for each node; they meet over the network.
    Nodes {
        /// Whether the links between sites are emulated.
        is_emulated: bool,
        /// Where they are started.
        hosts: Hosts,
        /// What overrides the program's own settings.
        settings: Box<Settings>,
        /// Further variables.
        variables: Vec<(&'static str, OsString)>,
    },
    /// One for the whole job, told by variables how to run it.
    Single {
        /// The variables.
        variables: Vec<(&'static str, OsString)>,
    },
}

impl Launch<'_> {
    /// The host or gateway to which a connection is opened for a node, if it runs elsewhere.
    pub(super) fn entry(&self, node: NodeId) -> Option<String> {
        match &self.processes {
            Processes::Nodes { hosts, .. } => hosts.entry(node).map(str::to_owned),
            Processes::Single { .. } => None,
        }
    }
}

/// A name for certificates, such as `ring-4711`: the program's, as far as it is of the letters that
/// are possible, and this process's number.
pub(super) fn job_name(program: &Program) -> String {
    let name = program.name().to_ascii_lowercase();
    let name = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let name: String = name.trim_matches('-').chars().take(24).collect();
    let name = if name.is_empty() { "job" } else { &name };
    format!("{name}-{}", std::process::id())
}
