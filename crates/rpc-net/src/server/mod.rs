//! Processes that serve: as a registry, or as a member of another process's registry.

pub(crate) mod admission;
pub(crate) mod caller;
pub(crate) mod connection_table;
pub(crate) mod daemon;
pub(crate) mod executor;
#[cfg(test)]
pub(crate) mod faulty;
pub(crate) mod groups;
pub(crate) mod handler;
pub(crate) mod in_flight;
pub(crate) mod link_probes;
pub(crate) mod member;
pub(crate) mod object_cache;
pub(crate) mod priority_semaphore;
pub(crate) mod process;
pub(crate) mod task_server;
