//! The book and the README: links have targets, both have the same figures and comparisons, tables
//! of other systems' calls are complete, and their programs verify their results.
#![allow(missing_docs)]

mod calls;
mod internals;

use gridspan_studies::figures::{update_page, update_readme};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the paths of the files of the book, also those in sub-folders.
fn chapters() -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join("docs/src")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the book") {
            let path = entry.expect("a file of the book").path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found.sort();
    found
}

/// Returns the paths of the chapters of the book, and of the other documents.
fn documents() -> Vec<PathBuf> {
    let others = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    chapters().into_iter().chain(others.map(|name| root().join(name))).collect()
}

/// Returns the lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the targets of links and images: `](target)`.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    for line in prose(text) {
        for part in line.split("](").skip(1) {
            links.extend(part.split_once(')').map(|(target, _)| target.to_owned()));
        }
    }
    links
}

/// Returns the anchor that mdBook and forges make of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter_map(|line| line.strip_prefix('#'));
    headings.map(|heading| anchor(heading.trim_start_matches('#'))).collect()
}

#[test]
fn links_have_targets() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = read(&document);
        let folder = document.parent().expect("a folder");
        for link in links(&text).iter().filter(|link| !link.contains("://")) {
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { document.clone() } else { folder.join(file) };
            let is_there = target.exists();
            let has_place = place.is_empty() || is_there && anchors(&read(&target)).contains(place);
            if !is_there || !has_place {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_chapter_is_in_the_summary() {
    let summary = read(&root().join("docs/src/SUMMARY.md"));
    let listed: BTreeSet<String> = links(&summary).into_iter().collect();
    let folder = root().join("docs/src");
    let names: BTreeSet<String> = chapters()
        .iter()
        .filter_map(|path| Some(path.strip_prefix(&folder).ok()?.to_str()?.to_owned()))
        .filter(|name| name != "SUMMARY.md")
        .collect();
    assert_eq!(listed, names);
}

#[test]
fn figures_of_the_readme_are_those_of_the_book() {
    let figures = read(&root().join("docs/src/figures.md"));
    let readme = read(&root().join("README.md"));
    let rows = readme.lines().skip_while(|line| !line.starts_with("| figure"));
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 4, "the README has figures");
    for row in rows {
        assert!(figures.lines().any(|line| line == row), "the book lacks the row {row}");
    }
    assert_eq!(update_readme(&readme, &figures), readme);
}

#[test]
fn other_systems_are_compared_in_the_readme_as_in_the_book() {
    let table = |path: &str| -> Vec<String> {
        let text = read(&root().join(path));
        let rows = text.lines().skip_while(|line| !line.starts_with("| | Gridspan |"));
        rows.take_while(|line| line.starts_with('|')).map(str::to_owned).collect()
    };

    let rows = table("README.md");

    assert!(rows.len() > 4, "the README compares systems");
    assert_eq!(table("docs/src/introduction.md"), rows);
}

#[test]
fn the_chapter_on_embedding_shows_the_service_as_it_is() {
    let service = read(&root().join("examples/http_service.rs"));
    let chapter = read(&root().join("docs/src/embedding.md"));
    let begin = service.find("use gridspan").expect("the program imports the facade");
    let end = service.find("\n#[cfg(test)]").expect("the program has a test");
    assert!(chapter.contains(&service[begin..end]), "the chapter shows another program");
}

/// Jobs that print what they find on the machine, which may be anything.
const NOTHING_TO_VERIFY: [&str; 2] = [r#"Job::new("careful")"#, r#"Job::new("links")"#];

/// Returns the programs of a document that run one job, without their hidden lines.
fn programs(text: &str) -> Vec<String> {
    let mut programs = Vec::new();
    let mut lines = text.lines();
    while let Some(fence) = lines.next() {
        if !fence.starts_with("```") {
            continue;
        }
        let block = lines.by_ref().take_while(|line| *line != "```");
        let shown = block.filter(|line| *line != "#" && !line.starts_with("# "));
        let program = shown.collect::<Vec<_>>().join("\n");
        let is_compiled = fence.starts_with("```rust") && !fence.contains("ignore");
        let is_job =
            program.contains("\nfn main() -> ExitCode {") && program.contains("gridspan::main(");
        if is_compiled && is_job {
            programs.push(program);
        }
    }
    programs
}

#[test]
fn programs_end_with_the_verification_of_their_results() {
    let (mut found, mut unverified) = (0, Vec::new());
    let mut exempt: BTreeSet<&str> = NOTHING_TO_VERIFY.into();
    for document in documents() {
        for program in programs(&read(&document)) {
            found += 1;
            exempt.retain(|job| !program.contains(job));
            let is_exempt = NOTHING_TO_VERIFY.iter().any(|job| program.contains(*job));
            let is_verified =
                ["verified: yes (", "verified: no ("].iter().all(|line| program.contains(*line));
            if !is_exempt && !is_verified {
                unverified.push(format!("{}: {program}", document.display()));
            }
        }
    }
    assert!(found > 20, "the book has {found} programs");
    assert!(unverified.is_empty(), "{unverified:#?}");
    assert!(exempt.is_empty(), "no program has {exempt:?}");
}

#[test]
fn tables_of_figures_are_as_the_command_writes_them() {
    let figures = read(&root().join("docs/src/figures.md"));
    assert_eq!(update_page(&figures, &[]).as_deref(), Ok(figures.as_str()));
}

#[test]
fn the_readme_is_short() {
    let readme = read(&root().join("README.md"));
    let words = prose(&readme).flat_map(str::split_whitespace).count();
    assert!(words <= 1200, "{words} words");
}
