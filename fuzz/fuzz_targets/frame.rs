//! Arbitrary frames from a peer are either decoded and handled, or rejected.
#![no_main]

use bytes::Bytes;
use gridspan_runtime::message::Packet;
use gridspan_runtime::{Actor, Context, Ix1, Job, Layout, Numbers, PeId, Program};
use libfuzzer_sys::fuzz_target;
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

fuzz_target!(|data: &[u8]| {
    let Ok((from, _, packet)) = Packet::from_frame(&Bytes::copy_from_slice(data)) else { return };
    let layout = Layout::new(vec![("a".to_owned(), vec![2]), ("b".to_owned(), vec![1])]);
    if !layout.contains(from) {
        return;
    }
    let job = Job::new("fuzz").actor::<Echo>();
    let program = Program::new(job, layout).expect("the job is well defined");
    let mut pe = program.pe(PeId(0));
    pe.handle(from, packet);
    pe.run(100);
    pe.finish_turn();
    pe.outbox().drain().for_each(drop);
});
