//! The PEs of spawned ranks.

use crate::refusal::RankRefusal;
use gridspan_runtime::{Layout, SiteId};
use serde::{Deserialize, Serialize};

/// The PEs on which [spawned](crate::Comm::spawn) ranks start. A strategy may move them later.
///
/// ```
/// use gridspan::ranks::{self, SpawnPlacement};
///
/// let job = ranks::run(2, async |world| {
///     if world.parent().is_some() {
///         assert_eq!(world.pe(world.rank()), Some(1));
///         return Ok(());
///     }
///     world.spawn(3, SpawnPlacement::OnPe(1)).await.map(drop)
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SpawnPlacement {
    /// In blocks of equal size over all PEs: consecutive ranks start on the same PE or on
    /// consecutive ones.
    #[default]
    Block,
    /// In turn over all PEs: rank `n` of the job starts on PE `n`, modulo the number of PEs.
    RoundRobin,
    /// In blocks of equal size over the PEs of the site with this number; see
    /// [`Comm::site`](crate::Comm::site).
    AtSite(u32),
    /// All on the PE with this number.
    OnPe(u32),
}

impl SpawnPlacement {
    /// The PEs of `ranks` ranks, whose numbers in the job begin with `first`.
    pub(super) fn pes(
        self,
        first: u32,
        ranks: u32,
        layout: &Layout,
    ) -> Result<Vec<u32>, RankRefusal> {
        let (sites, pes) = (layout.site_count(), layout.pe_count());
        let range = match self {
            Self::Block | Self::RoundRobin => 0..pes,
            Self::AtSite(site) if site < sites => layout.pes_in(SiteId(site)),
            Self::AtSite(site) => return Err(RankRefusal::NoSuchSite { site, sites }),
            Self::OnPe(pe) if pe < pes => pe..pe + 1,
            Self::OnPe(pe) => return Err(RankRefusal::NoSuchPe { pe, pes }),
        };
        let count = u64::from(range.end - range.start);
        if let (Self::AtSite(site), 0) = (self, count) {
            return Err(RankRefusal::NoPeAtSite { site });
        }
        let at = |child: u32| match self {
            Self::RoundRobin => (u64::from(first) + u64::from(child)) % count,
            _ => u64::from(child) * count / u64::from(ranks),
        };
        Ok((0..ranks).map(|child| range.start + at(child) as u32).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_dealt_in_runs_in_turn_by_site_or_on_one_pe() {
        let layout =
            Layout::new(vec![("east".to_owned(), vec![2]), ("west".to_owned(), vec![1, 1])]);
        let pes = |placement: SpawnPlacement, ranks| placement.pes(6, ranks, &layout);
        assert_eq!(pes(SpawnPlacement::Block, 8), Ok(vec![0, 0, 1, 1, 2, 2, 3, 3]));
        assert_eq!(pes(SpawnPlacement::Block, 2), Ok(vec![0, 2]));
        assert_eq!(pes(SpawnPlacement::RoundRobin, 5), Ok(vec![2, 3, 0, 1, 2]));
        assert_eq!(pes(SpawnPlacement::AtSite(1), 4), Ok(vec![2, 2, 3, 3]));
        assert_eq!(pes(SpawnPlacement::OnPe(3), 2), Ok(vec![3, 3]));
        let none = pes(SpawnPlacement::AtSite(2), 1);
        assert_eq!(none, Err(RankRefusal::NoSuchSite { site: 2, sites: 2 }));
        let none = pes(SpawnPlacement::OnPe(4), 1);
        assert_eq!(none, Err(RankRefusal::NoSuchPe { pe: 4, pes: 4 }));
    }
}
