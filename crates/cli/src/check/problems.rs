//! Decides which facts about the hosts prevent a job, or slow it down.

use super::advice::{Wanted, advice};
use super::finding::{Finding, Findings, Level};
use super::protocol::{Facts, ProgramState, SIZES};
use super::subject::Subject;
use super::survey::{Answers, Found};
use super::traffic::Traffic;
use crate::names::abbreviated;
use std::collections::{BTreeMap, BTreeSet};

/// Denominator of the share of memory that should be free; checkpoints leave as much free.
const FREE_SHARE: u64 = 16;
/// Free bytes that the disk should have.
const DISK_BYTES_MIN: u64 = 1_000_000_000;
/// Difference of clocks that matters to readers of logs.
const CLOCK_NS_MAX: u128 = 1_000_000_000;
/// Part of a core that the system itself and the check may use.
const IDLE_LOAD: f64 = 0.5;
/// What to do if a host has more PEs than free cores.
const FEWER_PES: &str = "give it fewer PEs: `pes` in a grid file, slots in a host file";

/// Returns the errors and warnings, the most important first. The program should have the digest
/// `reference`.
pub(super) fn problems(
    subjects: &[Subject],
    found: &Found,
    traffic: &Traffic,
    wanted: &Wanted<'_>,
    reference: Option<&str>,
) -> Vec<Finding> {
    let mut findings = Findings::default();
    for (host, (subject, outcome)) in subjects.iter().zip(&found.hosts).enumerate() {
        if let Err(reason) = &subject.address {
            let what = format!("its address is not found: {reason}");
            let remedy = "write a name that the DNS or /etc/hosts knows, since nodes do not ask \
                          ssh for addresses";
            findings.add(Level::Error, host, what, remedy);
        }
        match outcome {
            Err(failure) => {
                let (level, what, remedy) = advice(failure, subject, wanted);
                findings.add(level, host, what, remedy);
            }
            Ok(answers) => {
                of_program(host, &answers.facts, wanted, reference, &mut findings);
                of_resources(host, subject, answers, &mut findings);
                if answers.datagrams.is_none() && !found.peers[host].is_empty() {
                    let what = "the check ended there before its datagrams were counted";
                    findings.add(Level::Error, host, what, "run the check again");
                }
            }
        }
    }
    let network = Network { subjects, traffic };
    (0..subjects.len()).for_each(|host| network.look(host, &mut findings));
    findings.finish()
}

/// Returns the digest that the program should have: that of the program on this machine, if
/// its state `here` is executable, or else the most frequent one on the hosts.
pub(super) fn reference(here: &ProgramState, found: &Found) -> Option<String> {
    if let ProgramState::Executable { digest } = here {
        return Some(digest.clone());
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for answers in found.hosts.iter().flatten() {
        if let ProgramState::Executable { digest } = &answers.facts.program {
            *counts.entry(digest).or_default() += 1;
        }
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(digest, _)| digest.to_owned())
}

/// Whether a program is the one with the digest `reference`.
pub(super) fn is_same(program: &ProgramState, reference: Option<&str>) -> bool {
    matches!(program, ProgramState::Executable { digest } if Some(digest.as_str()) == reference)
}

fn of_program(
    host: usize,
    facts: &Facts,
    wanted: &Wanted<'_>,
    reference: Option<&str>,
    findings: &mut Findings,
) {
    let path = wanted.program.display();
    let (level, what, remedy) = match &facts.program {
        program if is_same(program, reference) => return,
        // A job compares the message types of the two builds; an agent does not know these types.
        ProgramState::Executable { .. } => (
            Level::Warning,
            format!("{path} is another build there (its gridctl is {})", facts.version),
            "copy one build to all hosts; a job fails if the messages of the two have different \
             structures",
        ),
        ProgramState::Missing => (
            Level::Error,
            format!("{path} is not there"),
            "copy it there, or use a shared file system",
        ),
        ProgramState::NotExecutable => (
            Level::Error,
            format!("{path} cannot be executed there"),
            "`chmod +x` makes it a program",
        ),
        ProgramState::Unreadable { reason } => (
            Level::Error,
            format!("{path} cannot be read there: {reason}"),
            "check its permissions",
        ),
    };
    findings.add(level, host, what, remedy);
}

fn of_resources(host: usize, subject: &Subject, answers: &Answers, findings: &mut Findings) {
    let facts = &answers.facts;
    for port in &facts.ports {
        if let Some(error) = &port.error {
            let what = format!("UDP port {} cannot be used: {error}", port.port);
            let remedy = "end what listens there, or give the site another `port` in the grid file";
            findings.add(Level::Error, host, what, remedy);
        }
    }
    let mut warn = |what: String, remedy: &str| findings.add(Level::Warning, host, what, remedy);
    let (pes, cores) = (subject.pes, facts.cores);
    let busy = facts.load.unwrap_or(0.0);
    if pes > cores {
        warn(format!("{pes} PEs share {cores} cores"), FEWER_PES);
    } else if busy > f64::from(cores - pes) + IDLE_LOAD {
        let what = format!("other programs use cores that its {pes} PEs need");
        warn(what, &format!("wait for their end, or {FEWER_PES}"));
    }
    let memory = facts.memory_bytes.zip(facts.free_memory_bytes);
    if memory.is_some_and(|(total, free)| free < total / FREE_SHARE) {
        let what = format!("less than 1/{FREE_SHARE} of its memory is free");
        warn(what, "end other programs, or use more hosts");
    }
    if facts.free_disk_bytes.is_some_and(|free| free < DISK_BYTES_MIN) {
        let what = "less than 1 GB is free on the disk where nodes would run".to_owned();
        warn(what, "make room for their output and checkpoints, or run in another folder");
    }
    if answers.clock.is_some_and(|clock| clock.certain_ns() > CLOCK_NS_MAX) {
        let what = "its clock differs from this machine's by more than a second".to_owned();
        warn(what, "set it by NTP, so that times in logs agree; jobs do not depend on it");
    }
}

/// The hosts, and the datagrams between them.
struct Network<'a> {
    subjects: &'a [Subject],
    traffic: &'a Traffic,
}

