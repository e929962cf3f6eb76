//! Where checkpoints are stored.

use bytes::Bytes;
use std::fmt::Debug;
use std::io;

/// Name of the object that makes a group a complete checkpoint.
pub(super) const MANIFEST_NAME: &str = "manifest";

/// A place for objects. The name of an object is `GROUP/NAME`. An object is there as a whole or not
/// at all, whatever happens to the machine.
pub(super) trait CheckpointStorage: Debug + Send + Sync {
    /// Stores an object of these pieces, in place of an earlier one.
    fn put(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()>;

    /// Stores an object of these pieces if there is none of this name. If several nodes do this at
    /// once, one succeeds.
    fn put_new(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()>;

    /// Stores an object of these pieces if there is none of this name, as [`put_new`](Self::put_new)
    /// does, but fails where the place cannot ensure that only one succeeds.
    fn put_once(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()> {
        self.put_new(name, pieces)
    }

    /// Ensures that a stored object stays there, whatever happens to the machine. Another process
    /// may have stored it, and ended before it could ensure this.
    fn flush(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    /// Reads an object.
    fn get(&self, name: &str) -> io::Result<Bytes>;

    /// Whether there is such an object.
    fn has(&self, name: &str) -> io::Result<bool>;

    /// The groups of all objects, in any order.
    fn groups(&self) -> io::Result<Vec<String>>;

    /// Removes all objects of a group, [`MANIFEST_NAME`] before the others.
    fn remove_all(&self, group: &str) -> io::Result<()>;

    /// The path or address of an object, for messages to users.
    fn path_of(&self, name: &str) -> String;
}
