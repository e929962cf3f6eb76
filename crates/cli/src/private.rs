//! Files and folders that only this user can read.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Options to write a file that only this user can read if it is created.
pub(crate) fn file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Creates a folder that only this user may enter, or uses one that exists.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    gridspan::keeper::private_folder(path)
}

/// Creates a folder that only this user may enter. Fails if it exists.
pub(crate) fn make_new_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}
