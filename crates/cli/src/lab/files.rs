//! The files of a lab, and the environment variables that name them.
//!
//! | file | content |
//! | --- | --- |
//! | `names` | `/etc/hosts` of all hosts |
//! | `nsswitch.conf` | `/etc/nsswitch.conf` of all hosts, if the machine has one |
//! | `hosts.openmpi`, `hosts.mpich` | the hosts and their slots, as Open MPI and MPICH read them |
//! | `processes` | the process of each host, for `ssh` |
//! | `programs/ssh` | runs a command on another host of the lab |
//! | `temporary` | temporary files of Open MPI |
//! | `runtime` | files of gridctl about jobs that are started in the lab |
//! | `system-HOST` | a sysfs of the host, whose network devices are bind-mounted to its `/sys` |
//!
//! Everything here is a function of its arguments.

use super::lab_host::LabHost;
use crate::hosts::quoted;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The `$PATH` of the command if the user has none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
/// The file with the services that resolve names of hosts; see nsswitch.conf(5).
pub(super) const NAME_SERVICES: &str = "/etc/nsswitch.conf";
/// Settings for hosts that share the cores of one machine; settings of the user come first.
///
/// Open MPI binds the first process of each host to the first core, which all hosts share. It also
/// polls as if each process had a core. Inside of a user namespace, every user is root.
const DEFAULTS: [(&str, &str); 7] = [
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_MCA_hwloc_default_binding_policy", "none"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
];

/// The paths of the files.
#[derive(Clone, Debug)]
pub(super) struct LabFiles {
    folder: PathBuf,
}

impl LabFiles {
    /// The files in a folder that no other lab uses.
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn names(&self) -> PathBuf {
        self.folder.join("names")
    }

    pub(super) fn name_services(&self) -> PathBuf {
        self.folder.join("nsswitch.conf")
    }

    pub(super) fn open_mpi(&self) -> PathBuf {
        self.folder.join("hosts.openmpi")
    }

    pub(super) fn mpich(&self) -> PathBuf {
        self.folder.join("hosts.mpich")
    }

    pub(super) fn processes(&self) -> PathBuf {
        self.folder.join("processes")
    }

    pub(super) fn programs(&self) -> PathBuf {
        self.folder.join("programs")
    }

    pub(super) fn ssh(&self) -> PathBuf {
        self.programs().join("ssh")
    }

    pub(super) fn temporary(&self) -> PathBuf {
        self.folder.join("temporary")
    }

    pub(super) fn runtime(&self) -> PathBuf {
        self.folder.join("runtime")
    }

    pub(super) fn system(&self, host: &str) -> PathBuf {
        self.folder.join(format!("system-{host}"))
    }

    /// Returns the variables of the command, given those of the user.
    ///
    /// The variables of Open MPI 4 begin with `OMPI_`, those of the launcher of Open MPI 5 with
    /// `PRTE_`, and those of the launcher of MPICH with `HYDRA_`.
    pub(super) fn variables(
        &self,
        of_user: impl Fn(&str) -> Option<OsString>,
    ) -> Vec<(&'static str, OsString)> {
        let mut programs = self.programs().into_os_string();
        programs.push(":");
        programs.push(of_user("PATH").unwrap_or_else(|| DEFAULT_PATH.into()));
        let [ssh, open_mpi, mpich, temporary, runtime] =
            [self.ssh(), self.open_mpi(), self.mpich(), self.temporary(), self.runtime()]
                .map(PathBuf::into_os_string);
        let files = [
            ("PATH", programs),
            ("XDG_RUNTIME_DIR", runtime),
            ("GRIDCTL_SSH", "ssh".into()),
            ("GRIDCTL_LAB_HOSTFILE", open_mpi.clone()),
            ("OMPI_MCA_plm_rsh_agent", ssh.clone()),
            ("OMPI_MCA_orte_default_hostfile", open_mpi.clone()),
            ("OMPI_MCA_orte_tmpdir_base", temporary.clone()),
            ("PRTE_MCA_plm_ssh_agent", ssh.clone()),
            ("PRTE_MCA_prte_default_hostfile", open_mpi),
            ("PRTE_MCA_prte_tmpdir_base", temporary),
            ("HYDRA_LAUNCHER", "ssh".into()),
            ("HYDRA_LAUNCHER_EXEC", ssh),
            ("HYDRA_HOST_FILE", mpich),
        ];
        let defaults = DEFAULTS.into_iter().filter(|(name, _)| of_user(name).is_none());
        files.into_iter().chain(defaults.map(|(name, value)| (name, value.into()))).collect()
    }
}

