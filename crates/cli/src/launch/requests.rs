//! Receives the requests that other processes send to the job; see `request`.
//!
//! This module answers requests to wait for the end of the job; the launcher carries out all
//! others. At the end of the job, [`Requests::end`] removes the socket. Each client that has
//! connected before and waits for the end gets the exit code, even if its request is not read yet:
//! `end` waits for it for a moment. The connections of all other clients end without an answer.

use super::event::Event;
use crate::request::{Answer, Request, read, write};
use crate::status;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, recv};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time that a client has to write its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time that a connected client has to write its request once the job has ended. Clients write it
/// at once.
const END_PATIENCE: Duration = Duration::from_millis(500);
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Largest number of requests that are being read or wait for an answer of the launcher.
const OPEN_MAX: usize = 64;
/// Largest number of clients that wait for the end of the job. They take no places from requests
/// that act, such as those to kill the job. Each has an open file.
const WAITING_MAX: usize = 256;

/// The socket of a job. Dropping it removes the socket.
pub(super) struct Requests {
    path: PathBuf,
    socket: Arc<Socket>,
    /// Dropping it ends the thread that accepts connections.
    _accepting: UnixStream,
}

/// The listening socket, and the clients.
struct Socket {
    /// It is non-blocking.
    listener: UnixListener,
    events: Sender<Event>,
    open: Mutex<Open>,
    /// Notified when a request is read, or refused.
    is_read: Condvar,
}

/// The clients that wait for answers.
#[derive(Default)]
struct Open {
    clients: BTreeMap<u64, Client>,
    /// The number of the next client.
    next: u64,
    /// The exit code of the job, once it has ended.
    ended: Option<u8>,
}

struct Client {
    stream: Arc<UnixStream>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its request is not read yet.
    Unread,
    /// It waits for the end of the job.
    Waits,
    /// The launcher will answer.
    Asked,
}

impl Requests {
    /// Listens at the socket of the job `id` in this folder, and passes requests on as events.
    ///
    /// # Errors
    ///
    /// If another launcher listens there: in containers with a common folder, launchers may have
    /// equal process ids, and so their jobs may have equal names.
    pub(super) fn listen(folder: &Path, id: &str, events: Sender<Event>) -> io::Result<Self> {
        let path = status::socket_path(folder, id);
        if UnixStream::connect(&path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        // A launcher that was killed leaves its socket.
        let _ = std::fs::remove_file(&path);
        let (accepting, end) = UnixStream::pair()?;
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        let (open, is_read) = (Mutex::default(), Condvar::new());
        let socket = Arc::new(Socket { listener, events, open, is_read });
        let requests = Self { path, socket: socket.clone(), _accepting: accepting };
        let accept = move || {
            loop {
                let listener = PollFd::new(&socket.listener, PollFlags::IN);
                let mut ready = [listener, PollFd::new(&end, PollFlags::IN)];
                let accepted = match retry_on_intr(|| poll(&mut ready, None)) {
                    Ok(_) if !ready[1].revents().is_empty() => return,
                    Ok(_) => socket.accept_all(),
                    Err(error) => Err(error.into()),
                };
                if accepted.is_err() {
                    // For example, there are too many open files.
                    thread::sleep(ACCEPT_PAUSE);
                }
            }
        };
        thread::Builder::new().name("requests".to_owned()).spawn(accept)?;
        Ok(requests)
    }

    /// Answers a request.
    pub(super) fn answer(&self, id: u64, answer: &Answer) {
        self.socket.answer(id, answer);
    }

    /// Ends the requests: the job has ended with this exit code, or will at once. All clients that
    /// wait for the end get the code, also those whose connection or request is still on its way. A
    /// client that does not write its request delays this by [`END_PATIENCE`].
    pub(super) fn end(&self, code: u8) {
        self.end_within(code, END_PATIENCE);
    }

    /// Ends the requests, and waits at most this long for those that are not read yet.
    fn end_within(&self, code: u8, patience: Duration) {
        let waiting = {
            let mut open = self.socket.lock();
            open.ended = Some(code);
            let ids = open.clients.iter().filter(|(_, client)| client.stage == Stage::Waits);
            ids.map(|(id, _)| *id).collect::<Vec<u64>>()
        };
        waiting.into_iter().for_each(|id| self.answer(id, &Answer::Ended(code)));
        // From now on no client can connect. Another process may have removed the socket.
        let _ = std::fs::remove_file(&self.path);
        if let Err(error) = self.socket.accept_all() {
            tracing::info!(%error, "a request could not be accepted at the end of the job");
        }
        let is_unread = |open: &mut Open| open.clients.values().any(|it| it.stage == Stage::Unread);
        let open = self.socket.lock();
        drop(self.socket.is_read.wait_timeout_while(open, patience, is_unread));
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        let mut open = self.socket.lock();
        if open.ended.is_none() {
            // Another process may have removed the socket.
            let _ = std::fs::remove_file(&self.path);
        }
        // This ends their connections.
        open.clients.clear();
    }
}

impl Socket {
    /// Accepts all clients that have connected, and reads each request on a separate thread.
    fn accept_all(self: &Arc<Self>) -> io::Result<()> {
        while let Some((id, stream)) = self.accept()? {
            let socket = self.clone();
            let take = move || match read_request(&stream) {
                Ok(request) => socket.take(id, request),
                Err(error) => socket.refuse(id, error.to_string()),
            };
            let spawned = thread::Builder::new().name("request".to_owned()).spawn(take);
            if let Err(error) = spawned {
                self.refuse(id, not_taken(&error));
            }
        }
        Ok(())
    }

