//! What processes say to each other through a door, for the fuzz targets: arbitrary bytes are
//! understood or refused.

use crate::wire::{Listed, News, Order, Peer, Question, TextCall, Times, Trouble, read};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads one text as everything that may be said. What is understood can be said again.
pub fn wire(text: &[u8]) {
    both_ways::<Question>(text);
    both_ways::<News>(text);
    both_ways::<Order>(text);
    both_ways::<Times>(text);
    both_ways::<Trouble>(text);
    both_ways::<TextCall>(text);
    both_ways::<Vec<Peer>>(text);
    both_ways::<Vec<Listed>>(text);
}

fn both_ways<T: DeserializeOwned + Serialize>(text: &[u8]) {
    if let Ok(said) = read::<T>(text) {
        let again = serde_json::to_vec(&said).expect("what was read can be written");
        assert!(!again.is_empty());
    }
}
