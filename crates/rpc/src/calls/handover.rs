//! A server that leaves: what it keeps for groups goes to its heir, and what comes late as well.
//!
//! Orders go first, and then data, a window of it at a time: the next goes when the heir has the
//! last, so that what was on disk is never in memory as a whole. What was not handed on yet is
//! still given to whoever asks for it. Of groups that have ended, and of what was freed, nothing is
//! passed on, whether the heir has heard of that or not.

use super::catalogue::Catalogue;
use super::config::FOREVER;
use super::group_server::give_up;
use super::server::{Handover, Server, ServerMessage};
use crate::group::order::GroupMessage;
use gridspan_runtime::{ActorRef, Context, Ix1, Reply};

/// So much data is on its way to the heir, and in memory for that.
const WINDOW_BYTES: usize = 64 << 20;

impl<C: Catalogue> Server<C> {
    /// Hands on all orders and data from now on, and whatever comes for groups.
    pub(super) fn hand_over(&mut self, heir: u32, reply: Reply<()>, cx: &mut Context<'_, Self>) {
        self.handover = Some(Handover { heir, reply: Some(reply) });
        let to = cx.collection().at(Ix1(heir as i32));
        for order in self.store.take_orders() {
            cx.send(&to, ServerMessage::Group(GroupMessage::Order(order)));
        }
        self.hand_on(cx);
    }

    /// Hands on the next window of data.
    pub(super) fn hand_on(&mut self, cx: &mut Context<'_, Self>) {
        let Some(handover) = &mut self.handover else { return };
        let to: ActorRef<Self> = cx.collection().at(Ix1(handover.heir as i32));
        let mut bytes = 0;
        while bytes < WINDOW_BYTES {
            let Some(piece) = self.store.give() else {
                if let Some(reply) = handover.reply.take() {
                    cx.send(&to, ServerMessage::Group(GroupMessage::Handed(reply)));
                }
                return;
            };
            bytes += piece.bytes.as_ref().map_or(0, |bytes| bytes.len());
            cx.send(&to, ServerMessage::Group(GroupMessage::Data(piece)));
        }
        let has_come = |reply| ServerMessage::Group(GroupMessage::Handed(reply));
        // Should the heir be lost meanwhile, the rest is lost with it.
        cx.ask(&to, FOREVER, has_come, |_: Result<(), _>| ServerMessage::HandOn);
    }

    /// A group wants something of a server that has left; gives it back if it is not for somebody
    /// else.
    pub(super) fn pass_by(
        &mut self,
        message: GroupMessage,
        cx: &mut Context<'_, Self>,
    ) -> Option<GroupMessage> {
        let Some(heir) = self.handover.as_ref().map(|handover| handover.heir) else {
            return Some(message);
        };
        match &message {
            GroupMessage::Kept(_) => return Some(message),
            GroupMessage::Share(packet, _) if self.store.has(packet.key) => return Some(message),
            GroupMessage::Fetch(key, ..) if self.store.has(*key) => return Some(message),
            GroupMessage::Data(piece) if !self.store.is_wanted(piece.key) => return None,
            GroupMessage::Order(order) if self.store.is_over(order.group) => {
                give_up(order, "its group has ended", cx);
                return None;
            }
            GroupMessage::Free { group, data } => self.store.free(*group, data),
            // Its orders are the heir's.
            GroupMessage::End { group, floor } => drop(self.store.end(*group, *floor)),
            _ => {}
        }
        let heir = cx.collection().at(Ix1(heir as i32));
        cx.send(&heir, ServerMessage::Group(message));
        None
    }
}
