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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    open: Arc<Mutex<Open>>,
}

/// The clients that wait for answers.
type Open = BTreeMap<u64, UnixStream>;

impl Requests {
    /// Listens at the socket of the job `id` in this folder, and passes requests on as events.
    pub(super) fn listen(folder: &Path, id: &str, events: Sender<Event>) -> io::Result<Self> {
        let path = status::socket_path(folder, id);
        // A launcher that was killed leaves its socket.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        let open = Arc::<Mutex<Open>>::default();
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
                let admitted = admit(&mut lock(&open), id, || stream.try_clone());
                if let Err(reason) = admitted {
                    // The client may have gone.
                    let _ = write(&stream, Answer::Refused(reason));
                    continue;
                }
                let take = {
                    let open = open.clone();
                    move || match read_request(&stream) {
                        // The launcher may have ended already.
                        Ok(request) => drop(events.send(Event::Requested { id, request })),
                        Err(error) => refuse(&open, id, error.to_string()),
                    }
                };
                let spawned = thread::Builder::new().name("request".to_owned()).spawn(take);
                if let Err(error) = spawned {
                    refuse(&open, id, not_taken(&error));
                }
            }
        };
        thread::Builder::new().name("requests".to_owned()).spawn(accept)?;
        Ok(requests)
    }

    /// Answers a request.
    pub(super) fn answer(&self, id: u64, answer: &Answer) {
        answer_in(&self.open, id, answer);
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // Another process may have removed it.
        let _ = std::fs::remove_file(&self.path);
        // Their connections end.
        lock(&self.open).clear();
    }
}

/// Adds a client to those that wait for answers. `copy` returns a second handle of its connection.
///
/// # Errors
///
/// Why the request is refused: without a handle it could not be answered.
fn admit(
    open: &mut Open,
    id: u64,
    copy: impl FnOnce() -> io::Result<UnixStream>,
) -> Result<(), String> {
    if open.len() >= OPEN_MAX {
        open.retain(|_, stream| !has_gone(stream));
    }
    if open.len() >= OPEN_MAX {
        return Err("too many requests wait for an answer; try again later".to_owned());
    }
    let stream = copy().map_err(|error| not_taken(&error))?;
    open.insert(id, stream);
    Ok(())
}

fn not_taken(error: &io::Error) -> String {
    format!("its launcher cannot take the request: {error}; try again later")
}

/// Refuses a request that is not carried out.
fn refuse(open: &Mutex<Open>, id: u64, reason: String) {
    answer_in(open, id, &Answer::Refused(reason));
}

/// Answers a client, which does not wait any longer.
fn answer_in(open: &Mutex<Open>, id: u64, answer: &Answer) {
    let stream = lock(open).remove(&id);
    if let Some(stream) = stream {
        let _ = stream.set_write_timeout(Some(PATIENCE));
        // The client may have gone.
        let _ = write(&stream, answer);
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn a_request_that_cannot_be_answered_is_refused_and_not_carried_out() {
        let mut open = Open::new();
        let (own, _client) = UnixStream::pair().unwrap();

        let refused = admit(&mut open, 1, || Err(io::Error::other("too many open files")));

        assert!(refused.unwrap_err().contains("too many open files"));
        assert!(open.is_empty());
        assert_eq!(admit(&mut open, 2, || own.try_clone()), Ok(()));
        assert!(open.contains_key(&2));
    }

    #[test]
    fn a_client_whose_request_nothing_reads_is_told_why() {
        let (own, client) = UnixStream::pair().unwrap();
        let open = Mutex::new(Open::from([(7, own)]));

        refuse(&open, 7, not_taken(&io::Error::other("no more threads")));

        let answer = read::<Answer>(&client).unwrap();
        assert!(
            matches!(&answer, Some(Answer::Refused(reason)) if reason.contains("no more threads")),
            "{answer:?}"
        );
        assert!(lock(&open).is_empty());
    }

    #[test]
    fn clients_that_have_gone_make_room_and_others_do_not() {
        let mut open = Open::new();
        let mut clients = Vec::new();
        for id in 0..OPEN_MAX as u64 {
            let (own, client) = UnixStream::pair().unwrap();
            admit(&mut open, id, || Ok(own)).unwrap();
            clients.push(client);
        }
        let (own, _client) = UnixStream::pair().unwrap();
        assert!(admit(&mut open, 99, || own.try_clone()).is_err());

        clients.pop();

        assert_eq!(admit(&mut open, 99, || own.try_clone()), Ok(()));
    }
}
