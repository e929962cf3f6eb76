//! Handles the events and the frames of a transport's links.

use super::super::hello::HelloRefusal;
use super::super::incoming::FrameLimits;
use super::super::link::LinkEvent;
use super::*;

impl Transport {
    pub(super) fn handle_link_event(&mut self, handle: ConnectionHandle, event: LinkEvent) {
        let peer = self.links.get(handle).and_then(|link| link.peer);
        match event {
            LinkEvent::HelloDue => self.say_hello(handle),
            LinkEvent::Hello(Ok(hello)) => self.handle_hello(handle, &hello),
            LinkEvent::Hello(Err(refusal)) => self.refuse(handle, refusal),
            LinkEvent::Beat(received) => {
                let Some(node) = peer else { return };
                if self.peers[node].session.sender.acknowledge(&received).is_err() {
                    self.misbehaved(handle, node, "acknowledges frames that were not sent");
                    return;
                }
                self.heard(node);
                // The receiver may now have room for further bulk frames.
                self.links.wake(handle);
            }
            LinkEvent::Misbehaved(error) => match peer {
                Some(node) => self.misbehaved(handle, node, &error.to_string()),
                None => self.refuse(handle, HelloRefusal::Malformed),
            },
            LinkEvent::Ended(reason) => self.link_ended(handle, &reason),
        }
    }

    pub(super) fn read(&mut self, handle: ConnectionHandle) {
        let Some(link) = self.links.get_mut(handle) else { return };
        let (Some(node), Stage::Open, false) = (link.peer, link.stage, self.is_paused) else {
            return;
        };
        if !link.incoming.is_readable() {
            return;
        }
        let peer = &mut self.peers[node];
        let limits = FrameLimits {
            small_bytes_max: self.config.limits.small_bytes_max,
            frame_bytes_max: self.config.limits.frame_bytes_max,
        };
        let events = &mut self.events;
        let read = link.incoming.read(
            &mut link.connection,
            &mut peer.session.receiver,
            limits,
            &mut self.assembly,
            &mut |bytes| events.push_back(TransportEvent::Frame { from: node, bytes }),
        );
        self.is_starved |= link.incoming.starved;
        self.retry_starved();
        let peer = &self.peers[node];
        let (frames, bytes) = peer.session.receiver.unacknowledged();
        if let Err(error) = read {
            self.misbehaved(handle, node, &error.to_string());
            return;
        }
        self.links.wake(handle);
        if frames == 0 {
            return;
        }
        if frames >= ACKNOWLEDGE_FRAMES || bytes >= ACKNOWLEDGE_BYTES {
            self.send_beat(node);
        } else {
            let due = self.time() + ACKNOWLEDGE_AFTER;
            let peer = &mut self.peers[node];
            if due < peer.beat_due {
                peer.beat_due = due;
                self.upkeep_at(self.now + ACKNOWLEDGE_AFTER);
            }
        }
        self.heard(node);
    }

    /// Lets the links that wait for room in the budget read again, if some room was released.
    /// Without this condition, they would try again without end.
    pub(super) fn retry_starved(&mut self) {
        if !self.assembly.take_released() || !std::mem::take(&mut self.is_starved) {
            return;
        }
        for handle in self.links.handles() {
            if let Some(link) = self.links.get_mut(handle) {
                link.incoming.retry_starved();
                self.links.touch(handle);
            }
        }
    }

    pub(super) fn heard(&mut self, node: NodeId) {
        let now = self.time();
        if let Some(detector) = &mut self.peers[node].detector
            && detector.heard(now)
        {
            tracing::info!(%node, "recovered");
            self.events.push_back(TransportEvent::Recovered(node));
        }
    }
}
