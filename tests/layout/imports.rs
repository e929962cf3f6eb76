//! Reads imports between the files of a crate, and finds circles among them.
//!
//! A name that a module re-exports counts as imported from the file that defines it. Declaring or
//! re-exporting a module is not an import.

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use std::collections::{BTreeMap, BTreeSet};

type Module = Vec<String>;

/// A path that a file names, and whether it is re-exported.
struct Use {
    path: Vec<String>,
    is_export: bool,
}

/// Returns the groups of files that import each other in a circle. Files are given as path without
/// extension and code without comments and tests.
pub(crate) fn circles(files: &[(String, String)]) -> Vec<Vec<String>> {
    strong_components(&edges(files))
}

/// Returns the imports, as `file imports file`, from a layer into a higher one or into a file that
/// is in no layer. `layers` names the folders and files at the top of a crate, the lowest first.
/// Test fixtures are in no layer.
pub(crate) fn upward(files: &[(String, String)], layers: &[&str]) -> Vec<String> {
    let layer = |module: &Module| {
        let top = module.first().map(String::as_str);
        layers.iter().position(|layer| Some(*layer) == top)
    };
    let mut found = Vec::new();
    for (module, targets) in edges(files).iter().filter(|(module, _)| layer(module).is_some()) {
        let is_upward = |target: &&Module| layer(module) < layer(target) || layer(target).is_none();
        let upward = targets.iter().filter(is_upward);
        found.extend(upward.map(|to| format!("{} imports {}", module.join("/"), to.join("/"))));
    }
    found
}

/// Returns the files that each file imports.
fn edges(files: &[(String, String)]) -> BTreeMap<Module, BTreeSet<Module>> {
    let modules: BTreeMap<Module, Vec<Use>> =
        files.iter().map(|(name, code)| (module(name), uses(code))).collect();
    let mut edges: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, uses) in &modules {
        let targets = uses
            .iter()
            .filter(|used| !used.is_export)
            .filter_map(|used| absolute(&modules, module, &used.path))
            .map(|path| resolve(&modules, &path, 0))
            .filter(|target| target != module);
        edges.insert(module.clone(), targets.collect());
    }
    edges
}

fn module(name: &str) -> Module {
    let mut parts: Vec<String> = name.split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Returns all paths in `use` items, and paths in the code that start with `crate` or `super`.
fn uses(code: &str) -> Vec<Use> {
    let mut found = Vec::new();
    for statement in code.split(';') {
        let Some(at) = statement.find("use ").filter(|&at| {
            let before = statement[..at].lines().last().unwrap_or_default().trim();
            before.is_empty() || before.starts_with("pub")
        }) else {
            continue;
        };
        let is_export =
            statement[..at].lines().last().unwrap_or_default().trim().starts_with("pub");
        let tree = statement[at + 4..].replace(char::is_whitespace, "");
        expand(&[], &tree, &mut |path| found.push(Use { path, is_export }));
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    // The prefix of a group, as in `crate::{A, B}`, names no file.
    for word in code.split(|c: char| !is_part(c)).filter(|word| !word.ends_with("::")) {
        if word.starts_with("crate::") || word.starts_with("super::") {
            let path = word.split("::").filter(|part| !part.is_empty()).map(str::to_owned);
            found.push(Use { path: path.collect(), is_export: false });
        }
    }
    found
}

/// Expands `a::{b, c::d}` into its paths.
fn expand(prefix: &[String], tree: &str, found: &mut dyn FnMut(Vec<String>)) {
    let mut depth = 0;
    let mut begin = 0;
    let mut parts = Vec::new();
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&tree[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tree[begin..]);
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let (head, inner) = match part.split_once('{') {
            Some((head, inner)) => (head, inner.strip_suffix('}')),
            None => (part, None),
        };
        let mut path = prefix.to_vec();
        path.extend(head.split("::").filter(|part| !part.is_empty()).map(str::to_owned));
        match inner {
            Some(inner) => expand(&path, inner, found),
            None => found(path),
        }
    }
}

/// Returns the path from the root of the crate, or `None` for a path into another crate.
fn absolute(
    modules: &BTreeMap<Module, Vec<Use>>,
    from: &Module,
    path: &[String],
) -> Option<Vec<String>> {
    let mut base = from.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => return Some(path[1..].to_vec()),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        child => {
            base.push(child.to_owned());
            let is_child = modules.contains_key(&base);
            base.pop();
            if !is_child {
                return None;
            }
        }
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

/// Returns the file that defines the item of a path.
fn resolve(modules: &BTreeMap<Module, Vec<Use>>, path: &[String], depth: u32) -> Module {
    let length = (0..=path.len()).rev().find(|&n| modules.contains_key(&path[..n])).unwrap_or(0);
    let module = path[..length].to_vec();
    let exported = path.get(length).and_then(|name| {
        let exports = modules.get(&module)?;
        exports
            .iter()
            .filter(|used| used.path.last() == Some(name))
            .find_map(|used| absolute(modules, &module, &used.path).filter(|target| target != path))
    });
    match exported {
        // A chain of re-exports is short; a longer one is circular.
        Some(target) if depth < 8 => resolve(modules, &target, depth + 1),
        _ => module,
    }
}

/// Returns the components of more than one file. No file imports itself.
fn strong_components(edges: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<String>> {
    let imports = edges.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    let graph: DiGraphMap<&Module, ()> = DiGraphMap::from_edges(imports);
    let circles = tarjan_scc(&graph).into_iter().filter(|files| files.len() > 1);
    let circles: BTreeSet<Vec<String>> = circles
        .map(|mut files| {
            files.sort_unstable();
            files.into_iter().map(|file| file.join("/")).collect()
        })
        .collect();
    circles.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::circles;

    fn crate_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<_> =
            files.iter().map(|(name, code)| ((*name).to_owned(), (*code).to_owned())).collect();
        circles(&files)
    }

    #[test]
    fn a_circle_is_found_through_re_exports_and_groups() {
        let found = crate_of(&[
            ("lib", "mod a;\nmod b;\npub use a::{A, Other};\n"),
            ("a", "use crate::b::{B, C};\nstruct A;"),
            ("b", "use crate::A;\nstruct B;"),
        ]);
        assert_eq!(found, [["a", "b"]]);
    }

    #[test]
    fn a_tree_of_imports_has_no_circle() {
        let found = crate_of(&[
            ("lib", "mod a;\nmod b;\npub use a::A;\n"),
            ("a/mod", "mod inner;\nuse inner::Inner;\n"),
            ("a/inner", "use crate::b::B;"),
            ("b", "use std::fmt;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}