    /// Accepts a connection, if there is one that is not refused. Its client is in [`Open`] before
    /// another thread can find that there are no more connections.
    fn accept(&self) -> io::Result<Option<(u64, UnixStream)>> {
        let mut open = self.lock();
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            // On some systems, the stream inherits the mode of the listener.
            let admitted = stream.set_nonblocking(false).map_err(|error| not_taken(&error));
            match admitted.and_then(|()| open.admit(|| stream.try_clone())) {
                Ok(id) => return Ok(Some((id, stream))),
                // The client may have gone.
                Err(reason) => drop(write(&stream, Answer::Refused(reason))),
            }
        }
    }

    /// Passes a request on, or answers it: the job may have ended.
    fn take(&self, id: u64, request: Request) {
        let waits = request == Request::Wait;
        let (ended, has_place) = {
            let mut open = self.lock();
            let ended = open.ended;
            let has_place = ended.is_some() || !waits || open.has_place_to_wait();
            let stage = if waits { Stage::Waits } else { Stage::Asked };
            if let (None, true, Some(client)) = (ended, has_place, open.clients.get_mut(&id)) {
                client.stage = stage;
            }
            (ended, has_place)
        };
        if !has_place {
            return self.refuse(id, "too many clients wait for its end".to_owned());
        }
        match (ended, request) {
            (Some(code), Request::Wait) => self.answer(id, &Answer::Ended(code)),
            // This ends its connection.
            (Some(_), _) => drop(self.lock().clients.remove(&id)),
            (None, Request::Wait) => {}
            // The launcher may have ended already.
            (None, request) => drop(self.events.send(Event::Requested { id, request })),
        }
        self.is_read.notify_all();
    }

    /// Answers a request with a refusal, so that the client learns the reason.
    fn refuse(&self, id: u64, reason: String) {
        self.answer(id, &Answer::Refused(reason));
        self.is_read.notify_all();
    }

