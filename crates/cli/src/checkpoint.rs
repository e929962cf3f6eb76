//! `gridctl checkpoint`: which checkpoints are in a folder or an object store, and whether they are
//! intact.

use crate::args::{CheckpointArgs, CheckpointVerb};
use crate::error::CliError;
use crate::output;
use crate::progress::Progress;
use crate::quantity::{bytes, count, time};
use crate::table::{Align, Table};
use gridspan_runtime::driver::CheckpointArchive;
use gridspan_runtime::{Image, StartError};
use gridspan_topology::NodeId;
use serde::Serialize;
use std::process::ExitCode;

/// Carries out a command about stored checkpoints.
pub(crate) fn run(verb: &CheckpointVerb) -> Result<ExitCode, CliError> {
    let (CheckpointVerb::Ls(args) | CheckpointVerb::Show(args) | CheckpointVerb::Verify(args)) =
        verb;
    let archive = CheckpointArchive::open(&args.folder)?;
    let text = match verb {
        CheckpointVerb::Ls(_) => list(&archive, args)?,
        CheckpointVerb::Show(_) => show(&archive.manifest(number(&archive, args)?)?, args.json),
        CheckpointVerb::Verify(_) => verify(&archive, args)?,
    };
    output::print(&text, "print the checkpoint")
}

/// The number of the checkpoint that the arguments name: by default, the last complete one.
fn number(archive: &CheckpointArchive, args: &CheckpointArgs) -> Result<u64, CliError> {
    match args.number {
        Some(number) => Ok(number),
        None => Ok(archive.last()?.number()),
    }
}

/// A checkpoint, for scripts.
#[derive(Serialize)]
struct Described<'a> {
    number: u64,
    job: &'a str,
    seconds: f64,
    sites: u32,
    nodes: u32,
    pes: u32,
    collections: usize,
    actors: u64,
    bytes: u64,
}

impl<'a> Described<'a> {
    fn new(image: &'a Image) -> Self {
        let layout = image.layout();
        Self {
            number: image.number(),
            job: image.job(),
            seconds: image.at().as_secs_f64(),
            sites: layout.site_count(),
            nodes: layout.node_count(),
            pes: layout.pe_count(),
            collections: image.collections(),
            actors: image.members(),
            bytes: image.bytes(),
        }
    }

    fn to_line(&self) -> String {
        serde_json::json!({ "version": 1, "event": "checkpoint", "checkpoint": self }).to_string()
            + "\n"
    }
}

fn list(archive: &CheckpointArchive, args: &CheckpointArgs) -> Result<String, CliError> {
    let titles = ["NUMBER", "JOB", "TIME", "NODES", "PES", "ACTORS", "SIZE"];
    let align = |column| if column == 1 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles.map(str::to_owned).to_vec(), align);
    let mut lines = String::new();
    let numbers = match args.number {
        Some(number) => vec![number],
        None => archive.complete()?,
    };
    for number in numbers {
        let image = match args.number {
            Some(_) => Some(archive.manifest(number)?),
            None => unless_removed(archive, number, CheckpointArchive::manifest)?,
        };
        let Some(image) = image else { continue };
        let it = Described::new(&image);
        lines += &it.to_line();
        table.row(vec![
            it.number.to_string(),
            it.job.to_owned(),
            time(image.at().since(gridspan_topology::Time::ZERO)),
            it.nodes.to_string(),
            it.pes.to_string(),
            it.actors.to_string(),
            bytes(it.bytes),
        ]);
    }
    Ok(if args.json { lines } else { table.render(false) })
}

