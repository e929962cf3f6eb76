//! The connections that have not enrolled. Their number is limited. At the limit a new one replaces
//! the oldest, so that silent connections block no task.

use gridspan_runtime::net::EnrolmentCloser;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Largest number of connections that have not enrolled.
pub(super) const UNENROLLED_MAX: usize = 64;
/// Minimum age of a connection that is replaced. A task enrols within a few round trips, and must
/// not be replaced by others that start at the same time.
const AGE_MIN: Duration = Duration::from_secs(1);

/// All connections that have not enrolled.
#[derive(Default)]
pub(super) struct AllUnenrolled(Mutex<Connections>);

#[derive(Default)]
struct Connections {
    /// The time of acceptance and the closer of each, in the order of acceptance.
    open: BTreeMap<u64, (Instant, EnrolmentCloser)>,
    accepted: u64,
}

impl AllUnenrolled {
    /// Returns whether another connection is accepted. Ends the oldest one if there is no room.
    pub(super) fn make_room(&self, now: Instant) -> bool {
        let mut connections = self.lock();
        if connections.open.len() < UNENROLLED_MAX {
            return true;
        }
        let Some(oldest) = connections.open.first_entry() else { return true };
        if now.saturating_duration_since(oldest.get().0) < AGE_MIN {
            return false;
        }
        oldest.remove().1.close();
        true
    }

    /// Counts a connection until the result is dropped.
    pub(super) fn add(self: &Arc<Self>, closer: EnrolmentCloser, now: Instant) -> Unenrolled {
        let mut connections = self.lock();
        let number = connections.accepted;
        connections.accepted += 1;
        connections.open.insert(number, (now, closer));
        Unenrolled { all: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that has not enrolled, as long as this exists.
pub(super) struct Unenrolled {
    all: Arc<AllUnenrolled>,
    number: u64,
}

impl Drop for Unenrolled {
    fn drop(&mut self) {
        self.all.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::net::{Authority, EnrolmentListener};
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpStream};

    /// Returns the closer of a connection, and its other end.
    fn connection(listener: &EnrolmentListener) -> (EnrolmentCloser, TcpStream) {
        let other = TcpStream::connect((Ipv4Addr::LOCALHOST, listener.port().unwrap())).unwrap();
        let accepted = listener.accept(Duration::from_secs(10)).unwrap().unwrap();
        (accepted.closer().unwrap(), other)
    }

    #[test]
    fn the_oldest_makes_room_once_it_has_had_its_time() {
        let listener = EnrolmentListener::bind(&Authority::new("ring").unwrap()).unwrap();
        let all = Arc::new(AllUnenrolled::default());
        let begin = Instant::now();
        let mut others = Vec::new();
        let mut counted = Vec::new();
        for place in 0..UNENROLLED_MAX {
            assert!(all.make_room(begin), "place {place}");
            let (closer, other) = connection(&listener);
            counted.push(all.add(closer, begin));
            others.push(other);
        }

        assert!(!all.make_room(begin + AGE_MIN / 2));
        assert!(all.make_room(begin + AGE_MIN));

        assert_eq!(others[0].read(&mut [0]).unwrap(), 0, "the oldest has ended");
        others[1].set_nonblocking(true).unwrap();
        assert!(others[1].read(&mut [0]).is_err(), "the next one is open");
        assert!(all.make_room(begin), "there is room for one");
        let (closer, _other) = connection(&listener);
        counted.push(all.add(closer, begin + AGE_MIN));
        assert!(!all.make_room(begin));
        drop(counted.pop());
        assert!(all.make_room(begin), "one has enrolled");
    }
}
