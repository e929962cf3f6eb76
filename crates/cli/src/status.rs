//! Status of running jobs: a small file for each, which its launcher keeps and other processes of
//! the same user read.
//!
//! # Where
//!
//! The files are in `$XDG_RUNTIME_DIR/gridspan`, or in `gridspan-UID` in the directory for
//! temporary files: a directory that only the user can enter. Detached jobs go on when the user has
//! logged out, so their files are beside their folders (see `job_folder`). The files of a job:
//!
//! - `ID.json`: its [`Status`], replaced as a whole on each change.
//! - `ID.lock`: locked while the launcher lives.
//! - `ID.sock`: the socket of its launcher, or of the job itself if it has no launcher (see
//!   `request`).
//! - `ID.invitation-N`, if guests may join: an invitation for one of them, until a process takes it
//!   (see `invitation`).
//!
//! # Failure
//!
//! A killed launcher leaves its files. The next process that lists the jobs finds the lock free and
//! removes them.

use crate::job_folder::status_folder;
use crate::private;
use crate::roster::Roster;
use gridspan::keeper::ProcessId;
use gridspan::links::LinkReport;
use gridspan_topology::GridSpec;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Version of the file. Files of other versions are not listed.
const VERSION: u32 = 4;
/// Size in bytes of the largest status file that is read.
const BYTES_MAX: u64 = 64 << 20;

/// A running job, as its file describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    version: u32,
    /// The job's name among those of this user: the program's name and the launcher's process id.
    pub(crate) id: String,
    /// Name of its program.
    pub(crate) program: String,
    /// The launcher; `None` if the system does not tell when a process began.
    pub(crate) launcher: Option<ProcessId>,
    /// Start of the job, in milliseconds of Unix time.
    pub(crate) began_ms: u64,
    written_ms: u64,
    /// The sites, hosts and PEs of the nodes that take part.
    pub(crate) grid: GridSpec,
    /// All nodes, also those that have left or may join.
    pub(crate) whole: Roster,
    /// How its nodes are started.
    pub(crate) reach: Reach,
    /// The known links of the job, once there are some.
    pub(crate) links: Option<LinkReport>,
    /// The folder that has the file.
    #[serde(skip)]
    folder: PathBuf,
}

/// How the nodes of a job are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reach {
    /// On this machine, whatever their hosts are called.
    Here,
    /// On their hosts, over ssh if those are other machines.
    Hosts,
    /// As tasks of Slurm.
    Tasks,
}

/// The file of a running job. Dropping it removes the file.
pub(crate) struct StatusFile {
    folder: PathBuf,
    status: Status,
    /// Locked while the launcher lives.
    _lock: File,
}

impl Status {
    /// Returns the time since the links were written, or since the job began.
    pub(crate) fn age(&self) -> Duration {
        Duration::from_millis(unix_ms().saturating_sub(self.written_ms))
    }

    /// Whether the process that keeps this status still runs.
    pub(crate) fn is_running(&self) -> bool {
        is_locked(&lock_path(&self.folder, &self.id))
    }

    /// The path of the socket of its launcher.
    pub(crate) fn socket(&self) -> PathBuf {
        socket_path(&self.folder, &self.id)
    }
}

impl StatusFile {
    /// Creates the file of a job.
    pub(crate) fn create_in(
        folder: &Path,
        id: String,
        program: String,
        whole: Roster,
        reach: Reach,
    ) -> io::Result<Self> {
        // Listing the jobs removes the files of dead launchers, which would otherwise pile up.
        let _ = running_in(folder);
        let lock = private::file().create(true).truncate(false).open(lock_path(folder, &id))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let began_ms = unix_ms();
        let status = Status {
            version: VERSION,
            id,
            program,
            launcher: ProcessId::of(std::process::id()),
            began_ms,
            written_ms: began_ms,
            grid: whole.grid().clone(),
            whole,
            reach,
            links: None,
            folder: folder.to_owned(),
        };
        let file = Self { folder: folder.to_owned(), status, _lock: lock };
        file.write()?;
        Ok(file)
    }

    /// Records that the job goes on with the nodes of `grid`, whose links are not known yet.
    pub(crate) fn begin_run(&mut self, grid: GridSpec) -> io::Result<()> {
        if self.status.grid == grid {
            return Ok(());
        }
        (self.status.grid, self.status.links) = (grid, None);
        self.write()
    }

    /// Records that the job has more nodes, which take no part yet.
    pub(crate) fn grow(&mut self, whole: Roster) -> io::Result<()> {
        self.status.whole = whole;
        self.write()
    }

    /// Writes the known links.
    pub(crate) fn update(&mut self, links: LinkReport) -> io::Result<()> {
        self.status.links = Some(links);
        self.status.written_ms = unix_ms();
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let path = json_path(&self.folder, &self.status.id);
        let new = path.with_extension("new");
        let mut file = private::file().create(true).truncate(true).open(&new)?;
        file.write_all(&serde_json::to_vec(&self.status)?)?;
        fs::rename(new, path)
    }
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        remove(&self.folder, &self.status.id);
    }
}

