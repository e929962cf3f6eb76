//! Tests of the findings that `gridctl check` draws from the answers of hosts.

use super::super::clock::ClockOffset;
use super::super::failure::Failure;
use super::super::protocol::{Arrival, PortState, Sent};
use super::super::subject::SshWay;
use super::*;
use gridspan_topology::NodeId;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

const BEST: Option<u16> = Some(1452);

fn program(digest: &str) -> ProgramState {
    ProgramState::Executable { digest: digest.to_owned() }
}

fn own_address(host: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, host as u8).into()
}

/// A host of a site with two hosts.
fn subject(host: usize) -> Subject {
    let name = format!("h{host}");
    Subject {
        site: ["a", "b", "c"][host / 2].to_owned(),
        site_number: host / 2,
        ssh: Some(SshWay { entry: name.clone(), login: format!("ssh {name}") }),
        name,
        first: NodeId(0),
        nodes: 1,
        pes: 4,
        ports: vec![7000],
        listen: Ipv4Addr::UNSPECIFIED.into(),
        address: Ok(own_address(host)),
    }
}

fn answers() -> Answers {
    let facts = Facts {
        version: "0.1.0".to_owned(),
        program: program("abc"),
        cores: 8,
        load: Some(0.1),
        memory_bytes: Some(16_000),
        free_memory_bytes: Some(15_000),
        free_disk_bytes: Some(50_000_000_000),
        ports: vec![PortState { port: 7000, error: None }],
    };
    let clock = Some(ClockOffset { ahead_ns: 1_000_000, uncertainty_ns: 1_000_000 });
    let datagrams = Some((Sent::default(), vec![]));
    Answers { connected: Duration::from_millis(10), facts, clock, datagrams }
}

/// Hosts of which each sends to all others. `passes` is the size of the largest datagram from one
/// to another.
fn found(count: usize, passes: impl Fn(usize, usize) -> Option<u16>) -> Found {
    let peers = |host: usize| (0..count).filter(|&other| other != host).collect();
    let host = |to: usize| {
        let arrival = |from: usize| {
            let largest = passes(from, to)?;
            let bytes = SIZES.into_iter().filter(|&bytes| bytes <= largest).collect();
            Some(Arrival { from: from as u32, port: 0, address: own_address(from), bytes })
        };
        let arrivals = (0..count).filter(|&from| from != to).filter_map(arrival).collect();
        Ok(Answers { datagrams: Some((Sent::default(), arrivals)), ..answers() })
    };
    Found { hosts: (0..count).map(host).collect(), peers: (0..count).map(peers).collect() }
}

fn decided(found: &Found) -> Vec<Finding> {
    let subjects: Vec<Subject> = (0..found.hosts.len()).map(subject).collect();
    decided_of(&subjects, found, &program("abc"))
}

fn decided_of(subjects: &[Subject], found: &Found, here: &ProgramState) -> Vec<Finding> {
    let wanted = Wanted {
        program: Path::new("/opt/job"),
        gridctl: Path::new("/opt/gridctl"),
        is_built_in: false,
    };
    let traffic = Traffic::of(subjects, found);
    let reference = reference(here, found);
    problems(subjects, found, &traffic, &wanted, reference.as_deref())
}

/// Level, hosts and text of each finding.
fn short(findings: &[Finding]) -> Vec<(Level, &[usize], &str)> {
    findings.iter().map(|it| (it.level, &it.hosts[..], it.what.as_str())).collect()
}

fn change(found: &mut Found, host: usize, change: impl FnOnce(&mut Answers)) {
    change(found.hosts[host].as_mut().unwrap());
}

