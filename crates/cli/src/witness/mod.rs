//! Where the witness of a job is, and how a folder on another host serves as one.
//!
//! If a detached job falls into two halves that cannot reach each other, the witness decides which
//! half may go on: it settles on the first half for which a launcher asks.
//!
//! | module | purpose |
//! | --- | --- |
//! | `location` | what `--witness` names: a folder, a place in an object store, or another host |
//! | `marked_place` | the rule: the mark of a job at a place, and what is settled there |
//! | `protocol` | messages between a launcher and gridctl on the other host |
//! | `agent` | gridctl on the other host |
//! | `remote` | the launcher's end |
//!
//! A folder on another host follows the same rule as one that all launchers reach themselves: the
//! agent there calls the same functions, and only their arguments and results travel. A launcher
//! that gets no answer in time does not know what is settled, so its half does not go on.

mod agent;
mod location;
mod marked_place;
mod protocol;
mod remote;

use crate::check::limit_life;
use crate::error::CliError;
use gridspan::keeper::{private_folder, state_folder};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use location::{WitnessAddressError, WitnessLocation, check_meaning};
pub(crate) use marked_place::MarkedPlace;
pub(crate) use remote::RemoteWitness;

/// Name of the folder of witnesses in the state folder of the user.
const FOLDER: &str = "witness";

/// Answers the launcher of a job whose witness is a folder on this host.
pub(crate) fn serve() -> Result<ExitCode, CliError> {
    limit_life().map_err(CliError::system("start a thread"))?;
    agent::serve(io::stdin().lock(), io::stdout().lock(), own_folder)
        .map_err(CliError::system("answer the launcher"))?;
    Ok(ExitCode::SUCCESS)
}

/// The folder of this host for jobs that name no other. Creates it if it does not exist.
fn own_folder() -> io::Result<PathBuf> {
    let folder = state_folder()?.join(FOLDER);
    private_folder(&folder)?;
    Ok(folder)
}
