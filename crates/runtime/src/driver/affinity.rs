//! The processors on which threads may run. Threads inherit them from the thread that starts them.
//!
//! Without the feature `net`, and on other systems than Linux, threads run anywhere.

#[cfg(all(feature = "net", target_os = "linux"))]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A set of processors.
#[cfg(all(feature = "net", target_os = "linux"))]
#[derive(Clone, Copy)]
pub(super) struct Affinity(CpuSet);

#[cfg(all(feature = "net", target_os = "linux"))]
impl Affinity {
    /// The processors with these numbers.
    pub(super) fn to(cpus: &[u32]) -> Self {
        let mut set = CpuSet::new();
        let numbers = cpus.iter().map(|&cpu| cpu as usize);
        numbers.filter(|&cpu| cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
        Self(set)
    }

    /// The processors on which the calling thread may run; `None` if the system does not report
    /// them.
    pub(super) fn of_this_thread() -> Option<Self> {
        sched_getaffinity(None).ok().map(Self)
    }

    /// Restricts the calling thread to these processors. If the system refuses, the thread stays
    /// unrestricted.
    pub(super) fn apply(self) {
        if let Err(error) = sched_setaffinity(None, &self.0) {
            tracing::warn!(%error, cpus = ?self.0, "a thread is not bound to its processors");
        }
    }
}

/// A set of processors, which has no effect.
#[cfg(not(all(feature = "net", target_os = "linux")))]
#[derive(Clone, Copy)]
pub(super) struct Affinity;

#[cfg(not(all(feature = "net", target_os = "linux")))]
impl Affinity {
    pub(super) fn to(_cpus: &[u32]) -> Self {
        Self
    }

    pub(super) fn of_this_thread() -> Option<Self> {
        None
    }

    pub(super) fn apply(self) {}
}

#[cfg(all(test, feature = "net", target_os = "linux"))]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_is_bound_and_those_that_it_starts_can_be_released() {
        let home = Affinity::of_this_thread().unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|&cpu| home.0.is_set(cpu)).unwrap();
        let bound = Affinity::to(&[first as u32]);
        let bind = move || {
            bound.apply();
            let inherited = thread::spawn(|| Affinity::of_this_thread().unwrap().0);
            let released = thread::spawn(move || {
                home.apply();
                Affinity::of_this_thread().unwrap().0
            });
            (inherited.join().unwrap(), released.join().unwrap())
        };

        let (inherited, released) = thread::spawn(bind).join().unwrap();

        assert_eq!((inherited.count(), inherited.is_set(first)), (1, true));
        assert!(released == home.0);
        assert!(Affinity::of_this_thread().unwrap().0 == home.0, "others are not bound");
    }

    #[test]
    fn processors_that_do_not_exist_change_nothing() {
        let home = Affinity::of_this_thread().unwrap();
        Affinity::to(&[u32::MAX]).apply();
        assert!(Affinity::of_this_thread().unwrap().0 == home.0);
    }
}
