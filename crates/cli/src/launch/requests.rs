//! Takes the requests of other processes to the job; see `request`.

use super::event::Event;
use crate::request::{Answer, Request, read, write};
use crate::status;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Time that a client has to write its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest number of requests that are read or wait for an answer.
const OPEN_MAX: usize = 64;

/// The socket of a job. Dropping it removes the socket.
pub(super) struct Requests {
    path: PathBuf,
    /// The clients that wait for answers.
    open: Arc<Mutex<BTreeMap<u64, UnixStream>>>,
}

impl Requests {
    /// Listens at the socket of the job `id`, and passes requests on as events.
    pub(super) fn listen(id: &str, events: Sender<Event>) -> io::Result<Self> {
        let path = status::socket_path(&status::folder()?, id);
        let listener = UnixListener::bind(&path)?;
        let open = Arc::<Mutex<BTreeMap<u64, UnixStream>>>::default();
        let requests = Self { path, open: open.clone() };
        let next = AtomicU64::new(0);
        let accept = move || {
            for stream in listener.incoming().flatten() {
                let id = next.fetch_add(1, Ordering::Relaxed);
                let (open, events) = (open.clone(), events.clone());
                let is_full = {
                    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
                    let is_full = open.len() >= OPEN_MAX;
                    if let Ok(stream) = stream.try_clone()
                        && !is_full
                    {
                        open.insert(id, stream);
                    }
                    is_full
                };
                if is_full {
                    let text = "too many requests wait for an answer; try again later";
                    // The client may have gone.
                    let _ = write(&stream, Answer::Refused(text.to_owned()));
                    continue;
                }
                let take = move || {
                    let read = stream.set_read_timeout(Some(PATIENCE));
                    match read.and_then(|()| read_request(&stream)) {
                        // The launcher may have ended already.
                        Ok(request) => drop(events.send(Event::Requested { id, request })),
                        Err(error) => {
                            let _ = write(&stream, Answer::Refused(error.to_string()));
                            open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
                        }
                    }
                };
                // Without a thread the client gets no answer.
                let _ = thread::Builder::new().name("request".to_owned()).spawn(take);
            }
        };
        thread::Builder::new().name("requests".to_owned()).spawn(accept)?;
        Ok(requests)
    }

    /// Answers a request.
    pub(super) fn answer(&self, id: u64, answer: &Answer) {
        let stream = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(stream) = stream {
            let _ = stream.set_write_timeout(Some(PATIENCE));
            // The client may have gone.
            let _ = write(&stream, answer);
        }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // Another process may have removed it.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn read_request(stream: &UnixStream) -> io::Result<Request> {
    read(stream)?.ok_or_else(|| io::Error::other("there is no request"))
}
