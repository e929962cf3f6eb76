//! The thread that stores parts and manifests, since that may take long.
//!
//! A folder or an object store may not answer at all. Waiting parts must not fill the memory, so
//! only those of the newest checkpoint wait; the coordinator has given up earlier checkpoints. A
//! caller that waits for a manifest gets an error after [`MANIFEST_MAX`].

use super::archive::CheckpointArchive;
use crate::error::StartError;
use bytes::Bytes;
use gridspan_topology::PeId;
use std::collections::VecDeque;
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Time in which a manifest is stored if the job waits for it: as long as the coordinator waits for
/// a part.
pub(super) const MANIFEST_MAX: Duration = Duration::from_secs(300);

/// The thread that stores parts and manifests. It ends with the last clone.
#[derive(Clone)]
pub(super) struct Writer {
    /// Whether this node writes the manifests in the present run, and the number of the run.
    run: Arc<Mutex<(bool, u64)>>,
    waiting: Arc<Mutex<VecDeque<Order>>>,
    /// Wakes the thread. One wake-up in the channel is enough for all orders that wait.
    wake: SyncSender<()>,
}

/// An order to the thread.
pub(super) enum Order {
    /// Store the part of a PE.
    Part { run: u64, checkpoint: u64, part: PeId, segments: Vec<Bytes>, done: Done },
    /// Store the manifest of a complete checkpoint, and remove earlier checkpoints.
    Manifest(Bytes, Option<Done>),
}

/// Called with the error if a part or manifest could not be stored. It is dropped without a call if
/// the part is no longer needed.
pub(super) type Done = Box<dyn FnOnce(Option<String>) + Send>;

impl Order {
    /// Whether a part of `newest`, the number of a run and of a checkpoint in it, makes this order
    /// useless.
    fn is_before(&self, newest: (u64, u64)) -> bool {
        match *self {
            Self::Part { run, checkpoint, .. } => run != newest.0 || checkpoint < newest.1,
            Self::Manifest(..) => false,
        }
    }

    /// `back`: the number of the last manifest that this node was ordered to store. The other nodes
    /// know that checkpoint, and go back to it if they lose this node before they know a later one.
    fn carry_out(self, archive: &CheckpointArchive, back: &mut Option<u64>) {
        match self {
            Self::Part { run, checkpoint, part, segments, done } => {
                let result = archive.write_part((run, checkpoint), part, &segments, *back);
                done(result.err().map(|error| error.to_string()));
            }
            Self::Manifest(manifest, stored) => {
                let error = archive.write_manifest(&manifest, back).err();
                if let Some(error) = &error {
                    tracing::error!(%error, "a checkpoint is not stored");
                }
                let error = error.map(|error| error.to_string());
                if let Some(stored) = stored {
                    stored(error);
                }
            }
        }
    }
}

