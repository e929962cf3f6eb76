//! One message for many members: one copy to each other site, one to each node there, one to each PE.

use super::core::Core;
use crate::Actor;
use crate::error::JobError;
use crate::id::{ActorId, Sender};
use crate::parcel::Parcel;
use crate::reference::SectionRef;
use crate::wire::{Control, Multicast, MulticastMember, MulticastTarget};
use gridspan_topology::{NodeId, PeId, SiteId};
use std::collections::BTreeMap;

impl Core {
    /// Sends one message to all members of a section.
    pub(crate) fn multicast<A: Actor>(
        &mut self,
        sender: Sender,
        section: &SectionRef<A>,
        priority: i32,
        message: A::Message,
    ) {
        let collection = section.id.collection;
        let Some(kind) = self.kind_in::<A>(collection) else { return };
        let mut remote: BTreeMap<PeId, Vec<MulticastMember>> = BTreeMap::new();
        for &key in section.members.iter() {
            let to = ActorId { collection, key };
            let (pe, epoch) = self.believed(to);
            if pe == self.me {
                self.send::<A>(sender, to, priority, message.clone());
            } else {
                self.created += 1;
                self.note_talk::<A>(sender, to, &message);
                let sequence = self.channels(sender).take_next(to, priority);
                remote.entry(pe).or_default().push(MulticastMember { key, sequence, epoch });
            }
        }
        if remote.is_empty() {
            return;
        }
        let targets =
            remote.into_iter().map(|(pe, members)| MulticastTarget { pe, members }).collect();
        let origin = self.me;
        let message = Parcel::new(message);
        self.spread(Multicast {
            kind,
            collection,
            source: self.sender_id(sender),
            priority,
            origin,
            targets,
            message,
        });
    }

    /// Sends a multicast towards its targets.
    pub(super) fn spread(&mut self, multicast: Multicast) {
        let layout = self.common.layout.clone();
        let (my_node, my_site) = (layout.node_of(self.me), layout.site_of(self.me));
        let Some(kind) = self.kind(multicast.kind) else { return };
        let mut sites: BTreeMap<SiteId, Vec<MulticastTarget>> = BTreeMap::new();
        let mut nodes: BTreeMap<NodeId, Vec<MulticastTarget>> = BTreeMap::new();
        let mut pes = Vec::new();
        for target in multicast.targets {
            if !layout.contains(target.pe) {
                return self.fail(JobError::Protocol(format!("there is no {}", target.pe)));
            }
            let node = layout.node_of(target.pe);
            if layout.site_of_node(node) != my_site {
                sites.entry(layout.site_of_node(node)).or_default().push(target);
            } else if node != my_node {
                nodes.entry(node).or_default().push(target);
            } else {
                pes.push(target);
            }
        }
        let message = match sites.len() + nodes.len() {
            0 => multicast.message,
            // Encoded once, however many nodes it goes to.
            _ => Parcel::Bytes(multicast.message.into_bytes()),
        };
        let groups = sites
            .into_values()
            .chain(nodes.into_values())
            .map(|targets| (targets[0].pe, targets))
            .chain(pes.into_iter().map(|target| (target.pe, vec![target])));
        for (to, targets) in groups {
            let message = kind.copy(&message);
            self.post(to, Control::Multicast(Multicast { targets, message, ..multicast }));
        }
    }

    /// Takes a multicast that came to this PE, for its own members and for others to pass on.
    pub(super) fn handle_multicast(&mut self, mut multicast: Multicast) {
        let Some(kind) = self.kind(multicast.kind) else {
            return self.fail(JobError::Protocol("a multicast for an unknown type".to_owned()));
        };
        let mut mine = Vec::new();
        multicast.targets.retain_mut(|target| {
            let here = target.pe == self.me;
            if here {
                mine.append(&mut target.members);
            }
            !here
        });
        if !mine.is_empty() {
            let message = kind.copy(&multicast.message);
            let own = Multicast { targets: Vec::new(), message, ..multicast };
            if let Err(error) = kind.multicast(self, own, &mine) {
                return self.fail(JobError::Protocol(error.to_string()));
            }
        }
        if !multicast.targets.is_empty() {
            self.spread(multicast);
        }
    }
}
