//! Adds to every function a call that records that the function runs.

use super::source::is_test;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItemFn, ItemFn, ItemImpl, ItemMod, Signature, TraitItemFn, Type};

/// Inserts `call("label")` at the beginning of all functions of a file except tests and `const`
/// functions. A label is `path:line lines function`, where `lines` is the length of the function.
pub fn instrument(path: &str, text: &str, call: &str) -> Result<String, syn::Error> {
    let mut functions = Functions { path, of: None, found: Vec::new() };
    functions.visit_file(&syn::parse_file(text)?);
    functions.found.sort_unstable_by_key(|(at, _)| *at);
    let mut instrumented = String::with_capacity(text.len() * 2);
    let mut done = 0;
    for (at, label) in functions.found {
        instrumented.push_str(&text[done..at]);
        instrumented.push_str(&format!(" {call}({label:?});"));
        done = at;
    }
    instrumented.push_str(&text[done..]);
    Ok(instrumented)
}

struct Functions<'a> {
    path: &'a str,
    /// The type of the `impl` block that is being visited.
    of: Option<String>,
    /// Byte offsets of the insertions, and the labels.
    found: Vec<(usize, String)>,
}

impl Functions<'_> {
    fn note(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        if signature.constness.is_some() || is_test(attributes) {
            return;
        }
        let (open, close) = (block.brace_token.span.open(), block.brace_token.span.close());
        let (first, last) = (signature.fn_token.span.start().line, close.end().line);
        let of = self.of.as_ref().map_or_else(String::new, |of| format!("{of}::"));
        let lines = last - first + 1;
        let label = format!("{}:{first} {lines} {of}{}", self.path, signature.ident);
        self.found.push((open.byte_range().end, label));
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let of = match &*item.self_ty {
            Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        let outer = std::mem::replace(&mut self.of, of);
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
        self.of = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.note(&item.attrs, &item.sig, &item.block);
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.note(&item.attrs, &item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.note(&item.attrs, &item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_instrumented_except_const_functions_and_tests() {
        let text = "impl A {\n    fn a(&self) -> u8 {\n        1\n    }\n    const fn b() {}\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";
        let found = instrument("x.rs", text, "note").unwrap();
        let expected = text.replace("-> u8 {", "-> u8 { note(\"x.rs:2 3 A::a\");");
        assert_eq!(found, expected);
    }
}
