//! Hosts of a grid: which of them are this machine, and how the system's `ssh` reaches the others.
//!
//! A node on another host runs the same command as a node here, prefixed with `ssh -o BatchMode=yes
//! [-J GATEWAY] HOST -- sh -c … sh env NAME=VALUE …`. Secrets go through the standard input of
//! `ssh`, which the shell on the host moves to a separate descriptor; when the input ends, the node
//! ends. A question from `ssh` is an error, because no user can answer it.
//!
//! A bridge to a node (see `gridspan::keeper`) reads its standard input itself. The launcher sends
//! no secret to a bridge that has not answered.

mod look_up;
mod ssh;

pub(crate) use look_up::{UnknownHost, all_here, is_loopback, locate};
pub(crate) use ssh::{SSH_FAILED, Shared, on_host, quoted, ssh_command};

use crate::error::CliError;
use crate::surroundings::Surroundings;
use gridspan::keeper::BRIDGE;
use gridspan::variables::{DETACHED, LAUNCHER, cores};
use gridspan_topology::{GridSpec, NodeId};
use look_up::{is_here, is_own_name, own_address, resolve_all};
use ssh::{CHANNEL, ENTER, ENTER_EXISTING, RUN, RUN_BRIDGE, login_arguments, shell};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;

/// The hosts of a grid.
pub(crate) struct Hosts {
    /// The program that reaches other hosts, and its first arguments.
    ssh: Vec<OsString>,
    /// For each node, the other host that it runs on; `None` for a node here.
    remote: Vec<Option<RemoteHost>>,
    /// Address at which nodes here receive from others; `None` unless some nodes are here and some
    /// elsewhere.
    own: Option<IpAddr>,
    /// Port of each node; 0 if the system chooses one.
    ports: Vec<u16>,
}

/// A host that is not this machine.
#[derive(Clone, Debug)]
pub(crate) struct RemoteHost {
    pub(crate) name: String,
    pub(crate) gateway: Option<String>,
    /// `None` if the look-up failed.
    address: Option<IpAddr>,
}

impl RemoteHost {
    /// Describes a host that is not this machine, with its gateway and its address, if known.
    pub(crate) fn new(name: &str, gateway: Option<&str>, address: Option<IpAddr>) -> Self {
        let gateway = gateway.filter(|gateway| *gateway != name).map(str::to_owned);
        Self { name: name.to_owned(), gateway, address }
    }

    /// Returns the arguments of `ssh` for this host, these options included.
    fn login(&self, options: &[String], shared: &Shared) -> Vec<String> {
        login_arguments(&self.name, self.gateway.as_deref(), options, shared)
    }
}

impl Hosts {
    /// Returns hosts for a grid with all nodes on this machine.
    pub(crate) fn here() -> Self {
        Self { ssh: vec![], remote: vec![], own: None, ports: vec![] }
    }

    /// Looks up the hosts of `spec`. The argument `ssh` is the value of the flag `--ssh`.
    pub(crate) fn of(spec: &GridSpec, ssh: Option<&str>) -> Result<Self, CliError> {
        let (hosts, unknown) = Self::look_up(spec, ssh);
        match unknown.into_iter().next() {
            Some((host, error)) => Err(CliError::Address { host, error }),
            None => Ok(hosts),
        }
    }

    /// Looks up the hosts of a job that another launcher has started, perhaps on another machine.
    /// Hosts that are not known here cannot be reached.
    pub(crate) fn of_started(spec: &GridSpec, ssh: Option<&str>) -> Self {
        let (hosts, unknown) = Self::look_up(spec, ssh);
        for (host, error) in unknown {
            tracing::warn!(%error, "the address of host `{host}` is not known here");
        }
        hosts
    }

    /// Looks up the hosts of `spec`, as [`of`](Self::of) does. Also returns the hosts whose address
    /// is not found; they count as other hosts.
    pub(crate) fn look_up(spec: &GridSpec, ssh: Option<&str>) -> (Self, Vec<UnknownHost>) {
        let names = spec.hosts().map(|(_, name)| name).filter(|name| !is_here(name));
        let (addresses, mut unknown) = resolve_all(&names.collect());
        let mut remote = vec![];
        for (node, name) in spec.hosts() {
            let address = addresses.get(name).copied();
            if is_here(name) || is_own_name(name, address) {
                remote.push(None);
                continue;
            }
            let gateway = spec.gateway(spec.layout().site_of_node(node));
            remote.push(Some(RemoteHost::new(name, gateway, address)));
        }
        let own = match remote.iter().flatten().find_map(|host| Some((host, host.address?))) {
            Some((host, address)) if remote.iter().any(Option::is_none) => {
                let failed = |error| unknown.push((host.name.clone(), error));
                own_address(address).map_err(failed).ok()
            }
            _ => None,
        };
        let ports = spec.layout().nodes().map(|node| spec.port(node).unwrap_or(0)).collect();
        (Self { ssh: ssh_command(ssh), remote, own, ports }, unknown)
    }

