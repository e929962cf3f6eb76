//! References that actors put into messages: to a member, a collection, a section and a pending
//! question.

use crate::Actor;
use crate::address::id::{ActorId, CollectionId, SectionId};
use crate::address::index::{ActorIndex, Key};
use crate::schema::handle;
use gridspan_topology::PeId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

macro_rules! copied {
    ($name:ident) => {
        impl<A> Copy for $name<A> {}

        impl<A> Clone for $name<A> {
            fn clone(&self) -> Self {
                *self
            }
        }
    };
}

macro_rules! reference {
    ($name:ident { $($field:ident),* }) => {
        impl<A> fmt::Debug for $name<A> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($field), &self.$field))*.finish()
            }
        }
    };
}

/// Addresses one member, wherever it lives.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// impl Actor for Cell {
///     # type Index = Ix1;
///     # type Init = ();
///     # type Message = Option<ActorRef<Self>>;
///     # fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
///     fn handle(&mut self, to: Option<ActorRef<Self>>, cx: &mut Context<Self>) {
///         match to {
///             Some(to) => cx.send(&to, None),
///             None => self.0 += 1,
///         }
///         # if to.is_none() { cx.contribute(Sum, self.0, To::main()) }
///     }
/// }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// # let cells = grid.create::<Cell>(Ix1::range(2), |_| ()).await?;
/// # for from in [0, 1] {
/// #     cells.member(Ix1(from)).send(Some(cells.at(Ix1(1 - from))));
/// # }
/// # assert_eq!(cells.at(Ix1(1)).index(), Ix1(1));
/// # assert_eq!(cells.reduction::<u64>(Sum).await?, 2);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ActorRef<A> {
    pub(crate) id: ActorId,
    kind: PhantomData<fn() -> A>,
}

reference!(ActorRef { id });

copied!(ActorRef);

impl<A> PartialEq for ActorRef<A> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<A: Actor> ActorRef<A> {
    pub(crate) const fn new(id: ActorId) -> Self {
        Self { id, kind: PhantomData }
    }

    /// The member's identity without its type.
    pub fn id(&self) -> ActorId {
        self.id
    }

    /// The member's index.
    pub fn index(&self) -> A::Index {
        A::Index::from_key(self.id.key)
    }
}

/// Addresses all members of a collection.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// impl Actor for Cell {
///     # type Index = Ix1;
///     # type Init = ();
///     # type Message = u64;
///     # fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
///     fn handle(&mut self, hops: u64, cx: &mut Context<Self>) {
///         let ring: CollectionRef<Self> = cx.collection();
///         if hops > 0 {
///             cx.send(&ring.at(Ix1((cx.index().0 + 1) % 4)), hops - 1);
///         }
///         cx.contribute(Sum, hops, To::main());
///     }
/// }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// # let cells = grid.create::<Cell>(Ix1::range(4), |_| ()).await?;
/// # cells.member(Ix1(0)).send(3);
/// # assert_eq!(cells.reduction::<u64>(Sum).await?, 3 + 2 + 1);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct CollectionRef<A> {
    pub(crate) id: CollectionId,
    kind: PhantomData<fn() -> A>,
}

reference!(CollectionRef { id });

copied!(CollectionRef);

impl<A: Actor> CollectionRef<A> {
    pub(crate) const fn new(id: CollectionId) -> Self {
        Self { id, kind: PhantomData }
    }

    /// The collection's identity without its type.
    pub fn id(&self) -> CollectionId {
        self.id
    }

    /// The member at `index`.
    #[inline]
    pub fn at(&self, index: A::Index) -> ActorRef<A> {
        ActorRef::new(ActorId { collection: self.id, key: index.key() })
    }

