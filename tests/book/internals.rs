//! The chapter "How it works inside" names only files and items that exist.

use super::{chapters, prose, read, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders with source code.
const CODE: &[&str] = &["src", "crates", "tests", "benches", "examples", "fuzz/fuzz_targets"];

/// Returns the pages of the chapter, each with the folders to which its paths are relative.
fn pages() -> Vec<(PathBuf, Vec<String>)> {
    let book = root().join("docs/src");
    let mut pages = vec![(book.join("internals.md"), vec!["crates/runtime/src".to_owned()])];
    for path in chapters().into_iter().filter(|path| path.starts_with(book.join("internals"))) {
        let folders = match path.file_stem().and_then(|stem| stem.to_str()) {
            Some("facade") => vec!["src".to_owned()],
            Some(name) => vec![format!("crates/{name}/src"), format!("crates/{name}")],
            None => Vec::new(),
        };
        pages.push((path, folders));
    }
    pages
}

/// Returns the texts in backticks.
fn codes(text: &str) -> Vec<String> {
    let prose = prose(text).collect::<Vec<_>>().join(" ");
    prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn is_path(code: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    code.chars().all(is_plain) && (code.contains('/') || code.ends_with(".rs"))
}

fn is_name(code: &str) -> bool {
    code.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

/// Adds the words of all source files below a folder, and the names of files and folders.
fn add_words(folder: &Path, words: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder with source code") {
        let path = entry.expect("a file of the folder").path();
        words.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        if path.is_dir() {
            add_words(&path, words);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = read(&path);
            for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                if !words.contains(word) {
                    words.insert(word.to_owned());
                }
            }
        }
    }
}

#[test]
fn every_crate_has_a_page() {
    let crates = fs::read_dir(root().join("crates")).expect("the crates");
    for member in crates.map(|entry| entry.expect("a crate").path()) {
        let name = member.file_name().expect("a crate has a name").to_string_lossy().into_owned();
        let page = root().join("docs/src/internals").join(format!("{name}.md"));
        assert!(page.exists(), "write {}", page.display());
    }
}

#[test]
fn pages_name_files_that_exist() {
    let mut missing = Vec::new();
    for (page, folders) in pages() {
        let codes = codes(&read(&page));
        let paths: Vec<&String> = codes.iter().filter(|code| is_path(code)).collect();
        assert!(!paths.is_empty(), "{} names no file", page.display());
        for path in paths {
            let mut places = folders.iter().map(String::as_str).chain(["crates", ""]);
            if !places.any(|folder| root().join(folder).join(path).exists()) {
                missing.push(format!("{}: {path}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn pages_name_items_that_occur_in_the_source_code() {
    let mut words = BTreeSet::new();
    CODE.iter().for_each(|folder| add_words(&root().join(folder), &mut words));
    let mut missing = Vec::new();
    for (page, _) in pages() {
        let codes = codes(&read(&page));
        let names: Vec<&String> = codes.iter().filter(|code| is_name(code)).collect();
        assert!(!names.is_empty(), "{} names no item", page.display());
        for name in names {
            if name.split("::").any(|part| !words.contains(part)) {
                missing.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
