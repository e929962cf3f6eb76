//! Where checkpoints are stored.

use super::folder::Folder;
use crate::error::StartError;
use bytes::Bytes;
use std::fmt::{Debug, Display};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A place for objects. The name of an object is `GROUP/NAME`. An object is there as a whole or not
/// at all, whatever happens to the machine.
pub(super) trait CheckpointStorage: Debug + Send + Sync {
    /// Stores an object of these pieces, in place of an earlier one.
    fn put(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()>;

    /// Stores an object of these pieces if there is none of this name; of several nodes that do
    /// this at once, one succeeds.
    fn put_new(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()>;

    /// Reads an object.
    fn get(&self, name: &str) -> io::Result<Bytes>;

    /// Whether there is such an object.
    fn has(&self, name: &str) -> io::Result<bool>;

    /// The groups of all objects, in any order.
    fn groups(&self) -> io::Result<Vec<String>>;

    /// Removes all objects of a group.
    fn remove_all(&self, group: &str) -> io::Result<()>;

    /// The path or address of an object, for a person.
    fn path_of(&self, name: &str) -> String;
}

/// Opens the place at a path, or at the address of an object store. `create`: creates a folder that
/// does not exist.
pub(super) fn open(
    location: &Path,
    create: bool,
) -> Result<Arc<dyn CheckpointStorage>, StartError> {
    let address = location.to_str().filter(|text| text.contains("://"));
    let opened: io::Result<Arc<dyn CheckpointStorage>> = match address {
        Some(address) => open_address(address),
        None => Folder::open(location, create).map(|folder| Arc::new(folder) as _),
    };
    opened.map_err(|error| unusable(&location.display(), &error))
}

#[cfg(feature = "object-store")]
fn open_address(address: &str) -> io::Result<Arc<dyn CheckpointStorage>> {
    let store = super::object_storage::ObjectStorage::open(address)?;
    Ok(Arc::new(store))
}

#[cfg(not(feature = "object-store"))]
fn open_address(_address: &str) -> io::Result<Arc<dyn CheckpointStorage>> {
    let reason = "this program was built without object stores; build it with the feature \
                  `object-store`, or name a folder";
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}

pub(super) fn unusable(place: &dyn Display, reason: &dyn Display) -> StartError {
    StartError::Checkpoint { reason: format!("{place}: {reason}") }
}
