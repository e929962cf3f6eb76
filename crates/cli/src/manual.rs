//! `gridctl man`: the manual pages, one for each command.

use crate::args::{Cli, ManArgs};
use crate::error::CliError;
use crate::output;
use crate::quantity::count;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::fs;
use std::io;
use std::process::ExitCode;

/// Program and version at the foot of each page.
const SOURCE: &str = concat!("gridctl ", env!("CARGO_PKG_VERSION"));

/// Writes the pages.
pub(crate) fn run(args: &ManArgs) -> Result<ExitCode, CliError> {
    let folder = &args.folder;
    let failed = |error| CliError::Write { path: folder.clone(), error };
    fs::create_dir_all(folder).map_err(failed)?;
    let pages = pages(&Cli::command()).map_err(failed)?;
    for (name, text) in &pages {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| CliError::Write { path, error })?;
    }
    let text = format!("{} in {}\n", count(pages.len(), "page"), folder.display());
    output::print(&text, "print the number of pages")
}

/// The file names and texts of all pages.
fn pages(command: &Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    // `help` has no page, since the page of a command has the same text.
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let man = Man::new(command.clone()).source(SOURCE).manual("Gridspan");
    pages.push((man.get_filename(), page(&man, command)?));
    command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
        .try_for_each(|verb| add_pages(verb, pages))
}

fn page(man: &Man, command: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.get_subcommands().any(|verb| !verb.is_hide_set()) {
        man.render_subcommands_section(&mut text)?;
    }
    if let Some(notes) = command.get_after_help() {
        // These lines are laid out already, which `Man` would undo.
        let mut roff = Roff::new();
        roff.control("SH", ["NOTES"]);
        roff.control("nf", []);
        for line in notes.to_string().lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
        roff.to_writer(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_command_has_a_page_and_hidden_ones_have_none() {
        let pages: BTreeMap<String, Vec<u8>> =
            pages(&Cli::command()).unwrap().into_iter().collect();
        let page = |name: &str| String::from_utf8(pages[name].clone()).unwrap();
        for verb in Cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let name = format!("gridctl-{}.1", verb.get_name());
            assert!(page(&name).contains(&format!(".TH gridctl-{} 1", verb.get_name())), "{name}");
        }
        assert!(page("gridctl-rpc-serve.1").contains(r"\-\-write\-token"));
        assert!(page("gridctl.1").contains("gridctl\\-rpc(1)"));
        let run = page("gridctl-run.1");
        assert!(run.contains("\n.nf\nPROGRAM is the name of a built\\-in job"), "{run}");
        assert!(!run.contains(r"\-\-background"), "{run}");
        assert!(!pages.keys().any(|name| name.contains("__job") || name.contains("help")));
    }
}
