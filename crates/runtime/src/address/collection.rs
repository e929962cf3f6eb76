//! Metadata of a collection, known to every PE: its type, and the initial placement of its members.

use crate::address::id::KindId;
use crate::address::id::{ActorId, CollectionId};
use crate::address::index::{Key, Shape};
use gridspan_topology::dice::mix;
use gridspan_topology::{Layout, PeId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Assigns each member a *home*: the PE that always knows where the member lives. Members created
/// with the collection start at their home; a member inserted later starts where `insert` puts it.
///
/// ```
/// use gridspan::Placement;
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
/// let members = Ix1::range(6);
/// let cells = grid.create_placed::<Cell>(Placement::RoundRobin, members, |_| ()).await?;
/// # cells.broadcast(1);
/// # assert_eq!(cells.reduction::<u64>(Sum).await?, 6);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// Keeps neighbouring indices together: cuts the members, in row-major order, into as many
    /// equal runs as there are PEs. Scatters sets without a shape, as [`Scatter`](Self::Scatter)
    /// does.
    #[default]
    Block,
    /// Deals members to the PEs in turn, one at a time. Scatters sets without a shape.
    RoundRobin,
    /// Gives each site a run of members in proportion to its PEs, and deals them to the PEs of the
    /// site in turn. Scatters sets without a shape.
    BySite,
    /// Spreads members evenly by a hash of the index.
    Scatter,
    /// Uses a map that the job defines.
    Custom(PlacementMap),
}

/// The PE on which a member is created [on demand](crate::Job::on_demand).
///
/// ```
/// use gridspan::prelude::*;
///
/// # #[derive(Serialize, Deserialize)]
/// # struct Bin(u64);
/// # impl Actor for Bin {
/// #     type Index = Ix2;
/// #     type Init = u64;
/// #     type Message = u64;
/// #     fn create(items: u64, _cx: &mut Context<Self>) -> Self { Bin(items) }
/// #     fn handle(&mut self, items: u64, _cx: &mut Context<Self>) { self.0 += items }
/// # }
/// // On the PE from which the first message came, with no items.
/// let job = Job::new("bins").on_demand::<Bin>(CreateAt::Sender, |_index| 0);
/// # let job = job.main(async |grid: Grid| {
/// #     let bins = grid.create::<Bin>(Ix2::grid(0, 0), |_| 0).await?;
/// #     bins.member(Ix2(7, -7)).send(1);
/// #     grid.quiescence().await?;
/// #     Ok(())
/// # });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreateAt {
    /// The member's home, which follows from the [`Placement`] of its collection.
    Home,
    /// The PE that sent the message that reached the member's home first.
    Sender,
}

/// A placement map that a job defines: from index and layout to the member's home.
///
/// ```
/// use gridspan::prelude::*;
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell;
/// # impl Actor for Cell {
/// #     type Index = Ix1;
/// #     type Init = ();
/// #     type Message = ();
/// #     fn create((): (), _cx: &mut Context<Self>) -> Self { Cell }
/// #     fn handle(&mut self, (): (), cx: &mut Context<Self>) {
/// #         cx.contribute(Sum, u64::from(cx.pe().0), To::main());
/// #     }
/// # }
///
/// /// The first member on the first PE, all others on the last.
/// const ENDS: PlacementMap = PlacementMap::new("ends", |key, layout| match Ix1::from_key(key) {
///     Ix1(0) => PeId(0),
///     _ => PeId(layout.pe_count() - 1),
/// });
///
/// let job = Job::new("cells").actor::<Cell>().placement(ENDS).main(async |grid: Grid| {
///     let placement = Placement::Custom(ENDS);
///     let cells = grid.create_placed::<Cell>(placement, Ix1::range(3), |_| ()).await?;
/// #   cells.broadcast(());
/// #   assert_eq!(cells.reduction::<u64>(Sum).await?, 2);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy)]
pub struct PlacementMap {
    name: &'static str,
    home: fn(Key, &Layout) -> PeId,
}

impl PlacementMap {
    /// Creates a map. The name must be unique among the maps of a job. The function must give the
    /// same PE for the same index and layout on every node; its result is taken modulo the number
    /// of PEs.
    pub const fn new(name: &'static str, home: fn(Key, &Layout) -> PeId) -> Self {
        Self { name, home }
    }

    /// Name of the map.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl PartialEq for PlacementMap {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for PlacementMap {}

impl fmt::Debug for PlacementMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PlacementMap").field(&self.name).finish()
    }
}

/// The rule behind a [`Placement`], with names resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Map {
    Block,
    RoundRobin,
    BySite,
    Scatter,
    /// A map of the job, by its position in the job's list of maps.
    Custom(u16),
    /// One member per PE; its index is the number of the PE.
    PerPe,
    /// One member per node; its index is the number of the node.
    PerNode,
    /// The members live where those of this base collection live. The rule of the base gives the
    /// homes; see `pe/partners`.
    Bound(CollectionId),
}

