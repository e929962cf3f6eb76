//! The implementations of MPI that studies compare with, as Debian installs them side by side:
//! `mpicc.openmpi` and `mpirun.mpich`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An implementation of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mpi {
    /// Its name.
    pub name: &'static str,
    /// The suffix of the names of its commands.
    pub suffix: &'static str,
}

/// The implementations.
pub const IMPLEMENTATIONS: [Mpi; 2] =
    [Mpi { name: "Open MPI", suffix: "openmpi" }, Mpi { name: "MPICH", suffix: "mpich" }];

impl Mpi {
    /// Compiles a program in C into `folder`, and returns its path.
    ///
    /// # Errors
    ///
    /// The reason, such as that this implementation is not installed.
    pub fn compile(&self, source: &Path, folder: &Path) -> Result<PathBuf, String> {
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let program = folder.join(format!("{name}.{}", self.suffix));
        let compiler = format!("mpicc.{}", self.suffix);
        let mut command = Command::new(&compiler);
        match command.arg("-O3").arg(source).arg("-o").arg(&program).status() {
            Ok(status) if status.success() => Ok(program),
            Ok(status) => Err(format!("{compiler} ended with {status}")),
            Err(error) => Err(format!("{compiler}: {error}")),
        }
    }

    /// Returns the words of a command that starts this number of ranks of `program`.
    pub fn launch(&self, ranks: u32, program: &Path) -> Vec<String> {
        let mut command =
            vec![format!("mpirun.{}", self.suffix), "-n".to_owned(), ranks.to_string()];
        if self.suffix == "openmpi" {
            // Containers run as root, and the ranks may be more than the machine has cores.
            command.extend(["--allow-run-as-root", "--oversubscribe"].map(str::to_owned));
        }
        command.push(program.display().to_string());
        command
    }
}
