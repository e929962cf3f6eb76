//! Counts how often code uses an optional field, and how often a `let … else` handles the case that
//! it is empty.

use super::source::{Source, is_test};
use syn::visit::{self, Visit};
use syn::{Expr, ExprField, ItemMod, Local, Member};

/// Uses of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guards {
    /// `let … = … .field … else { … }`.
    pub let_else: usize,
    /// Uses of any form.
    pub uses: usize,
    /// Files with uses.
    pub files: usize,
}

/// Counts the uses of the field `name` of `self` or `core` in the files below `folder`.
pub fn guards(sources: &[Source], folder: &str, name: &str) -> Guards {
    let mut sum = Guards::default();
    for source in sources.iter().filter(|source| source.path.starts_with(folder)) {
        let mut reader = Reader { name, found: Guards::default() };
        if !source.is_test {
            reader.visit_file(&source.file);
        }
        sum.let_else += reader.found.let_else;
        sum.uses += reader.found.uses;
        sum.files += usize::from(reader.found.uses > 0);
    }
    sum
}

struct Reader<'a> {
    name: &'a str,
    found: Guards,
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        let before = self.found.uses;
        if let Some(init) = local.init.as_ref().filter(|init| init.diverge.is_some()) {
            self.visit_expr(&init.expr);
            self.found.let_else += usize::from(self.found.uses > before);
            self.found.uses = before;
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_field(&mut self, field: &'ast ExprField) {
        let is_named = matches!(&field.member, Member::Named(name) if name == self.name);
        let is_own = matches!(&*field.base, Expr::Path(path)
            if path.path.get_ident().is_some_and(|ident| ident == "self" || ident == "core"));
        self.found.uses += usize::from(is_named && is_own);
        visit::visit_expr_field(self, field);
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::parsed;
    use super::*;

    #[test]
    fn let_else_guards_and_other_uses_are_counted() {
        let text = "impl Core { fn a(&mut self) { let Some(root) = &mut self.root else { return }; \
                    if self.root.is_some() { other.root; } } }";
        let sources = [parsed("a", "crates/a/src/lib.rs", text)];
        let expected = Guards { let_else: 1, uses: 2, files: 1 };
        assert_eq!(guards(&sources, "crates/a", "root"), expected);
    }
}
