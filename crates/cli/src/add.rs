//! `gridctl add`: lets nodes join a running job: nodes of the job that take no part now, or new
//! nodes. New nodes are on any hosts, or are tasks of another allocation of Slurm.

use crate::args::AddArgs;
use crate::batch::Batch;
use crate::error::{AddCommandError, CliError};
use crate::hosts::locate;
use crate::nodes::{accepted, answered_soon, change, find, unexpected};
use crate::request::{Answer, NewNodes, NodeState, Pending, Request, send};
use crate::roster::{NewNode, Roster};
use crate::slurm::{Allocation, SCONTROL, allocation_of, scontrol_arguments};
use crate::status::{Reach, Status};
use gridspan_topology::{HostSpec, NodeId, SiteId, Speed, expand_hosts};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::process::{Command, ExitCode, Stdio};

/// Largest number of hosts that one command names.
const HOSTS_MAX: usize = 1024;
/// Host of new nodes at a site without hosts, if the user names none.
const THIS_MACHINE: &str = "localhost";

/// Lets nodes join a job.
pub(crate) fn add(args: &AddArgs) -> Result<ExitCode, CliError> {
    let job = find(args.job.as_deref())?;
    let request = match args.are_new() {
        true => Request::AddNew(new_nodes(&job, args)?),
        false => Request::Add { nodes: known(&job.whole, &args.nodes)? },
    };
    // This request is sent first, because the job may end as soon as the nodes have joined.
    let end = args.here.then(|| send(&job, &Request::Wait)).transpose();
    let end = end.map_err(|error| CliError::Unreachable { job: job.id.clone(), error })?;
    let added = change(&job, &request)?;
    end.map_or(Ok(added), |end| hold(&job, &end))
}

/// Waits for the end of the job, since Slurm releases an allocation when the command for which it
/// was made ends. Returns the exit code of the job.
fn hold(job: &Status, end: &Pending) -> Result<ExitCode, CliError> {
    match accepted(job, end.answer(None))? {
        Answer::Ended(code) => Ok(ExitCode::from(code)),
        _ => Err(unexpected()),
    }
}

/// Finds the nodes of the job that these names select.
fn known(roster: &Roster, names: &[String]) -> Result<BTreeSet<NodeId>, CliError> {
    roster.named(names).map_err(|name| {
        CliError::Add(AddCommandError::NoNodeToAdd { name: name.to_owned(), nodes: roster.names() })
    })
}

fn new_nodes(job: &Status, args: &AddArgs) -> Result<NewNodes, CliError> {
    let roster = &job.whole;
    let site = site(roster, args.site.as_deref())?;
    let allocation = match (&args.slurm, args.here) {
        (Some(job), _) => Some(described(job)?),
        (None, true) => Some(of_environment()?),
        (None, false) => None,
    };
    if let Some(allocation) = allocation {
        let node = |host| NewNode { site: site.clone(), host };
        let nodes = allocation.hosts().map(node).collect();
        let addresses = BTreeMap::new();
        return Ok(NewNodes { nodes, addresses, allocation: Some(allocation) });
    }
    let hosts = match args.count {
        Some(count) => in_turn(roster, &states(job)?, &site, count),
        None => expanded(&args.nodes)?,
    };
    let addresses = match job.reach {
        Reach::Hosts => addresses(&hosts)?,
        Reach::Here | Reach::Tasks => BTreeMap::new(),
    };
    let (pes, speed) = like(roster, &site);
    let pes = args.pes.map_or(pes, |pes| pes.get());
    let node = |host: String| NewNode {
        site: site.clone(),
        host: HostSpec::new(host, pes).with_speed(speed),
    };
    Ok(NewNodes { nodes: hosts.into_iter().map(node).collect(), addresses, allocation: None })
}

/// Returns the site of the new nodes: the one that the user names, or the only one.
fn site(roster: &Roster, wanted: Option<&str>) -> Result<String, CliError> {
    let layout = roster.grid().layout();
    match (wanted, layout.site_count()) {
        (Some(site), _) => Ok(site.to_owned()),
        (None, 1) => Ok(layout.site_name(SiteId(0)).to_owned()),
        (None, _) => {
            let sites = layout.sites().map(|site| layout.site_name(site).to_owned()).collect();
            Err(AddCommandError::WhichSite { sites }.into())
        }
    }
}

/// Returns the PEs and the speed of the last node of a site, or of the last node of the job if the
/// site is new.
fn like(roster: &Roster, site: &str) -> (u32, Speed) {
    let last = roster.nodes().rev().find(|node| roster.site_name(*node) == site);
    let last = last.or(roster.nodes().next_back()).unwrap_or(NodeId(0));
    (roster.pes(last), roster.grid().speed(roster.position(last)))
}

/// The states of the nodes of a job.
fn states(job: &Status) -> Result<Vec<NodeState>, CliError> {
    match answered_soon(job, &Request::Nodes)? {
        Answer::Nodes(states) => Ok(states),
        _ => Err(unexpected()),
    }
}