/// Returns `/etc/hosts`: the address of each host, its name, and the name without its domain if no
/// other host has the same short name.
pub(super) fn names(hosts: &[LabHost]) -> String {
    let mut text = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
    let short = |host: &LabHost| host.name.split('.').next().unwrap_or_default().to_lowercase();
    for host in hosts {
        let own = short(host);
        let is_alone = hosts.iter().filter(|other| short(other) == own).count() == 1;
        let alias = if is_alone && own != host.name.to_lowercase() { own } else { String::new() };
        let line = format!("{} {} {alias}", host.address, host.name);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the addresses of all hosts, given `/etc/hosts`.
pub(super) fn addresses(names: &str) -> Vec<Ipv4Addr> {
    let first_words = names.lines().filter_map(|line| line.split(' ').next());
    let addresses = first_words.filter_map(|word| word.parse::<Ipv4Addr>().ok());
    addresses.filter(|address| !address.is_loopback()).collect()
}

/// Returns nsswitch.conf(5) with `/etc/hosts` as the only source of host names, given the file of
/// the machine. Other services run outside of the lab and do not know the names.
pub(super) fn name_services(of_machine: &str) -> String {
    let is_of_hosts =
        |line: &str| line.split_once(':').is_some_and(|(name, _)| name.trim() == "hosts");
    let others = of_machine.lines().filter(|line| !is_of_hosts(line));
    others.chain(["hosts: files"]).flat_map(|line| [line, "\n"]).collect()
}

/// Returns the host file of Open MPI.
pub(super) fn open_mpi_hosts(hosts: &[LabHost]) -> String {
    lines(hosts, |host| format!("{} slots={}", host.name, host.slots))
}

/// Returns the host file of MPICH.
pub(super) fn mpich_hosts(hosts: &[LabHost]) -> String {
    lines(hosts, |host| format!("{}:{}", host.name, host.slots))
}

/// Returns the table of all hosts and their processes; `processes` has the order of `hosts`.
pub(super) fn process_table(hosts: &[LabHost], processes: &[u32]) -> String {
    let mut processes = processes.iter();
    lines(hosts, |host| {
        let process = processes.next().copied().unwrap_or_default();
        format!("{} {} {process}", host.name, host.address)
    })
}

/// Finds the process of a host in the table, by its name with or without the domain, or by its
/// address.
pub(super) fn process_of(table: &str, host: &str) -> Option<u32> {
    let found = |is_it: &dyn Fn(&str, &str) -> bool| {
        table.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (name, address, process) = (words.next()?, words.next()?, words.next()?);
            is_it(name, address).then(|| process.parse().ok())?
        })
    };
    let has_short_name = |name: &str, _: &str| {
        name.split('.').next().is_some_and(|short| short.eq_ignore_ascii_case(host))
    };
    found(&|name, address| name.eq_ignore_ascii_case(host) || address == host)
        .or_else(|| found(&has_short_name))
}

/// Returns the script that stands in for `ssh`: it runs the program at the path `gridctl`.
pub(super) fn ssh_script(gridctl: &Path, table: &Path) -> Vec<u8> {
    let mut text = b"#!/bin/sh\nexec ".to_vec();
    let words = [gridctl.as_os_str(), OsStr::new("__lab"), OsStr::new("ssh"), table.as_os_str()];
    for word in words {
        text.extend_from_slice(quoted(word).as_bytes());
        text.push(b' ');
    }
    text.extend_from_slice(b"-- \"$@\"\n");
    text
}

