//! Reads the hosts and CPUs of an allocation from the output of `scontrol --details show job`.
//!
//! The output is one line of words. It lists the hosts in groups, each of hosts with the same CPUs:
//! `Nodes=n[1-2] CPU_IDs=0-3 Mem=0 GRES=`.

use super::allocation::Allocation;
use super::node_list::{self, NodeListError};
use gridspan_topology::MAX_HOSTS;
use thiserror::Error;

/// The program that describes an allocation.
pub(crate) const SCONTROL: &str = "scontrol";
/// Largest number of characters of its output in an error.
const SHOWN_BYTES: usize = 200;
/// Largest number of CPUs of a host.
const CPUS_MAX: u64 = 1 << 20;

/// Returns the arguments with which [`SCONTROL`] describes an allocation.
pub(crate) fn scontrol_arguments(job: &str) -> [&str; 5] {
    ["--details", "--oneliner", "show", "job", job]
}

/// The description of an allocation cannot be used.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum DescriptionError {
    /// The text has another form.
    #[error("scontrol says nothing about hosts and CPUs: {0:?}")]
    Form(String),
    /// The number stands for several allocations.
    #[error(
        "it has several parts, such as the tasks of an array; name one as `squeue` shows it, or run \
         `gridctl add --here` inside it"
    )]
    Several,
    /// The allocation has no hosts now.
    #[error("the allocation does not run; its state is {0}")]
    State(String),
    /// A node list cannot be read.
    #[error("the hosts of the allocation: {0}")]
    Nodes(#[from] NodeListError),
}

/// Reads the allocation with this number: one node on each host, with all CPUs that the allocation
/// has there.
pub(crate) fn allocation_of(job: &str, text: &str) -> Result<Allocation, DescriptionError> {
    let form = || DescriptionError::Form(text.chars().take(SHOWN_BYTES).collect());
    let value_of = |word: &str, key: &str| {
        let value = word.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        value.map(str::to_owned)
    };
    let mut words = text.split_whitespace();
    let mut numbers = words.clone().filter_map(|word| value_of(word, "JobId"));
    // A task of an array, such as `7_2`, has another number for `srun`.
    let number = numbers.next().filter(|_| job.contains('_'));
    if numbers.next().is_some() {
        return Err(DescriptionError::Several);
    }
    let state = words.clone().find_map(|word| value_of(word, "JobState")).ok_or_else(form)?;
    if state != "RUNNING" {
        return Err(DescriptionError::State(state));
    }
    let mut hosts: Vec<(String, u32)> = Vec::new();
    while let Some(word) = words.next() {
        let Some(list) = value_of(word, "Nodes") else { continue };
        let cpus = words.clone().next().and_then(|word| value_of(word, "CPU_IDs"));
        let cpus = cpus.as_deref().and_then(count).ok_or_else(form)?;
        let names = node_list::expand(&list, MAX_HOSTS - hosts.len())?;
        hosts.extend(names.into_iter().map(|name| (name, cpus)));
    }
    match hosts.is_empty() {
        true => Err(form()),
        false => Ok(Allocation::of_hosts(hosts, number.unwrap_or_else(|| job.to_owned()))),
    }
}

/// Returns how many numbers a list such as `0-3,8` has.
fn count(list: &str) -> Option<u32> {
    let mut all = 0;
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        all += u64::from(last.checked_sub(first)?) + 1;
    }
    u32::try_from(all).ok().filter(|&all| all > 0 && u64::from(all) <= CPUS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Slurm 22.05 prints it, shortened.
    const TEXT: &str = "JobId=9 JobName=interactive UserId=me(1000) JobState=RUNNING \
        Reason=None NodeList=n[1-3] BatchHost=n1 NumNodes=3 NumCPUs=7 NumTasks=3 CPUs/Task=1 \
        TRES=cpu=7,node=3,billing=7 JOB_GRES=(null)   Nodes=n[1-2] CPU_IDs=0-1 Mem=0 GRES=   \
        Nodes=n3 CPU_IDs=0,4-5 Mem=0 GRES= MinCPUsNode=1 Power=\n";

    fn nodes(text: &str) -> Result<Vec<(String, u32)>, DescriptionError> {
        let allocation = allocation_of("9", text)?;
        Ok(allocation.hosts().map(|host| (host.name, host.pes)).collect())
    }

    #[test]
    fn each_host_has_a_node_with_the_cpus_of_the_allocation() {
        let expected = [("n1", 2), ("n2", 2), ("n3", 3)];
        assert_eq!(nodes(TEXT).unwrap(), expected.map(|(name, pes)| (name.to_owned(), pes)));
    }

    #[test]
    fn a_number_of_several_allocations_is_refused_and_a_task_of_an_array_has_its_own() {
        let text =
            |number: u32| format!("JobId={number} JobState=RUNNING Nodes=n1 CPU_IDs=0 Mem=0\n");
        assert_eq!(nodes(&(text(9) + &text(10))), Err(DescriptionError::Several));
        let of = |job: &str| allocation_of(job, &text(12)).unwrap();
        assert_eq!(of("9_2"), of("12"));
        assert_ne!(of("9+1"), of("12"));
    }

    #[test]
    fn an_allocation_without_hosts_and_other_texts_are_refused() {
        let pending = "JobId=9 JobState=PENDING NodeList=";
        assert_eq!(nodes(pending), Err(DescriptionError::State("PENDING".to_owned())));
        let long = format!("JobState=RUNNING {}", "ä ".repeat(1000));
        for text in ["", "slurm_load_jobs error", "JobState=RUNNING NodeList=n1", &long] {
            assert!(matches!(nodes(text), Err(DescriptionError::Form(_))), "{text:?}");
        }
        for cpus in ["", "a", "3-1", "0-", "0-4000000000", "0-4000000000,0-4000000000"] {
            let text = format!("JobState=RUNNING Nodes=n1 CPU_IDs={cpus} Mem=0");
            assert!(matches!(nodes(&text), Err(DescriptionError::Form(_))), "{cpus:?}");
        }
        let many = "JobState=RUNNING Nodes=n[0-9999999999] CPU_IDs=0 Mem=0";
        assert!(matches!(nodes(many), Err(DescriptionError::Nodes(_))));
    }
}
