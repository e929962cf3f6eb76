//! Circular calls between the files over which the methods of a type are spread.
//!
//! Even where imports are acyclic, two files may call each other, because each reaches all methods
//! of a type through the type. A file *calls* another one if any of its functions or closures
//!
//! - calls a method of the type that the other file defines, on `self`, on a variable or field
//!   named after the type (`core` of type `Core`), or by its path (`Core::settle`);
//! - calls a method of a trait of the crate that the other file implements, if no other trait and
//!   no type of the crate has a method of that name.

use super::source::{Source, is_test};
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{
    Expr, ExprCall, ExprMethodCall, ImplItem, ItemEnum, ItemImpl, ItemMod, ItemStruct, ItemTrait,
    Type,
};

/// Files that call each other through the methods of a type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circle {
    /// The member of the workspace.
    pub member: String,
    /// The type.
    pub of: String,
    /// The files, sorted, at least two of which have methods of the type.
    pub files: Vec<String>,
}

/// Returns the circles among the files of each type of the workspace.
pub fn circles(sources: &[Source]) -> Vec<Circle> {
    let mut members: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_library() && !source.is_test) {
        members.entry(&source.member).or_default().push(source);
    }
    members.into_iter().flat_map(|(member, files)| circles_of(member, &files)).collect()
}

fn circles_of(member: &str, sources: &[&Source]) -> Vec<Circle> {
    let files: Vec<Declared> = sources.iter().map(|source| Declared::of(source)).collect();
    let spread = spread_types(&files);
    let traits = traits_by_method(&files);
    let mut circles = Vec::new();
    for (of, defined) in &spread {
        let mut graph = DiGraphMap::<usize, ()>::new();
        for (from, file) in files.iter().enumerate() {
            let methods = file
                .calls
                .iter()
                .filter_map(|call| call.is_of(of).then(|| defined.get(&call.method)).flatten());
            let dynamic = file.calls.iter().filter_map(|call| traits.get(&call.method));
            for to in methods.chain(dynamic).flatten() {
                if *to != from {
                    graph.add_edge(from, *to, ());
                }
            }
        }
        let owners: BTreeSet<usize> = defined.values().flatten().copied().collect();
        for component in tarjan_scc(&graph) {
            if component.iter().filter(|file| owners.contains(file)).count() > 1 {
                let mut paths: Vec<String> =
                    component.iter().map(|&file| sources[file].path.clone()).collect();
                paths.sort();
                circles.push(Circle { member: member.to_owned(), of: of.clone(), files: paths });
            }
        }
    }
    circles.sort();
    circles
}

/// Returns the files that define each method, for each type with methods in several files. A file
/// that defines a different type of the same name does not count.
fn spread_types(files: &[Declared]) -> BTreeMap<String, BTreeMap<String, BTreeSet<usize>>> {
    let mut definitions: BTreeMap<&str, usize> = BTreeMap::new();
    for name in files.iter().flat_map(|file| &file.types) {
        *definitions.entry(name).or_default() += 1;
    }
    let mut types: BTreeMap<String, BTreeMap<String, BTreeSet<usize>>> = BTreeMap::new();
    for (number, file) in files.iter().enumerate() {
        for (of, method) in &file.methods {
            if file.types.contains(of) && definitions[of.as_str()] > 1 {
                continue;
            }
            let methods = types.entry(of.clone()).or_default();
            methods.entry(method.clone()).or_default().insert(number);
        }
    }
    types.retain(|_, methods| methods.values().flatten().collect::<BTreeSet<_>>().len() > 1);
    types
}

/// Returns the files that implement the trait of a method, for each method whose name only one
/// trait and no type has.
fn traits_by_method(files: &[Declared]) -> BTreeMap<String, BTreeSet<usize>> {
    let mut owners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        for (of, method) in file.traits.iter().chain(&file.methods) {
            owners.entry(method).or_default().insert(of);
        }
    }
    let mut implemented: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (number, file) in files.iter().enumerate() {
        for name in &file.implements {
            implemented.entry(name).or_default().insert(number);
        }
    }
    let declared = files.iter().flat_map(|file| &file.traits);
    declared
        .filter(|(_, method)| owners[method.as_str()].len() == 1)
        .filter_map(|(of, method)| Some((method.clone(), implemented.get(of.as_str())?.clone())))
        .collect()
}

/// A call of a method.
struct Call {
    method: String,
    /// What the method is called on.
    on: Receiver,
}

enum Receiver {
    /// `self`, in methods of this type.
    This(String),
    /// A variable or field of this name.
    Named(String),
    /// The type, as in `Core::settle`.
    Path(String),
    Other,
}

