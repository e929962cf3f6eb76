//! Nodes that may join a job while it runs.

use crate::error::CliError;
use crate::invitation::{Contents, Invitation};
use gridspan_runtime::net::Authority;
use gridspan_runtime::net::bootstrap::{Addresses, NodeBundle};
use gridspan_topology::GridSpec;
use std::path::Path;
use std::process;

/// Nodes that may join the job while it runs, and their command.
#[derive(Default)]
pub(super) struct Invited {
    pub(super) command: Option<process::Command>,
    pub(super) guests: Vec<NodeBundle>,
}

impl Invited {
    /// Writes invitations to the folder in which `gridctl join` looks for them.
    pub(super) fn invite(&mut self, id: &str, addresses: &Addresses) -> std::io::Result<()> {
        let Some(command) = self.command.as_ref().filter(|_| !self.guests.is_empty()) else {
            return Ok(());
        };
        let contents = Contents::of(Path::new(command.get_program()))?;
        for bundle in std::mem::take(&mut self.guests) {
            Invitation::new(command, contents.clone(), bundle, addresses.clone())?.write(id)?;
        }
        Ok(())
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
