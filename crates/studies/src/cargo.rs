//! Runs cargo from a program that cargo has started, builds `gridctl` with it, and reads the output
//! of `gridctl`.

use std::env;
use std::error::Error;
use std::path::{self, Path, PathBuf};
use std::process::Command;

/// The variable with the path of a `gridctl` that is built already.
const GIVEN: &str = "STUDIES_GRIDCTL";

/// Returns a command that runs cargo as it would run from a shell.
///
/// Cargo describes the package of a program that it starts in variables. If they stayed, build
/// scripts that depend on them would run again, and all that depends on their crates would be built
/// again.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let is_of_package = |name: &str| {
            name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || name == "OUT_DIR"
        };
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Builds `gridctl` in release, for an example that was built so, and returns its path. If
/// `STUDIES_GRIDCTL` is the path of a program, builds nothing and returns that.
///
/// # Errors
///
/// If it cannot be built or is not there, or the example runs outside of cargo's folders.
pub fn gridctl() -> Result<PathBuf, Box<dyn Error>> {
    if let Some(given) = env::var_os(GIVEN).map(PathBuf::from) {
        return match given.exists() {
            true => Ok(path::absolute(given)?),
            false => Err(format!("{GIVEN}: there is no {}", given.display()).into()),
        };
    }
    let built = cargo().args(["build", "--release", "--quiet", "--bin", "gridctl"]).status()?;
    let path = env::current_exe()?;
    let folder = path.parent().and_then(Path::parent).ok_or("this program has no folder")?;
    let path = folder.join("gridctl");
    match built.success() && path.exists() {
        true => Ok(path),
        false => Err("cargo has not built gridctl; run this example with --release".into()),
    }
}

/// Returns the step that a line of `leanmd`'s report is about, as `gridctl run` prints it.
pub fn reported_step(line: &str) -> Option<u64> {
    let (_, row) = line.split_once('│')?;
    let mut words = row.split_ascii_whitespace();
    let step = words.next()?.parse().ok()?;
    (words.count() == 4).then_some(step)
}
