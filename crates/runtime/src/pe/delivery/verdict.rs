//! The decision about a message that has arrived on a PE: deliver, hold, drop or forward it.
//!
//! The verdict follows from the header and from the PE's knowledge of the receiver. It leads every
//! message to its receiver, once and in turn. A known place has the *epoch* of the receiver, which
//! rises with each move, and a message is forwarded to a known place only if that epoch is no older
//! than the one in its header. So the message follows the receiver from PE to PE, and turns back
//! only to go to the home.

use super::directory::Place;
use crate::message::envelope::Header;
use gridspan_topology::PeId;

/// Number of times that a message is forwarded before it goes to its receiver's home. Each hop
/// follows newer knowledge, so a longer chain means that the actor moves faster than its messages.
const HOPS_MAX: u8 = 8;

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its turn has come.
    Deliver,
    Hold(Until),
    Drop(Reason),
    /// The receiver lives on another PE, as far as this PE knows.
    Forward {
        to: PeId,
        /// The epoch to put on the message.
        epoch: u32,
        /// The place to report to the PE that first sent the message.
        news: Option<Place>,
    },
}

/// The event that a message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// An earlier message of its channel.
    Earlier,
    /// Only an earlier broadcast or, if the message is a broadcast, only an earlier message.
    OtherKind,
    /// The answer of the PE to which the receiver was offered.
    Settled,
    /// The receiver's arrival on this PE.
    Arrived,
    /// The description of the receiver's collection.
    Described,
}

/// Why a message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The message has arrived before.
    Repeated,
    /// The receiver was destroyed, and this is its home, which has the tombstone.
    Destroyed,
}

/// A PE's knowledge of the receiver of a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Receiver {
    /// It lives here.
    Here {
        /// The number of the next message that it takes from this sender in this channel.
        expected: u64,
        /// Whether the message still waits for an earlier broadcast or, if it is a broadcast, for
        /// an earlier message.
        waits: bool,
    },
    /// It has been offered to another PE.
    Departing,
    /// It does not live here.
    Elsewhere {
        /// Its home, once its collection is known here.
        home: Option<PeId>,
        /// The place where it lives, if known.
        place: Option<Place>,
    },
}

/// Decides what the PE `me` does with a message.
pub(super) fn verdict(me: PeId, header: &Header, receiver: Receiver) -> Verdict {
    match receiver {
        Receiver::Here { expected, waits } => match header.sequence.cmp(&expected) {
            std::cmp::Ordering::Less => Verdict::Drop(Reason::Repeated),
            std::cmp::Ordering::Greater => Verdict::Hold(Until::Earlier),
            std::cmp::Ordering::Equal if waits => Verdict::Hold(Until::OtherKind),
            std::cmp::Ordering::Equal => Verdict::Deliver,
        },
        Receiver::Departing => Verdict::Hold(Until::Settled),
        Receiver::Elsewhere { home: None, .. } => Verdict::Hold(Until::Described),
        Receiver::Elsewhere { home: Some(home), place } => elsewhere(me, header, home, place),
    }
}

