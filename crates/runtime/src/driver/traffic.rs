//! Counts what a node sends to the nodes of each site.

use crate::message::frame::Frame;
use crate::message::messages_in;
use crate::message::telemetry::LinkReading;
use gridspan_topology::{Layout, NodeId};

/// The messages and bytes that a node has handed to the network, by receiving site.
pub(super) struct Traffic {
    layout: Layout,
    sites: Vec<LinkReading>,
}

impl Traffic {
    /// Counts for the sites of this layout.
    pub(super) fn new(layout: Layout) -> Self {
        let sites = layout.sites().map(|to| LinkReading { to, ..LinkReading::default() }).collect();
        Self { layout, sites }
    }

    /// Counts a frame to another node.
    #[inline]
    pub(super) fn note(&mut self, to: NodeId, frame: &Frame) {
        let site = self.layout.site_of_node(to);
        if let Some(sent) = self.sites.get_mut(site.index()) {
            sent.messages += messages_in(frame);
            sent.bytes += frame.len() as u64;
        }
    }

    /// The counts so far of the sites to which something was sent.
    pub(super) fn sent(&self) -> Vec<LinkReading> {
        self.sites.iter().filter(|sent| sent.messages > 0).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::id::{ActorId, CollectionId, KindId};
    use crate::address::index::{ActorIndex, Ix1};
    use crate::message::envelope::Header;
    use crate::message::{Content, Control, MessageFrame, Packet};
    use gridspan_topology::{PeId, SiteId};

    fn packet(content: Content) -> Frame {
        Packet(content).into_frame(PeId(0), PeId(1)).into()
    }

    #[test]
    fn messages_of_actors_are_counted_one_by_one_and_other_frames_as_one() {
        let sites = vec![("a".to_owned(), vec![1, 1]), ("b".to_owned(), vec![1])];
        let mut traffic = Traffic::new(Layout::new(sites));
        let id = ActorId { collection: CollectionId(0), key: Ix1(0).key() };
        let mut messages = MessageFrame::new(KindId(3));
        for number in 0..5 {
            messages.push(&Header::new(id, id, number, PeId(0)), &7_u32);
        }
        let messages = packet(Content::Frame(messages));
        let control = packet(Content::Control(Box::new(Control::Inside { handler: None })));
        // The first nine bytes of a frame for relays are in its first piece.
        let for_relay = Frame::new(vec![2; 20], vec![0; 90]);

        traffic.note(NodeId(2), &messages);
        traffic.note(NodeId(2), &control);
        traffic.note(NodeId(1), &control);
        traffic.note(NodeId(0), &for_relay);

        let to = |site, messages, bytes: usize| {
            let (to, bytes) = (SiteId(site), bytes as u64);
            LinkReading { to, messages, bytes }
        };
        let bytes = [control.len() + 110, messages.len() + control.len()];
        assert_eq!(traffic.sent(), [to(0, 2, bytes[0]), to(1, 6, bytes[1])]);
    }
}
