//! A connection between a launcher and an agent, for tests.

use gridspan_runtime::net::{
    Authority, EnrolmentListener, EnrolmentSecret, EnrolmentToken, SecureStream,
};
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

/// Returns both ends of a connection: the launcher's and the agent's.
pub(crate) fn connection() -> (SecureStream, SecureStream) {
    let authority = Authority::new("ring").unwrap();
    let listener = EnrolmentListener::bind(&authority).unwrap();
    let token = EnrolmentToken::new(EnrolmentSecret::new().unwrap(), &authority);
    let address = (Ipv4Addr::LOCALHOST, listener.port().unwrap()).into();
    let until = Instant::now() + Duration::from_secs(10);
    thread::scope(|scope| {
        let agent = scope.spawn(|| token.connect(address, until).unwrap());
        let accepted = listener.accept(Duration::from_secs(10)).unwrap().unwrap();
        (accepted.secure(until).unwrap(), agent.join().unwrap())
    })
}
