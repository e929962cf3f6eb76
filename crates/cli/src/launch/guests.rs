//! Nodes that may join a job while it runs, as guests.
//!
//! Each run of the job has its own invitations, since the nodes of each run have other keys and
//! addresses. At the end of a run the launcher removes the unused ones. The guests of that run lose
//! the nodes of the job and end. `gridctl join` then joins the next run by its invitations.

use crate::error::CliError;
use crate::invitation::{self, Contents, Invitation};
use gridspan_runtime::net::Authority;
use gridspan_runtime::net::bootstrap::{Addresses, NodeBundle};
use gridspan_topology::GridSpec;
use std::path::Path;
use std::process;

/// The command of nodes that may join the job while it runs.
#[derive(Default)]
pub(super) struct Invited {
    command: Option<process::Command>,
    /// Number of runs with invitations.
    runs: u32,
}

impl Invited {
    /// Creates the state of a job whose guests run this command.
    pub(super) fn new(command: process::Command) -> Self {
        Self { command: Some(command), runs: 0 }
    }

    /// Writes invitations to the run whose nodes have these addresses, into the folder where
    /// `gridctl join` looks for them.
    pub(super) fn invite(
        &mut self,
        id: &str,
        guests: Vec<NodeBundle>,
        addresses: &Addresses,
    ) -> std::io::Result<()> {
        let Some(command) = self.command.as_ref().filter(|_| !guests.is_empty()) else {
            return Ok(());
        };
        let contents = Contents::of(Path::new(command.get_program()))?;
        self.runs += 1;
        for bundle in guests {
            let contents = contents.clone();
            let mut invitation = Invitation::new(command, contents, bundle, addresses.clone())?;
            invitation.run = self.runs;
            invitation.write(id)?;
        }
        Ok(())
    }

    /// Removes the invitations to the run that has ended.
    pub(super) fn revoke(&self, id: &str) {
        if self.runs > 0
            && let Err(error) = invitation::remove_all(id)
        {
            tracing::info!(%error, "cannot remove invitations");
        }
    }
}

/// Issues bundles for up to `guests` guests at each site.
pub(super) fn issue_guests(
    authority: &Authority,
    spec: &GridSpec,
    guests: u32,
) -> Result<Vec<NodeBundle>, CliError> {
    let sites = spec.layout().sites();
    let all = sites.flat_map(|site| (0..guests).filter_map(move |n| spec.layout().guest(site, n)));
    let issue = |guest| {
        let mut bundle = NodeBundle::issue(authority, spec, guest, 1)?;
        bundle.guest = Some(1);
        Ok(bundle)
    };
    all.map(issue).collect()
}
