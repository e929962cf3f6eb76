//! Gives read-only data to every PE, one copy per node over the network.

use super::core::Core;
use super::state::Published;
use crate::codec;
use crate::error::JobError;
use crate::wire::Control;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use std::any::{Any, type_name};
use std::sync::Arc;

impl Core {
    /// Gives `value` to every PE, one copy per node over the network; then calls `done`.
    pub(crate) fn publish(
        &mut self,
        value: &Bytes,
        done: impl FnOnce(&mut Self, u32) + Send + 'static,
    ) {
        let pes = self.common.layout.pe_count();
        let Some(root) = &mut self.root else { return };
        let id = root.publications.next;
        root.publications.next += 1;
        let done = Box::new(move |core: &mut Self| done(core, id));
        root.publications.waiting.insert(id, (pes, done));
        self.post_to_all(|| Control::Publish { id, value: value.clone() });
    }

    pub(super) fn handle_publish(&mut self, id: u32, value: Bytes) {
        self.published.insert(id, Published { bytes: value, value: None });
        self.post(Self::ROOT, Control::Published { id });
    }

    pub(super) fn handle_published(&mut self, id: u32) {
        let Some(root) = &mut self.root else { return };
        let Some((missing, _)) = root.publications.waiting.get_mut(&id) else { return };
        *missing -= 1;
        if *missing == 0
            && let Some((_, done)) = root.publications.waiting.remove(&id)
        {
            done(self);
        }
    }

    /// The published value. Decoded at the first look, then shared by all actors of the PE.
    pub(crate) fn read<T: DeserializeOwned + Send + Sync + 'static>(
        &mut self,
        id: u32,
    ) -> Result<Arc<T>, JobError> {
        let Some(published) = self.published.get_mut(&id) else {
            return Err(JobError::Protocol(format!("nothing was published under {id}")));
        };
        let value = match &published.value {
            Some(value) => value.clone(),
            None => {
                let value: T = codec::decode(type_name::<T>(), &published.bytes)
                    .map_err(|error| JobError::Protocol(error.to_string()))?;
                let value: Arc<dyn Any + Send + Sync> = Arc::new(value);
                published.value = Some(value.clone());
                value
            }
        };
        value.downcast().map_err(|_| {
            JobError::Protocol(format!("publication {id} is not a {}", type_name::<T>()))
        })
    }
}
