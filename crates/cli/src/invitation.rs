//! Invitations to a running job: what a node needs to join it, in a file that its user alone can read.
//!
//! The launcher writes as many as it was told, once the job's nodes listen; each is for one node of one number at one site,
//! with a certificate of its own, so that the key of the job's authority stays with the launcher. Whoever removes the
//! file has the invitation, and nobody else. What is left goes when the job ends. A file may be carried to another machine
//! from which the job's nodes can be reached; it holds a private key, so it travels as one does.
//!
//! The program must be the job's own, byte for byte: types are known by their position in it, and a rebuilt one may
//! mean something else by the same bytes.

use crate::status::{folder, invitation_prefix, invitations, private};
use gridspan_runtime::net::bootstrap::{Addresses, NodeBundle};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of the file; others are not read.
const VERSION: u32 = 2;

/// What one node needs to join a running job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Invitation {
    version: u32,
    /// The program with its arguments, where it runs, and what its environment says beside the user's.
    program: PathBuf,
    /// What is in the program, so that another one is found out.
    digest: u64,
    arguments: Vec<OsString>,
    folder: PathBuf,
    variables: Vec<(String, OsString)>,
    /// Who the node is.
    pub(crate) bundle: NodeBundle,
    /// Where the founders are.
    pub(crate) addresses: Addresses,
}

impl Invitation {
    /// An invitation to run what `command` runs, a program of this [`digest`].
    pub(crate) fn new(
        command: &Command,
        digest: u64,
        bundle: NodeBundle,
        addresses: Addresses,
    ) -> io::Result<Self> {
        let program = std::path::absolute(command.get_program())?;
        let set = command.get_envs().filter_map(|(name, value)| Some((name.to_str()?, value?)));
        Ok(Self {
            version: VERSION,
            digest,
            program,
            arguments: command.get_args().map(ToOwned::to_owned).collect(),
            folder: std::env::current_dir()?,
            variables: set.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            bundle,
            addresses,
        })
    }

    /// The same with the job's program found at another path.
    pub(crate) fn with_program(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// Whether the program is that of the job.
    pub(crate) fn fits(&self) -> io::Result<bool> {
        Ok(digest(&self.program)? == self.digest)
    }

    /// Where the program is.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// The process that takes part. It runs where the job's nodes run, if there is such a folder here.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for name in gridspan::variables::ALL {
            command.env_remove(name);
        }
        command.args(&self.arguments);
        if self.folder.is_dir() {
            command.current_dir(&self.folder);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Lays it where others of the same user find it.
    pub(crate) fn write(&self, id: &str) -> io::Result<()> {
        let name = format!("{}{:010}", invitation_prefix(id), self.bundle.identity.node.0);
        let (path, new) = (folder()?.join(&name), folder()?.join(format!(".{name}")));
        let mut file = private().create(true).truncate(true).open(&new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(new, path)
    }

    /// Takes the invitation in a file.
    pub(crate) fn take_file(path: &Path) -> io::Result<Self> {
        let malformed =
            || io::Error::new(io::ErrorKind::InvalidData, "it is no invitation of this version");
        let invitation = read(path).ok_or_else(malformed)?;
        fs::remove_file(path)?;
        Ok(invitation)
    }

    /// Takes the first invitation to a job that `is_wanted`, if there is one.
    pub(crate) fn take(id: &str, is_wanted: impl Fn(&Self) -> bool) -> io::Result<Option<Self>> {
        for path in invitations(&folder()?, id)? {
            if let Some(invitation) = read(&path).filter(&is_wanted)
                // Who removes it has it.
                && fs::remove_file(&path).is_ok()
            {
                return Ok(Some(invitation));
            }
        }
        Ok(None)
    }
}

fn read(path: &Path) -> Option<Invitation> {
    let read: Invitation = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (read.version == VERSION).then_some(read)
}

/// Tells files apart: FNV-1a (Fowler, Noll, Vo) over all bytes. It is no protection from a forger, who could run anything anyway.
pub(crate) fn digest(path: &Path) -> io::Result<u64> {
    let mut file = io::BufReader::with_capacity(1 << 20, fs::File::open(path)?);
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            return Ok(digest);
        }
        for &byte in bytes {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let length = bytes.len();
        file.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_published_test_vectors() {
        let path = std::env::temp_dir().join(format!("gridspan-digest-{}", std::process::id()));
        for (text, expected) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(digest(&path).unwrap(), expected, "{text:?}");
        }
        fs::remove_file(path).unwrap();
    }
}