    /// Answers a client, and then removes it from the clients. It stays there until the answer is
    /// written, so that the end of the job waits for that.
    fn answer(&self, id: u64, answer: &Answer) {
        let stream = self.lock().clients.get(&id).map(|client| client.stream.clone());
        if let Some(stream) = stream {
            let _ = stream.set_write_timeout(Some(PATIENCE));
            // The client may have gone.
            let _ = write(&*stream, answer);
        }
        self.lock().clients.remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Adds a client to those that wait for answers, and returns its number. `copy` returns a
    /// second handle of its connection.
    ///
    /// # Errors
    ///
    /// Why the request is refused: without a handle it could not be answered.
    fn admit(&mut self, copy: impl FnOnce() -> io::Result<UnixStream>) -> Result<u64, String> {
        if !self.has_place(OPEN_MAX, |stage| stage != Stage::Waits) {
            return Err("too many requests wait for an answer; try again later".to_owned());
        }
        let stream = Arc::new(copy().map_err(|error| not_taken(&error))?);
        let id = self.next;
        self.next += 1;
        self.clients.insert(id, Client { stream, stage: Stage::Unread });
        Ok(id)
    }

    /// Whether one more client can wait for the end of the job.
    fn has_place_to_wait(&mut self) -> bool {
        self.has_place(WAITING_MAX, |stage| stage == Stage::Waits)
    }

    /// Whether there are fewer than `most` clients in such a stage. If there are not, first forgets
    /// the clients that have gone.
    fn has_place(&mut self, most: usize, is_such: impl Fn(Stage) -> bool) -> bool {
        let count = |clients: &BTreeMap<u64, Client>| {
            clients.values().filter(|client| is_such(client.stage)).count()
        };
        if count(&self.clients) >= most {
            self.clients.retain(|_, client| !has_gone(&client.stream));
        }
        count(&self.clients) < most
    }
}

fn not_taken(error: &io::Error) -> String {
    format!("its launcher cannot take the request: {error}; try again later")
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

/// A connection that is read until a deadline.
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
    use std::sync::Barrier;
    use std::sync::mpsc::{Receiver, channel};

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
        let mut open = Open::default();
        let (own, _client) = UnixStream::pair().unwrap();

        let refused = open.admit(|| Err(io::Error::other("too many open files")));

        assert!(refused.unwrap_err().contains("too many open files"));
        assert!(open.clients.is_empty());
        let id = open.admit(|| own.try_clone()).unwrap();
        assert_eq!(open.clients[&id].stage, Stage::Unread);
    }

    #[test]
    fn a_client_whose_request_nothing_reads_is_told_why() {
        let folder = tempfile::tempdir().unwrap();
        let (requests, _incoming) = listening(folder.path());
        let (own, client) = UnixStream::pair().unwrap();
        let id = requests.socket.lock().admit(|| Ok(own)).unwrap();

        requests.socket.refuse(id, not_taken(&io::Error::other("no more threads")));

        let answer = read::<Answer>(&client).unwrap();
        assert!(
            matches!(&answer, Some(Answer::Refused(reason)) if reason.contains("no more threads")),
            "{answer:?}"
        );
        assert!(requests.socket.lock().clients.is_empty());
    }

    #[test]
    fn the_socket_of_another_launcher_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let (first, incoming) = listening(folder.path());

