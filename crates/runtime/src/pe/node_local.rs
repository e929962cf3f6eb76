//! Values that the actors of one node share, although PEs share nothing.

use crate::address::id::CollectionId;
use gridspan_topology::NodeId;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

type Shared = dyn Any + Send + Sync;

/// One value for each node and collection. It lives as long as an actor shares it. A process may
/// run one node of a job, or all.
#[derive(Default)]
pub(crate) struct NodeLocal(Mutex<BTreeMap<(NodeId, CollectionId), Weak<Shared>>>);

impl NodeLocal {
    /// Returns the value of this node and collection, and creates it if it does not exist. `None`
    /// if the existing value has another type.
    pub(crate) fn share<T: Send + Sync + 'static>(
        &self,
        at: (NodeId, CollectionId),
        make: impl FnOnce() -> T,
    ) -> Option<Arc<T>> {
        let mut things = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        things.retain(|_, thing| thing.strong_count() > 0);
        if let Some(thing) = things.get(&at).and_then(Weak::upgrade) {
            return thing.downcast().ok();
        }
        let thing = Arc::new(make());
        let shared: Arc<Shared> = thing.clone();
        things.insert(at, Arc::downgrade(&shared));
        Some(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_of_one_node_and_collection_share_a_value_until_all_are_gone() {
        let node_local = NodeLocal::default();
        let at = |node| (NodeId(node), CollectionId(3));
        let first = node_local.share(at(0), || 1).unwrap();
        assert!(Arc::ptr_eq(&first, &node_local.share(at(0), || 2).unwrap()));
        assert_eq!(*node_local.share(at(1), || 3).unwrap(), 3);
        assert!(node_local.share(at(0), || "of another type").is_none());
        drop(first);
        assert_eq!(*node_local.share(at(0), || 4).unwrap(), 4);
    }
}