impl Call {
    /// Whether this seems to be a call of a method of the type `of`.
    fn is_of(&self, of: &str) -> bool {
        match &self.on {
            Receiver::This(this) | Receiver::Path(this) => this == of,
            Receiver::Named(name) => *name == snake_case(of),
            Receiver::Other => false,
        }
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (position, letter) in name.char_indices() {
        if letter.is_uppercase() && position > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// The declarations and calls of a file.
#[derive(Default)]
struct Declared {
    /// Structs and enums.
    types: BTreeSet<String>,
    /// Types and their inherent methods.
    methods: Vec<(String, String)>,
    /// Traits and their methods.
    traits: Vec<(String, String)>,
    /// Traits that it implements.
    implements: Vec<String>,
    calls: Vec<Call>,
    /// The type whose methods are currently read.
    this: Option<String>,
}

impl Declared {
    fn of(source: &Source) -> Self {
        let mut declared = Self::default();
        declared.visit_file(&source.file);
        declared
    }

    fn receiver(&self, expr: &Expr) -> Receiver {
        match expr {
            Expr::Path(path) => match path.path.get_ident() {
                Some(ident) if ident == "self" => {
                    self.this.clone().map_or(Receiver::Other, Receiver::This)
                }
                Some(ident) => Receiver::Named(ident.to_string()),
                None => Receiver::Other,
            },
            Expr::Field(field) => match &field.member {
                syn::Member::Named(name) => Receiver::Named(name.to_string()),
                syn::Member::Unnamed(_) => Receiver::Other,
            },
            Expr::Reference(reference) => self.receiver(&reference.expr),
            Expr::Paren(inside) => self.receiver(&inside.expr),
            _ => Receiver::Other,
        }
    }
}

impl<'ast> Visit<'ast> for Declared {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.types.insert(item.ident.to_string());
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.types.insert(item.ident.to_string());
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        for method in &item.items {
            if let syn::TraitItem::Fn(method) = method {
                self.traits.push((item.ident.to_string(), method.sig.ident.to_string()));
            }
        }
        visit::visit_item_trait(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        let this = type_name(&item.self_ty);
        match (&item.trait_, &this) {
            (Some((path, _)), _) => {
                self.implements.extend(path.segments.last().map(|last| last.ident.to_string()));
            }
            (None, Some(this)) => {
                let methods = item.items.iter().filter_map(|item| match item {
                    ImplItem::Fn(method) => Some(method.sig.ident.to_string()),
                    _ => None,
                });
                self.methods.extend(methods.map(|method| (this.clone(), method)));
            }
            (None, None) => {}
        }
        let outer = std::mem::replace(&mut self.this, this);
        visit::visit_item_impl(self, item);
        self.this = outer;
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let (method, on) = (call.method.to_string(), self.receiver(&call.receiver));
        self.calls.push(Call { method, on });
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(path) = &*call.func {
            let mut segments = path.path.segments.iter().rev().map(|part| part.ident.to_string());
            if let (Some(method), Some(of)) = (segments.next(), segments.next()) {
                let of = if of == "Self" { self.this.clone().unwrap_or(of) } else { of };
                self.calls.push(Call { method, on: Receiver::Path(of) });
            }
        }
        visit::visit_expr_call(self, call);
    }
}

fn type_name(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        Type::Reference(reference) => type_name(&reference.elem),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::parsed;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(name, text)| parsed("a", &format!("crates/a/src/{name}.rs"), text))
            .collect();
        let name = |path: String| {
            path.trim_start_matches("crates/a/src/").trim_end_matches(".rs").to_owned()
        };
        let circles = circles(&sources).into_iter();
        circles.map(|circle| circle.files.into_iter().map(name).collect()).collect()
    }

    #[test]
    fn files_that_call_each_other_by_methods_or_closures_are_found() {
        let files = [
            ("one", "impl Core { fn one(&mut self) { self.two(); } }"),
            ("two", "impl Core { fn two(&mut self) { later(|core| core.three(1)); } }"),
            ("three", "impl Core { fn three(&mut self) { Core::one(self); } }"),
            ("four", "impl Core { fn four(&mut self) { self.one(); } }"),
        ];
        assert_eq!(found(&files), [["one", "three", "two"]]);
    }

    #[test]
    fn a_call_through_a_trait_closes_a_circle() {
        let files = [
            ("one", "impl Core { fn one(&mut self, kind: &dyn Kind) { kind.arrive(self); } }"),
            ("kind", "trait Kind { fn arrive(&self, core: &mut Core); }"),
            ("known", "impl Kind for Known { fn arrive(&self, core: &mut Core) { core.two(); } }"),
            ("two", "impl Core { fn two(&mut self) { self.one(todo()); } }"),
        ];
        assert_eq!(found(&files), [["known", "one", "two"]]);
    }

    #[test]
    fn calls_of_other_types_and_in_tests_do_not_count() {
        let files = [
            ("one", "impl Core { fn one(&mut self) { self.queue.push(1); self.two() } }"),
            (
                "two",
                "impl Core { fn two(&self) {} fn push(&self) {} }\n#[cfg(test)]\nmod tests { fn t() { core.one(); } }",
            ),
        ];
        assert!(found(&files).is_empty());
    }
}
