//! The binding of PEs to the cores of their machine.
//!
//! A PE is a thread, which the system may move from core to core. A bound PE keeps its caches and,
//! on machines with several NUMA domains, its local memory. The nodes of a job on one host share
//! out its cores: node after node, each PE gets the next core. A node may use the processors that
//! the system allows to its process: all of the machine, or those of a container or of a task of
//! Slurm. Two jobs on one machine bind their PEs to the same cores, unless containers or Slurm
//! separate them, because jobs do not know of each other.
//!
//! Binding needs Linux and the feature `net`.

use gridspan_runtime::{Job, PeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use thiserror::Error;

/// The processors to which a PE is bound.
///
/// ```
/// use gridspan::Settings;
/// use gridspan::binding::Binding;
///
/// let settings = Settings::default().with_bind(Binding::Core);
/// assert_eq!(settings.bind.map(|bind| bind.to_string()).as_deref(), Some("core"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Binding {
    /// To nothing: the system chooses.
    None,
    /// To a core, with all its hardware threads.
    Core,
    /// To the NUMA domain of a core.
    Numa,
}

impl Binding {
    /// Reads a name: `none`, `core` or `numa`.
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::None, Self::Core, Self::Numa].into_iter().find(|it| it.name() == name)
    }

    /// Returns its name: `none`, `core` or `numa`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Core => "core",
            Self::Numa => "numa",
        }
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The share of a node in the PEs on its host.
///
/// ```
/// use gridspan::binding::HostShare;
///
/// // The second of two nodes with two PEs each.
/// let share = HostShare { before: 2, pes: 4 };
/// assert!(share.before < share.pes);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostShare {
    /// Number of PEs of the nodes before it on the host.
    pub before: u32,
    /// Number of PEs of all nodes of the job on the host.
    pub pes: u32,
}

/// A processor that a process may use: a hardware thread, as the system counts them.
///
/// ```
/// use gridspan::binding::{Binding, Cpu, HostShare, assign};
///
/// // Two cores with two hardware threads each.
/// let cpus = [(0, 0), (1, 1), (2, 0), (3, 1)].map(|(number, core)| Cpu { number, core, numa: 0 });
/// let cores = assign(Binding::Core, &cpus, HostShare { before: 0, pes: 2 }, 2)?;
/// assert_eq!(cores, [[0, 2], [1, 3]]);
/// # Ok::<(), gridspan::binding::BindingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number.
    pub number: u32,
    /// The lowest number among the processors of its core.
    pub core: u32,
    /// Number of its NUMA domain.
    pub numa: u32,
}

/// PEs cannot be bound. The job runs without a binding.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindingError {
    /// There are more PEs than cores.
    #[error(
        "no PE is bound: {pes} PEs on this host are more than the {cores} cores that they may use"
    )]
    Crowded {
        /// Number of the job's PEs on the host.
        pes: u32,
        /// Number of cores that they may use.
        cores: usize,
    },
    /// The system does not report its processors.
    #[error("no PE is bound: {0}")]
    System(#[from] io::Error),
}

/// Returns the processors for each of the `pes` PEs of a node; none without a binding.
///
/// # Errors
///
/// [`BindingError::Crowded`]
pub fn assign(
    binding: Binding,
    cpus: &[Cpu],
    share: HostShare,
    pes: u32,
) -> Result<Vec<Vec<u32>>, BindingError> {
    if binding == Binding::None {
        return Ok(Vec::new());
    }
    // The domain comes first in the order, so that neighbouring PEs are in one domain.
    let mut cores: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    let mut domains: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for cpu in cpus {
        cores.entry((cpu.numa, cpu.core)).or_default().push(cpu.number);
        domains.entry(cpu.numa).or_default().push(cpu.number);
    }
    let all = share.pes.max(share.before.saturating_add(pes));
    if all as usize > cores.len() {
        return Err(BindingError::Crowded { pes: all, cores: cores.len() });
    }
    let own = cores.iter().skip(share.before as usize).take(pes as usize);
    let of_core = |((numa, _), threads): (&(u32, u32), &Vec<u32>)| match binding {
        Binding::Numa => domains[numa].clone(),
        Binding::Core | Binding::None => threads.clone(),
    };
    Ok(own.map(of_core).collect())
}

/// Returns the processors that this process may use.
///
/// # Errors
///
/// If the system does not report them.
#[cfg(all(feature = "net", target_os = "linux"))]
pub fn cpus() -> io::Result<Vec<Cpu>> {
    use rustix::thread::{CpuSet, sched_getaffinity};

    let allowed = sched_getaffinity(None)?;
    let numbers = (0..CpuSet::MAX_CPU).filter(|&number| allowed.is_set(number));
    Ok(numbers.map(|number| system::cpu(number as u32)).collect())
}

