//! A lower bound for a stream of small messages: one TCP connection, written and read in batches of
//! the same size as Gridspan's.

use crate::nodes::{Cores, Second, end_with_input, listening, on_first_core};
use crate::suite::Sample;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

/// The role of the process that receives.
pub(crate) const ROLE: &str = "bare-tcp";

/// The number of bytes that Gridspan hands to QUIC at once.
const BATCH_BYTES: usize = 32 << 10;
const MESSAGE_BYTES: usize = 64;

/// Receives messages until the sender closes its side, then confirms them.
pub(crate) fn serve() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    listening(listener.local_addr().expect("the socket has an address"));
    end_with_input();
    let (mut stream, _) = listener.accept().expect("the first process connects");
    let mut batch = vec![0; BATCH_BYTES];
    let (mut bytes, mut sum) = (0, 0u64);
    loop {
        let read = stream.read(&mut batch[bytes..]).expect("the stream stays whole");
        if read == 0 {
            break;
        }
        bytes += read;
        let whole = bytes - bytes % MESSAGE_BYTES;
        for message in batch[..whole].chunks_exact(MESSAGE_BYTES) {
            sum += u64::from(message[0]);
        }
        batch.copy_within(whole..bytes, 0);
        bytes -= whole;
    }
    stream.write_all(&sum.to_le_bytes()).expect("the sender waits for it");
}

/// Sends `messages` messages of 64 bytes to a second process.
pub(crate) fn stream(messages: u64, cores: Cores) -> Sample {
    on_first_core(|| {
        let mut second = Second::start(ROLE, cores);
        let mut stream = TcpStream::connect(second.address()).expect("the second process listens");
        stream.set_nodelay(true).expect("TCP has the option");
        let mut batch = Vec::with_capacity(BATCH_BYTES);
        let begin = Instant::now();
        for _ in 0..messages {
            batch.extend_from_slice(&[1; MESSAGE_BYTES]);
            if batch.len() == BATCH_BYTES {
                stream.write_all(&batch).expect("the second process reads");
                batch.clear();
            }
        }
        stream.write_all(&batch).expect("the second process reads");
        stream.shutdown(std::net::Shutdown::Write).expect("the stream is open");
        let mut sum = [0; 8];
        stream.read_exact(&mut sum).expect("the second process confirms");
        assert_eq!(u64::from_le_bytes(sum), messages, "all of them came");
        Sample { elapsed: begin.elapsed(), operations: messages }
    })
}
