//! The pools of this PE: their hooks, and the tasks from outside the pools.

use crate::address::id::{COORDINATOR, CollectionId, MAIN_PE};
use crate::message::Control;
use crate::pe::core::Core;
use crate::pe::membership::pool_hooks::{IsAllowed, OpenTasks, PoolHooks, Tell};

impl Core {
    /// Registers the member of a collection on this PE for events about nodes and places, and
    /// `is_allowed` to check worker messages from other nodes.
    pub(crate) fn register_pool(
        &mut self,
        collection: CollectionId,
        tell: Tell<Self>,
        is_allowed: IsAllowed,
    ) {
        let hooks = PoolHooks { tell, is_allowed, open: OpenTasks::default() };
        self.membership.pools.insert(collection, hooks);
        if self.me == MAIN_PE {
            self.post(COORDINATOR, Control::PoolOpened { collection });
        }
    }

    /// Notes the open tasks of a pool on this PE, for diagnoses.
    pub(crate) fn note_open_tasks(&mut self, collection: CollectionId, open: OpenTasks) {
        if let Some(hooks) = self.membership.pools.get_mut(&collection) {
            hooks.open = open;
        }
    }

    /// Undoes [`register_pool`](Self::register_pool). Members of the collection on guests receive
    /// the `farewell` as a worker message.
    pub(crate) fn unregister_pool(&mut self, collection: CollectionId, farewell: Vec<u8>) {
        self.membership.pools.remove(&collection);
        self.pool_drained(collection);
        if self.me == MAIN_PE {
            let farewell = farewell.into();
            self.post(COORDINATOR, Control::PoolClosed { collection, farewell });
        }
    }

    /// Counts a task that was handed in from outside its pool. Until the task is done, the job is
    /// not quiescent, and no checkpoint is made unless the task is repeatable.
    pub(crate) fn task_begins(&mut self, is_repeatable: bool) {
        self.created += 1;
        *self.checkpointing.open_tasks(is_repeatable) += 1;
    }

    /// Counts the end of such a task.
    pub(crate) fn task_ends(&mut self, is_repeatable: bool) {
        self.processed += 1;
        *self.checkpointing.open_tasks(is_repeatable) -= 1;
    }
}
