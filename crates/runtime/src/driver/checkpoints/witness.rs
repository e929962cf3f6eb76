//! A place that settles on one of several conflicting values, for good.

use super::archive::open_storage;
use super::storage::CheckpointStorage;
use bytes::Bytes;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A folder, or a place in an object store, that keeps the first of several conflicting values.
///
/// ```
/// use gridspan_runtime::driver::Witness;
///
/// # let folder = tempfile::tempdir().unwrap();
/// let witness = Witness::create(folder.path())?;
/// assert_eq!(witness.settle("job/run-0", b"one half")?, b"one half"[..]);
/// assert_eq!(witness.settle("job/run-0", b"the other")?, b"one half"[..]);
/// assert_eq!(witness.settled("job/run-1")?, None);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Witness(Arc<dyn CheckpointStorage>);

impl Witness {
    /// Opens a place: a folder, which is created if it does not exist, or the address of a place in
    /// an object store.
    ///
    /// # Errors
    ///
    /// That of the system, or [`Unsupported`](io::ErrorKind::Unsupported) for an address if this
    /// program was built without the feature `object-store`.
    pub fn create(location: &Path) -> io::Result<Self> {
        Self::at(location, true)
    }

    /// Opens a place, as [`create`](Self::create) does, but creates no folder.
    ///
    /// # Errors
    ///
    /// Those of [`create`](Self::create), and that of the system if there is no such folder.
    pub fn open(location: &Path) -> io::Result<Self> {
        Self::at(location, false)
    }

    fn at(location: &Path, create: bool) -> io::Result<Self> {
        let opened = open_storage(location, create).map(Self);
        opened.map_err(|error| about(&location.display(), &error))
    }

    /// Settles a value under a name `GROUP/NAME`, unless one is settled. Returns the settled value.
    /// All processes that do this, on any machines and at any time, get the same value.
    ///
    /// # Errors
    ///
    /// If the place cannot be reached, or is a folder of a file system without hard links. It is
    /// then not known whether a value is settled.
    pub fn settle(&self, name: &str, value: &[u8]) -> io::Result<Bytes> {
        let put = self.0.put_once(name, vec![Bytes::copy_from_slice(value)]);
        // An earlier attempt may have succeeded without an answer, so the stored value counts. The
        // process of that attempt may have ended before the value was sure to outlive the machine.
        let settled = self.0.get(name).map_err(|error| put.err().unwrap_or(error));
        let settled = settled.and_then(|settled| self.0.flush(name).map(|()| settled));
        settled.map_err(|error| about(&self.0.path_of(name), &error))
    }

    /// Checks that the place keeps the settled value of a name, by an attempt to settle another
    /// one: some object stores ignore the condition that there is no value yet.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](io::ErrorKind::Unsupported) if the place accepts another value, so that it
    /// is no witness; else that of the system, if the place cannot be reached.
    pub fn check(&self, name: &str) -> io::Result<()> {
        let checked = self.0.get(name).and_then(|settled| {
            let other = Bytes::from([&b"not "[..], &settled[..]].concat());
            let put = self.0.put_once(name, vec![other]);
            let is_kept = self.0.get(name)? == settled;
            match put {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_kept => Ok(()),
                Err(error) if is_kept => Err(error),
                _ => {
                    let reason = "it replaces what is there, although it must not (If-None-Match)";
                    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
                }
            }
        });
        checked.map_err(|error| about(&self.0.path_of(name), &error))
    }

