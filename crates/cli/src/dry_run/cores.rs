//! The processors of this machine to which the PEs of a job would be bound.

use crate::launch::{Launch, Processes, host_shares};
use gridspan::binding::{self, Binding, BindingError, Cpu, HostShare};
use gridspan_topology::NodeId;
use std::collections::BTreeMap;

/// The binding of the PEs of a job.
pub(super) struct Cores {
    binding: Binding,
    cpus: Result<Vec<Cpu>, BindingError>,
    shares: BTreeMap<NodeId, HostShare>,
}

impl Cores {
    /// Reads the processors of this machine; `None` if PEs would not be bound.
    pub(super) fn of(launch: &Launch<'_>) -> Option<Self> {
        if launch.binding == Binding::None {
            return None;
        }
        let layout = launch.spec.layout();
        let shares = match &launch.processes {
            Processes::Single { .. } => {
                let share = HostShare { before: 0, pes: layout.pe_count() };
                layout.nodes().map(|node| (node, share)).collect()
            }
            Processes::Nodes { .. } => {
                let members: Vec<NodeId> = launch.members().collect();
                let shares = host_shares(&launch.processes, &launch.roster, &members);
                members.into_iter().zip(shares).collect()
            }
        };
        let cpus = binding::cpus().map_err(BindingError::System);
        Some(Self { binding: launch.binding, cpus, shares })
    }

    /// How PEs would be bound, as a word.
    pub(super) fn word(&self) -> &'static str {
        self.binding.name()
    }

    /// The heading of processes whose PEs would be bound.
    pub(super) fn heading(&self) -> &'static str {
        match self.binding {
            Binding::Core => "\nprocesses, of which each PE is bound to a core:\n",
            Binding::Numa => {
                "\nprocesses, of which each PE is bound to the NUMA domain of a core:\n"
            }
            _ => "\nprocesses:\n",
        }
    }

    /// The processors for each of the `pes` PEs of a process of this machine whose first node is
    /// `node`, or why they would not be bound.
    pub(super) fn assign(&self, node: NodeId, pes: u32) -> Result<Vec<Vec<u32>>, String> {
        let cpus = self.cpus.as_ref().map_err(ToString::to_string)?;
        let share = self.shares.get(&node).copied().unwrap_or(HostShare { before: 0, pes });
        binding::assign(self.binding, cpus, share, pes).map_err(|error| error.to_string())
    }
}

/// Shortens a list of numbers in ascending order, such as `0-3,8`.
pub(super) fn list(numbers: &[u32]) -> String {
    let parts = numbers.chunk_by(|one, next| one + 1 == *next).map(|part| match part {
        [one] => one.to_string(),
        part => format!("{}-{}", part[0], part[part.len() - 1]),
    });
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_as_short_as_those_of_the_kernel() {
        assert_eq!(list(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(list(&[]), "");
    }
}
