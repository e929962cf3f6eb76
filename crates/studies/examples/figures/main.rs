//! Writes the figures of `docs/src/figures.md`, and those rows of the README that are copied from
//! it.
//!
//! `cargo run --release -p gridspan-studies --example figures`
//!
//! - `--only NAME`: only this part; may be repeated. Default all.
//! - `--fresh`: measure all selected parts, also those that an interrupted run has finished.
//!
//! It builds all programs first, and then measures the parts one by one for at most 30 minutes. A
//! part has a time limit, and begins only if this limit fits into the remaining time. Finished
//! parts are kept in `target/figures` until all selected ones have succeeded. So after an
//! interruption, the same command on the same commit and machine measures only the remaining parts.
//! Rows of other parts stay as they are. Nothing else should run on the machine.

mod broadcasts;
mod campaign;
mod parts;
mod programs;

use clap::Parser;
use gridspan_studies::figures::{FigureRun, PageRun, target_folder, update_page, update_readme};
use parts::{PARTS, Part};
use programs::Programs;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const PAGE: &str = "docs/src/figures.md";
/// Longest time of a run, without building.
const TIME_MAX: Duration = Duration::from_secs(30 * 60);

#[derive(Parser)]
struct Options {
    /// Measure only this part.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Measure all selected parts, also those that an interrupted run has finished.
    #[arg(long)]
    fresh: bool,
}

fn main() -> ExitCode {
    match write_figures(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether all parts have succeeded.
fn write_figures(options: &Options) -> Result<bool, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = target_folder(&std::env::current_exe()?);
    let kept = target.join("figures");
    fs::create_dir_all(&kept)?;
    let selected = selected(&options.only)?;
    let state = |part: &Part| kept.join(format!("{}.json", part.name));
    let now = FigureRun::of_this_process();
    let is_kept = |part: &Part| !options.fresh && is_of(&now, &state(part));
    let (kept, open): (Vec<&Part>, Vec<&Part>) = selected.iter().partition(|part| is_kept(part));
    for part in kept {
        eprintln!("{}: kept from an earlier run; --fresh measures it again", part.name);
    }
    open.iter().for_each(|part| drop(fs::remove_file(state(part))));
    let programs = Programs::build(&root, &open)?;
    let mut is_complete = true;
    let begin = Instant::now();
    for part in open {
        let left = TIME_MAX.saturating_sub(begin.elapsed());
        if part.limit > left {
            eprintln!("{}: no time left; run the same command again to go on", part.name);
            is_complete = false;
            continue;
        }
        eprintln!("{}: at most {} s", part.name, part.limit.as_secs());
        match part
            .measure(&programs, &root, &target)
            .and_then(|run| keep(&run, &root, &state(part)))
        {
            Ok(()) => {}
            Err(error) => {
                eprintln!("{}: {error}", part.name);
                is_complete = false;
            }
        }
    }
    let paths: Vec<PathBuf> = selected.iter().map(|part| state(part)).collect();
    let paths: Vec<&PathBuf> = paths.iter().filter(|path| path.exists()).collect();
    write_page(&root, &paths)?;
    if is_complete {
        paths.into_iter().try_for_each(fs::remove_file)?;
    }
    eprintln!("measured for {} s", begin.elapsed().as_secs());
    Ok(is_complete)
}

/// Whether a file has the finished part of a run on the same machine and commit.
fn is_of(now: &FigureRun, state: &Path) -> bool {
    let text = fs::read_to_string(state).unwrap_or_default();
    let Ok(PageRun { records, .. }) = serde_json::from_str(&text) else { return false };
    let is_same = |run: &FigureRun| (&run.machine, &run.commit) == (&now.machine, &now.commit);
    records.first().is_some_and(|record| is_same(&record.run))
}

/// Keeps a finished part. Fails if the page cannot be updated with it.
fn keep(run: &PageRun, root: &Path, state: &Path) -> Result<(), Box<dyn Error>> {
    update_page(&fs::read_to_string(root.join(PAGE))?, std::slice::from_ref(run))?;
    let unfinished = state.with_extension("tmp");
    fs::write(&unfinished, serde_json::to_string(run)?)?;
    Ok(fs::rename(unfinished, state)?)
}

fn selected(only: &[String]) -> Result<Vec<&'static Part>, Box<dyn Error>> {
    let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("there is no part {unknown}; parts are {}", names.join(", ")).into());
    }
    let is_selected = |part: &&Part| only.is_empty() || only.iter().any(|name| name == part.name);
    Ok(PARTS.iter().filter(is_selected).collect())
}

/// Writes the finished parts into the page, and the rows of the page into the README.
fn write_page(root: &Path, parts: &[&PathBuf]) -> Result<(), Box<dyn Error>> {
    let mut runs: Vec<PageRun> = Vec::new();
    for path in parts {
        runs.push(serde_json::from_str(&fs::read_to_string(path)?)?);
    }
    let (page_path, readme_path) = (root.join(PAGE), root.join("README.md"));
    let page = update_page(&fs::read_to_string(&page_path)?, &runs)?;
    let readme = update_readme(&fs::read_to_string(&readme_path)?, &page);
    fs::write(page_path, page)?;
    fs::write(readme_path, readme)?;
    Ok(())
}