/// Chooses the host of a site for each new node: one on which the fewest nodes take part.
fn in_turn(roster: &Roster, states: &[NodeState], site: &str, count: u32) -> Vec<String> {
    let mut hosts: Vec<(u32, &str)> = Vec::new();
    for node in roster.nodes().filter(|node| roster.site_name(*node) == site) {
        let takes_part = states.get(node.index()).is_some_and(|state| *state != NodeState::Absent);
        let name = roster.host(node);
        match hosts.iter_mut().find(|(_, host)| *host == name) {
            Some((nodes, _)) => *nodes += u32::from(takes_part),
            None => hosts.push((u32::from(takes_part), name)),
        }
    }
    if hosts.is_empty() {
        hosts.push((0, THIS_MACHINE));
    }
    let next = |_| {
        let least = hosts.iter_mut().min_by_key(|(nodes, _)| *nodes);
        least.map(|(nodes, host)| {
            *nodes += 1;
            (*host).to_owned()
        })
    };
    (0..count).filter_map(next).collect()
}

/// Expands names of hosts, such as `b[7-9]`.
fn expanded(patterns: &[String]) -> Result<Vec<String>, CliError> {
    let mut hosts = Vec::new();
    for pattern in patterns {
        let more = expand_hosts(pattern, HOSTS_MAX - hosts.len())
            .map_err(|error| AddCommandError::HostPattern { pattern: pattern.clone(), error })?;
        hosts.extend(more);
    }
    Ok(hosts)
}

/// Looks up the addresses of the hosts that are not this machine.
fn addresses(hosts: &[String]) -> Result<BTreeMap<String, IpAddr>, CliError> {
    let mut found = BTreeMap::new();
    for host in hosts.iter().collect::<BTreeSet<_>>() {
        let address =
            locate(host).map_err(|error| CliError::Address { host: host.clone(), error })?;
        found.extend(address.map(|address| (host.clone(), address)));
    }
    Ok(found)
}

/// The allocation of Slurm in which this process runs.
fn of_environment() -> Result<Allocation, CliError> {
    let id = std::env::var("SLURM_JOB_ID").unwrap_or_default();
    match Batch::of_environment()? {
        Some(Batch::Slurm(allocation)) => Ok(allocation.of_job(id)),
        _ => Err(AddCommandError::NotInAllocation.into()),
    }
}

/// The allocation of Slurm with this number, as `scontrol` describes it.
fn described(job: &str) -> Result<Allocation, CliError> {
    let mut command = Command::new(SCONTROL);
    let said = command.args(scontrol_arguments(job)).stdin(Stdio::null()).output();
    let said = said.map_err(|error| CliError::Start { path: SCONTROL.into(), error })?;
    if !said.status.success() {
        let reason = String::from_utf8_lossy(&said.stderr).trim().to_owned();
        return Err(AddCommandError::NoAllocation { job: job.to_owned(), reason }.into());
    }
    let text = String::from_utf8_lossy(&said.stdout);
    allocation_of(job, &text).map_err(|error| {
        CliError::Add(AddCommandError::NoAllocation {
            job: job.to_owned(),
            reason: error.to_string(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::GridSpec;

    fn roster() -> Roster {
        let text =
            "[site.a]\nhosts = [\"x1\", \"x2\", \"x2\"]\npes = 3\n[site.b]\nhosts = [\"y1\"]";
        GridSpec::from_toml(text).unwrap().into()
    }

    #[test]
    fn the_hosts_with_the_fewest_nodes_get_new_ones() {
        use NodeState::{Absent, Leaving, Member};
        let roster = roster();
        let all = [Member, Member, Leaving, Member];
        assert_eq!(in_turn(&roster, &all, "a", 4), ["x1", "x1", "x2", "x1"]);
        let some = [Member, Absent, Absent, Member];
        assert_eq!(in_turn(&roster, &some, "a", 3), ["x2", "x1", "x2"]);
        assert_eq!(in_turn(&roster, &all, "c", 2), ["localhost", "localhost"]);
    }

    #[test]
    fn new_nodes_are_like_the_last_one_of_their_site() {
        let mut roster = roster();
        assert_eq!((like(&roster, "a").0, like(&roster, "c").0), (3, 1));
        let host = HostSpec::new("x9", 5).with_speed("0.5".parse().unwrap());
        roster.add(&[NewNode { site: "a".to_owned(), host }]).unwrap();
        assert_eq!(like(&roster, "a"), (5, "0.5".parse().unwrap()));
        assert_eq!(like(&roster, "b").0, 1);
    }

    #[test]
    fn the_site_is_named_unless_there_is_one_only() {
        assert!(
            matches!(site(&roster(), None), Err(CliError::Add(AddCommandError::WhichSite { sites })) if sites == ["a", "b"])
        );
        assert_eq!(site(&roster(), Some("c")).unwrap(), "c");
        assert_eq!(site(&GridSpec::single(2).into(), None).unwrap(), "local");
    }

    #[test]
    fn patterns_of_hosts_are_expanded_within_a_limit() {
        let expanded = |patterns: &[&str]| {
            expanded(&patterns.iter().map(|&pattern| pattern.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(expanded(&["b[7-8]", "c"]).unwrap(), ["b7", "b8", "c"]);
        assert!(matches!(
            expanded(&["b[1-1000]", "c[1-25]"]),
            Err(CliError::Add(AddCommandError::HostPattern { .. }))
        ));
    }
}
