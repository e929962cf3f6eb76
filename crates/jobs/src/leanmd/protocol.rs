//! The two kinds of actors: their state and their messages.
//!
//! ```text
//!           Positions, to the 27 or fewer pairs
//!   cell ----------------------------------------> pair     waits for the positions of both cells
//!        <----------------------------------------
//!           Forces, to both cells
//!   cell ----------------------------------------> cell     waits for all neighbours,
//!           Leavers, to the 26 or fewer neighbours          in steps in which atoms change cells
//! ```
//!
//! Their behaviour is in [`cell_actor`](super::cell_actor) and [`pair_actor`](super::pair_actor).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gridspan_kernels::leanmd::atoms::{Atom, CellAtoms};
use gridspan_kernels::leanmd::decomposition::CellPair;
use gridspan_kernels::leanmd::fingerprint::StateFingerprint;
use gridspan_kernels::leanmd::force::PairSums;
use gridspan_kernels::leanmd::gather::Gather;
use gridspan_kernels::leanmd::vectors::Vectors;
use gridspan_runtime::{CollectionRef, Numbers, Published, SectionRef};
use serde::{Deserialize, Serialize};

use super::schedule::Schedule;

/// A cell.
#[derive(Serialize, Deserialize)]
pub struct Cell {
    pub(super) schedule: Published<Schedule>,
    pub(super) pairs: Option<SectionRef<Pair>>,
    /// The numbers of the partners, ascending: the order in which forces are added.
    pub(super) partners: Vec<u32>,
    pub(super) atoms: CellAtoms,
    pub(super) step: u64,
    pub(super) forces: Gather,
    /// Atoms that arrived from neighbours, for this and the next step.
    pub(super) arrivals: BTreeMap<u64, Arrivals>,
    /// Whether the cell waits for arrivals before it sends its positions.
    pub(super) is_exchanging: bool,
    pub(super) fingerprint: StateFingerprint,
    /// Times at which steps were completed since the last report, in ns since the job began.
    pub(super) done_ns: Vec<f64>,
}

/// The atoms that neighbours have sent for a step, and the number of these neighbours.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Arrivals {
    pub(super) senders: u32,
    pub(super) atoms: Vec<Atom>,
}

/// The initial state of a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CellInit {
    /// The settings.
    pub schedule: Published<Schedule>,
    /// The atoms in the cell at the start.
    pub atoms: CellAtoms,
}

/// The messages of a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum CellMessage {
    /// Start: compute the initial forces.
    Start {
        /// The pairs.
        pairs: CollectionRef<Pair>,
    },
    /// The forces that a pair has computed.
    Forces {
        /// The step.
        step: u64,
        /// The number of the other cell of the pair.
        partner: u32,
        /// Forces on the atoms of this cell, by ascending id.
        forces: Vectors,
    },
    /// The atoms that moved here from a neighbour.
    Leavers {
        /// The step.
        step: u64,
        /// The atoms that are now in this cell, packed.
        atoms: Numbers<f64>,
    },
    /// The pause after a step is over. The cell sends this to itself.
    PauseOver,
}

/// A cell pair.
#[derive(Serialize, Deserialize)]
pub struct Pair {
    pub(super) schedule: Published<Schedule>,
    pub(super) cells: CollectionRef<Cell>,
    pub(super) unit: CellPair,
    pub(super) step: u64,
    /// Positions of A and B that have arrived, for this step and perhaps the next.
    pub(super) positions: [VecDeque<Arc<Vectors>>; 2],
    /// Pairs of atoms within the cutoff, in all steps so far.
    pub(super) computed: u64,
    /// The sums of the first step, if they are not recomputed.
    pub(super) known: Option<PairSums>,
}

/// The initial state of a pair.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PairInit {
    /// The settings.
    pub schedule: Published<Schedule>,
    /// The cells.
    pub cells: CollectionRef<Cell>,
    /// Its two cells and their images.
    pub unit: CellPair,
}

/// The messages of a pair.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PairMessage {
    /// The positions of a cell's atoms in a step, before the forces are computed.
    Positions {
        /// The step.
        step: u64,
        /// The number of the cell.
        cell: u32,
        /// Positions in sigma, by ascending id.
        positions: Arc<Vectors>,
    },
}

#[cfg(test)]
mod tests {
    use gridspan_runtime::schema::Schema;

    use super::*;

    #[test]
    fn vectors_have_the_structure_of_a_block_of_numbers() {
        let structure = |schema: &Schema| (schema.fingerprint(), schema.brief(100));
        assert_eq!(structure(&Schema::of::<Vectors>()), structure(&Schema::of::<Numbers<f64>>()));
        let vectors: Vectors = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]].into_iter().collect();
        let numbers = Numbers::from(vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(postcard::to_stdvec(&vectors).unwrap(), postcard::to_stdvec(&numbers).unwrap());
    }
}
