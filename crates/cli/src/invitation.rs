//! Invitations to a running job: files that contain all that a node needs to join it, and that only
//! the job's user can read.
//!
//! Once the job's nodes listen, the launcher writes the requested number of invitations. Each is
//! for one node, with a fixed number at one site, and has its own certificate, so that the key of
//! the job's authority stays with the launcher. Only the process that removes a file may use its
//! invitation. Unused invitations are removed when the job ends. A file may be copied to another
//! machine from which the job's nodes can be reached. It contains a private key and must be
//! protected like one.
//!
//! The program must be the job's own, byte for byte: types are identified by their position in it,
//! and a rebuilt program may interpret the same bytes differently.

use crate::digest::digest;
use crate::node_program::NodeProgram;
use crate::private;
use crate::status::{folder, invitation_prefix, invitations, unfinished_invitation_prefix};
use gridspan_runtime::net::bootstrap::{Addresses, NodeBundle};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Version of the file. Files of other versions are not read.
const VERSION: u32 = 5;

/// All that one node needs to join a running job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Invitation {
    version: u32,
    /// The program that the node runs.
    program: NodeProgram,
    /// Fingerprint of the program, to detect a different one.
    contents: Contents,
    /// Number of the run of the job, from 1, that has these addresses.
    pub(crate) run: u32,
    /// Identity of the node.
    pub(crate) bundle: NodeBundle,
    /// Addresses of the founders.
    pub(crate) addresses: Addresses,
}

impl Invitation {
    /// Creates an invitation to the first run. The node runs the program of `command`, whose
    /// fingerprint is `contents`.
    pub(crate) fn new(
        command: &Command,
        contents: Contents,
        bundle: NodeBundle,
        addresses: Addresses,
    ) -> io::Result<Self> {
        Ok(Self {
            version: VERSION,
            program: NodeProgram::of(command)?,
            contents,
            run: 1,
            bundle,
            addresses,
        })
    }

    /// Replaces the path of the job's program.
    pub(crate) fn with_program(mut self, program: PathBuf) -> Self {
        self.program = self.program.with_path(program);
        self
    }

    /// Whether the file at the program's path is the job's program.
    pub(crate) fn fits(&self) -> io::Result<bool> {
        self.contents.are_of(self.program.path())
    }

    /// Returns the path of the program.
    pub(crate) fn program(&self) -> &Path {
        self.program.path()
    }

    /// Returns the command of the joining process. It runs in the folder of the job's nodes, if
    /// that exists here.
    pub(crate) fn command(&self) -> Command {
        self.program.command()
    }

    /// Writes the invitation to the folder in which the user's `gridctl join` looks for it.
    pub(crate) fn write(&self, id: &str) -> io::Result<()> {
        let name = |prefix: String| format!("{prefix}{:010}", self.bundle.identity.node.0);
        let path = folder()?.join(name(invitation_prefix(id)));
        let new = folder()?.join(name(unfinished_invitation_prefix(id)));
        let mut file = private::file().create(true).truncate(true).open(&new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(new, path)
    }

    /// Reads the invitation in a file, and keeps the file.
    pub(crate) fn read_file(path: &Path) -> io::Result<Self> {
        let malformed = || {
            io::Error::new(io::ErrorKind::InvalidData, "it is not an invitation of this version")
        };
        fs::metadata(path)?;
        read(path).ok_or_else(malformed)
    }

    /// Whether any invitation to a job is left.
    pub(crate) fn are_left(id: &str) -> io::Result<bool> {
        Ok(!invitations(&folder()?, id)?.is_empty())
    }

    /// Takes the first invitation to a job that `is_wanted` accepts, if there is one, and removes
    /// its file.
    pub(crate) fn take(id: &str, is_wanted: impl Fn(&Self) -> bool) -> io::Result<Option<Self>> {
        for path in invitations(&folder()?, id)? {
            if let Some(invitation) = read(&path).filter(&is_wanted)
                // Only the process that removes the file may use the invitation.
                && fs::remove_file(&path).is_ok()
            {
                return Ok(Some(invitation));
            }
        }
        Ok(None)
    }
}

/// Removes all invitations to a job.
pub(crate) fn remove_all(id: &str) -> io::Result<()> {
    for path in invitations(&folder()?, id)? {
        // Another process may have taken it.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

fn read(path: &Path) -> Option<Invitation> {
    let read: Invitation = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (read.version == VERSION).then_some(read)
}

/// Fingerprint of a program, which distinguishes one build from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contents {
    /// Length of the file.
    bytes: u64,
    /// Time of its last modification; `None` if the system does not report it.
    modified: Option<SystemTime>,
    /// SHA-256 of its bytes.
    digest: Vec<u8>,
}

impl Contents {
    /// Computes the fingerprint of a file.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let digest = digest(path)?;
        Ok(Self { bytes: metadata.len(), modified: metadata.modified().ok(), digest })
    }

    /// Whether a file has this fingerprint. If length and modification time are equal, the file is
    /// assumed to be the same one, and is not read.
    fn are_of(&self, path: &Path) -> io::Result<bool> {
        let metadata = fs::metadata(path)?;
        if metadata.len() != self.bytes {
            return Ok(false);
        }
        let is_untouched = self.modified.is_some() && metadata.modified().ok() == self.modified;
        Ok(is_untouched || digest(path)? == self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_copy_of_the_program_fits_and_a_rebuilt_program_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let [own, copy, other] = ["own", "copy", "other"].map(|name| folder.path().join(name));
        for (path, text) in [(&own, "abc"), (&copy, "abc"), (&other, "abd")] {
            fs::write(path, text).unwrap();
        }
        for (path, seconds) in [(&own, 1), (&copy, 2), (&other, 3)] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        }
        let contents = Contents::of(&own).unwrap();

        // FIPS 180-2, appendix B.1.
        assert_eq!(contents.digest[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert!(contents.are_of(&own).unwrap() && contents.are_of(&copy).unwrap());
        assert!(!contents.are_of(&other).unwrap());
        fs::write(&other, "abcd").unwrap();
        assert!(!contents.are_of(&other).unwrap());
    }
}