    /// Adds the next node of the job, on another host or on this machine. If some nodes are then
    /// here and some elsewhere for the first time, those here must listen at another address in the
    /// next run.
    pub(crate) fn add(&mut self, other: Option<RemoteHost>, port: Option<u16>) {
        self.remote.push(other);
        self.ports.push(port.unwrap_or(0));
        let address = self.remote.iter().flatten().find_map(|host| host.address);
        if let (None, Some(address)) = (self.own, address)
            && self.remote.iter().any(Option::is_none)
        {
            let own = own_address(address);
            self.own =
                own.inspect_err(|error| tracing::warn!(%error, "no route to {address}")).ok();
        }
    }

    /// Removes the nodes from this number on.
    pub(crate) fn truncate(&mut self, nodes: usize) {
        self.remote.truncate(nodes);
        self.ports.truncate(nodes);
    }

    /// Whether the first node of a grid runs here.
    pub(crate) fn is_first_here(spec: &GridSpec) -> bool {
        spec.hosts().next().is_some_and(|(_, host)| is_here(host))
    }

    /// Returns the largest number of these nodes per core on any host, rounded up. Other hosts are
    /// assumed to have as many cores as this one.
    pub(crate) fn nodes_per_core(&self, nodes: impl Iterator<Item = NodeId>) -> u32 {
        let mut counts: BTreeMap<Option<&str>, u32> = BTreeMap::new();
        nodes.for_each(|node| *counts.entry(self.remote(node)).or_default() += 1);
        counts.into_values().max().unwrap_or(0).div_ceil(cores())
    }

    /// Returns the name of the other host that a node runs on; `None` if it runs here.
    pub(crate) fn remote(&self, node: NodeId) -> Option<&str> {
        Some(&self.host(node)?.name)
    }

    /// Returns the address at which a node listens. On another host, this is the address of all
    /// interfaces; on this host, an address that the other hosts can reach. Returns `None`, which
    /// means the loopback interface, if all nodes are here.
    pub(crate) fn listen(&self, node: NodeId) -> Option<SocketAddr> {
        let port = self.ports.get(node.index()).copied().unwrap_or(0);
        let address = match (self.host(node), self.own) {
            (Some(RemoteHost { address: Some(IpAddr::V6(_)), .. }), _) => {
                Ipv6Addr::UNSPECIFIED.into()
            }
            (Some(_), _) => Ipv4Addr::UNSPECIFIED.into(),
            (None, own) => own?,
        };
        Some((address, port).into())
    }

    /// Returns the address at which others reach a node on another host; `None` if it runs here, or
    /// its address was not found.
    pub(crate) fn address(&self, node: NodeId) -> Option<IpAddr> {
        self.host(node)?.address
    }

