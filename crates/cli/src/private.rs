//! Files and folders that only this user can read.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Options to write a file that only this user can read if it is created.
pub(crate) fn file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Creates a folder that only this user may enter, or uses one that exists.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    make(path, rustix::process::getuid().as_raw())
}

/// Creates a folder that only its owner may enter. Refuses any other folder at the path, because
/// any user can create folders among temporary files.
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
        let folder = tempfile::tempdir().unwrap();
        let own = rustix::process::getuid().as_raw();
        let path = folder.path().join("gridspan");
        make(&path, own).unwrap();
        make(&path, own).unwrap();
        assert!(make(&path, own + 1).is_err(), "another user's");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(make(&path, own).is_err(), "open to all");
        std::os::unix::fs::symlink(folder.path(), folder.path().join("link")).unwrap();
        assert!(make(&folder.path().join("link"), own).is_err(), "a link");
    }
}
