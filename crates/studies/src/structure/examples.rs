//! Types that users meet through the facade, and whether their documentation shows an example.

use super::source::{Source, documentation, is_test};
use proc_macro2::TokenStream;
use std::collections::{BTreeMap, BTreeSet};
use syn::parse::ParseStream;
use syn::{Attribute, Ident, Item, UseTree, Visibility};

/// The member of the workspace that is the facade.
const FACADE: &str = "gridspan";

/// A type that users meet and whose documentation has no example.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnshownType {
    /// Its name.
    pub name: String,
    /// The file that defines it.
    pub path: String,
}

/// Returns the types whose documentation has no example that runs. It examines the public structs,
/// enums and traits that the facade defines or re-exports by name, and the `others`, each given by
/// its member and name. If an invocation of a macro defines a type, the name of the type must be
/// first in the invocation, after the documentation.
pub fn types_without_example(sources: &[Source], others: &[(&str, &str)]) -> Vec<UnshownType> {
    let mut met: BTreeSet<(String, String)> =
        others.iter().map(|(member, name)| ((*member).to_owned(), (*name).to_owned())).collect();
    let in_library = |source: &&Source| source.is_library() && !source.is_test;
    for source in sources.iter().filter(in_library).filter(|source| source.member == FACADE) {
        add_exports(&source.file.items, &mut met);
    }
    // A type may occur both in its definition and in an invocation of a macro, so one example is
    // enough.
    let mut shown: BTreeMap<(String, String), (String, bool)> = BTreeMap::new();
    for source in sources.iter().filter(in_library) {
        for (name, has_example) in types(&source.file.items) {
            let key = (source.member.clone(), name);
            if source.member == FACADE || met.contains(&key) {
                let (_, is_shown) =
                    shown.entry(key).or_insert_with(|| (source.path.clone(), false));
                *is_shown |= has_example;
            }
        }
    }
    let unshown = shown.into_iter().filter(|(_, (_, is_shown))| !is_shown);
    unshown.map(|((_, name), (path, _))| UnshownType { name, path }).collect()
}

/// Adds each name that a public `use` item re-exports from another member, and that member.
fn add_exports(items: &[Item], met: &mut BTreeSet<(String, String)>) {
    for item in items {
        match item {
            Item::Use(item) if matches!(item.vis, Visibility::Public(_)) => {
                if let UseTree::Path(path) = &item.tree
                    && let Some(member) = path.ident.to_string().strip_prefix("gridspan_")
                {
                    add_names(&path.tree, &member.replace('_', "-"), met);
                }
            }
            Item::Mod(module) => {
                let inside = module.content.as_ref().map(|(_, items)| items);
                add_exports(inside.map_or(&[], Vec::as_slice), met);
            }
            _ => {}
        }
    }
}

fn add_names(tree: &UseTree, member: &str, met: &mut BTreeSet<(String, String)>) {
    let mut add = |name: &Ident| met.insert((member.to_owned(), name.to_string()));
    match tree {
        UseTree::Path(path) => {
            // In `Op::{self, Sum}`, the type is `Op`.
            add(&path.ident);
            add_names(&path.tree, member, met);
        }
        UseTree::Name(name) => drop(add(&name.ident)),
        UseTree::Rename(renamed) => drop(add(&renamed.ident)),
        UseTree::Group(group) => group.items.iter().for_each(|tree| add_names(tree, member, met)),
        UseTree::Glob(_) => {}
    }
}

/// Returns the public types, with whether each has an example.
fn types(items: &[Item]) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for item in items {
        let (visibility, name, attributes) = match item {
            Item::Struct(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Enum(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Trait(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Mod(module) if !is_test(&module.attrs) => {
                let inside = module.content.as_ref().map(|(_, items)| types(items));
                found.extend(inside.unwrap_or_default());
                continue;
            }
            Item::Macro(item) => {
                found.extend(item.mac.parse_body_with(name_after_docs).ok());
                continue;
            }
            _ => continue,
        };
        if matches!(visibility, Visibility::Public(_)) {
            found.push((name.to_string(), has_example(attributes)));
        }
    }
    found
}

fn name_after_docs(input: ParseStream<'_>) -> syn::Result<(String, bool)> {
    let attributes = input.call(Attribute::parse_outer)?;
    let name: Ident = input.parse()?;
    input.parse::<TokenStream>()?;
    Ok((name.to_string(), has_example(&attributes)))
}

/// Whether documentation contains a block of code that `cargo test` runs.
fn has_example(attributes: &[Attribute]) -> bool {
    let fences: Vec<String> = documentation(attributes)
        .filter_map(|line| line.trim().strip_prefix("```").map(str::to_owned))
        .collect();
    fences.chunks(2).any(|ends| ["", "rust"].contains(&ends[0].as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::source::parsed;
    use super::*;

    fn unshown(facade: &str, below: &str) -> Vec<String> {
        let sources = [
            parsed("gridspan", "src/lib.rs", facade),
            parsed("below", "crates/below/src/lib.rs", below),
        ];
        let found = types_without_example(&sources, &[("below", "Named")]);
        found.into_iter().map(|found| found.name).collect()
    }

    #[test]
    fn re_exported_and_named_types_without_an_example_are_found() {
        let facade = "pub mod inner { pub use gridspan_below::{parts::One, Two}; } pub struct Own;";
        let below = "pub struct One; pub enum Two {} pub trait Hidden {} pub struct Named;
            struct Private;";
        assert_eq!(unshown(facade, below), ["Named", "One", "Two", "Own"]);
    }

    #[test]
    fn an_example_must_run_and_may_be_in_a_macro() {
        let facade = "pub use gridspan_below::{Index, Quoted, Shown, Unshown};";
        let below = "
            /// ```
            /// assert!(true);
            /// ```
            pub struct Shown;
            /// ```text
            /// a picture
            /// ```
            pub struct Quoted;
            index!(
                /// ```
                /// assert!(true);
                /// ```
                Index, 2
            );
            index!(Unshown, 2);
            copied!(Shown);";
        assert_eq!(unshown(facade, below), ["Quoted", "Unshown"]);
    }
}
