//! The coordinator's part of an image, for a job whose groups have other sizes than at the
//! checkpoint.

use super::state::checkpoint::{CollectionImage, CoordinatorImage};
use crate::address::collection::CollectionInfo;
use crate::message::codec::{self, DecodeError};
use crate::pe::GroupCounts;
use bytes::Bytes;

/// The coordinator's part of an image.
pub(crate) struct CoordinatorPart(CoordinatorImage);

/// The members of a collection, and the operations over it, at a checkpoint.
pub(crate) struct Operations {
    pub(crate) members: u64,
    pub(crate) counts: GroupCounts,
    /// Whether some members have contributed to an operation and others have not.
    pub(crate) is_under_way: bool,
}

impl CoordinatorPart {
    /// Decodes the part.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the bytes are not such a part.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self(codec::decode("a manifest", bytes)?))
    }

    /// Encodes the part.
    pub(crate) fn encode(&self) -> Bytes {
        codec::encode(&self.0).into()
    }

    /// The operations over a collection, if the part has it.
    pub(crate) fn operations(&self, info: &CollectionInfo) -> Option<Operations> {
        let image = self.0.collections.iter().find(|image| image.info().id == info.id)?;
        let [reductions, syncs] = image.complete();
        // A section may have members of several collections.
        let sections = self.0.collections.iter().flat_map(CollectionImage::sections).collect();
        Some(Operations {
            members: image.members(),
            counts: GroupCounts { reductions, syncs, sections },
            is_under_way: self.0.reductions.has(info.id),
        })
    }

    /// Sets the description of a collection, and its number of members if that has changed.
    pub(crate) fn adapt(&mut self, info: &CollectionInfo, members: Option<u64>) {
        let is_it = |image: &&mut CollectionImage| image.info().id == info.id;
        if let Some(image) = self.0.collections.iter_mut().find(is_it) {
            image.adapt(info, members);
        }
    }
}
