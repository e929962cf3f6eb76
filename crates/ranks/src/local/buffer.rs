//! The buffer that a rank attaches for buffered sends: a budget of bytes.

use crate::error::{CallSite, RankError};
use serde::{Deserialize, Serialize};

/// The bytes of an attached buffer, and those that messages take until their data leave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SendBuffer {
    attached: Option<usize>,
    used: usize,
}

impl SendBuffer {
    pub(crate) fn attach(&mut self, bytes: usize) -> Result<(), RankError> {
        if self.attached.is_some() {
            return Err(RankError::BufferAttached);
        }
        self.attached = Some(bytes);
        Ok(())
    }

    /// Returns the number of bytes of a message, if it fits.
    pub(crate) fn check(&self, needed: usize, at: CallSite) -> Result<usize, RankError> {
        let free = self.attached.unwrap_or(0).saturating_sub(self.used);
        match needed <= free && self.attached.is_some() {
            true => Ok(needed),
            false => Err(RankError::BufferFull { at, needed, free }),
        }
    }

    /// Fills a part of the buffer.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.used += bytes;
    }

    /// Empties a part of the buffer.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Whether no message is in the buffer.
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Detaches the buffer if it is empty, and returns its size; `None` if a message is in it.
    pub(crate) fn detach(&mut self) -> Option<usize> {
        match self.used {
            0 => Some(self.attached.take().unwrap_or(0)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_fit_until_the_buffer_is_full_and_again_once_they_have_left() {
        let at = CallSite::new("bsend", 0);
        let mut buffer = SendBuffer::default();
        assert!(buffer.check(0, at).is_err());
        buffer.attach(10).unwrap();
        assert_eq!(buffer.attach(5), Err(RankError::BufferAttached));
        buffer.take(buffer.check(6, at).unwrap());
        assert_eq!(buffer.check(5, at), Err(RankError::BufferFull { at, needed: 5, free: 4 }));
        assert_eq!(buffer.detach(), None);
        buffer.give_back(6);
        assert_eq!((buffer.detach(), buffer.detach()), (Some(10), Some(0)));
    }
}
