//! Hosts of a grid: which of them are this machine, and how the system's `ssh` reaches the others.
//!
//! A node on another host runs the same command as a node here, prefixed with `ssh -o BatchMode=yes
//! [-J GATEWAY] HOST -- sh -c … sh env NAME=VALUE …`. Secrets go through the standard input of
//! `ssh`, which the shell on the host moves to a separate descriptor; when the input ends, the node
//! ends. A question from `ssh` is an error, because no user can answer it.
//!
//! A bridge to a node (see `gridspan::keeper`) keeps its standard input: it gets no secret before
//! it has answered.

use crate::error::CliError;
use crate::surroundings::Surroundings;
use gridspan::keeper::BRIDGE;
use gridspan::variables::{DETACHED, LAUNCHER, cores};
use gridspan_topology::{GridSpec, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;
use std::thread;

/// Exit code with which `ssh` reports its own failure, not that of the command (ssh(1)).
pub(crate) const SSH_FAILED: i32 = 255;

/// The program that reaches other hosts, unless the user names another.
const SSH: &str = "ssh";
/// Variable that names the command to run in place of `ssh`, as `--ssh` does.
const SSH_VARIABLE: &str = "GRIDCTL_SSH";
/// First part of the shell script on another host: changes to the folder of this process, if that
/// exists there.
const ENTER: &str = "cd \"$1\" 2>/dev/null; shift; ";
/// As [`ENTER`], for the folder of `--wdir`, which must exist.
const ENTER_EXISTING: &str = "cd \"$1\" && shift && ";
/// Second part: runs the program, and moves the launcher's channel to a separate descriptor, so
/// that a program that prints its standard input does not print keys.
const RUN: &str = "exec \"$@\" 3<&0 </dev/null";
/// As [`RUN`], for a program that gets no secret, such as a bridge.
const RUN_BRIDGE: &str = "exec \"$@\"";
/// Descriptor of the launcher's channel.
const CHANNEL: &str = "3";
/// Port of a destination to find a route to. Nothing is sent there.
const ANY_PORT: u16 = 9;
/// Maximum number of look-ups at the same time. Several run, because a name that no server knows
/// may take seconds.
const LOOK_UPS_MAX: usize = 16;

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
    /// Creates another host, with its gateway and its address, if they are known.
    pub(crate) fn new(name: &str, gateway: Option<&str>, address: Option<IpAddr>) -> Self {
        let gateway = gateway.filter(|gateway| *gateway != name).map(str::to_owned);
        Self { name: name.to_owned(), gateway, address }
    }
}

/// A host whose address cannot be found, and the reason.
pub(crate) type UnknownHost = (String, io::Error);

/// Connections that the `ssh` of a node shares with others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    /// Socket of a shared connection to the host.
    pub(crate) path: Option<String>,
    /// Command that reaches hosts through a shared connection to the gateway.
    pub(crate) proxy: Option<String>,
}