impl Writer {
    pub(super) fn start(archive: CheckpointArchive) -> Result<Self, StartError> {
        let waiting = Arc::<Mutex<VecDeque<Order>>>::default();
        let (wake, woken) = sync_channel(1);
        let orders = waiting.clone();
        let next = move || locked(&orders).pop_front();
        let write = move || {
            let mut back = None;
            for () in woken {
                while let Some(order) = next() {
                    order.carry_out(&archive, &mut back);
                }
            }
        };
        let named = thread::Builder::new().name("checkpoints".to_owned());
        named.spawn(write).map_err(|error| StartError::Thread {
            thread: "the checkpoints".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { run: Arc::default(), waiting, wake })
    }

    /// Begins a run of the job. `writes_manifests`: this node stores the manifests. Parts of the
    /// previous run are useless, and those of this run must not wait for them.
    pub(super) fn begin(&self, writes_manifests: bool, run: u64) {
        *locked(&self.run) = (writes_manifests, run);
        locked(&self.waiting).retain(|order| !order.is_before((run, 0)));
    }

    /// Whether this node writes the manifests, and the number of the run.
    pub(super) fn present(&self) -> (bool, u64) {
        *locked(&self.run)
    }

    pub(super) fn order(&self, order: Order) {
        let mut waiting = locked(&self.waiting);
        if let Order::Part { run, checkpoint, .. } = &order {
            let newest = (*run, *checkpoint);
            waiting.retain(|other| !other.is_before(newest));
        }
        waiting.push_back(order);
        drop(waiting);
        // If the channel is full, the thread has not yet taken an earlier wake-up, after which it
        // takes all orders. The thread ends with the last sender only.
        let _ = self.wake.try_send(());
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `done` with an error if the returned function is not called within `limit`.
pub(super) fn within(limit: Duration, done: Done) -> Done {
    let done = Arc::new(Mutex::new(Some(done)));
    let (tell, told) = channel::<()>();
    let late = done.clone();
    let wait = move || {
        // An error means that the time is over, or that all senders were dropped.
        if told.recv_timeout(limit).is_err() {
            let seconds = limit.as_secs();
            let reason = format!(
                "its manifest was not stored within {seconds} s; look at the folder or object store"
            );
            call(&late, Some(reason));
        }
    };
    // Without the thread, only a store that answers ends the wait.
    if let Err(error) = thread::Builder::new().name("manifest".to_owned()).spawn(wait) {
        tracing::warn!(%error, "no deadline for a manifest");
    }
    Box::new(move |outcome| {
        // The thread may have ended.
        let _ = tell.send(());
        call(&done, outcome);
    })
}

/// Calls `done` with the outcome, unless it was called before.
fn call(done: &Mutex<Option<Done>>, outcome: Option<String>) {
    let first = locked(done).take();
    if let Some(done) = first {
        done(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::super::storage::CheckpointStorage;
    use super::*;
    use std::collections::BTreeMap;
    use std::io;
    use std::sync::mpsc::{Receiver, Sender};

    /// A store that reports when it begins to store an object, and then waits to be released.
    #[derive(Debug)]
    struct Slow {
        begun: Mutex<Sender<String>>,
        released: Mutex<Receiver<()>>,
        objects: Mutex<BTreeMap<String, Bytes>>,
    }

    impl CheckpointStorage for Slow {
        fn put(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()> {
            locked(&self.begun).send(name.to_owned()).unwrap();
            locked(&self.released).recv().unwrap();
            locked(&self.objects).insert(name.to_owned(), pieces.concat().into());
            Ok(())
        }

        fn put_new(&self, name: &str, pieces: Vec<Bytes>) -> io::Result<()> {
            self.put(name, pieces)
        }

        fn get(&self, name: &str) -> io::Result<Bytes> {
            let objects = locked(&self.objects);
            objects.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
        }

        fn has(&self, name: &str) -> io::Result<bool> {
            Ok(locked(&self.objects).contains_key(name))
        }

        fn groups(&self) -> io::Result<Vec<String>> {
            let objects = locked(&self.objects);
            let group = |name: &String| name.split('/').next().unwrap_or_default().to_owned();
            Ok(objects.keys().map(group).collect())
        }

        fn remove_all(&self, group: &str) -> io::Result<()> {
            locked(&self.objects).retain(|name, _| !name.starts_with(group));
            Ok(())
        }

        fn path_of(&self, name: &str) -> String {
            name.to_owned()
        }
    }

    #[test]
    fn parts_of_the_newest_checkpoint_alone_wait_for_a_store_that_does_not_answer() {
        let ((begun, begins), (release, released)) = (channel(), channel());
        let store = Arc::new(Slow {
            begun: Mutex::new(begun),
            released: Mutex::new(released),
            objects: Mutex::default(),
        });
        let writer = Writer::start(CheckpointArchive::of(store.clone())).unwrap();
        let (done, outcomes) = channel();
        let order = |checkpoint, part| {
            let done = done.clone();
            writer.order(Order::Part {
                run: 7,
                checkpoint,
                part: PeId(part),
                segments: vec![Bytes::from_static(b"state")],
                done: Box::new(move |error| done.send((checkpoint, part, error)).unwrap()),
            });
        };
        order(1, 1);
        let first = begins.recv().unwrap();
        assert!(first.contains("part-"), "{first}");

        (1..=2).for_each(|part| order(2, part));
        (1..=2).for_each(|part| order(3, part));

        assert_eq!(locked(&writer.waiting).len(), 2, "those of checkpoint 3");
        (0..3).for_each(|_| release.send(()).unwrap());
        let stored: Vec<_> = (0..3).map(|_| outcomes.recv().unwrap()).collect();
        assert_eq!(stored, [(1, 1, None), (3, 1, None), (3, 2, None)]);
        assert_eq!(locked(&store.objects).len(), 3);
    }

    #[test]
    fn parts_of_the_run_before_do_not_wait_any_more_and_manifests_do() {
        let waiting = Arc::<Mutex<VecDeque<Order>>>::default();
        let (wake, _woken) = sync_channel(1);
        let writer = Writer { run: Arc::default(), waiting, wake };
        let part = |run| Order::Part {
            run,
            checkpoint: 1,
            part: PeId(1),
            segments: Vec::new(),
            done: Box::new(|_| ()),
        };
        writer.begin(true, 7);
        writer.order(part(7));
        writer.order(Order::Manifest(Bytes::new(), None));
        writer.begin(true, 7);
        assert_eq!(locked(&writer.waiting).len(), 2, "it is the same run");

        writer.begin(true, 8);

        assert!(matches!(locked(&writer.waiting).make_contiguous(), [Order::Manifest(..)]));
    }

    #[test]
    fn a_caller_that_waits_for_a_manifest_learns_once_whether_it_was_stored_in_time() {
        let (tell, told) = channel();
        let done = || -> Done {
            let tell = tell.clone();
            Box::new(move |outcome| tell.send(outcome).unwrap())
        };

        let late = within(Duration::from_millis(1), done());
        let reason = told.recv().unwrap().unwrap();
        assert!(reason.contains("was not stored within 0 s"), "{reason}");
        late(None);
        within(Duration::from_secs(3_600), done())(None);

        assert_eq!(told.recv().unwrap(), None);
        assert!(told.try_recv().is_err(), "once each");
    }
}