    /// The value that is settled under a name, if there is one.
    ///
    /// # Errors
    ///
    /// That of the system, if the place cannot be reached.
    pub fn settled(&self, name: &str) -> io::Result<Option<Bytes>> {
        let value = match self.0.has(name) {
            Ok(true) => self.0.get(name).map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        value.map_err(|error| about(&self.0.path_of(name), &error))
    }
}

/// An error with the path or address that it is about.
fn about(place: &dyn Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{place}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::folder::Folder;
    use super::*;
    use std::collections::BTreeSet;
    use std::thread;

    /// Many threads settle different values at once.
    fn assert_one_holds(witness: &Witness) {
        for round in 0..20 {
            let name = format!("job/run-{round}");
            let settle = |value: u8| witness.settle(&name, &[value]).unwrap();
            let settled: BTreeSet<Bytes> = thread::scope(|scope| {
                let settle = &settle;
                let all: Vec<_> = (0..8).map(|value| scope.spawn(move || settle(value))).collect();
                all.into_iter().map(|it| it.join().unwrap()).collect()
            });
            assert_eq!(settled.len(), 1, "{settled:?}");
            witness.check(&name).unwrap();
            assert_eq!(witness.settled(&name).unwrap(), settled.into_iter().next());
        }
    }

    #[test]
    fn of_many_values_in_a_folder_one_is_settled() {
        let folder = tempfile::tempdir().unwrap();
        let witness = Witness::create(&folder.path().join("new")).unwrap();
        assert_one_holds(&witness);
        assert!(Witness::open(&folder.path().join("other")).is_err(), "it is not created");
    }

    #[cfg(feature = "object-store")]
    #[test]
    fn of_many_values_in_an_object_store_one_is_settled() {
        let storage = super::super::object_storage::ObjectStorage::in_memory();
        assert_one_holds(&Witness(Arc::new(storage)));
    }

    /// A place that ignores the condition that there is no object of a name.
    #[derive(Debug)]
    struct Careless {
        folder: Folder,
        /// Whether it reports that the object existed.
        refuses: bool,
        /// Whether objects outlive the machine.
        lasts: bool,
    }

    impl CheckpointStorage for Careless {
        fn put(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()> {
            self.folder.put(name, pieces)
        }

        fn put_new(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()> {
            self.folder.put(name, pieces)?;
            if self.refuses { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(()) }
        }

        fn flush(&self, name: &str) -> io::Result<()> {
            if self.lasts { self.folder.flush(name) } else { Err(io::Error::other("no disk")) }
        }

        fn get(&self, name: &str) -> io::Result<Bytes> {
            self.folder.get(name)
        }

        fn has(&self, name: &str) -> io::Result<bool> {
            self.folder.has(name)
        }

        fn groups(&self) -> io::Result<Vec<String>> {
            self.folder.groups()
        }

        fn remove_all(&self, group: &str) -> io::Result<()> {
            self.folder.remove_all(group)
        }

        fn path_of(&self, name: &str) -> String {
            self.folder.path_of(name)
        }
    }

    #[test]
    fn a_place_that_replaces_what_is_settled_is_no_witness() {
        for refuses in [false, true] {
            let path = tempfile::tempdir().unwrap();
            let folder = Folder::open(path.path(), false).unwrap();
            let witness = Witness(Arc::new(Careless { folder, refuses, lasts: true }));
            witness.settle("job/mark", b"this job").unwrap();
            for _ in 0..2 {
                let error = witness.check("job/mark").unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
                assert!(error.to_string().contains("job/mark: it replaces"), "{error}");
            }
            assert!(witness.check("job/other").is_err(), "nothing is settled");
        }
    }

    #[test]
    fn a_value_that_may_be_gone_after_a_crash_is_not_settled() {
        let path = tempfile::tempdir().unwrap();
        let folder = Folder::open(path.path(), false).unwrap();
        let place = Careless { folder, refuses: false, lasts: false };
        let error = Witness(Arc::new(place)).settle("job/run-0", b"one").unwrap_err().to_string();
        assert!(error.ends_with("job/run-0: no disk"), "{error}");
    }

    #[test]
    fn a_place_that_cannot_be_used_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let witness = Witness::create(folder.path()).unwrap();
        std::fs::write(folder.path().join("job"), b"a file").unwrap();
        let error = witness.settle("job/run-0", b"one").unwrap_err().to_string();
        assert!(error.contains("job/run-0: "), "{error}");
        assert_eq!(witness.settled("job/run-0").unwrap(), None);
    }
}
