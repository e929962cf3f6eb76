//! What goes to PEs of several nodes: a PE hands it over once, and the nodes' carriers bring it.

use super::control::{Control, Multicast};
use crate::codec::{self, DecodeError};
use crate::id::{CollectionId, KindId};
use crate::parcel::Parcel;
use bytes::Bytes;
use gridspan_bcast::{Plan, PlanId};
use serde::{Deserialize, Serialize};

/// Nodes report what they saw of announcements of so many bytes: smaller ones are over before they show what
/// a link can do.
pub(crate) const REPORTED_BYTES_MIN: u64 = 30_000;

/// Something for PEs of several nodes.
pub(crate) enum Spread {
    /// For those PEs of other nodes that are named as targets.
    Multicast(Multicast),
    /// For all PEs of other nodes.
    Announcement {
        announcement: Announcement,
        /// How it travels.
        plan: PlanId,
        /// Its number.
        flow: u64,
    },
    /// For the carriers of all nodes, which keep it, and forget others once they have what travels by those.
    Plan { plan: Box<Plan>, retired: Vec<PlanId> },
}

/// A control packet for all PEs. What is large in it stays apart, so that all PEs of a node share it.
#[derive(Debug)]
pub(crate) struct Announcement {
    head: Head,
    payload: Bytes,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Head {
    Broadcast {
        kind: KindId,
        collection: CollectionId,
        number: u64,
        priority: i32,
    },
    Publish {
        id: u32,
    },
    /// Anything else: the payload is the encoded packet.
    Control,
}

impl Announcement {
    pub(crate) fn new(control: Control) -> Self {
        let (head, payload) = match control {
            Control::Broadcast { kind, collection, number, message, priority } => {
                let head = Head::Broadcast { kind, collection, number, priority };
                (head, message.into_bytes())
            }
            Control::Publish { id, value } => (Head::Publish { id }, value),
            control => (Head::Control, codec::encode(&control).into()),
        };
        Self { head, payload }
    }

    /// About how many bytes travel.
    pub(crate) fn len(&self) -> usize {
        self.payload.len()
    }

    /// The packet, for one of the PEs.
    pub(crate) fn control(&self) -> Result<Control, DecodeError> {
        Ok(match self.head {
            Head::Broadcast { kind, collection, number, priority } => {
                let message = Parcel::Bytes(self.payload.clone());
                Control::Broadcast { kind, collection, number, message, priority }
            }
            Head::Publish { id } => Control::Publish { id, value: self.payload.clone() },
            Head::Control => codec::decode("an announcement", &self.payload)?,
        })
    }

    /// The announcement as the bytes that travel.
    pub(crate) fn into_bytes(self) -> Bytes {
        let mut bytes = codec::encode(&self.head);
        bytes.extend_from_slice(&self.payload);
        bytes.into()
    }

    /// What [`into_bytes`](Self::into_bytes) made.
    pub(crate) fn from_bytes(bytes: &Bytes) -> Result<Self, DecodeError> {
        let (head, payload) = codec::decode_front("an announcement", bytes)?;
        Ok(Self { head, payload: bytes.slice_ref(payload) })
    }
}
