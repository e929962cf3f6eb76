//! Nodes that join a running job and that its grid does not name.
//!
//! The launcher appends them to the roster, so that all others keep their numbers. Like spare
//! nodes, they are absent until a change of the members starts them. The launcher saves them for
//! another launcher, which looks up the hosts again.

use super::event::Event;
use super::plan::{Launch, Processes};
use super::report::{AddedNode, Report};
use super::work::Work;
use crate::error::CliError;
use crate::hosts::{RemoteHost, is_loopback, locate};
use crate::job_folder::machine;
use crate::request::{NewNodes, Request};
use crate::roster::{NewNode, Roster};
use crate::status::Reach;
use gridspan_topology::NodeId;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

/// Where an added node is started.
enum StartPlace {
    /// On this machine.
    Here,
    /// On another host, whose address may be unknown.
    Elsewhere(Option<IpAddr>),
}

impl Work<'_> {
    /// Returns the event of a request. Adds the nodes that it names as new ones.
    ///
    /// # Errors
    ///
    /// The reason why the job cannot have the nodes that are to join, or lose those that are to
    /// leave. Nothing has changed then.
    pub(super) fn admit(&mut self, id: u64, request: Request) -> Result<Event, String> {
        match &request {
            Request::AddNew(new) => return self.grow(id, new),
            Request::Add { nodes } if self.keepers.is_some() => self.supervisor.may_join(nodes)?,
            Request::Drain { nodes, .. } if self.keepers.is_some() => {
                self.supervisor.may_leave(nodes)?;
            }
            _ => {}
        }
        Ok(Event::Requested { id, request })
    }

    /// Adds nodes to the job. Returns the event of the request to let them join.
    ///
    /// # Errors
    ///
    /// The reason why the job cannot have them. Nothing has changed then.
    fn grow(&mut self, id: u64, new: &NewNodes) -> Result<Event, String> {
        self.supervisor.may_grow()?;
        if self.keepers.is_some() {
            self.supervisor.may_outnumber(new.nodes.len())?;
        }
        let nodes = self.starter.grow(new)?;
        let launch = self.starter.launch();
        for &node in &nodes {
            self.pacing.add(launch.entry(node));
            self.children.push(None);
            self.supervisor.add_node(launch.roster.name(node), launch.way(node));
        }
        self.supervisor.set_roster(launch.roster.clone());
        self.supervisor.set_crowding(launch.processes.nodes_per_core(launch.roster.nodes()));
        let added = nodes.iter().map(|&node| AddedNode::new(&launch.roster, node)).collect();
        self.reports.push(Report::Added { nodes: added });
        let nodes: BTreeSet<NodeId> = nodes.into_iter().collect();
        Ok(Event::Requested { id, request: Request::Add { nodes } })
    }
}

impl Launch<'_> {
    /// Adds nodes to the job, and returns their numbers. If the job runs, its launcher can then
    /// start them.
    ///
    /// # Errors
    ///
    /// The reason why it cannot have them. Nothing has changed then.
    pub(super) fn add(&mut self, new: &NewNodes) -> Result<Vec<NodeId>, String> {
        let mut nodes = new.nodes.clone();
        self.check_added(new)?;
        if self.kept.is_some() {
            // The name must mean the same to a launcher on another machine.
            let here = nodes.iter_mut().filter(|node| is_loopback(&node.host.name));
            here.for_each(|node| node.host.name = machine());
        }
        let numbers = self.roster.add(&nodes).map_err(|error| error.to_string())?;
        self.added.extend(nodes);
        let place = |host: &str| match new.addresses.get(host) {
            Some(&address) => StartPlace::Elsewhere(Some(address)),
            None => StartPlace::Here,
        };
        self.start_added(&numbers, place);
        if let (Processes::Nodes { tasks: Some(tasks), .. }, Some(allocation), Some(first)) =
            (&mut self.processes, &new.allocation, numbers.first())
        {
            tasks.add(*first, allocation.clone());
        }
        Ok(numbers)
    }

    /// Whether the launcher can start such nodes.
    fn check_added(&self, new: &NewNodes) -> Result<(), String> {
        let reach = self.processes.reach();
        if (reach == Reach::Tasks) != new.allocation.is_some() {
            return Err(match reach {
                Reach::Tasks => {
                    "its nodes are tasks of Slurm; add those of another allocation by \
                                 `--slurm JOBID`, or by `--here` inside it"
                }
                _ => "its nodes are not tasks of Slurm; start it inside an allocation",
            }
            .to_owned());
        }
        if let Some(allocation) = &new.allocation
            && !allocation.hosts().eq(new.nodes.iter().map(|node| node.host.clone()))
        {
            return Err("its nodes are not the tasks of the allocation".to_owned());
        }
        let is_detached = self.detached.is_some() && self.kept.is_none();
        if is_detached && reach == Reach::Hosts && !new.addresses.is_empty() {
            return Err("it is detached on one machine and can have nodes there only; a detached \
                        job that starts with nodes on other hosts can have more of them"
                .to_owned());
        }
        if self.record.is_some() {
            return Err("it is recorded, and a recording has the nodes of the grid; nodes of the \
                        grid that have left, or are spare, can join"
                .to_owned());
        }
        Ok(())
    }

    /// Replaces the added nodes by those that an earlier launcher has saved, and looks up
    /// their hosts. Hosts that are not known here cannot be reached.
    ///
    /// # Errors
    ///
    /// If the grid cannot have them.
    pub(crate) fn restore_added(&mut self, added: &[NewNode]) -> Result<(), CliError> {
        if self.added == added {
            return Ok(());
        }
        let mut roster = Roster::from(self.spec.clone());
        let numbers = roster.add(added).map_err(|error| CliError::System {
            what: "use the nodes that were added to the job",
            error: io::Error::other(error),
        })?;
        (self.roster, self.added) = (roster, added.to_vec());
        if let Processes::Nodes { hosts, .. } = &mut self.processes {
            hosts.truncate(self.spec.layout().node_count() as usize);
        }
        self.start_added(&numbers, |host| match locate(host) {
            Ok(None) => StartPlace::Here,
            Ok(address) => StartPlace::Elsewhere(address),
            Err(error) => {
                tracing::warn!(%error, "the address of host `{host}` is not known here");
                StartPlace::Elsewhere(None)
            }
        });
        Ok(())
    }

    /// Notes where added nodes are started. `place` returns the place of the host with a name.
    fn start_added(&mut self, numbers: &[NodeId], place: impl Fn(&str) -> StartPlace) {
        if self.processes.reach() != Reach::Hosts {
            return;
        }
        let Processes::Nodes { hosts, .. } = &mut self.processes else { return };
        for &node in numbers {
            let (name, grid) = (self.roster.host(node), self.roster.grid());
            let gateway = grid.gateway(self.roster.site(node));
            let other = match place(name) {
                StartPlace::Here => None,
                StartPlace::Elsewhere(address) => Some(RemoteHost::new(name, gateway, address)),
            };
            hosts.add(other, grid.port(self.roster.position(node)));
        }
    }
}