    /// A fixed set of members that is addressed together. If the members contribute to reductions
    /// over it, `name` must be the same for every section over these members, and differ from the
    /// names of the collection's other sections. See [`SectionRef::across`] for members of several
    /// collections.
    pub fn section(&self, name: u64, members: impl IntoIterator<Item = A::Index>) -> SectionRef<A> {
        let part = SectionPart::new(self.id, members.into_iter().map(ActorIndex::key).collect());
        let id = SectionId { collection: self.id, name };
        SectionRef { id, parts: [part].into(), kind: PhantomData }
    }
}

/// The members of a section in one collection.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SectionPart {
    pub(crate) collection: CollectionId,
    /// Sorted, without duplicates.
    pub(crate) members: Box<[Key]>,
}

impl SectionPart {
    fn new(collection: CollectionId, mut members: Vec<Key>) -> Self {
        members.sort_unstable();
        members.dedup();
        Self { collection, members: members.into() }
    }
}

/// Addresses a fixed set of members together: of one collection
/// ([`CollectionRef::section`]), or of several with actors of the same type
/// ([`SectionRef::across`]).
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// impl Actor for Cell {
///     # type Index = Ix1;
///     # type Init = ();
///     # type Message = SectionRef<Self>;
///     # fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
///     fn handle(&mut self, even: SectionRef<Self>, cx: &mut Context<Self>) {
///         cx.contribute_to_section(&even, Sum, cx.index().0, To::main());
///     }
/// }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// let cells = grid.create::<Cell>(Ix1::range(5), |_| ()).await?;
/// let even = cells.section(0, [Ix1(0), Ix1(2), Ix1(4)]);
/// cells.multicast(&even, even.clone());
/// let sum: i32 = cells.section_reduction(&even, Sum).await?;
/// assert_eq!(sum, 6);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct SectionRef<A> {
    pub(crate) id: SectionId,
    /// One part for each collection, sorted by collection.
    pub(crate) parts: Arc<[SectionPart]>,
    kind: PhantomData<fn() -> A>,
}

reference!(SectionRef { id, parts });

impl<A> Clone for SectionRef<A> {
    fn clone(&self) -> Self {
        Self { id: self.id, parts: self.parts.clone(), kind: PhantomData }
    }
}

impl<A> SectionRef<A> {
    /// A fixed set of members of several collections that is addressed together. If the members
    /// contribute to reductions over it, `name` must be the same for every section over these
    /// members, and differ from the names of all other sections of their collections.
    ///
    /// A multicast crosses each link once for each of the collections. Results of
    /// [`Op::Concat`](crate::Op::Concat) are in the order of the collections' creation, then of the
    /// indices.
    ///
    /// ```
    /// use gridspan_runtime::{Actor, Context, Ix1, Job, Op, SectionRef, To};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Cell { value: u64 }
    ///
    /// #[derive(Clone, serde::Serialize, serde::Deserialize)]
    /// struct Report(SectionRef<Cell>);
    ///
    /// impl Actor for Cell {
    ///     type Index = Ix1;
    ///     type Init = u64;
    ///     type Message = Report;
    ///
    ///     fn create(value: u64, _cx: &mut Context<Self>) -> Self { Cell { value } }
    ///
    ///     fn handle(&mut self, Report(section): Report, cx: &mut Context<Self>) {
    ///         cx.contribute_to_section(&section, Op::Concat, self.value, To::main());
    ///     }
    /// }
    ///
    /// let job = Job::new("borders").actor::<Cell>().main(async |grid| {
    ///     let left = grid.create::<Cell>(Ix1::range(4), |index| index.0 as u64).await?;
    ///     let right = grid.create::<Cell>(Ix1::range(4), |index| 10 + index.0 as u64).await?;
    ///     let members = [right.at(Ix1(0)), left.at(Ix1(2)), left.at(Ix1(3))];
    ///     let border = SectionRef::across(0, members);
    ///     left.multicast(&border, Report(border.clone()));
    ///     let values: Vec<u64> = left.section_reduction(&border, Op::Concat).await?;
    ///     assert_eq!(values, [2, 3, 10]);
    ///     Ok(())
    /// });
    /// # gridspan_runtime::driver::embedded::run(job, 2).unwrap();
    /// ```
    pub fn across(name: u64, members: impl IntoIterator<Item = ActorRef<A>>) -> Self {
        let mut by_collection: BTreeMap<CollectionId, Vec<Key>> = BTreeMap::new();
        for ActorRef { id, .. } in members {
            by_collection.entry(id.collection).or_default().push(id.key);
        }
        let parts = by_collection.into_iter();
        let parts: Arc<[_]> = parts.map(|(id, members)| SectionPart::new(id, members)).collect();
        let collection = parts.first().map(|part| part.collection).unwrap_or_default();
        Self { id: SectionId { collection, name }, parts, kind: PhantomData }
    }

