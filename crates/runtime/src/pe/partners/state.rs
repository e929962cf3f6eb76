//! State of a PE for partners.

use crate::address::id::ActorId;
use crate::message::Control;
use crate::pe::delivery::Accounted;
use crate::pe::timers::TimerId;
use std::collections::BTreeMap;

/// Controls that create members and wait for news of a partner, by base member, with the timers of
/// their deadlines.
pub(crate) type Followers = BTreeMap<ActorId, Vec<(TimerId, Accounted<Box<Control>>)>>;
