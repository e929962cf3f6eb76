//! An actor that carries out the commands that it receives.

use gridspan_runtime::{
    Actor, AskError, CollectionRef, Context, Ix1, Numbers, Op, PeId, Published, Reduction, Reply,
    SectionRef, To,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub(crate) const MEMBERS: u32 = 100;

#[derive(Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) value: u64,
    pub(crate) result: u64,
    pub(crate) resumed: u32,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Msg {
    Add(u64),
    Hop(u64),
    Contribute,
    ContributeTo(u32),
    Result(u64),
    Get(Reply<u64>),
    Ignore(#[allow(dead_code)] Reply<u64>),
    Forward(u32, Reply<u64>),
    Answer(Result<u64, ()>, Reply<u64>),
    Move(PeId),
    Sync,
    Resumed(Reply<u32>),
    Data(Numbers<f64>, Reply<f64>),
    Read(Published<Vec<u64>>, Reply<u64>),
    Later(u64),
    /// Sets two timers, and cancels the first.
    Cancel,
    WhenQuiescent,
    /// Adds one to the member of the first group on this PE, and to that of the second on this
    /// node.
    Local(CollectionRef<Cell>, CollectionRef<Cell>),
    Spawn(i32),
    Die,
    Panic,
    Flood,
    SectionSum(SectionRef<Cell>),
    Multicast(SectionRef<Cell>),
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = u64;
    type Message = Msg;

    fn create(init: u64, _cx: &mut Context<'_, Self>) -> Self {
        Self { value: init, result: 0, resumed: 0 }
    }

    fn reduced(reduction: Reduction) -> Option<Msg> {
        reduction.get().map(Msg::Result)
    }

    fn resume(&mut self, _cx: &mut Context<'_, Self>) {
        self.resumed += 1;
    }

    fn handle(&mut self, message: Msg, cx: &mut Context<'_, Self>) {
        match message {
            Msg::Add(n) => self.value += n,
            Msg::Hop(n) => {
                self.value += n;
                if n > 1 {
                    let next = Ix1((cx.index().0 + 1) % MEMBERS as i32);
                    let next = cx.collection().at(next);
                    cx.send(&next, Msg::Hop(n - 1));
                }
            }
            Msg::Contribute => cx.contribute(Op::Sum, self.value, To::main()),
            Msg::ContributeTo(member) => {
                let cells = cx.collection();
                let to = match member {
                    MEMBERS => To::all(cells, 0),
                    _ => To::member(cells.at(Ix1(member as i32)), 0),
                };
                cx.contribute(Op::Sum, self.value, to);
            }
            Msg::Result(sum) => self.result = sum,
            Msg::Get(reply) => cx.reply(reply, self.value + self.result),
            Msg::Ignore(_) => {}
            Msg::Forward(to, reply) => {
                let to = cx.collection().at(Ix1(to as i32));
                let answered =
                    move |answer: Result<u64, AskError>| Msg::Answer(answer.map_err(drop), reply);
                cx.ask(&to, Duration::from_secs(20), Msg::Get, answered);
            }
            Msg::Answer(answer, reply) => cx.reply(reply, answer.unwrap()),
            Msg::Move(pe) => cx.migrate_to(pe),
            Msg::Sync => cx.at_sync(),
            Msg::Resumed(reply) => cx.reply(reply, self.resumed),
            Msg::Data(numbers, reply) => cx.reply(reply, numbers.iter().sum()),
            Msg::Read(published, reply) => {
                let sum = cx.read(&published).map(|numbers| numbers.iter().sum()).unwrap();
                cx.reply(reply, sum);
            }
            Msg::Later(n) => {
                let me = cx.me();
                cx.send_after(Duration::from_millis(20), &me, Msg::Add(n));
            }
            Msg::Cancel => {
                let me = cx.me();
                let first = cx.send_after(Duration::from_millis(20), &me, Msg::Add(1));
                let _ = cx.send_after(Duration::from_millis(20), &me, Msg::Add(2));
                cx.cancel(first);
            }
            Msg::WhenQuiescent => cx.when_quiescent(Msg::Contribute),
            Msg::Local(per_pe, per_node) => {
                let (pe, node) = (cx.on_this_pe(&per_pe), cx.on_this_node(&per_node));
                assert_eq!((pe.index().0 as u32, node.index().0 as u32), (cx.pe().0, cx.node().0));
                assert_eq!(cx.layout().site_of(cx.pe()), cx.site());
                cx.send(&pe, Msg::Add(1));
                cx.send(&node, Msg::Add(1));
            }
            Msg::Spawn(index) => {
                let new = cx.collection().at(Ix1(index));
                cx.insert(&new, 7);
                cx.send(&new, Msg::Add(1));
            }
            Msg::Die => cx.destroy(),
            Msg::Panic => panic!("as asked"),
            Msg::SectionSum(section) => {
                cx.contribute_to_section(&section, Op::Sum, self.value, To::main());
            }
            Msg::Flood => {
                let me = cx.me();
                (0..10).for_each(|_| cx.send(&me, Msg::Flood));
            }
            Msg::Multicast(section) => cx.multicast(&section, Msg::Add(5)),
        }
    }
}
