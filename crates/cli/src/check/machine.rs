//! What an agent of `gridctl check` finds on its host.

use super::protocol::{Facts, PortState, ProgramState};
use crate::digest::{digest, hex};
use gridspan::variables::cores;
use gridspan_runtime::driver::Memory;
use rustix::fs::{Access, access, statvfs};
use std::fs;
use std::io;
use std::path::Path;

/// Looks at this machine, and at a program on it.
pub(super) fn facts(program: &Path, ports: Vec<PortState>) -> Facts {
    let memory = Memory::of_machine();
    let disk = statvfs(".").ok();
    Facts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program: program_state(program),
        cores: cores(),
        load: fs::read_to_string("/proc/loadavg").ok().as_deref().and_then(load),
        memory_bytes: memory.map(Memory::total_bytes),
        free_memory_bytes: memory.map(Memory::available_bytes),
        free_disk_bytes: disk.map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize)),
        ports,
    }
}

/// Returns the mean load of the last minute from a text in the format of proc_loadavg(5).
fn load(text: &str) -> Option<f64> {
    text.split(' ').next()?.parse().ok().filter(|load: &f64| load.is_finite())
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
        assert_eq!(load("0.20 0.18 0.12 1/80 11206\n"), Some(0.2));
        assert_eq!((load(""), load("inf 1"), load("x")), (None, None, None));
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
