//! Delayed messages.

use crate::Actor;
use crate::address::id::{ActorId, KindId, Sender, Timer};
use crate::message::payload::Payload;
use crate::message::{DelayedImage, codec};
use crate::pe::core::Core;
use crate::pe::recording::state::TimerSetter;
use crate::pe::timers::Delayed;
use bytes::Bytes;

/// A delayed message that an actor of this PE sends.
pub(super) struct DelayedMessage<A: Actor> {
    pub(super) to: ActorId,
    pub(super) kind: KindId,
    pub(super) message: A::Message,
    /// The span that set the timer, and its delay, if the job is recorded.
    pub(super) set_by: Option<TimerSetter>,
}

impl<A: Actor> Delayed<Core> for DelayedMessage<A> {
    fn send(self: Box<Self>, core: &mut Core) {
        core.processed += 1;
        let Self { to, message, set_by, .. } = *self;
        core.send_timed(to, set_by, |core| core.send::<A>(Sender::Pe, to, 0, message));
    }

    fn receiver(&self) -> ActorId {
        self.to
    }

    fn image(&self) -> (ActorId, KindId, Bytes) {
        (self.to, self.kind, codec::encode(&self.message).into())
    }

    fn timer(&self) -> Option<Timer> {
        None
    }
}

/// A delayed message from an image.
pub(super) struct RestoredMessage {
    /// The timer that the sender holds, if it has one.
    pub(super) timer: Option<Timer>,
    pub(super) to: ActorId,
    pub(super) kind: KindId,
    pub(super) message: Bytes,
}

impl Delayed<Core> for RestoredMessage {
    fn send(self: Box<Self>, core: &mut Core) {
        core.processed += 1;
        let Self { to, kind, message, .. } = *self;
        let message = Payload::Bytes(message);
        core.send_timed(to, None, |core| core.send_encoded(kind, to, message));
    }

    fn receiver(&self) -> ActorId {
        self.to
    }

    fn image(&self) -> (ActorId, KindId, Bytes) {
        (self.to, self.kind, self.message.clone())
    }

    fn timer(&self) -> Option<Timer> {
        self.timer
    }
}

impl Core {
    /// Sets the timers of an image.
    pub(in crate::pe) fn restore_delayed(&mut self, delayed: Vec<DelayedImage>) {
        for DelayedImage { timer, remaining, to, kind, message } in delayed {
            self.created += 1;
            let message = RestoredMessage { timer: Some(timer), to, kind, message };
            self.timers.delay(self.now + remaining, Box::new(message));
        }
    }

    /// The delayed messages of this PE, for an image.
    pub(in crate::pe) fn delayed_images(&self) -> Vec<DelayedImage> {
        let image = |(id, message): (crate::pe::timers::TimerId, &dyn Delayed<Self>)| {
            let (to, kind, bytes) = message.image();
            let new = Timer { pe: self.me, at: id.0, number: id.1 };
            let timer = message.timer().unwrap_or(new);
            DelayedImage { timer, remaining: id.0.since(self.now), to, kind, message: bytes }
        };
        self.timers.delayed().map(image).collect()
    }
}