fn lines(hosts: &[LabHost], mut line: impl FnMut(&LabHost) -> String) -> String {
    hosts.iter().fold(String::new(), |mut text, host| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line(host));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_file;
    use gridspan_topology::GridSpec;

    fn hosts(text: &str) -> Vec<LabHost> {
        LabHost::all_of(&GridSpec::from_toml(text).unwrap()).unwrap()
    }

    fn two_sites() -> Vec<LabHost> {
        hosts("[site.a]\nhosts = [\"d1.delft.example\"]\npes = 2\n[site.b]\nhosts = [\"u1\"]")
    }

    #[test]
    fn each_launcher_gets_the_slots_in_its_form() {
        let hosts = two_sites();
        let (one, other) = (open_mpi_hosts(&hosts), mpich_hosts(&hosts));
        assert_eq!(one, "d1.delft.example slots=2\nu1 slots=1\n");
        assert_eq!(other, "d1.delft.example:2\nu1:1\n");
        assert_eq!(host_file::parse(&one).unwrap(), host_file::parse(&other).unwrap());
    }

    #[test]
    fn hosts_are_known_by_their_names_and_by_short_names_that_are_unique() {
        let text = names(&two_sites());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "127.0.0.1 localhost");
        assert_eq!(lines[2..], ["10.1.0.1 d1.delft.example d1", "10.2.0.1 u1"]);
        assert_eq!(addresses(&text), [Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 2, 0, 1)]);
        let alike = hosts("[site.a]\nhosts = [\"d1.x\"]\n[site.b]\nhosts = [\"D1.y\"]");
        assert!(names(&alike).ends_with("10.1.0.1 d1.x\n10.2.0.1 D1.y\n"), "{}", names(&alike));
    }

    #[test]
    fn names_of_hosts_are_looked_for_in_the_file_only_and_other_names_as_before() {
        let of_machine = "# hosts: dns\npasswd: files sss\n hosts :  resolve [!UNAVAIL=return] dns\n\
                          hosts_x: dns\nnetworks: files";
        let expected =
            "# hosts: dns\npasswd: files sss\nhosts_x: dns\nnetworks: files\nhosts: files\n";
        assert_eq!(name_services(of_machine), expected);
        assert_eq!(name_services(""), "hosts: files\n");
    }

    #[test]
    fn the_process_of_a_host_is_found_by_its_name_or_address() {
        let table = process_table(&two_sites(), &[12, 34]);
        assert_eq!(table, "d1.delft.example 10.1.0.1 12\nu1 10.2.0.1 34\n");
        for name in ["d1.delft.example", "D1.Delft.Example", "d1", "10.1.0.1"] {
            assert_eq!(process_of(&table, name), Some(12), "{name}");
        }
        assert_eq!(process_of(&table, "u1"), Some(34));
        for name in ["", "delft", "u", "10.1.0", "34"] {
            assert_eq!(process_of(&table, name), None, "{name}");
        }
    }

    #[test]
    fn the_script_quotes_paths() {
        let script = ssh_script(Path::new("/opt/my tools/gridctl"), Path::new("/run/x/processes"));
        let text = String::from_utf8(script).unwrap();
        let line = "exec '/opt/my tools/gridctl' __lab ssh /run/x/processes -- \"$@\"\n";
        assert_eq!(text, format!("#!/bin/sh\n{line}"));
    }

    #[test]
    fn launchers_are_told_of_the_lab_and_other_settings_of_the_user_stay() {
        let files = LabFiles::new(Path::new("/run/lab"));
        let of_user = |name: &str| match name {
            "PATH" => Some("/usr/bin".into()),
            "OMPI_MCA_mpi_yield_when_idle" => Some("0".into()),
            "HYDRA_LAUNCHER" => Some("slurm".into()),
            _ => None,
        };
        let variables = files.variables(of_user);
        let value = |wanted: &str| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| value.to_str().unwrap())
        };
        assert_eq!(value("PATH"), Some("/run/lab/programs:/usr/bin"));
        assert_eq!(value("OMPI_MCA_plm_rsh_agent"), Some("/run/lab/programs/ssh"));
        assert_eq!(value("OMPI_MCA_orte_default_hostfile"), Some("/run/lab/hosts.openmpi"));
        assert_eq!(value("HYDRA_HOST_FILE"), Some("/run/lab/hosts.mpich"));
        assert_eq!(value("HYDRA_LAUNCHER"), Some("ssh"), "another launcher cannot reach hosts");
        assert_eq!(value("OMPI_MCA_mpi_yield_when_idle"), None);
        assert_eq!(value("OMPI_MCA_hwloc_base_binding_policy"), Some("none"));
    }
}
