//! Handles one frame of a peer, which may hold arbitrary bytes. The fuzz target `frame` and the
//! test `arbitrary_frames` share this code.

use bytes::Bytes;
use gridspan_runtime::coordinator::CoordinatorEvent;
use gridspan_runtime::message::Packet;
use gridspan_runtime::{
    Actor, COORDINATOR, Context, Ix1, Job, Layout, NodeId, Numbers, PeId, Program, Time,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Echo(u64);

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Text(String),
    Data(Numbers<f64>),
    Nested(Vec<Vec<u32>>),
}

impl Actor for Echo {
    type Index = Ix1;
    type Init = u64;
    type Message = Message;

    fn create(init: u64, _cx: &mut Context<'_, Self>) -> Self {
        Self(init)
    }

    fn handle(&mut self, _message: Message, _cx: &mut Context<'_, Self>) {
        self.0 += 1;
    }
}

/// Decodes a frame. The coordinator host of node 0 or of node 1 handles a frame for the
/// coordinator. PE 0 handles any other frame whose sender exists. Returns whether decoding
/// succeeded.
pub(crate) fn handle(data: &[u8]) -> bool {
    let Ok((from, to, packet)) = Packet::from_frame(&Bytes::copy_from_slice(data)) else {
        return false;
    };
    let layout = Layout::new(vec![("a".to_owned(), vec![2]), ("b".to_owned(), vec![1])]);
    let job = Job::new("frames").actor::<Echo>();
    let program = Program::new(job, layout).expect("the job is well defined");
    if to == COORDINATOR {
        // Node 0 hosts the coordinator; node 1 passes on packets for it.
        let mut host = program.coordinator_host(NodeId(data.len() as u32 % 2));
        drop(host.handle(Time(1), CoordinatorEvent::Packet { from, packet }));
        drop(host.wake(Time(u64::MAX / 2)));
    } else if program.layout().contains(from) {
        let mut pe = program.pe(PeId(0));
        pe.handle(from, packet);
        pe.run(100);
        pe.finish_turn();
        pe.take_output().packets.for_each(drop);
    }
    true
}