/// Metadata of a collection, known to every PE.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CollectionInfo {
    pub(crate) id: CollectionId,
    pub(crate) kind: KindId,
    pub(crate) map: Map,
    pub(crate) shape: Option<Shape>,
    /// Number of members created with the collection.
    pub(crate) members: u64,
}

impl CollectionInfo {
    /// Returns the collection to which this one is bound, if it is.
    pub(crate) fn base(&self) -> Option<CollectionId> {
        match self.map {
            Map::Bound(base) => Some(base),
            _ => None,
        }
    }

    /// Returns the home of a member. The base gives the homes of the members of a bound collection.
    #[inline]
    pub(crate) fn home(&self, key: Key, layout: &Layout, maps: &[PlacementMap]) -> PeId {
        if self.map == Map::Block
            && let Some(shape) = &self.shape
            && let Some(rank) = shape.rank(key)
        {
            return block(rank, shape.len(), u64::from(layout.pe_count()));
        }
        self.home_by_map(key, layout, maps)
    }

    #[inline(never)]
    fn home_by_map(&self, key: Key, layout: &Layout, maps: &[PlacementMap]) -> PeId {
        let pes = u64::from(layout.pe_count());
        let ranked = self.shape.and_then(|shape| Some((shape.rank(key)?, shape.len())));
        match (self.map, ranked) {
            (Map::RoundRobin, Some((rank, _))) => PeId((rank % pes) as u32),
            (Map::BySite, Some((rank, len))) => {
                let near = layout.pes_in(layout.site_of(block(rank, len, pes)));
                PeId(near.start + (rank % near.len() as u64) as u32)
            }
            (Map::Custom(map), _) => match maps.get(usize::from(map)) {
                Some(map) => PeId((map.home)(key, layout).0 % layout.pe_count()),
                None => scatter(key, pes),
            },
            (Map::PerPe, _) => match u32::try_from(key.0).map(PeId) {
                // PEs of guests have members, too.
                Ok(pe) if layout.knows(pe) => pe,
                _ => PeId((key.0 % u128::from(pes)) as u32),
            },
            (Map::PerNode, _) => {
                let node = (key.0 % u128::from(layout.node_count())) as u32;
                layout.leader(gridspan_topology::NodeId(node))
            }
            (Map::Block | Map::RoundRobin | Map::BySite | Map::Scatter | Map::Bound(_), _) => {
                scatter(key, pes)
            }
        }
    }

    /// Whether members may move.
    pub(crate) fn migratable(&self) -> bool {
        !matches!(self.map, Map::PerPe | Map::PerNode)
    }
}

/// Returns the PE that holds member `rank` of `len` members, cut into one run per PE.
#[inline]
fn block(rank: u64, len: u64, pes: u64) -> PeId {
    let len = len.max(1);
    PeId(match rank.checked_mul(pes) {
        Some(product) => (product / len) as u32,
        None => (u128::from(rank) * u128::from(pes) / u128::from(len)) as u32,
    })
}

/// Spreads members evenly, by their keys alone.
fn scatter(key: Key, pes: u64) -> PeId {
    let bits = (key.0 as u64) ^ ((key.0 >> 64) as u64).rotate_left(32);
    PeId((mix(bits) % pes) as u32)
}

/// One migration of a published plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlanEntry {
    pub(crate) id: ActorId,
    pub(crate) from: PeId,
    pub(crate) to: PeId,
    /// The actor's epoch after the move.
    pub(crate) epoch: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::index::{ActorIndex, IndexSet, Ix1};

    fn homes(map: Map, members: u32, layout: &Layout) -> Vec<u32> {
        let info = CollectionInfo {
            id: CollectionId(0),
            kind: KindId(0),
            map,
            shape: Ix1::range(members).shape(),
            members: u64::from(members),
        };
        (0..members).map(|i| info.home(Ix1(i as i32).key(), layout, &[]).0).collect()
    }

    #[test]
    fn blocks_are_runs_and_round_robin_deals_one_by_one() {
        let layout = Layout::single(3);
        assert_eq!(homes(Map::Block, 6, &layout), [0, 0, 1, 1, 2, 2]);
        assert_eq!(homes(Map::RoundRobin, 6, &layout), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn by_site_gives_each_site_a_run_and_deals_it_to_its_pes() {
        let layout = Layout::new(vec![("a".into(), vec![1, 1]), ("b".into(), vec![2])]);
        assert_eq!(homes(Map::BySite, 8, &layout), [0, 1, 0, 1, 2, 3, 2, 3]);
    }

    #[test]
    fn scatter_gives_each_pe_about_as_many_members() {
        let layout = Layout::single(4);
        let homes = homes(Map::Scatter, 4000, &layout);
        for pe in 0..4 {
            let here = homes.iter().filter(|&&home| home == pe).count();
            assert!((850..1150).contains(&here), "{here} of 4000 on pe {pe}");
        }
    }
}
