//! What an agent of `gridctl check` finds on its host.

use super::protocol::{Facts, PortState, ProgramState};
use crate::digest::{digest, hex};
use gridspan::variables::cores;
use gridspan_runtime::driver::Memory;
use rustix::fs::{Access, access, statvfs};
use std::fs;
use std::io;
use std::path::Path;

/// The file in which Linux lists the processors of the machine.
const PROCESSORS: &str = "/sys/devices/system/cpu/online";
/// The file with the load of the machine.
const LOAD: &str = "/proc/loadavg";

/// Looks at this machine, and at a program on it.
pub(super) fn facts(program: &Path, ports: Vec<PortState>) -> Facts {
    let memory = Memory::of_machine();
    let disk = statvfs(".").ok();
    let cores = cores();
    Facts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program: program_state(program),
        cores,
        load: load(cores, |path| fs::read_to_string(path).ok()),
        memory_bytes: memory.map(Memory::total_bytes),
        free_memory_bytes: memory.map(Memory::available_bytes),
        free_disk_bytes: disk.map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize)),
        ports,
    }
}

/// Returns the mean load of the last minute, from files that `read` reads. Returns `None` if a
/// process may use only `cores` of more processors, as in a container: the load is that of the
/// whole machine, and other programs may run on the other processors.
fn load(cores: u32, read: impl Fn(&str) -> Option<String>) -> Option<f64> {
    if cores < count(&read(PROCESSORS)?)? {
        return None;
    }
    // See proc_loadavg(5).
    read(LOAD)?.split(' ').next()?.parse().ok().filter(|load: &f64| load.is_finite())
}

/// Returns the number of processors in a list such as `0-3,8`.
fn count(list: &str) -> Option<u32> {
    list.trim().split(',').try_fold(0_u32, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// Looks at a program on this machine.
pub(super) fn program_state(path: &Path) -> ProgramState {
    let unreadable = |error: io::Error| ProgramState::Unreadable { reason: error.to_string() };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return ProgramState::Missing,
        Err(error) => return unreadable(error),
        Ok(data) if !data.is_file() => return ProgramState::NotExecutable,
        Ok(_) if access(path, Access::EXEC_OK).is_err() => return ProgramState::NotExecutable,
        Ok(_) => {}
    }
    match digest(path) {
        Ok(bytes) => ProgramState::Executable { digest: hex(&bytes) },
        Err(error) => unreadable(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_load_is_read_as_the_kernel_writes_it() {
        let load = |text: &str| {
            load(2, |path| Some(if path == LOAD { text.to_owned() } else { "0-1\n".to_owned() }))
        };
        assert_eq!(load("0.20 0.18 0.12 1/80 11206\n"), Some(0.2));
        assert_eq!((load(""), load("inf 1"), load("x")), (None, None, None));
    }

    #[test]
    fn the_load_of_a_machine_says_nothing_about_a_part_of_its_cores() {
        let read = |path: &str| match path {
            LOAD => Some("30.00 29.50 28.00 31/900 11206\n".to_owned()),
            _ => Some("0-15,32-79\n".to_owned()),
        };
        assert_eq!((load(64, read), load(2, read)), (Some(30.0), None));
        assert_eq!(load(64, |path| read(path).filter(|_| path == LOAD)), None);
        assert_eq!(
            (count("3"), count("0-3,8\n"), count("3-0"), count("")),
            (Some(1), Some(5), None, None)
        );
    }

    #[test]
    fn programs_that_cannot_run_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job");
        assert_eq!(program_state(&path), ProgramState::Missing);
        assert_eq!(program_state(&path.join("below")), ProgramState::Missing);
        assert_eq!(program_state(folder.path()), ProgramState::NotExecutable);
        fs::write(&path, "abc").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(program_state(&path), ProgramState::NotExecutable);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let ProgramState::Executable { digest } = program_state(&path) else { panic!() };
        // FIPS 180-2, appendix B.1.
        assert!(digest.starts_with("ba7816bf") && digest.len() == 64, "{digest}");
    }

    #[test]
    fn this_machine_has_cores_and_a_disk() {
        let found = facts(Path::new("/nowhere"), vec![]);
        assert!(found.cores > 0 && found.free_disk_bytes.is_some(), "{found:?}");
        assert_eq!(found.program, ProgramState::Missing);
    }
}
