//! The processors that the processes of a recorded job may use on one host.

use gridspan::binding::Cpu;
use gridspan_record::RecordedHost;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of hardware threads of a host: more than any machine has.
const CPUS_MAX: usize = 1 << 16;

/// The processors of a host. Its nodes may have different ones.
#[derive(Debug, Default)]
pub(super) struct HostProcessors {
    /// The core of each hardware thread, by number.
    cores: BTreeMap<u32, u32>,
    /// The largest quota of a process, in hardware threads. The processes of a job on one host are
    /// in one control group, so that their quotas do not add up.
    quota: u32,
    /// Whether a process has no quota.
    is_unlimited: bool,
}

impl HostProcessors {
    /// Adds the processors of a process, and its quota if it has one.
    pub(super) fn add(&mut self, cpus: &[Cpu], quota: Option<u32>) {
        let room = CPUS_MAX.saturating_sub(self.cores.len());
        self.cores.extend(cpus.iter().take(room).map(|cpu| (cpu.number, cpu.core)));
        self.quota = self.quota.max(quota.unwrap_or(1));
        self.is_unlimited |= quota.is_none();
    }

    /// Describes the host of this name.
    pub(super) fn recorded(&self, name: &str) -> RecordedHost {
        let most = if self.is_unlimited { u32::MAX } else { self.quota };
        let cores: BTreeSet<u32> = self.cores.values().copied().collect();
        RecordedHost {
            name: name.to_owned(),
            cores: (cores.len() as u32).min(most),
            hardware_threads: (self.cores.len() as u32).min(most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hardware threads of cores with two of them each.
    fn cpus(numbers: impl IntoIterator<Item = u32>) -> Vec<Cpu> {
        let cpu = |number| Cpu { number, core: number / 2, numa: 0 };
        numbers.into_iter().map(cpu).collect()
    }

    /// Cores and hardware threads of a host with these processes.
    fn found(processes: &[(Vec<Cpu>, Option<u32>)]) -> (u32, u32) {
        let mut host = HostProcessors::default();
        processes.iter().for_each(|(cpus, quota)| host.add(cpus, *quota));
        let host = host.recorded("d01");
        (host.cores, host.hardware_threads)
    }

    #[test]
    fn processes_that_are_bound_to_different_processors_have_all_of_them() {
        assert_eq!(found(&[(cpus(0..4), None), (cpus(4..8), None)]), (4, 8));
        assert_eq!(found(&[(cpus(0..4), None), (cpus(0..4), None)]), (2, 4));
    }

    #[test]
    fn a_quota_limits_all_processes_of_a_host_together() {
        assert_eq!(found(&[(cpus(0..64), Some(3)), (cpus(0..64), Some(3))]), (3, 3));
        assert_eq!(found(&[(cpus(0..4), Some(3))]), (2, 3));
        assert_eq!(found(&[(cpus(0..8), Some(3)), (cpus(0..8), None)]), (4, 8));
    }
}
