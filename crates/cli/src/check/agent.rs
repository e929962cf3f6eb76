//! The agent of `gridctl check` on a host: answers requests on its standard input until the input
//! ends.

use super::machine::facts;
use super::protocol::{MARK, Order, Reply, Request, VERSION, read_line};
use super::udp::{Receiver, send};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum lifetime of an agent. It ends earlier with its input, but a broken network may hide the
/// end of the input.
const LIFE_MAX: Duration = Duration::from_secs(600);

/// Answers requests about this host and a program on it.
pub(super) fn serve(
    program: &Path,
    mut input: impl BufRead,
    mut output: impl Write,
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

/// Ends this process after [`LIFE_MAX`].
pub(crate) fn limit_life() -> io::Result<()> {
    let end = || {
        thread::sleep(LIFE_MAX);
        std::process::exit(i32::from(gridspan::EXIT_FAILED));
    };
    thread::Builder::new().name("limit".to_owned()).spawn(end).map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{PortState, hear};
    use super::*;
    use std::net::Ipv4Addr;

    fn answers(requests: &str) -> Vec<Reply> {
        let mut output = vec![];
        serve(Path::new("/nowhere"), requests.as_bytes(), &mut output).unwrap();
        let mut all = vec![];
        hear(&output[..], |said| {
            all.push(said.unwrap());
            true
        });
        all
    }

    fn begin(version: u32) -> String {
        let listen = Ipv4Addr::LOCALHOST.into();
        let order = Order { version, host: 0, listen, ports: vec![0], token: "t".to_owned() };
        serde_json::to_string(&Request::Begin(order)).unwrap() + "\n"
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
