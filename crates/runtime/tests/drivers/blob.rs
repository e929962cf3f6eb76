//! An actor of any size.

use gridspan_runtime::{Actor, Context, Ix1, Numbers, PeId, Reply};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(crate) struct Blob(Numbers<u8>);

#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum BlobMsg {
    First(Reply<u64>),
    Where(Reply<PeId>),
    Grow(usize),
    /// Replaces the content.
    Take(Vec<u8>),
    Move(PeId),
}

impl Actor for Blob {
    type Index = Ix1;
    type Init = Vec<u8>;
    type Message = BlobMsg;

    fn create(init: Vec<u8>, _cx: &mut Context<'_, Self>) -> Self {
        Self(init.into())
    }

    fn handle(&mut self, message: BlobMsg, cx: &mut Context<'_, Self>) {
        match message {
            BlobMsg::First(reply) => {
                cx.reply(reply, u64::from(self.0[0]) + self.0.len() as u64);
            }
            BlobMsg::Where(reply) => cx.reply(reply, cx.pe()),
            BlobMsg::Grow(bytes) => self.0 = vec![self.0[0]; bytes].into(),
            BlobMsg::Take(bytes) => self.0 = bytes.into(),
            BlobMsg::Move(pe) => cx.migrate_to(pe),
        }
    }
}
