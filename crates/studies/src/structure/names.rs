//! Public types of the same name in several crates, between which a reader has to choose.

use super::source::{Source, is_test};
use std::collections::{BTreeMap, BTreeSet};
use syn::{Item, Visibility};

/// A name that public types of several members have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedName {
    /// The name.
    pub name: String,
    /// The files that define such a type, one of each member.
    pub files: Vec<String>,
}

/// Returns the names of public structs, enums, traits and type aliases that two or more members
/// have.
pub fn shared_names(sources: &[Source]) -> Vec<SharedName> {
    let mut types: BTreeMap<String, BTreeMap<&str, &str>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_library() && !source.is_test) {
        for name in public_types(&source.file.items) {
            types.entry(name).or_default().entry(&source.member).or_insert(&source.path);
        }
    }
    let shared = types.into_iter().filter(|(_, members)| members.len() > 1);
    let files = |members: BTreeMap<&str, &str>| {
        let files: BTreeSet<&str> = members.into_values().collect();
        files.into_iter().map(str::to_owned).collect()
    };
    shared.map(|(name, members)| SharedName { name, files: files(members) }).collect()
}

fn public_types(items: &[Item]) -> Vec<String> {
    let mut names = Vec::new();
    for item in items {
        let (visibility, name) = match item {
            Item::Struct(item) => (&item.vis, &item.ident),
            Item::Enum(item) => (&item.vis, &item.ident),
            Item::Trait(item) => (&item.vis, &item.ident),
            Item::Type(item) => (&item.vis, &item.ident),
            Item::Mod(module) if !is_test(&module.attrs) => {
                let inside = module.content.as_ref().map(|(_, items)| public_types(items));
                names.extend(inside.unwrap_or_default());
                continue;
            }
            _ => continue,
        };
        if matches!(visibility, Visibility::Public(_)) {
            names.push(name.to_string());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::source::parsed;
    use super::*;

    #[test]
    fn only_public_types_in_two_crates_share_a_name() {
        let sources = [
            parsed(
                "a",
                "crates/a/src/lib.rs",
                "pub struct Plan; pub(crate) struct Link; pub enum Own {}",
            ),
            parsed("b", "crates/b/src/lib.rs", "pub enum Plan {} pub trait Link {}"),
            parsed("b", "crates/b/examples/x.rs", "pub enum Own {}"),
        ];
        let files = ["crates/a/src/lib.rs", "crates/b/src/lib.rs"].map(str::to_owned).to_vec();
        assert_eq!(shared_names(&sources), [SharedName { name: "Plan".to_owned(), files }]);
    }
}
