//! A host of a lab: a process that holds the namespaces of the host until the lab ends.
//!
//! The process sets the name of the host, mounts its file systems, and prints its process id. A
//! line on standard input means that the lab has added the network device. The process configures
//! the device, and prints another line when the host is ready.

use super::error::LabError;
use super::files::{LabFiles, NAME_SERVICES, addresses};
use super::lab_host::PREFIX_BITS;
use super::program::run_ip;
use super::router::MTU;
use crate::args::LabHostArgs;
use crate::error::CliError;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_bind};
use rustix::system::sethostname;
use std::ffi::CStr;
use std::fs;
use std::io::{self, BufRead, Write};
use std::net::Ipv4Addr;
use std::process::ExitCode;

/// Name of the only network device of each host.
const DEVICE: &str = "eth0";
/// Folder of the socket of the daemon `nscd`, which the C library asks for names first.
const NAME_CACHE: &str = "/var/run/nscd";
/// Maximum number of packets that wait for the router. The router limits queues as the grid
/// specifies.
const QUEUE_PACKETS: u32 = 4096;

/// Runs as a host until standard input ends.
pub(super) fn run(args: &LabHostArgs) -> Result<ExitCode, CliError> {
    let failed = CliError::system("talk to the lab");
    let unnamed = |errno: Errno| CliError::system("name a host of the lab")(errno.into());
    sethostname(args.name.as_bytes()).map_err(unnamed)?;
    let files = LabFiles::new(&args.folder);
    mount_all(&files, &args.name)?;
    let mut output = io::stdout();
    writeln!(output, "{}", std::process::id()).map_err(&failed)?;
    let mut input = io::stdin().lock();
    let mut line = String::new();
    if input.read_line(&mut line).map_err(&failed)? == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let path = files.names();
    let all = match fs::read_to_string(&path) {
        Ok(names) => addresses(&names),
        Err(error) => return Err(CliError::Read { path, error }),
    };
    run_ip(&network_commands(args, &all))?;
    writeln!(output, "ready").map_err(&failed)?;
    // An error ends the host like the end of the input.
    let _ = io::copy(&mut input, &mut io::sink());
    Ok(ExitCode::SUCCESS)
}

/// Mounts the file systems that differ between hosts. They are visible on this host only.
fn mount_all(files: &LabFiles, host: &str) -> Result<(), LabError> {
    let failed = |what| move |errno: Errno| LabError::Mount { what, error: errno.into() };
    let safe = MountFlags::NOSUID | MountFlags::NODEV;
    // Process ids in a lab differ from those outside.
    let flags = safe | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None::<&CStr>).map_err(failed("/proc"))?;
    mount_bind(files.names(), "/etc/hosts").map_err(failed("/etc/hosts"))?;
    if files.name_services().exists() {
        mount_bind(files.name_services(), NAME_SERVICES).map_err(failed(NAME_SERVICES))?;
    }
    let is_folder = |path: &str| fs::metadata(path).is_ok_and(|folder| folder.is_dir());
    if is_folder(NAME_CACHE) {
        mount("tmpfs", NAME_CACHE, "tmpfs", flags, c"mode=0755").map_err(failed(NAME_CACHE))?;
    }
    if is_folder("/dev/shm") {
        let data = c"mode=1777";
        mount("tmpfs", "/dev/shm", "tmpfs", safe, data).map_err(failed("/dev/shm"))?;
    }
    // Some containers forbid this, and only UCX and few other programs look for network devices
    // there.
    if let Err(error) = mount_devices(files, host) {
        tracing::info!(%error, host, "/sys has the network devices of the machine");
    }
    Ok(())
}

/// Mounts the network devices of the host below `/sys`; other folders there stay as they are.
fn mount_devices(files: &LabFiles, host: &str) -> io::Result<()> {
    let system = files.system(host);
    fs::create_dir(&system)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("sysfs", &system, "sysfs", flags, None::<&CStr>)?;
    for folder in ["class/net", "devices/virtual/net"] {
        mount_bind(system.join(folder), format!("/sys/{folder}"))?;
    }
    Ok(())
}

/// Returns the commands of `ip` for the network of a host, with routes to the addresses of all
/// hosts, `all`. Other addresses have no route, so that a program that connects to one gets an
/// error at once.
fn network_commands(args: &LabHostArgs, all: &[Ipv4Addr]) -> String {
    let LabHostArgs { address, device, .. } = args;
    let mut commands = format!(
        "link set dev lo up\n\
         link set dev {device} name {DEVICE}\n\
         link set dev {DEVICE} mtu {MTU} txqueuelen {QUEUE_PACKETS} up\n\
         address add {address}/{PREFIX_BITS} dev {DEVICE} noprefixroute\n"
    );
    for other in all.iter().filter(|&other| other != address) {
        commands += &format!("route add {other}/32 dev {DEVICE}\n");
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_device_with_routes_to_the_other_hosts() {
        let all = [(1, 1), (2, 1), (2, 2)].map(|(site, host)| Ipv4Addr::new(10, site, 0, host));
        let args = LabHostArgs {
            name: "b2".to_owned(),
            address: all[2],
            device: "lab3".to_owned(),
            folder: "/run/lab".into(),
        };
        let commands = network_commands(&args, &all);
        let lines: Vec<&str> = commands.lines().collect();
        let expected = [
            "link set dev lo up",
            "link set dev lab3 name eth0",
            "link set dev eth0 mtu 1500 txqueuelen 4096 up",
            "address add 10.2.0.2/8 dev eth0 noprefixroute",
            "route add 10.1.0.1/32 dev eth0",
            "route add 10.2.0.1/32 dev eth0",
        ];
        assert_eq!(lines, expected);
    }
}