        let (events, _others) = channel();
        let error = Requests::listen(folder.path(), ID, events).err().unwrap();

        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        let _client = connect(folder.path(), Request::Kill).unwrap();
        assert!(matches!(incoming.recv(), Ok(Event::Requested { request: Request::Kill, .. })));
        drop(first);
    }

    #[test]
    fn clients_that_have_gone_make_room_and_others_do_not() {
        let mut open = Open::default();
        let mut clients = Vec::new();
        for _ in 0..OPEN_MAX {
            let (own, client) = UnixStream::pair().unwrap();
            open.admit(|| Ok(own)).unwrap();
            clients.push(client);
        }
        let (own, _client) = UnixStream::pair().unwrap();
        assert!(open.admit(|| own.try_clone()).is_err());

        clients.pop();

        assert!(open.admit(|| own.try_clone()).is_ok());
    }

    #[test]
    fn clients_that_wait_take_no_places_from_requests_that_act() {
        let folder = tempfile::tempdir().unwrap();
        let (requests, incoming) = listening(folder.path());
        let mut clients = Vec::new();
        for number in 1..=OPEN_MAX + 8 {
            clients.push(connect(folder.path(), Request::Wait).unwrap());
            while waiting(&requests) < number {
                thread::yield_now();
            }
        }

        let acting = connect(folder.path(), Request::Kill).unwrap();

        let Event::Requested { id, request } = incoming.recv().unwrap() else { panic!() };
        assert_eq!(request, Request::Kill);
        requests.answer(id, &Answer::Done(String::new()));
        assert_eq!(read(&acting).unwrap(), Some(Answer::Done(String::new())));
        requests.end(7);
        for client in clients {
            assert_eq!(read(&client).unwrap(), Some(Answer::Ended(7)));
        }
    }

    #[test]
    fn the_number_of_clients_that_wait_has_a_limit() {
        let mut open = Open::default();
        let mut clients = Vec::new();
        for number in 0..WAITING_MAX as u64 {
            let (own, client) = UnixStream::pair().unwrap();
            let stream = Arc::new(own);
            open.clients.insert(number, Client { stream, stage: Stage::Waits });
            clients.push(client);
        }
        assert!(!open.has_place_to_wait());

        clients.pop();

        assert!(open.has_place_to_wait());
    }

    #[test]
    fn requests_are_passed_on_except_those_for_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (requests, incoming) = listening(folder.path());
        let waiting = connect(folder.path(), Request::Wait).unwrap();
        let asking = connect(folder.path(), Request::Nodes).unwrap();

        let Event::Requested { id, request } = incoming.recv().unwrap() else { panic!() };
        assert_eq!(request, Request::Nodes);
        requests.answer(id, &Answer::Nodes(vec![]));
        assert_eq!(read(&asking).unwrap(), Some(Answer::Nodes(vec![])));

        requests.end(7);
        assert_eq!(read(&waiting).unwrap(), Some(Answer::Ended(7)));
        assert!(connect(folder.path(), Request::Wait).is_err(), "the socket is gone");
    }

    #[test]
    fn all_who_connect_before_the_end_get_the_exit_code() {
        for round in 0..50 {
            let folder = tempfile::tempdir().unwrap();
            let (requests, _incoming) = listening(folder.path());
            let begin = Barrier::new(9);
            let answers: Vec<Option<Answer>> = thread::scope(|scope| {
                let client = |_| {
                    scope.spawn(|| {
                        begin.wait();
                        // A client that comes too late cannot connect: the job has ended.
                        let client = connect(folder.path(), Request::Wait)?;
                        read(&client).map(|answer| answer.expect("the connection does not end"))
                    })
                };
                let clients: Vec<_> = (0..8).map(client).collect();
                begin.wait();
                // Over the rounds, the end comes before, while and after the clients connect.
                (0..round * 20).for_each(|_| thread::yield_now());
                requests.end(3);
                clients.into_iter().map(|client| client.join().unwrap().ok()).collect()
            });
            for answer in answers.into_iter().flatten() {
                assert_eq!(answer, Answer::Ended(3), "round {round}");
            }
        }
    }

    #[test]
    fn the_end_waits_for_a_request_that_is_on_its_way() {
        let folder = tempfile::tempdir().unwrap();
        let (requests, _incoming) = listening(folder.path());
        let socket = requests.socket.clone();
        let path = status::socket_path(folder.path(), ID);
        let [late, other] = [(); 2].map(|()| UnixStream::connect(&path).unwrap());
        let ending = thread::spawn(move || {
            requests.end_within(5, LIMIT);
            // Clients without an answer by now get none.
            let unanswered = requests.socket.lock().clients.len();
            drop(requests);
            unanswered
        });
        while socket.lock().ended.is_none() {
            thread::yield_now();
        }
        write(&late, Request::Wait).unwrap();
        assert_eq!(read(&late).unwrap(), Some(Answer::Ended(5)));
        write(&other, Request::Kill).unwrap();
        assert_eq!(read::<Answer>(&other).unwrap(), None, "the job has ended before");
        assert_eq!(ending.join().unwrap(), 0);
    }

    #[test]
    fn no_thread_keeps_the_socket_of_requests_that_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let (requests, incoming) = listening(folder.path());
        let socket = Arc::downgrade(&requests.socket);

        drop(requests);

        let until = Instant::now() + LIMIT;
        while socket.strong_count() > 0 {
            assert!(Instant::now() < until);
            thread::yield_now();
        }
        assert!(incoming.recv().is_err(), "no request can come");
    }

    /// Number of clients that wait for the end.
    fn waiting(requests: &Requests) -> usize {
        let open = requests.socket.lock();
        open.clients.values().filter(|client| client.stage == Stage::Waits).count()
    }

    const ID: &str = "job-1";
    /// Longest time that the end waits for a request, on a busy machine.
    const LIMIT: Duration = Duration::from_secs(60);

    fn listening(folder: &Path) -> (Requests, Receiver<Event>) {
        let (events, incoming) = channel();
        (Requests::listen(folder, ID, events).unwrap(), incoming)
    }

    /// Connects a client, and writes its request.
    fn connect(folder: &Path, request: Request) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(status::socket_path(folder, ID))?;
        write(&stream, request)?;
        Ok(stream)
    }
}
