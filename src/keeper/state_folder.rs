//! The folder of this host for files that outlive a login of the user.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Returns the folder for files that outlive a login of the user: `$XDG_STATE_HOME/gridspan`, or
/// `~/.local/state/gridspan`. It is created if it does not exist.
///
/// # Errors
///
/// If neither `XDG_STATE_HOME` nor `HOME` is set, or the folder cannot be created or is not
/// private.
pub fn state_folder() -> io::Result<PathBuf> {
    let of = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let state = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")));
    let state = state.ok_or_else(|| io::Error::other("neither XDG_STATE_HOME nor HOME is set"))?;
    fs::create_dir_all(&state)?;
    let path = state.join("gridspan");
    private_folder(&path)?;
    Ok(path)
}

/// Creates a folder that only this user may enter, or uses one that exists.
///
/// # Errors
///
/// If the folder cannot be created, belongs to another user or is open to others. This matters for
/// a folder of temporary files, in which any user can create folders.
pub fn private_folder(path: &Path) -> io::Result<()> {
    make(path, rustix::process::getuid().as_raw())
}

fn make(path: &Path, own: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != own || found.mode() & 0o077 != 0 {
        let path = path.display();
        return Err(io::Error::other(format!("{path} is not a private folder; remove it")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let folder = std::env::temp_dir().join(format!("gridspan-private-{}", std::process::id()));
        // An earlier test may have left it.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let own = rustix::process::getuid().as_raw();
        let path = folder.join("gridspan");
        make(&path, own).unwrap();
        make(&path, own).unwrap();
        assert!(make(&path, own + 1).is_err(), "another user's");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(make(&path, own).is_err(), "open to all");
        std::os::unix::fs::symlink(&folder, folder.join("link")).unwrap();
        assert!(make(&folder.join("link"), own).is_err(), "a link");
        fs::remove_dir_all(&folder).unwrap();
    }
}
