//! Creation on demand: a message to a member that does not exist creates it, if the job enables
//! this for the actor type ([`Job::on_demand`](crate::Job::on_demand)).
//!
//! **Start.** A message to a member that does not exist arrives on the member's home. If the home
//! knows no place of the member, or has its tombstone, it holds the message like any message to a
//! member that is being inserted. The first such message notes a demand.
//!
//! **Steady state.** At the end of its turn, the home asks the coordinator to insert the members in
//! demand. Then they are inserted like all others (`endings`): the coordinator decides with which
//! reduction and broadcast they start, and the held messages follow them. The home asks once,
//! because it notes the demand with the held messages, and these stay until the member is created
//! or its place is known. It asks at the end of the turn, because the first members of a collection
//! may send each other messages before all of them are created.
//!
//! **Conflicts.** `collective/create` refuses insertions that the application requests for such a
//! type, and itself requests only the members in demand. So the home alone decides. Members of
//! groups are not created on demand, since groups have all their members from the start. A
//! broadcast creates no members, since it is only for members that exist.

use super::on_demand::OnDemand;
use crate::address::collection::CreateAt;
use crate::address::id::{ActorId, CollectionId, KindId};
use crate::message::envelope::Header;
use crate::pe::collective::is_stream;
use crate::pe::core::Core;
use gridspan_topology::PeId;

impl Core {
    /// The rule by which messages create missing members of this collection, if there is one.
    pub(in crate::pe) fn rule(&self, collection: CollectionId) -> Option<(KindId, &OnDemand)> {
        let info = &self.collections.get(collection)?.info;
        let rule = self.common.on_demand.get(&info.kind)?;
        info.migratable().then_some((info.kind, rule))
    }

    /// Whether messages create missing members of this collection.
    pub(super) fn is_on_demand(&self, collection: CollectionId) -> bool {
        self.rule(collection).is_some()
    }

    /// Whether this is the home of a member that does not exist.
    pub(in crate::pe) fn is_missing(&self, id: ActorId) -> bool {
        self.home(id) == Some(self.me)
            && self.resident(id).is_none()
            && !self.departing.contains_key(&id)
            && self.delivery.directory.place(id).is_none_or(|place| place.gone)
    }

    /// The PE on which a message that has arrived here creates its receiver. `None` if the message
    /// creates none.
    pub(super) fn creates(&self, header: &Header) -> Option<PeId> {
        let (_, rule) = self.rule(header.to.collection)?;
        let is_single = !header.is_broadcast && !is_stream(header.source);
        (is_single && self.is_missing(header.to)).then_some(match rule.at {
            CreateAt::Home => self.me,
            CreateAt::Sender => header.origin,
        })
    }

    /// Whether a message for a destroyed member, whose home this is, creates another under its
    /// index. A repeated message does not.
    pub(super) fn revives(&self, header: &Header) -> bool {
        self.creates(header).is_some() && !self.delivery.tombstones.has_passed(header)
    }
}
