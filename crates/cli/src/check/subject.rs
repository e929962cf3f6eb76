//! The hosts that `gridctl check` examines: each host of a grid once, with all of its nodes.

use super::protocol::PORTS_MAX;
use crate::hosts::{Hosts, UnknownHost};
use gridspan_topology::{GridSpec, NodeId};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// Name of the machine that stands for all hosts of an emulated grid.
const THIS_MACHINE: &str = "this machine";

/// A host of a grid.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// The site of its first node; empty for a machine that stands for all hosts.
    pub(super) site: String,
    /// Number of that site.
    pub(super) site_number: usize,
    pub(super) name: String,
    /// The first of its nodes.
    pub(super) first: NodeId,
    /// Number of its nodes.
    pub(super) nodes: usize,
    /// Number of its PEs.
    pub(super) pes: u32,
    /// Ports of its nodes, at most [`PORTS_MAX`]; one 0 stands for all that the system chooses.
    pub(super) ports: Vec<u16>,
    /// The host or gateway to which `ssh` connects, and the command that logs in; `None` for this
    /// machine.
    pub(super) ssh: Option<SshWay>,
    /// Address at which the nodes receive.
    pub(super) listen: IpAddr,
    /// Address at which others reach it, or the reason why that is not known.
    pub(super) address: Result<IpAddr, String>,
}

/// How `ssh` reaches a host.
#[derive(Clone, Debug)]
pub(super) struct SshWay {
    /// The host or gateway to which it connects.
    pub(super) entry: String,
    /// The command that logs in.
    pub(super) login: String,
}

/// Returns the hosts of a grid in the order of their first nodes. All names of this machine are one
/// host. If the links are emulated, this machine stands for all hosts.
pub(super) fn subjects(
    spec: &GridSpec,
    hosts: &Hosts,
    unknown: &[UnknownHost],
    is_emulated: bool,
) -> Vec<Subject> {
    let mut numbers: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    let mut subjects: Vec<Subject> = vec![];
    for node in spec.layout().nodes() {
        let number = *numbers.entry(hosts.remote(node)).or_insert_with(|| {
            subjects.push(subject(spec, hosts, unknown, node));
            subjects.len() - 1
        });
        let subject = &mut subjects[number];
        subject.nodes += 1;
        subject.pes = subject.pes.saturating_add(spec.layout().place(node).pes.len() as u32);
        let port = spec.port(node).filter(|_| !is_emulated).unwrap_or(0);
        // One 0 stands for all ports that the system chooses.
        let is_new = port != 0 || subject.ports.is_empty();
        if is_new && subject.ports.len() < PORTS_MAX {
            subject.ports.push(port);
        }
        if is_emulated {
            (subject.site, subject.name) = (String::new(), THIS_MACHINE.to_owned());
        }
    }
    subjects
}

/// Returns the host of a node, with no nodes counted yet.
fn subject(spec: &GridSpec, hosts: &Hosts, unknown: &[UnknownHost], first: NodeId) -> Subject {
    let site = spec.layout().site_of_node(first);
    let name = spec.host(first);
    let listen = hosts.listen(first).map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |it| it.ip());
    let ssh = hosts.entry(first).zip(hosts.login(first));
    let reason = unknown.iter().find(|(host, _)| host == name).map(|(_, error)| error.to_string());
    let address = match (&ssh, hosts.address(first)) {
        (None, _) => Ok(listen),
        (Some(_), Some(address)) => Ok(address),
        (Some(_), None) => Err(reason.unwrap_or_default()),
    };
    Subject {
        site: spec.layout().site_name(site).to_owned(),
        site_number: site.index(),
        name: name.to_owned(),
        first,
        nodes: 0,
        pes: 0,
        ports: vec![],
        ssh: ssh.map(|(entry, login)| SshWay { entry: entry.to_owned(), login }),
        listen,
        address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_several_nodes_is_checked_once_with_all_ports() {
        let spec = GridSpec::from_toml(
            "[site.a]\nhosts = [\"localhost\", \"127.0.0.1\"]\n\
             [site.b]\nhosts = [\"127.0.0.2\", \"127.0.0.2\", \"nowhere.invalid\"]\npes = 3\n\
             port = 7000\ngateway = \"head\"",
        )
        .unwrap();
        let (hosts, unknown) = Hosts::look_up(&spec, Some("ssh"));

        let found = subjects(&spec, &hosts, &unknown, false);

        let names: Vec<_> =
            found.iter().map(|it| (it.site.as_str(), it.name.as_str(), it.nodes, it.pes)).collect();
        let expected =
            [("a", "localhost", 2, 2), ("b", "127.0.0.2", 2, 6), ("b", "nowhere.invalid", 1, 3)];
        assert_eq!(names, expected);
        assert_eq!((&found[0].ports, &found[1].ports), (&vec![0], &vec![7000, 7001]));
        let way = found[1].ssh.as_ref().unwrap();
        assert_eq!(way.entry, "head");
        assert_eq!(way.login, "ssh -o BatchMode=yes -J head 127.0.0.2");
        assert!(found[0].ssh.is_none() && found[2].address.is_err());
        assert_eq!(found[1].address, Ok([127, 0, 0, 2].into()));
    }

    #[test]
    fn one_machine_stands_for_all_hosts_of_an_emulated_grid() {
        let spec = GridSpec::from_emulate("2x4x2").unwrap();
        let found = subjects(&spec, &Hosts::here(), &[], true);
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!((only.nodes, only.pes, only.ports.len()), (8, 16, 1));
        assert_eq!((only.name.as_str(), only.site.as_str()), (THIS_MACHINE, ""));
    }
}
