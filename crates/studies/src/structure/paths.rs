//! The paths that code names, with all of its imports resolved.

use super::source::{Source, is_test};
use std::collections::BTreeMap;
use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, UseTree};

/// A path that a file names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// The file.
    pub file: String,
    /// The path, such as `std::time::Instant::now`, with its first part resolved through the
    /// imports.
    pub path: String,
}

/// Returns the paths of two parts or more that each file names outside of tests, sorted, without
/// duplicates. An invocation of a macro also counts as the path `macro::name`.
pub fn named_paths(sources: &[Source]) -> Vec<Named> {
    let mut named = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        let mut reader = Reader::default();
        reader.visit_file(&source.file);
        let resolved = reader.paths.iter().map(|path| reader.resolve(path));
        let paths = reader.imports.values().cloned().chain(resolved);
        let file = || source.path.clone();
        named.extend(
            paths
                .filter(|path| path.len() > 1)
                .map(|path| Named { file: file(), path: path.join("::") }),
        );
    }
    named.sort();
    named.dedup();
    named
}

#[derive(Default)]
struct Reader {
    /// The paths that imported names refer to.
    imports: BTreeMap<String, Vec<String>>,
    paths: Vec<Vec<String>>,
}

impl Reader {
    fn resolve(&self, path: &[String]) -> Vec<String> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        let first = self.imports.get(first).cloned().unwrap_or_else(|| vec![first.clone()]);
        first.into_iter().chain(rest.iter().cloned()).collect()
    }

    fn import(&mut self, prefix: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&with(&path.ident), &path.tree),
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = prefix.last() {
                    self.imports.insert(last.clone(), prefix.to_vec());
                }
            }
            UseTree::Name(name) => {
                self.imports.insert(name.ident.to_string(), with(&name.ident));
            }
            UseTree::Rename(rename) => {
                self.imports.insert(rename.rename.to_string(), with(&rename.ident));
            }
            UseTree::Glob(_) => self.paths.push([prefix, &["*".to_owned()]].concat()),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(prefix, tree));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_test(&item.attrs) {
            self.import(&[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.push(path.segments.iter().map(|part| part.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let name = call.path.segments.last().map(|part| part.ident.to_string());
        self.paths.extend(name.map(|name| vec!["macro".to_owned(), name]));
        visit::visit_macro(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::parsed;
    use super::*;

    #[test]
    fn imports_are_resolved_and_tests_left_out() {
        let text = "use std::{fs, time::Instant as Clock};\nfn f() { fs::read(1); Clock::now(); println!(); }\n\
                    #[cfg(test)]\nmod tests { use std::net::UdpSocket; }";
        let named = named_paths(&[parsed("a", "crates/a/src/lib.rs", text)]);
        let paths: Vec<&str> = named.iter().map(|named| named.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "macro::println",
                "std::fs",
                "std::fs::read",
                "std::time::Instant",
                "std::time::Instant::now"
            ]
        );
    }
}