/// Returns the running jobs of this user, the latest last.
pub(crate) fn running() -> io::Result<Vec<Status>> {
    let mut running = running_in(&folder()?)?;
    // A user without a home has no detached jobs.
    running.extend(status_folder().and_then(|folder| running_in(&folder)).unwrap_or_default());
    running.sort_by(|a, b| (a.began_ms, &a.id).cmp(&(b.began_ms, &b.id)));
    Ok(running)
}

/// Returns the running jobs in a folder, in any order.
fn running_in(folder: &Path) -> io::Result<Vec<Status>> {
    let mut running = vec![];
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".json")) else { continue };
        if !is_locked(&lock_path(folder, id)) {
            remove(folder, id);
            continue;
        }
        // The job may have ended since, or its file may have another version.
        if let Some(status) = read(&json_path(folder, id)).filter(|read| read.version == VERSION) {
            running.push(Status { folder: folder.to_owned(), ..status });
        }
    }
    Ok(running)
}

fn read(path: &Path) -> Option<Status> {
    if fs::metadata(path).ok()?.len() > BYTES_MAX {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Whether a launcher holds the lock.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

/// Returns the prefix of the file names of a job's invitations.
pub(crate) fn invitation_prefix(id: &str) -> String {
    format!("{id}.invitation-")
}

/// Returns the prefix of the names of a job's invitations while they are written.
pub(crate) fn unfinished_invitation_prefix(id: &str) -> String {
    format!(".{}", invitation_prefix(id))
}

/// Returns the paths of the unused invitations to a job, in the order of their names.
pub(crate) fn invitations(folder: &Path, id: &str) -> io::Result<Vec<PathBuf>> {
    files_with_prefix(folder, &invitation_prefix(id))
}

/// Returns the paths of the files whose names begin with `prefix`, in the order of their names.
fn files_with_prefix(folder: &Path, prefix: &str) -> io::Result<Vec<PathBuf>> {
    let is_one = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
    };
    let entries = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<PathBuf> = entries.filter(is_one).collect();
    found.sort();
    Ok(found)
}

fn remove(folder: &Path, id: &str) {
    for prefix in [invitation_prefix(id), unfinished_invitation_prefix(id)] {
        for path in files_with_prefix(folder, &prefix).unwrap_or_default() {
            // Another process may have taken it.
            let _ = fs::remove_file(path);
        }
    }
    // The lock is removed last: without it the other files would look like those of a dead
    // launcher.
    let json = json_path(folder, id);
    let new = json.with_extension("new");
    for path in [json, new, socket_path(folder, id), lock_path(folder, id)] {
        // Another process may have removed it.
        let _ = fs::remove_file(path);
    }
}

fn json_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.json"))
}

/// Returns the path of the socket of a job's launcher.
pub(crate) fn socket_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.sock"))
}

fn lock_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.lock"))
}

/// Returns the folder of this user's jobs, which is created if it does not exist.
pub(crate) fn folder() -> io::Result<PathBuf> {
    let own = rustix::process::getuid().as_raw();
    let path = match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(runtime) => Path::new(&runtime).join("gridspan"),
        None => std::env::temp_dir().join(format!("gridspan-{own}")),
    };
    private::make_folder(&path)?;
    Ok(path)
}

fn unix_ms() -> u64 {
    unix_ms_of(SystemTime::now())
}

/// Returns a time in milliseconds of Unix time.
pub(crate) fn unix_ms_of(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn create(folder: &Path, id: &str) -> StatusFile {
        let program = "ring".to_owned();
        let whole = GridSpec::single(1).into();
        StatusFile::create_in(folder, id.to_owned(), program, whole, Reach::Hosts).unwrap()
    }

    fn ids(folder: &Path) -> Vec<String> {
        let running = running_in(folder).unwrap().into_iter();
        let mut ids: Vec<String> = running.map(|status| status.id).collect();
        ids.sort();
        ids
    }

    #[test]
    fn running_jobs_are_listed_and_their_files_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let one = create(folder.path(), "ring-1");
        let _other = create(folder.path(), "ring-2");
        assert_eq!(ids(folder.path()), ["ring-1", "ring-2"]);
        for entry in fs::read_dir(folder.path()).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().mode() & 0o777, 0o600);
        }
        let status = one.status.clone();
        assert!(status.is_running());
        drop(one);
        assert!(!status.is_running());
        assert_eq!(ids(folder.path()), ["ring-2"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn files_of_a_dead_launcher_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let text = fs::read(json_path(folder.path(), &create(folder.path(), "x-1").status.id));
        fs::write(json_path(folder.path(), "dead-1"), text.unwrap()).unwrap();
        fs::write(lock_path(folder.path(), "dead-1"), "").unwrap();
        fs::write(folder.path().join("dead-1.invitation-1"), "").unwrap();
        fs::write(folder.path().join(".dead-1.invitation-2"), "").unwrap();
        assert!(ids(folder.path()).is_empty());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_status_file_of_another_version_is_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        let running = create(folder.path(), "x-1");
        fs::write(json_path(folder.path(), "x-1"), "{\"version\":1}").unwrap();
        assert!(ids(folder.path()).is_empty());
        drop(running);
    }
}
