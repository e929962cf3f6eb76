//! The creation of collections and groups by main.

use crate::Actor;
use crate::address::collection::{Map, Placement};
use crate::address::id::CollectionId;
use crate::address::index::{ActorIndex, IndexSet, Ix1, Key, Shape};
use crate::error::GridError;
use crate::job::collection::Collection;
use crate::job::grid::Grid;
use crate::job::main_handle::{MainHandle, wait};
use crate::pe::Core;
use crate::pe::actor::reference::CollectionRef;
use std::any::type_name;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Whether a group has a member per PE or per node.
///
/// ```
/// use gridspan::Per;
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// # impl Actor for Cell {
/// #     type Index = Ix1;
/// #     type Init = ();
/// #     type Message = u64;
/// #     fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
/// #     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
/// #         self.0 += number;
/// #         cx.contribute(Sum, self.0, To::main());
/// #     }
/// # }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
///
/// let cells = grid.create_group::<Cell>(Per::Pe, |_pe: Ix1| ()).await?;
/// cells.broadcast(1);
/// assert_eq!(cells.reduction::<u32>(Sum).await?, grid.layout().pe_count());
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Per {
    /// One member on every PE; its index is the PE's number.
    Pe,
    /// One member on the first PE of every node; its index is the node's number.
    Node,
}

impl Grid {
    /// Creates a collection with one member for each index, built from `init(index)`, and placed in
    /// blocks. Members exist when the future resolves. Fails if the job does not have the actor
    /// type, or two members have one index.
    pub async fn create<A: Actor>(
        &self,
        indices: impl IndexSet<Index = A::Index>,
        init: impl FnMut(A::Index) -> A::Init,
    ) -> Result<Collection<A>, GridError> {
        self.create_placed(Placement::Block, indices, init).await
    }

    /// Creates a collection whose members are initially placed by `placement`. Fails as
    /// [`create`](Self::create) does, and if the job has no such placement map.
    pub async fn create_placed<A: Actor>(
        &self,
        placement: Placement,
        indices: impl IndexSet<Index = A::Index>,
        mut init: impl FnMut(A::Index) -> A::Init,
    ) -> Result<Collection<A>, GridError> {
        let map = match placement {
            Placement::Block => Map::Block,
            Placement::RoundRobin => Map::RoundRobin,
            Placement::BySite => Map::BySite,
            Placement::Scatter => Map::Scatter,
            Placement::Custom(map) => match self.main.maps().iter().position(|own| *own == map) {
                Some(position) => Map::Custom(position as u16),
                None => return Err(GridError::UnknownPlacement(map.name().to_owned())),
            },
        };
        let shape = indices.shape();
        let inits = indices.into_indices().map(|index| (index.key(), init(index))).collect();
        self.create_mapped::<A>(map, shape, inits, |_, _| {}).await
    }

    /// Creates a collection that is bound to `base`: each member lives on the PE where the member
    /// of `base` with its index lives. Members with the same index are *partners*.
    ///
    /// ```
    /// # use gridspan_runtime::{Actor, Collection, Context, Grid, GridError, Ix1};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Cell;
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Particles;
    /// # macro_rules! actor { ($name:ident) => {
    /// # impl Actor for $name {
    /// #     type Index = Ix1;
    /// #     type Init = ();
    /// #     type Message = ();
    /// #     fn create((): (), _cx: &mut Context<Self>) -> Self { $name }
    /// #     fn handle(&mut self, (): (), _cx: &mut Context<Self>) {}
    /// # } } }
    /// # actor!(Cell);
    /// # actor!(Particles);
    /// async fn make(grid: &Grid) -> Result<(), GridError> {
    ///     let cells = grid.create::<Cell>(Ix1::range(100), |_| ()).await?;
    ///     let particles = grid.create_bound::<Particles>(&cells, Ix1::range(100), |_| ()).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// - Several collections can be bound to one. A collection that is bound to a bound collection
    ///   has the base of that collection.
    /// - Partners move together, in one step, whether by balancing or by
    ///   [`migrate_to`](crate::Context::migrate_to) of any of them. Every handler runs on the PE of
    ///   all partners, so messages between them never leave the PE.
    /// - The balancer treats partners as one actor of the base collection, with the sum of their
    ///   loads and sizes, and their messages to others.
    /// - Partners need not be at a sync point to move, and each collection counts its own sync
    ///   points.
    /// - `indices` may be some of those of `base`. A member inserted into `base` later has no
    ///   partner until one is inserted too. A member inserted into a bound collection lives with
    ///   its partner, whatever PE is named. It waits for the insertion of the partner; after a
    ///   minute, the job ends with an error.
    /// - When a member of `base` is destroyed, its partners end with it, without a call, and the
    ///   messages in their mailboxes are dropped. The destruction of a bound member affects no
    ///   partner.
    ///
    /// Unordered broadcasts to a bound collection before the future resolves may miss some of its
    /// members.
    ///
    /// # Errors
    ///
    /// The errors of [`create`](Self::create). [`GridError::NoPartner`] if `base` has no member of
    /// an index; members of other indices may exist by then, and remain.
    /// [`GridError::BoundToGroup`] if `base` is a group, and [`GridError::BoundReplicas`] if actors
    /// of one of the two types may have replicas. [`GridError::BoundOnDemand`] if messages
    /// [create](crate::Job::on_demand) members of `B`. [`GridError::BoundToTransient`] if
    /// checkpoints [leave out](crate::Job::transient) the members of `base` but not those of `B`: a
    /// restoration would leave members of `B` without partners.
    pub async fn create_bound<B: Actor>(
        &self,
        base: &Collection<impl Actor<Index = B::Index>>,
        indices: impl IndexSet<Index = B::Index>,
        mut init: impl FnMut(B::Index) -> B::Init,
    ) -> Result<Collection<B>, GridError> {
        let kind = self.main.kind::<B>()?;
        for (kind, name) in [(kind, type_name::<B>()), base.kind()?] {
            if self.main.registry().deterministic().contains(&kind) {
                return Err(GridError::BoundReplicas(name.to_owned()));
            }
        }
        if self.main.registry().on_demand().contains_key(&kind) {
            return Err(GridError::BoundOnDemand(type_name::<B>().to_owned()));
        }
        let is_box = indices.shape().is_some();
        let inits: Vec<_> =
            indices.into_indices().map(|index| (index.key(), init(index))).collect();
        if !is_box {
            check_indices::<B>(&inits)?;
        }
        let (resolve, created) = self.main.promise();
        let base = base.id;
        self.main.run(move |core| {
            let done = move |made| resolve.with(made);
            core.create_bound_collection::<B>(kind, base, inits, done);
        });
        let id: CollectionId = wait(created).await?;
        Ok(Collection::new(self.main.clone(), CollectionRef::new(id)))
    }

