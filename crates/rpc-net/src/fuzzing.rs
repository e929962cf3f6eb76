//! Messages between processes of a registry, for the fuzz targets: arbitrary bytes are read or
//! refused.

use crate::wire::messages::{
    ListedServer, Order, Peer, Request, ServerUpdate, TaskError, TextCall, Times, read,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads one text as every type of message. A message that was read can be written again.
pub fn wire(text: &[u8]) {
    both_ways::<Request>(text);
    both_ways::<ServerUpdate>(text);
    both_ways::<Order>(text);
    both_ways::<Times>(text);
    both_ways::<TaskError>(text);
    both_ways::<TextCall>(text);
    both_ways::<Vec<Peer>>(text);
    both_ways::<Vec<ListedServer>>(text);
}

fn both_ways<T: DeserializeOwned + Serialize>(text: &[u8]) {
    if let Ok(said) = read::<T>(text) {
        let again = serde_json::to_vec(&said).expect("what was read can be written");
        assert!(!again.is_empty());
    }
}
