//! The form in which a rank moves and is stored.

use super::body::Parked;
use super::{Life, RankActor};
use crate::deadlock::{Detector, WaitWatch};
use crate::local::saved::SavedState;
use crate::name_server::NameServer;
use crate::packet::RankMessage;
use crate::pieces::Joiner;
use crate::program::RankProgram;
use crate::scope::World;
use crate::ticket::Asker;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::Cell;

/// The encoded form of a rank. `L` is its `Life`, or a reference to it.
#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "L: DeserializeOwned"))]
struct Image<L> {
    life: L,
    local: SavedState,
    parked: Option<Parked>,
    held: Vec<RankMessage>,
    world: Option<World>,
    size: u32,
    joiner: Joiner,
    server: Option<Box<NameServer>>,
    wait_for_end: Vec<Asker>,
    watch: Option<Box<WaitWatch>>,
    detector: Option<Box<Detector>>,
}

impl<P: RankProgram> Serialize for RankActor<P> {
    /// Parks the futures of a run, which the actor then no longer has. If it stays, it takes them
    /// back at its next message.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let (Some(body), Some((node, pe, parking))) = (self.body.take(), &self.place) {
            let number = parking.park(body, self.local.clone());
            self.parked.set(Some(Parked { node: *node, pe: *pe, number }));
        }
        let parked = self.parked.get();
        let local = match parked {
            Some(_) => SavedState::empty(self.local.rank),
            None => SavedState::of(&self.local),
        };
        let (held, joiner) = (self.held.clone(), self.joiner.clone());
        let (world, size) = (self.world, self.size);
        let (server, wait_for_end) = (self.server.clone(), self.wait_for_end.clone());
        let (life, watch, detector) = (&self.life, self.watch.clone(), self.detector.clone());
        Image {
            life,
            local,
            parked,
            held,
            world,
            size,
            joiner,
            server,
            wait_for_end,
            watch,
            detector,
        }
        .serialize(serializer)
    }
}

impl<'de, P: RankProgram> Deserialize<'de> for RankActor<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let image: Image<Life<P::Init, P::State, P::Value>> = Image::deserialize(deserializer)?;
        let Image { life, local, parked, held, world, size, joiner, .. } = image;
        let new = Self::new(life, local.restored());
        let parked = Cell::new(parked);
        let (server, wait_for_end) = (image.server, image.wait_for_end);
        let (watch, detector) = (image.watch, image.detector);
        Ok(Self { parked, held, world, size, joiner, server, wait_for_end, watch, detector, ..new })
    }
}
