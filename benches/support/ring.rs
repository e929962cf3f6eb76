//! A token that runs around a ring of actors on one PE, and the equivalent without a runtime.

use crate::suite::Sample;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Actor, Context, Ix1, Job, Op, To};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::mpsc;

/// The message after which all members report.
const STOP: u64 = u64::MAX;

#[derive(Serialize, Deserialize)]
struct Member {
    size: i32,
    handled: u64,
}

impl Actor for Member {
    type Index = Ix1;
    type Init = i32;
    type Message = u64;

    fn create(size: i32, _cx: &mut Context<'_, Self>) -> Self {
        Self { size, handled: 0 }
    }

    fn handle(&mut self, left: u64, cx: &mut Context<'_, Self>) {
        match left {
            STOP => cx.contribute(Op::Sum, self.handled, To::main()),
            0 => cx.broadcast(&cx.collection(), STOP),
            _ => {
                self.handled += 1;
                let next = cx.index().0 + 1;
                let next = Ix1(if next == self.size { 0 } else { next });
                cx.send(&cx.collection().at(next), left - 1);
            }
        }
    }
}

/// Sends one token around a ring of `size` actors until it has been handled `hops` times.
pub(crate) fn gridspan(size: u32, hops: u64) -> Sample {
    let (send, receive) = mpsc::channel();
    let job = Job::new("ring").actor::<Member>().main(async move |grid| {
        let ring = grid.create::<Member>(Ix1::range(size), |_| size as i32).await?;
        let first = ring.member(Ix1(0));
        let begin = std::time::Instant::now();
        first.send(hops);
        let handled: u64 = ring.reduction(Op::Sum).await?;
        let elapsed = begin.elapsed();
        assert_eq!(handled, hops, "every hop is handled once");
        send.send(elapsed).expect("the bench waits for the figure");
        Ok(())
    });
    embedded::run(job, 1).expect("the ring runs");
    Sample { elapsed: receive.recv().expect("main has sent it"), operations: hops }
}

/// The trait whose method the bare version calls through a vtable.
trait Handle {
    fn handle(&mut self, left: u64, queue: &mut VecDeque<(u32, u64)>);
}

struct Bare {
    me: u32,
    size: u32,
    handled: u64,
}

impl Handle for Bare {
    fn handle(&mut self, left: u64, queue: &mut VecDeque<(u32, u64)>) {
        self.handled += 1;
        if left > 0 {
            let next = self.me + 1;
            queue.push_back((if next == self.size { 0 } else { next }, left - 1));
        }
    }
}

/// Runs the token with only a queue and a virtual call.
pub(crate) fn bare(size: u32, hops: u64) -> Sample {
    let mut actors: Vec<Box<dyn Handle>> = (0..size)
        .map(|me| -> Box<dyn Handle> { Box::new(Bare { me, size, handled: 0 }) })
        .collect();
    let mut queue = VecDeque::new();
    queue.push_back((0, hops - 1));
    Sample::of(hops, || {
        while let Some((to, left)) = queue.pop_front() {
            black_box(&mut actors)[to as usize].handle(left, &mut queue);
        }
    })
}