    /// Number of members of the section.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.members.len()).sum()
    }

    /// Whether the section has no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position of a member in the order of collections and indices, if it belongs to the
    /// section.
    pub(crate) fn rank(&self, id: ActorId) -> Option<u64> {
        let own = self.parts.binary_search_by_key(&id.collection, |part| part.collection).ok()?;
        let before: usize = self.parts[..own].iter().map(|part| part.members.len()).sum();
        Some((before + self.parts[own].members.binary_search(&id.key).ok()?) as u64)
    }
}

/// The destination of the answer to a question. It is part of the question's message; pass it to
/// [`Context::reply`](crate::Context::reply), at once or later, from any actor.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// impl Actor for Cell {
///     # type Index = Ix1;
///     # type Init = ();
///     # type Message = Reply<i32>;
///     # fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
///     fn handle(&mut self, question: Reply<i32>, cx: &mut Context<Self>) {
///         cx.reply(question, 10 * cx.index().0);
///     }
/// }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// let cells = grid.create::<Cell>(Ix1::range(4), |_| ()).await?;
/// let answer = cells.member(Ix1(2)).ask(Duration::from_secs(10), |reply| reply).await?;
/// assert_eq!(answer, 20);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
pub struct Reply<T> {
    pub(crate) pe: PeId,
    pub(crate) slot: u64,
    kind: PhantomData<fn() -> T>,
}

reference!(Reply { pe, slot });

copied!(Reply);

impl<T> Reply<T> {
    pub(crate) const fn new(pe: PeId, slot: u64) -> Self {
        Self { pe, slot, kind: PhantomData }
    }
}

impl<T> Serialize for Reply<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.pe, self.slot).serialize(serializer)
    }
}

/// The schema of a question includes the type of the answer.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Reply<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (pe, slot) = handle::read::<_, T, D>(deserializer)?;
        Ok(Self::new(pe, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_section_are_ranked_by_collection_and_index() {
        let member = |collection, key| ActorRef::<()> {
            id: ActorId { collection: CollectionId(collection), key: Key(key) },
            kind: PhantomData,
        };
        let members = [(4, 9), (2, 7), (4, 1), (2, 7), (2, 3)];
        let section = SectionRef::across(5, members.map(|(of, key)| member(of, key)));

        let rank = |of, key| section.rank(member(of, key).id);
        assert_eq!([rank(2, 3), rank(2, 7), rank(4, 1), rank(4, 9)], [0, 1, 2, 3].map(Some));
        assert_eq!([rank(2, 1), rank(3, 3), rank(9, 9)], [None; 3]);
        assert_eq!((section.len(), section.is_empty()), (4, false));
        assert_eq!(section.id, SectionId { collection: CollectionId(2), name: 5 });
        assert!(SectionRef::<()>::across(5, []).is_empty());
    }

    #[test]
    fn a_reply_is_encoded_as_its_pe_and_slot() {
        let reply: Reply<Vec<String>> = Reply::new(PeId(3), 300);
        let bytes = postcard::to_stdvec(&reply).unwrap();
        let back: Reply<Vec<String>> = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(bytes, [3, 0xac, 2]);
        assert_eq!((back.pe, back.slot), (PeId(3), 300));
    }
}
