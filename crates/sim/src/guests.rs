//! Nodes that join a simulated job while it runs, and their departures.

use gridspan_runtime::{NodeId, PeId, SiteId};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use std::time::Duration;

/// A node that joins the job. Times are relative to the start of the job.
///
/// ```
/// # use gridspan_runtime::{Grid, Job};
/// # use gridspan_topology::GridSpec;
/// # use std::time::Duration;
/// # let job = Job::new("pause").main(async |grid: Grid| {
/// #     Ok(grid.sleep(Duration::from_secs(2)).await?)
/// # });
/// # let grid = GridSpec::from_emulate("2x2,wan=32ms").unwrap();
/// use gridspan_runtime::SiteId;
/// use gridspan_sim::{Departure, GuestPlan, SimOptions, Simulation};
///
/// let guest = GuestPlan::new(SiteId(1), 2, Duration::from_millis(500))
///     .with_departure((Duration::from_secs(1), Departure::Leaves));
/// let options = SimOptions::default().with_guests(vec![guest]);
/// let report = Simulation::new(job, grid, options)?.run();
/// assert_eq!(report.outcome, Ok(()));
/// # Ok::<(), gridspan_sim::SimError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuestPlan {
    /// Site of the guest; its links are those of the site.
    pub site: SiteId,
    /// Number of PEs, at least one.
    pub pes: u32,
    /// Time at which it asks to join.
    pub joins: Duration,
    /// Time and kind of its departure, if it departs before the job ends.
    pub departs: Option<(Duration, Departure)>,
}

impl GuestPlan {
    /// A guest with this many PEs that stays until the job ends.
    pub fn new(site: SiteId, pes: u32, joins: Duration) -> Self {
        Self { site, pes, joins, departs: None }
    }

    /// Sets the time and kind of the departure.
    #[must_use]
    pub fn with_departure(mut self, departs: impl Into<Option<(Duration, Departure)>>) -> Self {
        self.departs = departs.into();
        self
    }
}

/// Kind of a guest's departure.
///
/// ```
/// use gridspan_runtime::SiteId;
/// use gridspan_sim::{Departure, GuestPlan};
/// use std::time::Duration;
///
/// let [joins, dies] = [1, 5].map(Duration::from_secs);
/// let guest = GuestPlan::new(SiteId(0), 1, joins).with_departure((dies, Departure::Killed));
/// # assert!(guest.departs.is_some());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Departure {
    /// It asks to leave.
    Leaves,
    /// It dies. Others notice after [`SimOptions::silence`](crate::SimOptions::silence) or, over
    /// QUIC, by the heartbeats of the transport.
    Killed,
    /// Others declare it lost although it lives and continues to work.
    Mistaken,
}

/// An event of a guest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GuestStep {
    Joins,
    Departs(Departure),
    /// The other nodes notice that it does not answer.
    Missed,
}

/// A value for each place (PE or node) of a job: in a vector for founders, by number for guests.
pub(crate) struct Roster<T> {
    founders: Vec<T>,
    guests: BTreeMap<u32, T>,
}

impl<T> Roster<T> {
    pub(crate) fn new(founders: Vec<T>) -> Self {
        Self { founders, guests: BTreeMap::new() }
    }

    /// Adds the value of a guest.
    pub(crate) fn add(&mut self, place: impl Place, thing: T) {
        self.guests.insert(place.number(), thing);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.founders.iter().chain(self.guests.values())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.founders.iter_mut().chain(self.guests.values_mut())
    }
}

/// A PE or a node.
pub(crate) trait Place: Copy {
    fn number(self) -> u32;
}

impl Place for PeId {
    fn number(self) -> u32 {
        self.0
    }
}

impl Place for NodeId {
    fn number(self) -> u32 {
        self.0
    }
}

impl<P: Place, T> Index<P> for Roster<T> {
    type Output = T;

    fn index(&self, place: P) -> &T {
        let number = place.number();
        self.founders.get(number as usize).unwrap_or_else(|| &self.guests[&number])
    }
}

impl<P: Place, T> IndexMut<P> for Roster<T> {
    fn index_mut(&mut self, place: P) -> &mut T {
        let number = place.number();
        match self.founders.get_mut(number as usize) {
            Some(thing) => thing,
            None => self.guests.get_mut(&number).expect("guests are entered when they are planned"),
        }
    }
}