    /// Creates a group: one member per PE or node, which never moves. Fails if the job does not
    /// have the actor type.
    pub async fn create_group<A: Actor<Index = Ix1>>(
        &self,
        per: Per,
        init: impl FnMut(Ix1) -> A::Init,
    ) -> Result<Collection<A>, GridError> {
        let (map, inits) = self.first_of_group::<A>(per, init);
        self.create_mapped::<A>(map, None, inits, |_, _| {}).await
    }

    /// Creates a group like [`create_group`](Self::create_group). If main drops the future before
    /// it resolves, PE 0 calls `give_up` once all members exist.
    pub(crate) async fn create_group_or<A: Actor<Index = Ix1>>(
        &self,
        per: Per,
        init: impl FnMut(Ix1) -> A::Init,
        give_up: fn(&mut Core, CollectionRef<A>),
    ) -> Result<Collection<A>, GridError> {
        let (map, inits) = self.first_of_group::<A>(per, init);
        let creation = Arc::<Creation>::default();
        let (main, known) = (self.main.clone(), creation.clone());
        let mut unclaimed = Unclaimed { main, creation, give_up, is_claimed: false };
        let note = move |core: &mut Core, id: CollectionId| {
            // This closure runs once, so the cell is empty.
            let _ = known.id.set(id);
            if known.is_given_up.load(Ordering::SeqCst) {
                give_up(core, CollectionRef::new(id));
            }
        };
        let created = self.create_mapped::<A>(map, None, inits, note).await;
        unclaimed.is_claimed = true;
        created
    }

    /// The map of a group, and the initial values of its members.
    fn first_of_group<A: Actor<Index = Ix1>>(
        &self,
        per: Per,
        mut init: impl FnMut(Ix1) -> A::Init,
    ) -> (Map, Vec<(Key, A::Init)>) {
        let (map, members) = match per {
            Per::Pe => (Map::PerPe, self.layout().pe_count()),
            Per::Node => (Map::PerNode, self.layout().node_count()),
        };
        let indices = (0..members).map(|i| Ix1(i as i32));
        (map, indices.map(|index| (index.key(), init(index))).collect())
    }

    /// Creates a collection. PE 0 calls `note` with its number once all members exist.
    async fn create_mapped<A: Actor>(
        &self,
        map: Map,
        shape: Option<Shape>,
        inits: Vec<(Key, A::Init)>,
        note: impl FnOnce(&mut Core, CollectionId) + Send + 'static,
    ) -> Result<Collection<A>, GridError> {
        let kind = self.main.kind::<A>()?;
        // The indices of a box are different by construction.
        if shape.is_none() {
            check_indices::<A>(&inits)?;
        }
        let (resolve, created) = self.main.promise();
        self.main.run(move |core| {
            let done = move |core: &mut Core, id| {
                note(core, id);
                resolve.with(Ok(id));
            };
            core.create_collection::<A>(kind, (map, shape), inits, done);
        });
        let id: CollectionId = wait(created).await?;
        Ok(Collection::new(self.main.clone(), CollectionRef::new(id)))
    }
}

/// What PE 0 knows about the creation of a group.
#[derive(Default)]
struct Creation {
    /// The group, once all members exist.
    id: OnceLock<CollectionId>,
    /// Whether main no longer waits for the group.
    is_given_up: AtomicBool,
}

/// A group for which main waits. Dropping this unclaimed gives the group up.
struct Unclaimed<A: Actor> {
    main: MainHandle,
    creation: Arc<Creation>,
    give_up: fn(&mut Core, CollectionRef<A>),
    is_claimed: bool,
}

impl<A: Actor> Drop for Unclaimed<A> {
    fn drop(&mut self) {
        if self.is_claimed {
            return;
        }
        let (creation, give_up) = (self.creation.clone(), self.give_up);
        self.main.run(move |core| {
            creation.is_given_up.store(true, Ordering::SeqCst);
            if let Some(&id) = creation.id.get() {
                give_up(core, CollectionRef::new(id));
            }
        });
    }
}

/// Fails if two members have the same index.
fn check_indices<A: Actor>(inits: &[(Key, A::Init)]) -> Result<(), GridError> {
    let mut keys: Vec<Key> = inits.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(GridError::DuplicateIndex(format!("{:?}", A::Index::from_key(pair[0])))),
        None => Ok(()),
    }
}
