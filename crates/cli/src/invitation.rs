//! Invitations to a running job: what a node needs to join it, in a file that its user alone can read.
//!
//! The launcher writes as many as it was told, once the job's nodes listen; each is for one node of one number at one site,
//! with a certificate of its own, so that the key of the job's authority stays with the launcher. Whoever removes the
//! file has the invitation, and nobody else. What is left goes when the job ends.

use crate::status::{folder, invitation_prefix, invitations, private};
use gridspan_runtime::net::bootstrap::{Addresses, NodeBundle};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of the file; others are not read.
const VERSION: u32 = 1;

/// What one node needs to join a running job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Invitation {
    version: u32,
    /// The program with its arguments, where it runs, and what its environment says beside the user's.
    program: PathBuf,
    arguments: Vec<OsString>,
    folder: PathBuf,
    variables: Vec<(String, OsString)>,
    /// Who the node is.
    pub(crate) bundle: NodeBundle,
    /// Where the founders are.
    pub(crate) addresses: Addresses,
}

impl Invitation {
    /// An invitation to run what `command` runs.
    pub(crate) fn new(
        command: &Command,
        bundle: NodeBundle,
        addresses: Addresses,
    ) -> io::Result<Self> {
        let set = command.get_envs().filter_map(|(name, value)| Some((name.to_str()?, value?)));
        Ok(Self {
            version: VERSION,
            program: std::path::absolute(command.get_program())?,
            arguments: command.get_args().map(ToOwned::to_owned).collect(),
            folder: std::env::current_dir()?,
            variables: set.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            bundle,
            addresses,
        })
    }

    /// The process that takes part.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for name in gridspan::variables::ALL {
            command.env_remove(name);
        }
        command.args(&self.arguments).current_dir(&self.folder);
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
