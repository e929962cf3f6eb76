//! Read-only data that main has published on every PE; each node receives one copy.

pub(in crate::pe) mod state;

use crate::address::id::COORDINATOR;
use crate::error::JobError;
use crate::message::Control;
use crate::message::codec;
use crate::pe::core::Core;
use crate::pe::published::state::Published;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use std::any::{Any, type_name};
use std::sync::Arc;

impl Core {
    pub(in crate::pe) fn handle_publish(&mut self, id: u32, value: Bytes) {
        self.published.insert(id, Published { bytes: value, value: None });
        self.post(COORDINATOR, Control::Published { id });
    }

    /// Returns a published value. It is decoded on first use, then shared by all actors of the PE.
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
