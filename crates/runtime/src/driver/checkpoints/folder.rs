//! Objects as files, in a folder for each group. A file is written under a temporary name, flushed
//! to the disk, and then gets its final name.

use super::storage::{CheckpointStorage, MANIFEST_NAME};
use bytes::Bytes;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A folder with objects.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn open(path: &Path, create: bool) -> io::Result<Self> {
        if create {
            fs::create_dir_all(path)?;
        }
        match fs::metadata(path)?.is_dir() {
            true => Ok(Self(path.to_path_buf())),
            false => Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder")),
        }
    }

    /// Writes a file under a temporary name. Returns that name and the final one.
    fn write(&self, name: &str, pieces: &[Bytes]) -> io::Result<[PathBuf; 2]> {
        let then = self.0.join(name);
        // Other processes may write an object of this name at the same time.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unique = format!("{}-{}.new", std::process::id(), since.as_nanos());
        let now = then.with_extension(unique);
        if let Some(folder) = then.parent().filter(|folder| !folder.is_dir()) {
            fs::create_dir_all(folder)?;
            File::open(&self.0)?.sync_all()?;
        }
        let mut file = io::BufWriter::new(File::create_new(&now)?);
        let written = pieces
            .iter()
            .try_for_each(|piece| file.write_all(piece))
            .and_then(|()| file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all());
        match written {
            Ok(()) => Ok([now, then]),
            Err(error) => {
                // The disk may be full, so no partial file is left.
                let _ = fs::remove_file(&now);
                Err(error)
            }
        }
    }
}

impl CheckpointStorage for Folder {
    fn put(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()> {
        let [now, then] = self.write(name, &pieces)?;
        rename(&now, &then)?;
        sync_folder_of(&then)
    }

    fn put_new(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()> {
        let [now, then] = self.write(name, &pieces)?;
        // Unlike renaming, this fails if there is a file of that name.
        match fs::hard_link(&now, &then) {
            // The file system has no links.
            Err(error) if lacks_links(&error) && matches!(then.try_exists(), Ok(false)) => {
                rename(&now, &then)?;
            }
            linked => {
                fs::remove_file(&now)?;
                linked?;
            }
        }
        sync_folder_of(&then)
    }

    fn put_once(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()> {
        let [now, then] = self.write(name, &pieces)?;
        let linked = fs::hard_link(&now, &then);
        fs::remove_file(&now)?;
        linked?;
        sync_folder_of(&then)
    }

    fn flush(&self, name: &str) -> io::Result<()> {
        sync_folder_of(&self.0.join(name))
    }

    fn get(&self, name: &str) -> io::Result<Bytes> {
        fs::read(self.0.join(name)).map(Bytes::from)
    }

    fn has(&self, name: &str) -> io::Result<bool> {
        match fs::metadata(self.0.join(name)) {
            Ok(found) => Ok(found.is_file()),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(false),
                _ => Err(error),
            },
        }
    }

    fn groups(&self) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        Ok(fs::read_dir(&self.0)?.filter_map(name).collect())
    }

    fn remove_all(&self, group: &str) -> io::Result<()> {
        let folder = self.0.join(group);
        // The manifest is removed first, and its removal is flushed to the disk, so that the rest
        // does not look like a complete checkpoint if this process or the machine ends meanwhile.
        let manifest = folder.join(MANIFEST_NAME);
        match fs::remove_file(&manifest) {
            Ok(()) => sync_folder_of(&manifest)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        fs::remove_dir_all(folder)
    }

    fn path_of(&self, name: &str) -> String {
        match name {
            "" => self.0.display().to_string(),
            _ => self.0.join(name).display().to_string(),
        }
    }
}

/// Gives a file its final name, in place of an earlier file. If it cannot, no file with the
/// temporary name is left.
fn rename(now: &Path, then: &Path) -> io::Result<()> {
    fs::rename(now, then).inspect_err(|_| drop(fs::remove_file(now)))
}

/// Whether a link failed because the file system has none: `EPERM`, `ENOSYS`, `EOPNOTSUPP` or
/// `EMLINK`.
fn lacks_links(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), PermissionDenied | Unsupported | TooManyLinks)
}

/// Flushes the folder of a file to the disk, with the name of the file.
fn sync_folder_of(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_temporary_file_is_left_if_a_file_does_not_get_its_name() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), false).unwrap();
        // No file can get the name of a folder.
        fs::create_dir_all(place.path().join("group/name")).unwrap();
        let pieces = || vec![Bytes::from_static(b"data")];

        assert!(folder.put("group/name", pieces()).is_err());
        assert!(folder.put_new("group/name", pieces()).is_err());
        assert!(folder.put_once("group/name", pieces()).is_err());

        let entries = fs::read_dir(place.path().join("group")).unwrap();
        let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["name"]);
    }

    #[test]
    fn nothing_is_removed_before_the_manifest() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), false).unwrap();
        let piece = || vec![Bytes::from_static(b"data")];
        folder.put("group/part", piece()).unwrap();
        // A folder of this name cannot be removed as a file.
        fs::create_dir_all(place.path().join("group/manifest")).unwrap();

        assert!(folder.remove_all("group").is_err());

        assert!(folder.has("group/part").unwrap());
        fs::remove_dir(place.path().join("group/manifest")).unwrap();
        folder.put("group/manifest", piece()).unwrap();
        folder.remove_all("group").unwrap();
        assert_eq!(folder.groups().unwrap().len(), 0);
        folder.put("group/part", piece()).unwrap();
        folder.remove_all("group").unwrap();
        assert_eq!(folder.groups().unwrap().len(), 0, "without a manifest");
    }

    #[test]
    fn only_errors_of_file_systems_without_links_lead_to_a_rename() {
        use io::ErrorKind::{AlreadyExists, PermissionDenied, StorageFull, Unsupported};

        let lacks = [PermissionDenied, Unsupported, AlreadyExists, StorageFull]
            .map(|kind| lacks_links(&kind.into()));

        assert_eq!(lacks, [true, true, false, false]);
        assert!(!lacks_links(&io::ErrorKind::StaleNetworkFileHandle.into()));
    }
}
