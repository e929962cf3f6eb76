//! The source files of the workspace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};
use syn::{Attribute, Expr, ExprLit, Item, Lit, Meta};

/// One file, parsed.
pub struct Source {
    /// The folder of its crate below `crates`, or `gridspan` for the facade.
    pub member: String,
    /// Its path from the root of the workspace, with slashes.
    pub path: String,
    /// Whether its code exists only in tests.
    pub is_test: bool,
    /// Its text.
    pub text: String,
    /// The parsed text.
    pub file: syn::File,
}

impl Source {
    /// Whether it is in `src`, and not in `benches` or `examples`.
    pub fn is_library(&self) -> bool {
        self.path.starts_with("src/") || self.path.contains("/src/")
    }
}

/// Error of [`read`].
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file or folder could not be read.
    #[error("cannot read {path}: {error}")]
    Io {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A file is not Rust code.
    #[error("{path} is not Rust: {error}")]
    Syntax {
        /// Its path.
        path: PathBuf,
        /// The error of the parser.
        error: syn::Error,
    },
}

/// Reads the `src`, `benches` and `examples` of all members of the workspace at `root`, sorted by
/// path.
pub fn read(root: &Path) -> Result<Vec<Source>, SourceError> {
    let mut sources = Vec::new();
    let mut members = vec![("gridspan".to_owned(), root.to_path_buf())];
    for folder in entries(&root.join("crates"))? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        members.push((name, folder));
    }
    for (member, folder) in members {
        for part in ["src", "benches", "examples"] {
            let mut files = Vec::new();
            rust_files(&folder.join(part), &mut files)?;
            for path in files {
                let text = fs::read_to_string(&path).map_err(io_error(&path))?;
                let file = syn::parse_file(&text)
                    .map_err(|error| SourceError::Syntax { path: path.clone(), error })?;
                let path = path.strip_prefix(root).unwrap_or(&path);
                let path = path.to_string_lossy().replace('\\', "/");
                sources.push(Source { member: member.clone(), path, is_test: false, text, file });
            }
        }
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    mark_tests(&mut sources);
    Ok(sources)
}

/// Marks files that are test modules, and all files below them.
fn mark_tests(sources: &mut [Source]) {
    let modules: BTreeSet<String> = sources
        .iter()
        .flat_map(|source| {
            let folder = folder_of_children(&source.path);
            let tests = source.file.items.iter().filter_map(|item| match item {
                Item::Mod(module) if module.content.is_none() && is_test(&module.attrs) => {
                    Some(module.ident.to_string())
                }
                _ => None,
            });
            tests.map(move |name| format!("{folder}/{name}")).collect::<Vec<_>>()
        })
        .collect();
    for source in sources {
        let is_below = |module: &String| {
            let rest = source.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
        };
        source.is_test = modules.iter().any(is_below);
    }
}

/// Returns the folder of the modules that a file declares.
fn folder_of_children(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    }
}

/// Returns the lines of an item's documentation.
pub(super) fn documentation(attributes: &[Attribute]) -> impl Iterator<Item = String> {
    attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(value) if value.path.is_ident("doc") => match &value.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// Whether an item exists only in tests.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg_test = attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|what| what.is_ident("test"));
        is_cfg_test || attribute.path().is_ident("test")
    })
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), SourceError> {
    if !folder.exists() {
        return Ok(());
    }
    for path in entries(folder)? {
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the entries of a folder, sorted.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let listing = fs::read_dir(folder).map_err(io_error(folder))?;
    let paths: Result<Vec<_>, _> = listing.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(io_error(folder))?;
    paths.sort();
    Ok(paths)
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> SourceError + '_ {
    move |error| SourceError::Io { path: path.to_path_buf(), error }
}

/// Parses one file of a crate, for tests.
#[cfg(test)]
pub(super) fn parsed(member: &str, path: &str, text: &str) -> Source {
    let file = syn::parse_file(text).expect("the text of a test is Rust");
    let (member, path, text) = (member.to_owned(), path.to_owned(), text.to_owned());
    Source { member, path, is_test: false, text, file }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_modules_are_marked_with_all_files_below_them() {
        let mut sources = vec![
            parsed("a", "crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod tests;"),
            parsed("a", "crates/a/src/b.rs", "#[cfg(test)]\nmod fixtures;\nmod real;"),
            parsed("a", "crates/a/src/b/fixtures/mod.rs", ""),
            parsed("a", "crates/a/src/b/real.rs", ""),
            parsed("a", "crates/a/src/tests/deep/file.rs", ""),
        ];
        mark_tests(&mut sources);
        let tests: Vec<bool> = sources.iter().map(|source| source.is_test).collect();
        assert_eq!(tests, [false, false, true, false, true]);
    }
}
