//! Takes the requests of other processes to the job; see `request`.

use super::event::Event;
use crate::request::{Answer, Request, read, write};
use crate::status;
use rustix::net::{RecvFlags, recv};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time that a client has to write its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Largest number of requests that are being read or wait for an answer.
const OPEN_MAX: usize = 64;

/// The socket of a job. Dropping it removes the socket.
pub(super) struct Requests {
    path: PathBuf,
    /// The clients that wait for answers.
    open: Arc<Mutex<BTreeMap<u64, UnixStream>>>,
}

impl Requests {
    /// Listens at the socket of the job `id` in this folder, and passes requests on as events.
    pub(super) fn listen(folder: &Path, id: &str, events: Sender<Event>) -> io::Result<Self> {
        let path = status::socket_path(folder, id);
        // A launcher that was killed leaves its socket.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        let open = Arc::<Mutex<BTreeMap<u64, UnixStream>>>::default();
        let requests = Self { path, open: open.clone() };
        let next = AtomicU64::new(0);
        let accept = move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // For example, there are too many open files.
                    thread::sleep(ACCEPT_PAUSE);
                    continue;
                };
                let id = next.fetch_add(1, Ordering::Relaxed);
                let events = events.clone();
                let is_full = {
                    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
                    if open.len() >= OPEN_MAX {
                        open.retain(|_, stream| !has_gone(stream));
                    }
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
                let forget = {
                    let open = open.clone();
                    move || open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
                };
                let forget_unread = forget.clone();
                let take = move || match read_request(&stream) {
                    // The launcher may have ended already.
                    Ok(request) => drop(events.send(Event::Requested { id, request })),
                    Err(error) => {
                        let _ = write(&stream, Answer::Refused(error.to_string()));
                        forget_unread();
                    }
                };
                if thread::Builder::new().name("request".to_owned()).spawn(take).is_err() {
                    forget();
                }
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
        // Their connections end.
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Whether the client has closed the connection.
fn has_gone(stream: &UnixStream) -> bool {
    let mut byte = [0];
    let read = recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(read, Ok((_, 0)))
}

fn read_request(stream: &UnixStream) -> io::Result<Request> {
    let until = Instant::now() + PATIENCE;
    read(Timed { stream, until })?.ok_or_else(|| io::Error::other("there is no request"))
}

/// A connection that is read until a time.
struct Timed<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl Read for Timed<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_waits_is_there_and_one_that_has_ended_is_not() {
        let (own, client) = UnixStream::pair().unwrap();
        assert!(!has_gone(&own));
        write(&client, Request::Wait).unwrap();
        assert!(!has_gone(&own), "its request is not read yet");
        assert_eq!(read_request(&own).unwrap(), Request::Wait);
        assert!(!has_gone(&own));
        drop(client);
        assert!(has_gone(&own));
    }
}