#[test]
fn hosts_that_are_ready_have_no_findings() {
    let findings = decided(&found(6, |_, _| BEST));
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn blocked_ways_are_named_by_hosts_or_sites_in_each_direction() {
    let passes = |from: usize, to: usize| match (from, to) {
        (_, 5) => None,
        (2 | 3, 0 | 1) => None,
        (4, 2) => None,
        _ => BEST,
    };
    let findings = decided(&found(6, passes));
    let expected = [
        (Level::Error, &[0, 1][..], "no UDP arrives from site b"),
        (Level::Error, &[2][..], "no UDP arrives from h4"),
        (Level::Error, &[5][..], "no UDP arrives from any host"),
    ];
    assert_eq!(short(&findings), expected);
    assert!(findings[0].remedy.contains("port 7000 "), "{findings:?}");
}

#[test]
fn too_small_packets_are_an_error_only_below_what_quic_needs() {
    let passes = |from: usize, _| match from {
        0 => Some(100),
        1 => Some(1200),
        _ => BEST,
    };
    let findings = decided(&found(4, passes));
    let expected = [
        (Level::Error, &[1, 2, 3][..], "datagrams of 1200 bytes from h0 do not arrive"),
        (Level::Warning, &[0, 2, 3][..], "datagrams of 1452 bytes from h1 do not arrive"),
    ];
    assert_eq!(short(&findings), expected);
}

#[test]
fn a_host_behind_nat_is_seen_at_another_address() {
    let mut found = found(2, |_, _| BEST);
    change(&mut found, 1, |answers| {
        let (_, arrivals) = answers.datagrams.as_mut().unwrap();
        arrivals[0].address = Ipv4Addr::new(203, 0, 113, 7).into();
    });
    let what = "others see it at 203.0.113.7, not at 10.0.0.0";
    assert_eq!(short(&decided(&found)), [(Level::Warning, &[0][..], what)]);
    change(&mut found, 1, |answers| {
        let (_, arrivals) = answers.datagrams.as_mut().unwrap();
        arrivals[0].address = Ipv4Addr::LOCALHOST.into();
    });
    assert!(decided(&found).is_empty(), "a loopback address is that of the same machine");
}

#[test]
fn what_agents_invent_does_no_harm() {
    let mut found = found(2, |_, _| BEST);
    change(&mut found, 0, |answers| {
        let address = own_address(9);
        let arrival = |from, port| Arrival { from, port, address, bytes: vec![0, 1453, 65_535] };
        let invented = vec![arrival(u32::MAX, 0), arrival(7, 9), arrival(1, u16::MAX)];
        answers.datagrams = Some((Sent::default(), invented));
    });
    let findings = decided(&found);
    assert_eq!(findings[0].what, "no UDP arrives from h1", "{findings:?}");
}

#[test]
fn scarce_resources_are_warnings() {
    let mut found = found(4, |_, _| BEST);
    change(&mut found, 0, |answers| {
        answers.facts.load = Some(6.0);
        answers.clock = Some(ClockOffset { ahead_ns: -3_000_000_000, uncertainty_ns: 1_000 });
    });
    change(&mut found, 1, |answers| answers.facts.cores = 2);
    change(&mut found, 2, |answers| {
        answers.facts.free_memory_bytes = Some(999);
        answers.facts.free_disk_bytes = Some(999_999_999);
    });
    change(&mut found, 3, |answers| {
        answers.facts.load = None;
        answers.clock =
            Some(ClockOffset { ahead_ns: 3_000_000_000, uncertainty_ns: 2_500_000_000 });
    });
    let findings = decided(&found);
    let of = |host: usize| -> Vec<&str> {
        let its = findings.iter().filter(|it| it.hosts == [host]);
        its.map(|it| it.what.split(' ').next().unwrap()).collect()
    };
    assert!(findings.iter().all(|it| it.level == Level::Warning), "{findings:?}");
    let expected = [vec!["other", "its"], vec!["4"], vec!["less", "less"], vec![]];
    assert_eq!([of(0), of(1), of(2), of(3)], expected);
}

#[test]
fn another_build_is_found_by_comparison_with_this_machine_or_with_most_hosts() {
    let mut found = found(3, |_, _| BEST);
    change(&mut found, 1, |answers| answers.facts.program = program("abd"));
    let what = "/opt/job is another build there (its gridctl is 0.1.0)";
    assert_eq!(short(&decided(&found)), [(Level::Warning, &[1][..], what)]);
    let subjects: Vec<Subject> = (0..3).map(subject).collect();
    let others = decided_of(&subjects, &found, &ProgramState::Missing);
    assert_eq!(short(&others), [(Level::Warning, &[1][..], what)], "the program is not here");
    let others = decided_of(&subjects, &found, &program("abd"));
    assert_eq!(short(&others), [(Level::Warning, &[0, 2][..], what)]);
}

#[test]
fn hosts_that_did_not_answer_are_not_blamed_for_their_datagrams() {
    let mut found = found(3, |_, _| BEST);
    found.hosts[2] = Err(Failure::Refused);
    let mut subjects: Vec<Subject> = (0..3).map(subject).collect();
    subjects[2].address = Err("no such name".to_owned());
    let findings = decided_of(&subjects, &found, &program("abc"));
    let expected = [
        (Level::Error, &[2][..], "its address is not found: no such name"),
        (Level::Error, &[2][..], "it refuses connections of ssh"),
    ];
    assert_eq!(short(&findings), expected);
}

#[test]
fn a_port_in_use_and_an_agent_that_ended_are_errors() {
    let mut found = found(2, |_, _| BEST);
    change(&mut found, 0, |answers| {
        answers.facts.ports[0].error = Some("Address already in use".to_owned());
        answers.datagrams = None;
    });
    let findings = decided(&found);
    let texts: Vec<&str> = findings.iter().map(|it| it.what.as_str()).collect();
    assert!(texts.contains(&"UDP port 7000 cannot be used: Address already in use"), "{texts:?}");
    let ended = "the check ended there before its datagrams were counted";
    assert!(texts.contains(&ended), "{texts:?}");
}