/// Returns the processors that this process may use.
///
/// # Errors
///
/// Always: only Linux, with the feature `net`, reports them.
#[cfg(not(all(feature = "net", target_os = "linux")))]
pub fn cpus() -> io::Result<Vec<Cpu>> {
    let text = "this needs Linux, and the feature `net` of the crate `gridspan`";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// Binds the PEs of a job that run in this process. If that fails, also returns the error.
pub(crate) fn bind(
    job: Job,
    binding: Option<Binding>,
    own: Range<u32>,
    share: HostShare,
) -> (Job, Option<BindingError>) {
    let binding = binding.unwrap_or(Binding::None);
    let assigned = match binding {
        Binding::None => Ok(Vec::new()),
        binding => cpus()
            .map_err(BindingError::System)
            .and_then(|cpus| assign(binding, &cpus, share, own.len() as u32)),
    };
    match assigned {
        Ok(cpus) => (job.bind_pes(own.map(PeId).zip(cpus)), None),
        Err(error) => (job.bind_pes([]), Some(error)),
    }
}

/// Reads the files in which Linux describes its processors.
#[cfg(all(feature = "net", target_os = "linux"))]
mod system {
    use super::Cpu;
    use std::fs;
    use std::path::Path;

    /// The folder with a folder for each processor.
    const FOLDER: &str = "/sys/devices/system/cpu";
    /// The files with the processors of a core; older systems have the second one.
    const CORE: [&str; 2] = ["topology/core_cpus_list", "topology/thread_siblings_list"];

    /// Looks up a processor. Without a description it counts as a separate core, in domain 0.
    pub(super) fn cpu(number: u32) -> Cpu {
        let folder = Path::new(FOLDER).join(format!("cpu{number}"));
        let list = CORE.iter().find_map(|file| fs::read_to_string(folder.join(file)).ok());
        let core = list.and_then(|list| first(&list)).unwrap_or(number);
        let names = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut domains = names
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok());
        Cpu { number, core, numa: domains.next().unwrap_or(0) }
    }

    /// The first number of a list such as `0-1,4`.
    pub(super) fn first(list: &str) -> Option<u32> {
        list.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two domains of two cores with two hardware threads each, numbered as on most servers.
    fn server() -> Vec<Cpu> {
        let cpu = |number: u32| Cpu { number, core: number % 4, numa: number % 4 / 2 };
        (0..8).map(cpu).collect()
    }

    fn share(before: u32, pes: u32) -> HostShare {
        HostShare { before, pes }
    }

    #[test]
    fn nodes_of_a_host_share_out_its_cores_without_overlap() {
        let first = assign(Binding::Core, &server(), share(0, 3), 1).unwrap();
        let second = assign(Binding::Core, &server(), share(1, 3), 2).unwrap();
        assert_eq!(first, [[0, 4]]);
        assert_eq!(second, [[1, 5], [2, 6]]);
    }

    #[test]
    fn a_pe_bound_to_a_domain_has_all_its_processors() {
        let bound = assign(Binding::Numa, &server(), share(1, 3), 2).unwrap();
        assert_eq!(bound, [[0, 1, 4, 5], [2, 3, 6, 7]]);
    }

    #[test]
    fn only_processors_that_the_process_may_use_count() {
        // A container with one hardware thread of core 1, and both of core 3.
        let allowed: Vec<Cpu> =
            server().into_iter().filter(|cpu| [5, 3, 7].contains(&cpu.number)).collect();
        let bound = assign(Binding::Core, &allowed, share(0, 2), 2).unwrap();
        assert_eq!(bound, [vec![5], vec![3, 7]]);
        let error = assign(Binding::Core, &allowed, share(0, 3), 1).unwrap_err();
        let text = "no PE is bound: 3 PEs on this host are more than the 2 cores that they may use";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn shares_that_contradict_themselves_bind_nothing() {
        assert!(assign(Binding::Core, &server(), share(u32::MAX, 1), 2).is_err());
        assert!(assign(Binding::Core, &server(), share(3, 0), 2).is_err());
        assert!(assign(Binding::Core, &[], share(0, 1), 1).is_err());
        assert!(assign(Binding::None, &[], share(0, 9), 9).unwrap().is_empty());
    }

    #[test]
    fn bindings_have_names() {
        for name in ["none", "core", "numa"] {
            assert_eq!(Binding::by_name(name).unwrap().to_string(), name);
        }
        assert_eq!(Binding::by_name("socket"), None);
    }

    #[test]
    #[cfg(all(feature = "net", target_os = "linux"))]
    fn this_machine_has_a_core_for_each_of_its_processors() {
        assert_eq!(["0-1,4\n", "12\n", "x"].map(system::first), [Some(0), Some(12), None]);
        let cpus = cpus().unwrap();
        assert!(!cpus.is_empty());
        for cpu in &cpus {
            assert!(cpu.core <= cpu.number, "{cpu:?}");
        }
        let bound = assign(Binding::Core, &cpus, share(0, 1), 1).unwrap();
        assert!(bound[0].iter().all(|number| cpus.iter().any(|cpu| cpu.number == *number)));
    }
}
