//! The agent of `gridctl check` on a host: answers requests on its standard input until the input
//! ends.

use super::machine::facts;
use super::protocol::{MARK, Order, Reply, Request, VERSION, read_line};
use super::udp::{Receiver, send};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum lifetime of an agent in seconds, unless its order allows more. It ends earlier with its
/// input, but a broken network may hide the end of the input.
const LIFE_S: u64 = 600;

/// Answers requests about this host and a program on it. An order may lengthen the `life` of the
/// process.
pub(super) fn serve(
    program: &Path,
    mut input: impl BufRead,
    mut output: impl Write,
    life: &Life,
) -> io::Result<()> {
    let mut state: Option<(Order, Receiver)> = None;
    let mut line = vec![];
    while read_line(&mut input, &mut line)? {
        let mut begun = None;
        let reply = match serde_json::from_slice::<Request>(&line) {
            Err(error) => refused(&error.to_string()),
            Ok(request) => match (&state, request) {
                (Some((order, receiver)), request) => answer(&request, order, receiver),
                (None, Request::Begin(order)) if order.version == VERSION => {
                    life.lengthen(order.life_s);
                    let (receiver, ports) = Receiver::open(&order);
                    begun = Some((order, receiver));
                    Reply::Facts(Box::new(facts(program, ports)))
                }
                (None, Request::Begin(_)) => {
                    let reason = "its gridctl is another version".to_owned();
                    Reply::Refused { reason, is_other_version: true }
                }
                (None, _) => refused("the first request must be `begin`"),
            },
        };
        state = state.or(begun);
        let said = serde_json::to_string(&reply)?;
        writeln!(output, "{MARK}{said}")?;
        output.flush()?;
    }
    Ok(())
}

/// Answers a request after the first.
fn answer(request: &Request, order: &Order, receiver: &Receiver) -> Reply {
    match request {
        Request::Begin(_) => refused("it has begun already"),
        Request::Clock { number } => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let time_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
            Reply::Clock { number: *number, time_ns }
        }
        Request::Send { peers } => Reply::Sent(send(order, peers)),
        Request::Report => Reply::Received { arrivals: receiver.arrivals() },
    }
}

fn refused(reason: &str) -> Reply {
    Reply::Refused { reason: reason.to_owned(), is_other_version: false }
}

/// The time limit of this process.
pub(crate) struct Life {
    /// Seconds since the process began.
    limit_s: Arc<AtomicU64>,
}

impl Life {
    fn new() -> Self {
        Self { limit_s: Arc::new(AtomicU64::new(LIFE_S)) }
    }

    /// Lets the process live for at least this number of seconds since it began.
    fn lengthen(&self, seconds: u64) {
        self.limit_s.fetch_max(seconds, Ordering::Relaxed);
    }
}

/// Ends this process after [`LIFE_S`] seconds, or later if the returned limit is lengthened.
///
/// # Errors
///
/// If the system cannot start a thread.
pub(crate) fn limit_life() -> io::Result<Life> {
    let life = Life::new();
    let limit_s = life.limit_s.clone();
    thread::Builder::new().name("limit".to_owned()).spawn(move || end_after(&limit_s))?;
    Ok(life)
}

/// Ends this process after a number of seconds, which may grow meanwhile.
fn end_after(limit_s: &AtomicU64) {
    let begin = Instant::now();
    loop {
        let limit = Duration::from_secs(limit_s.load(Ordering::Relaxed));
        let left = limit.saturating_sub(begin.elapsed());
        if left.is_zero() {
            std::process::exit(i32::from(gridspan::EXIT_FAILED));
        }
        thread::sleep(left);
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{PortState, hear};
    use super::*;
    use std::net::Ipv4Addr;

    fn answers(requests: &str) -> Vec<Reply> {
        answers_in(requests, &Life::new())
    }

    fn answers_in(requests: &str, life: &Life) -> Vec<Reply> {
        let mut output = vec![];
        serve(Path::new("/nowhere"), requests.as_bytes(), &mut output, life).unwrap();
        let mut all = vec![];
        hear(&output[..], |said| {
            all.push(said.unwrap());
            true
        });
        all
    }

    fn begin(version: u32) -> String {
        begin_with_life(version, 0)
    }

    fn begin_with_life(version: u32, life_s: u64) -> String {
        let listen = Ipv4Addr::LOCALHOST.into();
        let token = "t".to_owned();
        let order = Order { version, host: 0, listen, ports: vec![0], token, life_s };
        serde_json::to_string(&Request::Begin(order)).unwrap() + "\n"
    }

    #[test]
    fn an_order_lengthens_the_life_of_an_agent_and_does_not_shorten_it() {
        let limit_s = |requests: &str| {
            let life = Life::new();
            answers_in(requests, &life);
            life.limit_s.load(Ordering::Relaxed)
        };
        let with = |life_s| limit_s(&begin_with_life(VERSION, life_s));
        assert_eq!([0, 5, LIFE_S + 1, 90_000].map(with), [LIFE_S, LIFE_S, LIFE_S + 1, 90_000]);
        // As another build of this version writes it.
        let old = begin(VERSION).replace(",\"life_s\":0", "");
        assert!(!old.contains("life_s"), "{old}");
        assert_eq!(limit_s(&old), LIFE_S);
        assert!(matches!(answers(&old)[..], [Reply::Facts(_)]));
    }

    #[test]
    fn an_agent_answers_each_request() {
        let requests = "{\"ask\":\"clock\",\"number\":4}\n{\"ask\":\"send\",\"peers\":[]}\n\
                        {\"ask\":\"report\"}\n";
        let all = answers(&(begin(VERSION) + requests));
        let [Reply::Facts(facts), Reply::Clock { number: 4, time_ns }, sent, received] = &all[..]
        else {
            panic!("{all:?}")
        };
        assert!(matches!(facts.ports[..], [PortState { port: 1.., error: None }]), "{facts:?}");
        // 2020 in nanoseconds since 1970.
        assert!(*time_ns > 1_577_836_800_000_000_000);
        assert!(matches!(sent, Reply::Sent(sent) if sent.refusals.is_empty()));
        assert_eq!(*received, Reply::Received { arrivals: vec![] });
    }

    #[test]
    fn an_agent_refuses_other_versions_and_requests_that_it_does_not_know() {
        // The error about the third one contains the word "version".
        let wrong = ["report", "dance", "begin"].map(|ask| format!("{{\"ask\":\"{ask}\"}}\n"));
        for requests in wrong.iter().map(String::as_str).chain(["\u{0}\n", "x"]) {
            let all = answers(requests);
            let is_refused = matches!(all[..], [Reply::Refused { is_other_version: false, .. }]);
            assert!(is_refused, "{requests}: {all:?}");
        }
        let all = answers(&begin(VERSION + 1));
        assert!(matches!(all[..], [Reply::Refused { is_other_version: true, .. }]), "{all:?}");
    }
}
