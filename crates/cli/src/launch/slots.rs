//! Limits the bridges that connect at the same time, as `pacing` limits the nodes that start.

use super::pacing::{STARTS_IN_ALL_MAX, STARTS_MAX};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The connections that are being opened.
#[derive(Default)]
pub(super) struct Slots {
    /// Their number for each host or gateway.
    open: Mutex<BTreeMap<String, usize>>,
    closed: Condvar,
}

/// A connection that is being opened, until this value is dropped.
pub(super) struct Slot {
    slots: Arc<Slots>,
    entry: String,
}

impl Slots {
    /// Waits until a connection through this host or gateway may be opened. `None` for a node of
    /// this machine, which needs none.
    pub(super) fn take(self: &Arc<Self>, entry: Option<&str>) -> Option<Slot> {
        let entry = entry?;
        let is_full = |open: &mut BTreeMap<String, usize>| {
            let of_entry = open.get(entry).copied().unwrap_or_default();
            of_entry >= STARTS_MAX || open.values().sum::<usize>() >= STARTS_IN_ALL_MAX
        };
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open =
            self.closed.wait_while(open, is_full).unwrap_or_else(PoisonError::into_inner);
        *open.entry(entry.to_owned()).or_default() += 1;
        Some(Slot { slots: self.clone(), entry: entry.to_owned() })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.slots.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = open.get_mut(&self.entry) {
            *number -= 1;
        }
        self.slots.closed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn few_connections_to_one_host_are_opened_at_once() {
        let slots = Arc::new(Slots::default());
        let mut taken: Vec<_> = (0..STARTS_MAX).map(|_| slots.take(Some("b1"))).collect();
        assert!(slots.take(Some("b2")).is_some(), "another host");
        assert!(slots.take(None).is_none(), "this machine");
        let (send, receive) = channel();
        let waits = thread::spawn(move || send.send(slots.take(Some("b1"))).unwrap());
        assert!(receive.recv_timeout(Duration::from_millis(50)).is_err());

        taken.pop();

        assert!(receive.recv_timeout(Duration::from_secs(10)).unwrap().is_some());
        waits.join().unwrap();
    }
}
