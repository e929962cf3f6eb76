//! The same stream and ball as in `between.rs`, but between two tokio tasks, kameo actors or ractor
//! actors, on two threads.

use crate::suite::Sample;
use std::future::Future;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime starts")
}

/// Runs `measure` on this thread. Tasks that it spawns on the handle run on another thread, so that
/// messages cross threads as they do between PEs. On one runtime with two workers, a ball would
/// stay on one of them.
fn across_threads<F: Future<Output = Duration>>(
    operations: u64,
    measure: impl FnOnce(Handle) -> F,
) -> Sample {
    let (stop, stopped) = oneshot::channel::<()>();
    let (here, there) = (runtime(), runtime());
    let handle = there.handle().clone();
    let elapsed = thread::scope(|scope| {
        scope.spawn(move || there.block_on(stopped));
        let elapsed = here.block_on(measure(handle));
        drop(stop);
        elapsed
    });
    Sample { elapsed, operations }
}

/// Tasks and unbounded channels, without an actor library.
pub(crate) mod tokio_mpsc {
    use super::*;

    pub(crate) fn stream(messages: u64) -> Sample {
        across_threads(messages, async |there: Handle| {
            let (send, mut receive) = mpsc::unbounded_channel();
            let sink = there.spawn(async move {
                let mut sum = 0;
                for _ in 0..messages {
                    sum += receive.recv().await.unwrap_or(0u64);
                }
                sum
            });
            let begin = Instant::now();
            for value in 0..messages {
                send.send(value).expect("the sink receives them all");
            }
            sink.await.expect("the sink does not panic");
            begin.elapsed()
        })
    }

    pub(crate) fn ball(crossings: u64) -> Sample {
        across_threads(crossings, async |there: Handle| {
            let (to_left, mut left) = mpsc::unbounded_channel::<u64>();
            let (to_right, mut right) = mpsc::unbounded_channel::<u64>();
            let back = to_left.clone();
            let other = there.spawn(async move {
                while let Some(ball) = right.recv().await {
                    if ball == 0 || back.send(ball - 1).is_err() {
                        return;
                    }
                }
            });
            let begin = Instant::now();
            to_left.send(crossings).expect("this task receives it");
            while let Some(ball) = left.recv().await {
                if ball == 0 || to_right.send(ball - 1).is_err() || ball == 1 {
                    break;
                }
            }
            drop((to_left, to_right));
            other.await.expect("the other side does not panic");
            begin.elapsed()
        })
    }
}

/// Actors with unbounded mailboxes.
pub(crate) mod kameo {
    use super::*;
    use ::kameo::actor::{Actor, ActorRef, Spawn};
    use ::kameo::error::Infallible;
    use ::kameo::mailbox;
    use ::kameo::message::{Context, Message};

    struct Side {
        left: u64,
        sum: u64,
        other: Option<ActorRef<Side>>,
        done: Option<oneshot::Sender<()>>,
    }

    impl Actor for Side {
        type Args = Self;
        type Error = Infallible;

        async fn on_start(side: Self, _me: ActorRef<Self>) -> Result<Self, Infallible> {
            Ok(side)
        }
    }

    impl Side {
        fn finish(&mut self) {
            if let Some(done) = self.done.take() {
                // The receiver may no longer exist.
                let _ = done.send(());
            }
        }
    }

    struct Value(u64);
    struct Ball(u64);
    struct Meet(ActorRef<Side>);

    impl Message<Value> for Side {
        type Reply = ();

        async fn handle(&mut self, Value(value): Value, _: &mut Context<Self, ()>) {
            self.sum += value;
            self.left -= 1;
            if self.left == 0 {
                self.finish();
            }
        }
    }

    impl Message<Ball> for Side {
        type Reply = ();

        async fn handle(&mut self, Ball(left): Ball, _: &mut Context<Self, ()>) {
            if left == 0 {
                self.finish();
            } else if let Some(other) = &self.other {
                other.tell(Ball(left - 1)).try_send().expect("the mailbox is unbounded");
            }
        }
    }

    impl Message<Meet> for Side {
        type Reply = ();

        async fn handle(&mut self, Meet(other): Meet, _: &mut Context<Self, ()>) {
            self.other = Some(other);
        }
    }

    async fn side(left: u64, done: Option<oneshot::Sender<()>>) -> ActorRef<Side> {
        let side = Side { left, sum: 0, other: None, done };
        let actor = Side::spawn_with_mailbox(side, mailbox::unbounded());
        actor.wait_for_startup().await;
        actor
    }