    /// Returns the command that runs `program` for a node: `program` itself on this host, or
    /// `program` over ssh with these variables on another host.
    pub(crate) fn command(
        &self,
        node: NodeId,
        program: Command,
        variables: &[(&'static str, OsString)],
        surroundings: &Surroundings,
        shared: &Shared,
    ) -> Result<Command, CliError> {
        let Some(host) = self.host(node) else { return Ok(program) };
        let path = std::path::absolute(program.get_program())
            .map_err(CliError::system("find the program's path"))?;
        let (enter, folder) = match &surroundings.folder {
            Some(folder) => (ENTER_EXISTING, std::path::absolute(folder)),
            None => (ENTER, std::env::current_dir()),
        };
        let folder = folder.map_err(CliError::system("find this folder"))?;
        let is_bridge = variables.contains(&(DETACHED, BRIDGE.into()));
        let script = format!("{enter}{}", if is_bridge { RUN_BRIDGE } else { RUN });
        let mut command = shell(&self.ssh, host.login(&[], shared), &script);
        command.arg(quoted(folder.as_os_str())).arg("env");
        let channel = OsString::from(CHANNEL);
        let channel = (!is_bridge).then_some((LAUNCHER, &channel));
        let user = surroundings.variables.iter().map(|(name, value)| (name.as_str(), value));
        let own = variables.iter().map(|(name, value)| (*name, value));
        for (name, value) in user.chain(own).chain(channel) {
            let mut setting = OsString::from(format!("{name}="));
            setting.push(value);
            command.arg(quoted(&setting));
        }
        command.arg(quoted(path.as_os_str())).args(program.get_args().map(quoted));
        Ok(command)
    }

    /// Returns the command that runs a shell script with these words on the other host of a node,
    /// over ssh with these options; `None` if the node runs here.
    pub(crate) fn script(
        &self,
        node: NodeId,
        options: &[String],
        script: &str,
        words: &[&OsStr],
    ) -> Option<Command> {
        let host = self.host(node)?;
        let login = host.login(options, &Shared::default());
        let mut command = shell(&self.ssh, login, script);
        command.args(words.iter().map(|word| quoted(word)));
        Some(command)
    }

    /// Returns the host or gateway to which a connection is opened for a node; `None` if the node
    /// runs here.
    pub(crate) fn entry(&self, node: NodeId) -> Option<&str> {
        let host = self.host(node)?;
        Some(host.gateway.as_ref().unwrap_or(&host.name))
    }

    /// Returns the command that logs in on the other host of a node; `None` if the node runs here.
    pub(crate) fn login(&self, node: NodeId) -> Option<String> {
        let host = self.host(node)?;
        let words = self.ssh.iter().map(|word| word.to_string_lossy().into_owned());
        let login = host.login(&[], &Shared::default());
        Some(words.chain(login).collect::<Vec<_>>().join(" "))
    }

    /// Returns the command to run in place of `ssh`, with its first arguments.
    pub(crate) fn ssh(&self) -> &[OsString] {
        &self.ssh
    }

    /// Returns the nodes that run on other hosts, with these hosts.
    pub(crate) fn elsewhere(&self) -> impl Iterator<Item = (NodeId, &RemoteHost)> {
        let all = self.remote.iter().enumerate();
        all.filter_map(|(node, host)| Some((NodeId::from(node), host.as_ref()?)))
    }

    fn host(&self, node: NodeId) -> Option<&RemoteHost> {
        self.remote.get(node.index())?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<String> {
        let all = std::iter::once(command.get_program()).chain(command.get_args());
        all.map(|word| word.to_string_lossy().into_owned()).collect()
    }

    fn spec(text: &str) -> GridSpec {
        GridSpec::from_toml(text).unwrap()
    }

    #[test]
    fn only_nodes_elsewhere_are_started_by_ssh() {
        let spec = spec(
            "[site.a]\nhosts = [\"localhost\"]\n\
             [site.b]\nhosts = [\"me@127.0.0.2\", \"127.0.0.3\"]\ngateway = \"127.0.0.3\"\nport = 7000",
        );
        let hosts = Hosts::of(&spec, Some("ssh -p 22")).unwrap();
        let program = || {
            let mut program = Command::new("/opt/my job");
            program.args(["--name", "it's"]);
            program
        };
        let variables = [("GRIDSPAN_DRIVER", "node".into())];
        let around = Surroundings::new(&["WHO=a b".to_owned()], Some("/data".into())).unwrap();
        let command = |node| {
            words(
                &hosts
                    .command(NodeId(node), program(), &variables, &around, &Shared::default())
                    .unwrap(),
            )
        };

        assert_eq!(command(0), ["/opt/my job", "--name", "it's"]);
        let ssh = ["ssh", "-p", "22", "-o", "BatchMode=yes"];
        let begin = ["--", "sh", "-c", "'cd \"$1\" && shift && exec \"$@\" 3<&0 </dev/null'"];
        let what = ["sh", "/data", "env", "'WHO=a b'", "GRIDSPAN_DRIVER=node"];
        let begin = [&begin[..], &what, &["GRIDSPAN_LAUNCHER=3", "'/opt/my job'"]].concat();
        let remote = [&begin[..], &["--name", "'it'\\''s'"]].concat();
        assert_eq!(command(1), [&ssh, &["-J", "127.0.0.3", "me@127.0.0.2"][..], &remote].concat());
        assert_eq!(command(2), [&ssh, &["127.0.0.3"][..], &remote].concat(), "its own gateway");

        let variables = [("GRIDSPAN_DRIVER", "node".into()), (DETACHED, BRIDGE.into())];
        let bridge = hosts
            .command(NodeId(2), program(), &variables, &around, &Shared::default())
            .map(|command| words(&command).join(" "))
            .unwrap();
        assert!(bridge.contains("'cd \"$1\" && shift && exec \"$@\"' sh /data env"), "{bridge}");
        assert!(!bridge.contains("GRIDSPAN_LAUNCHER"), "it has standard input: {bridge}");

        let listen = |node| hosts.listen(NodeId(node)).unwrap().to_string();
        assert_eq!((listen(1).as_str(), listen(2).as_str()), ("0.0.0.0:7000", "0.0.0.0:7000"));
        assert!(!hosts.listen(NodeId(0)).unwrap().ip().is_unspecified());
        assert_eq!(hosts.address(NodeId(1)), Some([127, 0, 0, 2].into()));
    }

    #[test]
    fn with_a_node_elsewhere_those_here_listen_where_it_can_reach_them() {
        let spec = spec("[site.a]\nhosts = [\"localhost\"]");
        let mut hosts = Hosts::of(&spec, Some("ssh")).unwrap();
        hosts.add(None, None);
        assert_eq!((hosts.listen(NodeId(0)), hosts.remote(NodeId(1))), (None, None));

        let address = locate("127.0.0.2").unwrap();
        hosts.add(Some(RemoteHost::new("127.0.0.2", Some("head"), address)), Some(7000));

        assert_eq!(address, Some([127, 0, 0, 2].into()));
        assert_eq!(hosts.remote(NodeId(2)), Some("127.0.0.2"));
        assert_eq!(hosts.entry(NodeId(2)), Some("head"));
        assert_eq!(hosts.listen(NodeId(2)).unwrap().to_string(), "0.0.0.0:7000");
        assert!(hosts.listen(NodeId(0)).is_some() && hosts.listen(NodeId(1)).is_some());
        hosts.truncate(1);
        assert_eq!(hosts.remote(NodeId(2)), None);
        assert_eq!(locate("localhost").unwrap(), None);
        assert!(locate("nowhere.invalid").is_err());
    }

    #[test]
    fn hosts_of_a_started_job_need_not_be_known_here() {
        let spec = spec("[site.a]\nhosts = [\"localhost\", \"nowhere.invalid\"]");
        assert!(Hosts::of(&spec, None).is_err());
        let hosts = Hosts::of_started(&spec, None);
        assert_eq!(hosts.remote(NodeId(1)), Some("nowhere.invalid"));
        assert_eq!(hosts.listen(NodeId(0)), None);
    }

    #[test]
    fn a_host_without_address_is_another_host_in_a_plan_and_an_error_in_a_run() {
        let spec = spec("[site.a]\nhosts = [\"localhost\", \"nowhere.invalid\"]");
        let (hosts, unknown) = Hosts::look_up(&spec, None);
        let names: Vec<_> = unknown.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["nowhere.invalid"]);
        assert_eq!(hosts.remote(NodeId(1)), Some("nowhere.invalid"));
        assert_eq!((hosts.remote(NodeId(0)), hosts.address(NodeId(1))), (None, None));
        assert!(matches!(Hosts::of(&spec, None), Err(CliError::Address { .. })));
    }

    #[test]
    fn a_script_has_its_words_quoted_after_the_options_of_ssh() {
        let spec = spec("[site.a]\nhosts = [\"127.0.0.2\"]\ngateway = \"head\"");
        let hosts = Hosts::of(&spec, Some("ssh")).unwrap();
        let options = ["-o".to_owned(), "ConnectTimeout=5".to_owned()];
        let wanted = [OsStr::new("a b"), OsStr::new("c")];
        let script = hosts.script(NodeId(0), &options, "echo \"$1\"", &wanted).unwrap();
        let login = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-J", "head"];
        let rest = ["127.0.0.2", "--", "sh", "-c", "'echo \"$1\"'", "sh", "'a b'", "c"];
        assert_eq!(words(&script), [&login[..], &rest].concat());
    }

    #[test]
    fn nodes_listen_on_loopback_only_if_all_are_here() {
        let hosts =
            Hosts::of(&spec("[site.a]\nhosts = [\"localhost\"]\nport = 7000"), None).unwrap();
        assert_eq!((hosts.listen(NodeId(0)), Hosts::here().listen(NodeId(0))), (None, None));
    }
}
