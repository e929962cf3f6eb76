//! A server that leaves: it hands its data and orders for groups to its successor, and passes on
//! the messages that arrive later.
//!
//! Orders go first, and then data, one window at a time. The next window goes when the successor
//! has the previous one, so that data on disk is never in memory as a whole. Data that is not
//! handed over yet is still served on request. Data that was freed, and data of groups that have
//! ended, is not passed on, whether the successor knows of that or not.

use super::catalogue::Catalogue;
use super::config::FOREVER;
use super::group_server::give_up;
use super::server::{Handover, Server, ServerMessage};
use crate::group::order::GroupMessage;
use gridspan_runtime::{ActorRef, Context, Ix1, Reply};

/// Size in bytes of a window, which is in memory while it is on its way to the successor. The last
/// piece of a window may exceed this size.
const WINDOW_BYTES: usize = 64 << 20;

impl<C: Catalogue> Server<C> {
    /// Starts to hand over all orders and data, and to pass on later messages of groups. If a
    /// handover is under way already (main asks a second time), only `reply` is added to it. Each
    /// reply is answered when the successor has all data.
    pub(super) fn hand_over(
        &mut self,
        successor: u32,
        reply: Reply<()>,
        cx: &mut Context<'_, Self>,
    ) {
        if let Some(handover) = &mut self.handover
            && !handover.replies.is_empty()
        {
            return handover.replies.push(reply);
        }
        self.handover = Some(Handover { successor, replies: vec![reply] });
        let to = cx.collection().at(Ix1(successor as i32));
        for order in self.store.take_orders() {
            cx.send(&to, ServerMessage::Group(GroupMessage::Order(order).into_sent()));
        }
        self.hand_on(cx);
    }

    /// Sends the next window of data to the successor.
    pub(super) fn hand_on(&mut self, cx: &mut Context<'_, Self>) {
        let Some(handover) = &mut self.handover else { return };
        let to: ActorRef<Self> = cx.collection().at(Ix1(handover.successor as i32));
        let mut bytes = 0;
        while bytes < WINDOW_BYTES {
            let Some(piece) = self.store.give() else {
                for reply in handover.replies.drain(..) {
                    cx.send(&to, ServerMessage::Group(GroupMessage::Handed(reply)));
                }
                return;
            };
            bytes += piece.bytes.as_ref().map_or(0, |bytes| bytes.len());
            cx.send(&to, ServerMessage::Group(GroupMessage::Data(piece)));
        }
        let has_come = |reply| ServerMessage::Group(GroupMessage::Handed(reply));
        // If the successor is lost meanwhile, the rest is lost with it.
        cx.ask_tagged::<Self, ()>(&to, FOREVER, 0, has_come);
    }

    /// Passes a message on to the successor, if there is one. Returns the message if this server
    /// has to handle it.
    pub(super) fn pass_by(
        &mut self,
        message: GroupMessage,
        cx: &mut Context<'_, Self>,
    ) -> Option<GroupMessage> {
        let Some(successor) = self.handover.as_ref().map(|handover| handover.successor) else {
            return Some(message);
        };
        let to = cx.collection().at(Ix1(successor as i32));
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
            GroupMessage::TakeBack { group, data, .. } => self.store.take_back(*group, data),
            // The successor answers, and may not know what this server has freed.
            GroupMessage::Resume(group, _) => {
                if let Some(data) = self.store.freed_of(*group) {
                    let free = GroupMessage::Free { group: *group, data: data.clone() };
                    cx.send(&to, ServerMessage::Group(free));
                }
            }
            // The successor has the orders.
            GroupMessage::End { group, floor } => drop(self.store.end(*group, *floor)),
            _ => {}
        }
        cx.send(&to, ServerMessage::Group(message.into_sent()));
        None
    }
}