    pub(crate) fn stream(messages: u64) -> Sample {
        across_threads(messages, async |there: Handle| {
            let (done, all) = oneshot::channel();
            let sink = there.spawn(side(messages, Some(done))).await.expect("the actor starts");
            let begin = Instant::now();
            for value in 0..messages {
                sink.tell(Value(value)).try_send().expect("the mailbox is unbounded");
            }
            all.await.expect("the sink answers");
            begin.elapsed()
        })
    }

    pub(crate) fn ball(crossings: u64) -> Sample {
        // After an even number of crossings, the ball is where it began.
        let crossings = crossings & !1;
        across_threads(crossings, async |there: Handle| {
            let (done, all) = oneshot::channel();
            let left = side(0, Some(done)).await;
            let right = there.spawn(side(0, None)).await.expect("the actor starts");
            left.tell(Meet(right.clone())).try_send().expect("the mailbox is unbounded");
            right.tell(Meet(left.clone())).try_send().expect("the mailbox is unbounded");
            let begin = Instant::now();
            left.tell(Ball(crossings)).try_send().expect("the mailbox is unbounded");
            all.await.expect("the ball comes to rest");
            begin.elapsed()
        })
    }
}

/// Actors of ractor, whose mailboxes are always unbounded.
pub(crate) mod ractor {
    use super::*;
    use ::ractor::{Actor, ActorProcessingErr, ActorRef};

    struct Side;

    struct State {
        left: u64,
        sum: u64,
        other: Option<ActorRef<Msg>>,
        done: Option<oneshot::Sender<()>>,
    }

    enum Msg {
        Value(u64),
        Ball(u64),
        Meet(ActorRef<Msg>),
    }

    impl Actor for Side {
        type Msg = Msg;
        type State = State;
        type Arguments = State;

        async fn pre_start(
            &self,
            _me: ActorRef<Msg>,
            state: State,
        ) -> Result<State, ActorProcessingErr> {
            Ok(state)
        }

        async fn handle(
            &self,
            _me: ActorRef<Msg>,
            message: Msg,
            state: &mut State,
        ) -> Result<(), ActorProcessingErr> {
            let is_last = match message {
                Msg::Value(value) => {
                    state.sum += value;
                    state.left -= 1;
                    state.left == 0
                }
                Msg::Ball(0) => true,
                Msg::Ball(left) => {
                    if let Some(other) = &state.other {
                        other.send_message(Msg::Ball(left - 1))?;
                    }
                    false
                }
                Msg::Meet(other) => {
                    state.other = Some(other);
                    false
                }
            };
            if is_last && let Some(done) = state.done.take() {
                // The receiver may no longer exist.
                let _ = done.send(());
            }
            Ok(())
        }
    }

    async fn side(left: u64, done: Option<oneshot::Sender<()>>) -> ActorRef<Msg> {
        let state = State { left, sum: 0, other: None, done };
        let (actor, _) = Actor::spawn(None, Side, state).await.expect("the actor starts");
        actor
    }

    pub(crate) fn stream(messages: u64) -> Sample {
        across_threads(messages, async |there: Handle| {
            let (done, all) = oneshot::channel();
            let sink = there.spawn(side(messages, Some(done))).await.expect("the actor starts");
            let begin = Instant::now();
            for value in 0..messages {
                sink.send_message(Msg::Value(value)).expect("the actor lives");
            }
            all.await.expect("the sink answers");
            let elapsed = begin.elapsed();
            sink.stop(None);
            elapsed
        })
    }

    pub(crate) fn ball(crossings: u64) -> Sample {
        // After an even number of crossings, the ball is where it began.
        let crossings = crossings & !1;
        across_threads(crossings, async |there: Handle| {
            let (done, all) = oneshot::channel();
            let left = side(0, Some(done)).await;
            let right = there.spawn(side(0, None)).await.expect("the actor starts");
            left.send_message(Msg::Meet(right.clone())).expect("the actor lives");
            right.send_message(Msg::Meet(left.clone())).expect("the actor lives");
            let begin = Instant::now();
            left.send_message(Msg::Ball(crossings)).expect("the actor lives");
            all.await.expect("the ball comes to rest");
            let elapsed = begin.elapsed();
            left.stop(None);
            right.stop(None);
            elapsed
        })
    }
}
