//! Values that a job gives to its actors on each node, and that are never sent.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One value of each type.
#[derive(Clone, Default)]
pub(crate) struct Resources(Arc<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Resources {
    /// Adds a value, in place of an earlier one of its type.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Returns the value of a type.
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_type_is_found() {
        let mut resources = Resources::default();
        resources.insert(1_u32);
        resources.insert("other");
        resources.insert(2_u32);
        assert_eq!(resources.get::<u32>().as_deref(), Some(&2));
        assert_eq!(resources.get::<&str>().as_deref(), Some(&"other"));
        assert!(resources.get::<u64>().is_none());
    }
}
