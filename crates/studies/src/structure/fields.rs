//! Lists the fields of a struct. A field whose type is a struct without methods is replaced by the
//! fields of that struct.

use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Fields, Item, ItemStruct, Type};

/// Returns the names of the fields of a struct of a workspace member; none if the struct does not
/// exist. A field whose type is a struct of the same member without inherent methods counts as the
/// fields of that struct, since it only groups them.
pub fn fields(sources: &[Source], member: &str, name: &str) -> Vec<String> {
    let files = || {
        let of_member = sources.iter().filter(|source| source.member == member);
        of_member.filter(|source| source.is_library() && !source.is_test)
    };
    let items = || files().flat_map(|source| &source.file.items);
    let structs: BTreeMap<String, &ItemStruct> = items()
        .filter_map(|item| match item {
            Item::Struct(item) => Some((item.ident.to_string(), item)),
            _ => None,
        })
        .collect();
    let behaving: BTreeSet<String> = items()
        .filter_map(|item| match item {
            Item::Impl(item) if item.trait_.is_none() => name_of(&item.self_ty),
            _ => None,
        })
        .collect();
    let mut names = Vec::new();
    collect((&structs, &behaving), name, "", &mut names);
    names
}

fn collect(
    known: (&BTreeMap<String, &ItemStruct>, &BTreeSet<String>),
    name: &str,
    prefix: &str,
    names: &mut Vec<String>,
) {
    let (structs, behaving) = known;
    let Some(Fields::Named(fields)) = structs.get(name).map(|item| &item.fields) else { return };
    for field in &fields.named {
        let path = format!(
            "{prefix}{}",
            field.ident.as_ref().map_or_else(String::new, ToString::to_string)
        );
        match name_of(&field.ty) {
            Some(inner)
                if structs.contains_key(&inner) && !behaving.contains(&inner) && inner != name =>
            {
                collect(known, &inner, &format!("{path}."), names);
            }
            _ => names.push(path),
        }
    }
}

fn name_of(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::parsed;
    use super::*;

    #[test]
    fn structs_without_methods_count_as_their_fields() {
        let text = "struct Core { a: u8, bag: Bag, tool: Tool }\nstruct Bag { b: u8, c: Vec<u8> }\n\
                    struct Tool { d: u8 }\nimpl Tool { fn run(&self) {} }";
        let sources = [parsed("a", "crates/a/src/lib.rs", text)];
        assert_eq!(fields(&sources, "a", "Core"), ["a", "bag.b", "bag.c", "tool"]);
        assert!(fields(&sources, "b", "Core").is_empty());
    }
}