fn show(image: &Image, json: bool) -> String {
    let it = Described::new(image);
    if json {
        return it.to_line();
    }
    let layout = image.layout();
    let mut text = format!(
        "checkpoint {} of {}, made {} after its start\n{} in {}, {}\n\n",
        it.number,
        it.job,
        time(image.at().since(gridspan_topology::Time::ZERO)),
        count(it.actors as usize, "actor"),
        count(it.collections, "collection"),
        bytes(it.bytes),
    );
    let titles = ["SITE", "NODE", "PES", "ACTORS", "SIZE"].map(str::to_owned).to_vec();
    let align = |column| if column == 0 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles, align);
    for node in layout.nodes() {
        let NodeId(number) = node;
        let pes = layout.place(node).pes.clone();
        let parts = pes.clone().map(|pe| image.part(gridspan_topology::PeId(pe)));
        let (actors, size) =
            parts.fold((0, 0), |(actors, size), part| (actors + part.0, size + part.1));
        table.row(vec![
            layout.site_name(layout.site_of_node(node)).to_owned(),
            number.to_string(),
            pes.len().to_string(),
            actors.to_string(),
            bytes(size),
        ]);
    }
    text += &table.render(false);
    text
}

fn verify(archive: &CheckpointArchive, args: &CheckpointArgs) -> Result<String, CliError> {
    let numbers = match args.number {
        Some(number) => vec![number],
        None => archive.complete()?,
    };
    if numbers.is_empty() {
        // This fails with an error that says that there are none.
        archive.last()?;
    }
    let steps = Some(numbers.len() as u64);
    let progress = Progress::begin("reading checkpoints".to_owned(), steps);
    let text = numbers.into_iter().try_fold(String::new(), |mut text, number| {
        let image = match args.number {
            Some(_) => Some(archive.verify(number)?),
            None => unless_removed(archive, number, CheckpointArchive::verify)?,
        };
        progress.advance();
        text.extend(image.map(|image| verified(&image, args.json)));
        Ok::<String, CliError>(text)
    });
    progress.end();
    match text? {
        // The job has made others meanwhile, and has removed all of these.
        text if text.is_empty() => {
            let last = archive.last()?.number();
            Ok(verified(&archive.verify(last)?, args.json))
        }
        text => Ok(text),
    }
}

/// Describes a checkpoint whose parts are intact.
fn verified(image: &Image, json: bool) -> String {
    let it = Described::new(image);
    if json {
        return it.to_line();
    }
    let parts = count(it.pes as usize, "part");
    format!("checkpoint {}: {parts}, {}, intact\n", it.number, bytes(it.bytes))
}

/// Reads a complete checkpoint; `None` if that fails because a running job has removed it
/// meanwhile.
fn unless_removed(
    archive: &CheckpointArchive,
    number: u64,
    read: impl FnOnce(&CheckpointArchive, u64) -> Result<Image, StartError>,
) -> Result<Option<Image>, CliError> {
    match read(archive, number) {
        Ok(image) => Ok(Some(image)),
        Err(error) => match archive.complete()?.contains(&number) {
            true => Err(error.into()),
            false => Ok(None),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_list_of_one_checkpoint_that_does_not_exist_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let archive = CheckpointArchive::open(folder.path()).unwrap();
        let listed = |number| {
            let folder = folder.path().to_owned();
            list(&archive, &CheckpointArgs { folder, number, json: true })
        };
        assert_eq!(listed(None).unwrap(), "");
        assert!(listed(Some(3)).is_err());
    }

    #[test]
    fn a_checkpoint_that_the_job_has_removed_is_left_out_and_a_damaged_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let archive = CheckpointArchive::open(folder.path()).unwrap();
        let reads = [CheckpointArchive::manifest, CheckpointArchive::verify];
        for read in reads {
            assert!(unless_removed(&archive, 3, read).unwrap().is_none());
        }

        let damaged = folder.path().join("checkpoint-00000003");
        fs::create_dir(&damaged).unwrap();
        fs::write(damaged.join("manifest"), "nonsense").unwrap();

        for read in reads {
            let error = unless_removed(&archive, 3, read).unwrap_err().to_string();
            assert!(error.contains("it is too short"), "{error}");
        }
    }
}