impl Shared {
    /// Returns the arguments that make `ssh` connect through a gateway.
    pub(crate) fn gateway_arguments(&self, gateway: Option<&str>) -> Vec<String> {
        match (gateway, &self.proxy) {
            (None, _) => vec![],
            (Some(_), Some(proxy)) => vec!["-o".to_owned(), format!("ProxyCommand={proxy}")],
            (Some(gateway), None) => vec!["-J".to_owned(), gateway.to_owned()],
        }
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

    /// Adds the next node of the job, on another host or on this machine. If nodes are then on
    /// both, those here must listen at another address in the next run.
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
        let mut command = shell(&self.ssh, login_arguments(host, &[], shared), &script);
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
        let login = login_arguments(host, options, &Shared::default());
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
        let login = login_arguments(host, &[], &Shared::default());
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

/// Returns the command that runs a program with these arguments on a host, which need not be in a
/// grid. `ssh` is the command to run in place of `ssh`, with its first arguments.
pub(crate) fn on_host(
    ssh: &[OsString],
    host: &str,
    options: &[String],
    program: &[&OsStr],
) -> Command {
    let host = RemoteHost { name: host.to_owned(), gateway: None, address: None };
    let mut command = shell(ssh, login_arguments(&host, options, &Shared::default()), RUN_BRIDGE);
    command.args(program.iter().map(|word| quoted(word)));
    command
}

/// Returns the command that runs a shell script on another host. The caller appends the words of
/// the script, quoted.
fn shell(ssh: &[OsString], login: Vec<String>, script: &str) -> Command {
    let mut words = ssh.iter();
    let mut command = Command::new(words.next().map_or(OsStr::new(SSH), OsString::as_os_str));
    command.args(words).args(login);
    command.args(["--", "sh", "-c"]).arg(quoted(OsStr::new(script))).arg("sh");
    // The ssh command may run the program on this machine, where it must not inherit these
    // variables.
    gridspan::variables::ALL.iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}

/// Returns the arguments of `ssh` for a host, these options included.
fn login_arguments(host: &RemoteHost, options: &[String], shared: &Shared) -> Vec<String> {
    let master = |path: &String| {
        [
            "-o".to_owned(),
            "ControlMaster=no".to_owned(),
            "-o".to_owned(),
            format!("ControlPath={path}"),
        ]
    };
    let begin = ["-o", "BatchMode=yes"].map(str::to_owned).into_iter();
    let way = shared.gateway_arguments(host.gateway.as_deref());
    let shared = shared.path.iter().flat_map(master);
    let options = options.iter().cloned();
    begin.chain(options).chain(shared).chain(way).chain([host.name.clone()]).collect()
}

/// Whether all hosts of a grid are this machine.
pub(crate) fn all_here(spec: &GridSpec) -> bool {
    spec.hosts().all(|(_, host)| is_here(host))
}

fn is_here(host: &str) -> bool {
    let system = rustix::system::uname();
    let own = system.nodename().to_string_lossy();
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    // Either name may lack its domain.
    let is_short = !host.contains('.') || !own.contains('.');
    let is_own_name = host == own || (is_short && first(host) == first(&own));
    is_own_name || is_loopback(host) || host.parse().is_ok_and(is_own)
}

/// Whether a host with this name and address is this machine. A name with a user is not: `ssh`
/// reaches other users of this machine.
fn is_own_name(name: &str, address: Option<IpAddr>) -> bool {
    !name.contains('@') && address.is_some_and(is_own)
}

/// Looks up a host: `None` if it is this machine.
pub(crate) fn locate(name: &str) -> io::Result<Option<IpAddr>> {
    if is_here(name) {
        return Ok(None);
    }
    let address = resolve(name)?;
    Ok((!is_own_name(name, Some(address))).then_some(address))
}

/// Whether a host is a name of the loopback interface, which every machine has.
pub(crate) fn is_loopback(host: &str) -> bool {
    ["localhost", "127.0.0.1", "::1"].contains(&host)
}

/// Whether an address belongs to this machine, so that it can be bound, and other hosts can reach
/// it: it is neither a loopback address nor unspecified.
fn is_own(address: IpAddr) -> bool {
    !address.is_loopback() && !address.is_unspecified() && UdpSocket::bind((address, 0)).is_ok()
}

/// Looks up the addresses of hosts. Also returns the hosts whose address is not found.
fn resolve_all<'a>(names: &BTreeSet<&'a str>) -> (BTreeMap<&'a str, IpAddr>, Vec<UnknownHost>) {
    let (mut addresses, mut unknown) = (BTreeMap::new(), vec![]);
    let names: Vec<&str> = names.iter().copied().collect();
    for some in names.chunks(LOOK_UPS_MAX) {
        thread::scope(|scope| {
            let look_up = |&name: &&'a str| (name, scope.spawn(move || resolve(name)));
            let all: Vec<_> = some.iter().map(look_up).collect();
            for (name, found) in all {
                match found.join() {
                    Ok(Ok(address)) => {
                        addresses.insert(name, address);
                    }
                    Ok(Err(error)) => unknown.push((name.to_owned(), error)),
                    Err(_) => {
                        let error = io::Error::other("the look-up failed");
                        unknown.push((name.to_owned(), error));
                    }
                }
            }
        });
    }
    (addresses, unknown)
}

/// Looks up the address of a host, whose name may begin with a user for ssh.
fn resolve(host: &str) -> io::Result<IpAddr> {
    let name = host.rsplit_once('@').map_or(host, |(_, name)| name);
    let found: Vec<SocketAddr> = (name, ANY_PORT).to_socket_addrs()?.collect();
    // All nodes of a job use one IP version; most grids have IPv4.
    let best = found.iter().find(|address| address.is_ipv4()).or(found.first());
    best.map(SocketAddr::ip).ok_or_else(|| io::Error::other("it has no address"))
}

/// Returns the source address of this machine's packets to `host`, at which `host` can reach it.
fn own_address(host: IpAddr) -> io::Result<IpAddr> {
    let unspecified: IpAddr = match host {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((unspecified, 0))?;
    socket.connect((host, ANY_PORT))?;
    Ok(socket.local_addr()?.ip())
}

/// Returns the command to run in place of `ssh`, with its first arguments, for this value of
/// `--ssh`.
pub(crate) fn ssh_command(flag: Option<&str>) -> Vec<OsString> {
    let variable = std::env::var(SSH_VARIABLE).ok().filter(|value| !value.trim().is_empty());
    let text = flag.map(str::to_owned).or(variable).unwrap_or_else(|| SSH.to_owned());
    text.split_whitespace().map(OsString::from).collect()
}

/// Quotes a word so that a shell reads it as this one word.
pub(crate) fn quoted(word: &OsStr) -> OsString {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./=:,@%+-".contains(byte);
    if !word.is_empty() && word.as_bytes().iter().all(is_plain) {
        return word.to_owned();
    }
    let mut text = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            byte => text.push(byte),
        }
    }
    text.push(b'\'');
    OsString::from_vec(text)
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
    fn this_machine_is_recognised_by_its_names() {
        assert!(all_here(&spec("[site.a]\nhosts = [\"localhost\", \"127.0.0.1\"]")));
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert!(is_here(&own));
        assert!(!all_here(&spec("[site.a]\nhosts = [\"localhost\", \"nowhere.invalid\"]")));
        assert!(!is_here("user@localhost"), "another user is reached by ssh");
        assert!(!is_here("127.0.0.2"), "tests use such addresses as other hosts");
        // Addresses for documentation belong to no machine (RFC 5737). Nothing is sent.
        assert!(!is_here("192.0.2.1"));
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let way_out = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
        match way_out {
            Ok(own) if !own.ip().is_loopback() => assert!(is_here(&own.ip().to_string())),
            _ => println!("skipped a part: this machine has no address but the loopback one"),
        }
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
    fn a_program_runs_on_a_host_of_no_grid_with_its_words_quoted() {
        let options = ["-p".to_owned(), "22".to_owned()];
        let program = [OsStr::new("/opt/my gridctl"), OsStr::new("__witness")];
        let command = on_host(&["ssh".into(), "-v".into()], "ann@c1", &options, &program);
        let login = ["ssh", "-v", "-o", "BatchMode=yes", "-p", "22", "ann@c1"];
        let rest = ["--", "sh", "-c", "'exec \"$@\"'", "sh", "'/opt/my gridctl'", "__witness"];
        assert_eq!(words(&command), [&login[..], &rest].concat());
    }

    #[test]
    fn nodes_listen_on_loopback_only_if_all_are_here() {
        let hosts =
            Hosts::of(&spec("[site.a]\nhosts = [\"localhost\"]\nport = 7000"), None).unwrap();
        assert_eq!((hosts.listen(NodeId(0)), Hosts::here().listen(NodeId(0))), (None, None));
    }
}
