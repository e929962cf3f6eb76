//! The time until tasks see improvements of their pool's bound, in virtual time.

use gridspan_runtime::{Goal, Job, Merge, PeId, Search, SearchContext, SiteId};
use gridspan_sim::{GuestPlan, SimOptions, Simulation};
use gridspan_topology::{GridSpec, Latency, Layout, Link};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const MS: u64 = 1_000_000;
/// Time that a task takes to read the bound.
const WATCH: Duration = Duration::from_millis(1);
/// Time until the finder finds the value, and also the time for which it continues after that.
const FINDS: Duration = Duration::from_millis(500);

/// Many short tasks that read the bound, and a long one that improves it half way.
#[derive(Serialize, Deserialize)]
enum Look {
    Root,
    Out { times: u32 },
    Finder,
}

/// The spread of the value over the PEs. Times are in nanoseconds.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Seen {
    /// By PE, the first time at which it saw the value.
    first: BTreeMap<u32, u64>,
    /// By PE, the last time at which it did not see the value.
    last_without: BTreeMap<u32, u64>,
    /// The time at which the value was found.
    found: u64,
    /// The PE that found it.
    finder: u32,
}

impl Merge for Seen {
    fn merge(&mut self, other: Self) {
        for (pe, at) in other.first {
            let first = self.first.entry(pe).or_insert(at);
            *first = at.min(*first);
        }
        for (pe, at) in other.last_without {
            let last = self.last_without.entry(pe).or_insert(at);
            *last = at.max(*last);
        }
        self.found = self.found.max(other.found);
        self.finder = self.finder.max(other.finder);
    }
}

impl Search for Look {
    type Total = Seen;

    const GOAL: Goal = Goal::Minimise;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        let (pe, now) = (cx.pe().0, cx.now().0);
        match self {
            Self::Root => {
                (0..100).for_each(|_| cx.spawn(Self::Out { times: 100 }));
                cx.spawn(Self::Finder);
            }
            Self::Out { times } => {
                // A backup task sees a bound that is worse by one.
                if cx.bound().is_some_and(|bound| bound <= -6) {
                    cx.total().first.entry(pe).or_insert(now);
                } else {
                    cx.total().last_without.insert(pe, now);
                }
                cx.charge(WATCH);
                if times > 1 {
                    cx.spawn(Self::Out { times: times - 1 });
                }
            }
            Self::Finder => {
                cx.charge(FINDS);
                assert!(cx.improve(-7) && !cx.improve(-6));
                cx.total().found = now + FINDS.as_nanos() as u64;
                cx.total().finder = pe;
                cx.charge(FINDS);
            }
        }
    }
}

#[test]
fn all_pes_see_an_improvement_within_the_latency_and_two_milliseconds() {
    for wan_ms in [0, 5, 20] {
        let layout = Layout::new(vec![
            ("a".to_owned(), vec![2, 1]),
            ("b".to_owned(), vec![1, 2]),
            ("c".to_owned(), vec![1]),
        ]);
        let wan = Link::wan().with_latency(Latency::from_millis(wan_ms));
        let spec = GridSpec::from_layout(&layout).unwrap().with_wan(wan);
        let job = Job::new("bound").search::<Look>().main(async move |grid| {
            // Time for the guest to be admitted before the root's PE is busy.
            grid.sleep(Duration::from_millis(200)).await?;
            let seen = grid.run_search(Look::Root).await?;
            let home = SiteId(0);
            let layout = grid.layout();
            // Six PEs of founders watch (all but the finder's), and two of a guest.
            let others = seen.first.iter().filter(|seen_by| *seen_by.0 != seen.finder);
            assert_eq!(others.clone().count(), 8, "{seen:?}");
            let mut in_time = 0;
            for (&pe, &first) in others {
                let is_far = layout.site_of_node(layout.node_of(PeId(pe))) != home;
                let way = if is_far { wan_ms * MS } else { 0 };
                let watch = WATCH.as_nanos() as u64;
                let due = seen.found + way + 2 * MS;
                let last_without = seen.last_without[&pe];
                assert!(last_without <= due, "{pe} had not seen it by {due}: {seen:?}");
                assert!(first >= seen.found + way, "{pe} saw it too early: {seen:?}");
                assert!(last_without < first, "{pe} forgot it");
                in_time += u32::from(first <= due + watch);
            }
            // A PE may have nothing to run at that moment.
            assert!(in_time >= 6, "{in_time} of 8 PEs looked in time: {seen:?}");
            Ok(())
        });
        let guest = GuestPlan::new(SiteId(1), 2, Duration::ZERO);
        let options = SimOptions::default().with_guests(vec![guest]);
        let report = Simulation::new(job, spec, options).unwrap().run();
        assert_eq!(report.outcome, Ok(()), "{wan_ms} ms");
    }
}
