//! The batch system in which this process runs, recognised by environment variables.

use crate::slurm::{Allocation, AllocationError, Variables};
use std::path::PathBuf;

/// Prefixes of the variables of batch systems.
const BEGINNINGS: [&str; 3] = ["SLURM", "PBS_", "LSB_"];

/// An allocation of a batch system.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    /// An allocation of Slurm, whose nodes `srun` starts.
    Slurm(Allocation),
    /// The name of the batch system, and a file with the hosts, which ssh reaches.
    HostFile(&'static str, PathBuf),
    /// The name of a variable of LSF and its value: hosts and numbers of slots, alternating.
    Pairs(&'static str, String),
}

impl Batch {
    /// Reads the variables; `None` outside of batch systems.
    pub(crate) fn from_variables(variables: &Variables) -> Result<Option<Self>, AllocationError> {
        let set = |name: &str| variables.get(name).filter(|value| !value.is_empty());
        if let Some(allocation) = Allocation::from_variables(variables)? {
            return Ok(Some(Self::Slurm(allocation)));
        }
        let file = |system, name| Some(Self::HostFile(system, set(name)?.into()));
        let pairs = || Some(Self::Pairs("LSB_MCPU_HOSTS", set("LSB_MCPU_HOSTS")?.clone()));
        let hosts = file("pbs", "PBS_NODEFILE").or_else(|| file("lsf", "LSB_DJOB_HOSTFILE"));
        Ok(hosts.or_else(pairs))
    }

    /// Reads the variables of this process.
    pub(crate) fn of_environment() -> Result<Option<Self>, AllocationError> {
        let is_of_batch = |name: &str| BEGINNINGS.iter().any(|begin| name.starts_with(begin));
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok().filter(|name| is_of_batch(name))?, value))
        });
        let texts =
            variables.filter_map(|(name, value)| Some((name, value.into_string().ok()?))).collect();
        Self::from_variables(&texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(set: &[(&str, &str)]) -> Option<Batch> {
        let set = set.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Batch::from_variables(&set).unwrap()
    }

    #[test]
    fn batch_systems_are_recognised_by_their_variables() {
        let pbs = ("PBS_NODEFILE", "/var/spool/nodes");
        assert_eq!(batch(&[pbs]), Some(Batch::HostFile("pbs", "/var/spool/nodes".into())));
        let lsf = [("LSB_DJOB_HOSTFILE", "/tmp/hosts"), ("LSB_MCPU_HOSTS", "a 2 b 4")];
        assert_eq!(batch(&lsf), Some(Batch::HostFile("lsf", "/tmp/hosts".into())));
        let pairs = Batch::Pairs("LSB_MCPU_HOSTS", "a 2 b 4".to_owned());
        assert_eq!(batch(&lsf[1..]), Some(pairs));
        let slurm = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n1"), pbs];
        assert!(matches!(batch(&slurm), Some(Batch::Slurm(_))), "Slurm can set those of PBS too");
        assert_eq!(batch(&[("PBS_NODEFILE", ""), ("HOME", "/")]), None);
    }
}
