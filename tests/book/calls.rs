//! The chapter on names lists all functions of MPI and of PVM.

use super::{read, root};
use std::collections::BTreeSet;

/// Returns the rows of the tables below a heading: the words of the first cell, and the second
/// cell.
fn rows<'a>(chapter: &'a str, heading: &str) -> Vec<(BTreeSet<&'a str>, &'a str)> {
    let section = chapter.lines().skip_while(|line| *line != heading).skip(1);
    let section = section.take_while(|line| !line.starts_with("## "));
    let mut rows = Vec::new();
    for line in section.filter(|line| line.starts_with('|')) {
        let mut cells = line.split('|').skip(1);
        let (Some(theirs), Some(ours)) = (cells.next(), cells.next()) else { continue };
        let words = theirs.split(|c: char| !c.is_alphanumeric() && c != '_');
        rows.push((words.filter(|word| !word.is_empty()).collect(), ours.trim()));
    }
    rows
}

/// Asserts that the tables below a heading have each name of a stored list and no other function
/// whose name begins with `prefix`, and that each row says what is here.
fn assert_complete(heading: &str, list: &str, prefix: &str) {
    let chapter = read(&root().join("docs/src/mpi-names.md"));
    let stored = read(&root().join("tests/book").join(list));
    let names: BTreeSet<&str> = stored.lines().collect();

    let rows = rows(&chapter, heading);

    let found: BTreeSet<&str> = rows.iter().flat_map(|(words, _)| words.iter().copied()).collect();
    let missing: Vec<&str> = names.difference(&found).copied().collect();
    assert!(missing.is_empty(), "the chapter lacks {missing:?}");
    // Names of constants have no lower-case letters.
    let mut unknown: Vec<&str> = found.difference(&names).copied().collect();
    unknown.retain(|word| word.starts_with(prefix) && word.contains(char::is_lowercase));
    assert!(unknown.is_empty(), "{list} lacks {unknown:?}");
    let empty = rows.iter().find(|(_, ours)| ours.is_empty());
    assert!(empty.is_none(), "a row without a counterpart or a reason: {empty:?}");
}

#[test]
fn the_chapter_on_names_has_all_functions_of_mpi() {
    // MPI 4.0 for C, without names replaced before, counts of 64 bits, and what serves Fortran.
    assert_complete("## MPI's calls", "mpi.txt", "MPI_");
}

#[test]
fn the_chapter_on_names_has_all_functions_of_pvm() {
    // PVM 3.4 for C, without names that only version 3.3 needs.
    assert_complete("## PVM's calls", "pvm.txt", "pvm_");
}