fn elsewhere(me: PeId, header: &Header, home: PeId, place: Option<Place>) -> Verdict {
    let is_home = home == me;
    let Some(place) = place else {
        // If the sender put an epoch on the message, the sender knew that the receiver moves here.
        return match is_home || header.epoch > 0 {
            true => Verdict::Hold(Until::Arrived),
            false => Verdict::Forward { to: home, epoch: 0, news: None },
        };
    };
    if place.epoch < header.epoch {
        // The sender knew of a later move than this PE does.
        return Verdict::Hold(Until::Arrived);
    }
    match place.gone {
        true if is_home => Verdict::Drop(Reason::Destroyed),
        true => Verdict::Forward { to: home, epoch: place.epoch, news: None },
        false if header.hops >= HOPS_MAX && !is_home => {
            Verdict::Forward { to: home, epoch: 0, news: None }
        }
        false => Verdict::Forward {
            to: place.pe,
            epoch: place.route().epoch_for_one(),
            news: (header.origin != me).then_some(place),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::id::{ActorId, CollectionId};
    use crate::address::index::Key;

    const ME: PeId = PeId(1);
    const HOME: PeId = PeId(2);
    const ORIGIN: PeId = PeId(3);
    const OTHER: PeId = PeId(4);

    fn header(sequence: u64, epoch: u32) -> Header {
        let actor = |key| ActorId { collection: CollectionId(1), key: Key(key) };
        Header { epoch, ..Header::new(actor(0), actor(9), sequence, ORIGIN) }
    }

    fn of_elsewhere(header: &Header, home: PeId, place: Option<Place>) -> Verdict {
        verdict(ME, header, Receiver::Elsewhere { home: Some(home), place })
    }

    #[test]
    fn a_message_for_a_resident_waits_for_its_number_and_then_for_the_other_kind() {
        let here = |sequence, waits| {
            verdict(ME, &header(sequence, 0), Receiver::Here { expected: 5, waits })
        };
        assert_eq!(here(5, false), Verdict::Deliver);
        assert_eq!(here(5, true), Verdict::Hold(Until::OtherKind));
        assert_eq!(here(6, true), Verdict::Hold(Until::Earlier));
        assert_eq!(here(4, true), Verdict::Drop(Reason::Repeated));
    }

    #[test]
    fn a_message_waits_for_a_departing_receiver_or_an_unknown_collection() {
        let header = header(0, 7);
        assert_eq!(verdict(ME, &header, Receiver::Departing), Verdict::Hold(Until::Settled));
        let unknown = Receiver::Elsewhere { home: None, place: None };
        assert_eq!(verdict(ME, &header, unknown), Verdict::Hold(Until::Described));
    }

    #[test]
    fn a_message_for_an_unknown_actor_goes_to_its_home_and_waits_there() {
        let to_home = Verdict::Forward { to: HOME, epoch: 0, news: None };
        assert_eq!(of_elsewhere(&header(0, 0), HOME, None), to_home);
        assert_eq!(of_elsewhere(&header(0, 0), ME, None), Verdict::Hold(Until::Arrived));
    }

    #[test]
    fn a_message_with_a_newer_epoch_waits_for_the_actor() {
        let arrives = Verdict::Hold(Until::Arrived);
        assert_eq!(of_elsewhere(&header(0, 3), HOME, None), arrives);
        assert_eq!(of_elsewhere(&header(0, 3), HOME, Some(Place::at(OTHER, 2))), arrives);
    }

    #[test]
    fn a_message_follows_the_actor_and_its_origin_learns_the_place() {
        let place = Place::at(OTHER, 3);
        let follows = |news| Verdict::Forward { to: OTHER, epoch: 3, news };
        assert_eq!(of_elsewhere(&header(0, 3), HOME, Some(place)), follows(Some(place)));
        let own = Header { origin: ME, ..header(0, 0) };
        assert_eq!(of_elsewhere(&own, HOME, Some(place)), follows(None));
    }

    #[test]
    fn a_message_that_was_forwarded_often_goes_to_the_home_which_forwards_it() {
        let tired = Header { hops: HOPS_MAX, ..header(0, 0) };
        let place = Some(Place::at(OTHER, 3));
        let to_home = Verdict::Forward { to: HOME, epoch: 0, news: None };
        assert_eq!(of_elsewhere(&tired, HOME, place), to_home);
        let follows = Verdict::Forward { to: OTHER, epoch: 3, news: place };
        assert_eq!(of_elsewhere(&tired, ME, place), follows);
    }

    #[test]
    fn a_message_for_a_destroyed_actor_is_dropped_at_its_home() {
        let gone = Some(Place { gone: true, ..Place::at(HOME, 5) });
        let to_home = Verdict::Forward { to: HOME, epoch: 5, news: None };
        assert_eq!(of_elsewhere(&header(0, 0), HOME, gone), to_home);
        assert_eq!(of_elsewhere(&header(0, 0), ME, gone), Verdict::Drop(Reason::Destroyed));
        let for_the_next = of_elsewhere(&header(0, 6), ME, gone);
        assert_eq!(for_the_next, Verdict::Hold(Until::Arrived), "sent to a later member");
    }

    #[test]
    fn a_message_to_one_of_two_replicas_carries_the_epoch_before_the_replica() {
        let place = Place { replica: Some(ORIGIN), ..Place::at(OTHER, 3) };
        let forward = of_elsewhere(&header(0, 0), HOME, Some(place));
        assert_eq!(forward, Verdict::Forward { to: OTHER, epoch: 2, news: Some(place) });
    }
}