impl Network<'_> {
    /// Adds findings about the datagrams to a host, and about the addresses at which others see it.
    fn look(&self, host: usize, findings: &mut Findings) {
        let came = self.traffic.received_by(host);
        let all: BTreeSet<usize> = came.keys().copied().collect();
        let those = |is_meant: &dyn Fn(Option<u16>) -> bool| -> BTreeSet<usize> {
            came.iter().filter(|(_, passed)| is_meant(**passed)).map(|(&from, _)| from).collect()
        };
        let blocked = those(&|passed| passed.is_none());
        if !blocked.is_empty() {
            let what = format!("no UDP arrives from {}", self.host_names(&blocked, &all));
            findings.add(Level::Error, host, what, self.open_ports(host));
        }
        let [_, least, best] = SIZES;
        let small = those(&|passed| passed.is_some_and(|bytes| bytes < least));
        if !small.is_empty() {
            let names = self.host_names(&small, &all);
            let what = format!("datagrams of {least} bytes from {names} do not arrive");
            let remedy = "QUIC needs them: raise the MTU of the path (a VPN or tunnel?) to at \
                          least 1,280 bytes";
            findings.add(Level::Error, host, what, remedy);
        }
        let middle = those(&|passed| passed.is_some_and(|bytes| (least..best).contains(&bytes)));
        if !middle.is_empty() {
            let names = self.host_names(&middle, &all);
            let what = format!("datagrams of {best} bytes from {names} do not arrive");
            let remedy = "jobs run with smaller ones; an MTU of 1,500 bytes on the whole path is \
                          faster";
            findings.add(Level::Warning, host, what, remedy);
        }
        let seen: Vec<String> =
            self.traffic.seen(host).map(|address| address.to_string()).collect();
        if let (false, Ok(own)) = (seen.is_empty(), &self.subjects[host].address) {
            let what = format!("others see it at {}, not at {own}", seen.join(" and "));
            let remedy = "behind NAT, or with several networks, nodes may not reach each other: \
                          in the grid file or host file, write addresses at which all hosts see \
                          each other";
            findings.add(Level::Warning, host, what, remedy);
        }
    }

    /// Names hosts: as any host if they are `all`, by their sites, or one by one.
    fn host_names(&self, hosts: &BTreeSet<usize>, all: &BTreeSet<usize>) -> String {
        if hosts == all && all.len() > 1 {
            return "any host".to_owned();
        }
        let site = |host: usize| self.subjects[host].site.as_str();
        let sites: BTreeSet<&str> = hosts.iter().map(|&host| site(host)).collect();
        let is_whole = all.iter().all(|&host| hosts.contains(&host) || !sites.contains(site(host)));
        if is_whole && hosts.len() > sites.len() {
            let sites = sites.into_iter().map(|site| format!("site {site}"));
            return sites.collect::<Vec<_>>().join(" and ");
        }
        abbreviated(hosts.iter().map(|&host| self.subjects[host].name.as_str()))
    }

    /// What to do if no UDP arrives at a host.
    fn open_ports(&self, host: usize) -> String {
        let ports: Vec<String> =
            self.subjects[host].ports.iter().filter(|&&it| it != 0).map(u16::to_string).collect();
        match &ports[..] {
            [] => {
                "let UDP pass there to all ports from all hosts of the job, or set the `port` of \
                   its site in a grid file and let UDP pass to that port"
                    .to_owned()
            }
            ports => {
                format!("let UDP pass there to port {} from all hosts of the job", ports.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests;
