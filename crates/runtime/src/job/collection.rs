//! Collections and their members, as seen by main.

use crate::Actor;
use crate::address::id::{KindId, Sender};
use crate::error::{AskError, GridError};
use crate::job::main_handle::{MainHandle, wait};
use crate::message::ReductionGroup;
use crate::pe::Core;
use crate::pe::actor::options::{BroadcastOptions, SendOptions};
use crate::pe::actor::reference::{ActorRef, CollectionRef, Reply, SectionRef};
use crate::reduce::{Op, Reducible};
use gridspan_topology::PeId;
use serde::de::DeserializeOwned;
use std::any::type_name;
use std::ops::Deref;
use std::time::Duration;

/// A collection as seen by main.
///
/// ```
/// use gridspan::Collection;
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// # impl Actor for Cell {
/// #     type Index = Ix1;
/// #     type Init = ();
/// #     type Message = u64;
/// #     fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
/// #     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
/// #         self.0 += number;
/// #         cx.contribute(Sum, self.0, To::main());
/// #     }
/// # }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
///
/// let cells: Collection<Cell> = grid.create(Ix1::range(4), |_| ()).await?;
/// cells.broadcast(5);
/// let total: u64 = cells.reduction(Sum).await?;
/// assert_eq!(total, 20);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
pub struct Collection<A> {
    main: MainHandle,
    reference: CollectionRef<A>,
}

impl<A> Clone for Collection<A> {
    fn clone(&self) -> Self {
        Self { main: self.main.clone(), reference: self.reference }
    }
}

impl<A> Deref for Collection<A> {
    type Target = CollectionRef<A>;

    fn deref(&self) -> &CollectionRef<A> {
        &self.reference
    }
}

impl<A: Actor> Collection<A> {
    pub(crate) fn new(main: MainHandle, reference: CollectionRef<A>) -> Self {
        Self { main, reference }
    }

    /// Returns the reference to put into messages.
    pub fn reference(&self) -> CollectionRef<A> {
        self.reference
    }

    /// The number and the name of the members' type.
    pub(crate) fn kind(&self) -> Result<(KindId, &'static str), GridError> {
        Ok((self.main.kind::<A>()?, type_name::<A>()))
    }

    /// Returns the member at `index`.
    pub fn member(&self, index: A::Index) -> Member<A> {
        Member { main: self.main.clone(), reference: self.reference.at(index) }
    }

    /// Sends a message to all members. All members handle the broadcasts of a collection in the
    /// same order, and in order with other messages from main to the same member.
    pub fn broadcast(&self, message: A::Message) {
        self.broadcast_with(BroadcastOptions::default(), message);
    }

    /// Sends a message to all members, with a [`Priority`](crate::Priority),
    /// [`Unordered`](crate::Unordered), or both.
    pub fn broadcast_with(&self, options: impl Into<BroadcastOptions>, message: A::Message) {
        let (collection, options) = (self.reference.id, options.into());
        self.main.run(move |core| {
            core.broadcast_with::<A>(Sender::Pe, collection, options, message);
        });
    }

    /// Sends a message to all members of a section, also to those of other collections.
    pub fn multicast(&self, section: &SectionRef<A>, message: A::Message) {
        self.multicast_with(SendOptions::default(), section, message);
    }

    /// Sends a message to all members of a section, with a [`Priority`](crate::Priority) or for a
    /// [step](crate::InStep).
    pub fn multicast_with(
        &self,
        options: impl Into<SendOptions>,
        section: &SectionRef<A>,
        message: A::Message,
    ) {
        let (section, options) = (section.clone(), options.into());
        self.main.run(move |core| {
            core.multicast::<A>(Sender::Pe, &section, options.priority, message);
        });
    }

    /// Resolves to the result of the next reduction whose members contribute with `op` to
    /// [`To::main`](crate::To::main). Successive calls resolve to the results of successive
    /// reductions. Fails with [`GridError::Reduction`] if the members have contributed another
    /// type, or with another operation.
    ///
    /// Cancel safe: if the future is dropped before it resolves, such as after a time-out, the next
    /// call resolves to its result. Until then, [`Grid::progress`](crate::Grid::progress) fails.
    pub async fn reduction<T: Reducible>(&self, op: impl Into<Op>) -> Result<T, GridError> {
        self.reduced(ReductionGroup::Collection(self.reference.id), op.into()).await
    }

    /// Resolves to the result of the next reduction over a section of this collection, or of this
    /// and [others](SectionRef::across), to which its members contribute
    /// with [`Context::contribute_to_section`](crate::Context::contribute_to_section).
    /// Fails, and is cancel safe, as [`reduction`](Self::reduction).
    pub async fn section_reduction<T: Reducible>(
        &self,
        section: &SectionRef<A>,
        op: impl Into<Op>,
    ) -> Result<T, GridError> {
        self.reduced(ReductionGroup::Section(section.id), op.into()).await
    }

    async fn reduced<T: Reducible>(&self, group: ReductionGroup, op: Op) -> Result<T, GridError> {
        let collection = self.reference.id;
        let reduced = self.main.next_reduced(group).await?;
        let (found_op, value) = reduced.ok_or(GridError::Ending)?;
        let found = format!("{found_op:?} of {value}");
        if found_op == op
            && let Some(value) = T::from_value(value)
        {
            return Ok(value);
        }
        let wanted = format!("{op:?} of {}", type_name::<T>());
        Err(GridError::Reduction { collection: collection.0, found, wanted })
    }

    /// Adds a member on a PE of choice or, in a [bound](crate::Grid::create_bound) collection, on
    /// the PE of its partner. The member takes part in reductions and broadcasts that begin later.
    ///
    /// The job ends with an error if there is no such PE, if the collection has a member of this
    /// index, or if messages [create](crate::Job::on_demand) its members.
    pub fn insert_on(&self, index: A::Index, init: A::Init, pe: PeId) {
        let id = self.reference.at(index).id;
        self.main.run(move |core| core.insert::<A>(id, init, pe));
    }
}

/// A member of a collection as seen by main.
///
/// ```
/// use gridspan::Member;
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// # impl Actor for Cell {
/// #     type Index = Ix1;
/// #     type Init = ();
/// #     type Message = u64;
/// #     fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
/// #     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
/// #         self.0 += number;
/// #         cx.contribute(Sum, self.0, To::main());
/// #     }
/// # }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
///
/// let cells = grid.create::<Cell>(Ix1::range(1), |_| ()).await?;
/// let first: Member<Cell> = cells.member(Ix1(0));
/// first.send(7);
/// # assert_eq!(cells.reduction::<u64>(Sum).await?, 7);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone)]
pub struct Member<A> {
    main: MainHandle,
    reference: ActorRef<A>,
}

impl<A: Actor> Member<A> {
    /// Returns the reference to put into messages.
    pub fn reference(&self) -> ActorRef<A> {
        self.reference
    }

    /// Sends a message.
    pub fn send(&self, message: A::Message) {
        self.send_with(SendOptions::default(), message);
    }

    /// Sends a message with a [`Priority`](crate::Priority), or one that belongs to a
    /// [step](crate::InStep) of the job.
    pub fn send_with(&self, options: impl Into<SendOptions>, message: A::Message) {
        let (to, options) = (self.reference.id, options.into());
        self.main.run(move |core| core.send::<A>(Sender::Pe, to, options.priority, message));
    }

    /// Asks a question and awaits the answer for at most `timeout`. Fails with [`GridError::Ask`]
    /// if no answer comes in this time, or one of another type.
    pub async fn ask<T: DeserializeOwned + Send + 'static>(
        &self,
        timeout: Duration,
        question: impl FnOnce(Reply<T>) -> A::Message + Send + 'static,
    ) -> Result<T, GridError> {
        self.ask_for_main(timeout, false, question).await
    }

    /// Asks a question as [`ask`](Self::ask) does, but does not postpone checkpoints: a main that
    /// begins again from a checkpoint asks again if it still needs the answer. The actor may then
    /// get the question twice, and only the second answer arrives.
    ///
    /// # Errors
    ///
    /// Those of [`ask`](Self::ask).
    pub async fn ask_repeatable<T: DeserializeOwned + Send + 'static>(
        &self,
        timeout: Duration,
        question: impl FnOnce(Reply<T>) -> A::Message + Send + 'static,
    ) -> Result<T, GridError> {
        self.ask_for_main(timeout, true, question).await
    }

    async fn ask_for_main<T: DeserializeOwned + Send + 'static>(
        &self,
        timeout: Duration,
        is_repeated: bool,
        question: impl FnOnce(Reply<T>) -> A::Message + Send + 'static,
    ) -> Result<T, GridError> {
        let (resolve, answer) = self.main.promise();
        let to = self.reference.id;
        self.main.run(move |core| {
            let answered = move |_: &mut Core, answer: Result<T, AskError>| {
                resolve.with(answer.map_err(GridError::from));
            };
            let reply = core.expect_reply_for_main((to, is_repeated), timeout, answered);
            core.send::<A>(Sender::Pe, to, 0, question(reply));
        });
        wait(answer).await
    }
}

#[cfg(test)]
mod tests {
    use crate::driver::embedded;
    use crate::{Actor, Context, Grid, Ix1, Job, Op, To};
    use serde::{Deserialize, Serialize};
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;
    use std::time::Duration;

    #[derive(Serialize, Deserialize)]
    struct Cell;

    impl Actor for Cell {
        type Index = Ix1;
        type Init = ();
        type Message = u64;

        fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
            Self
        }

        fn handle(&mut self, number: u64, cx: &mut Context<'_, Self>) {
            cx.contribute(Op::Sum, number, To::main());
        }
    }

    #[test]
    fn a_result_that_main_gave_up_comes_with_the_next_call() {
        let job = Job::new("given up").actor::<Cell>().main(async |grid: Grid| {
            let cells = grid.create::<Cell>(Ix1::range(3), |_| ()).await?;
            for (number, is_there) in [(5, false), (7, true)] {
                {
                    let mut early = pin!(cells.reduction::<u64>(Op::Sum));
                    let polled = poll_fn(|cx| Poll::Ready(early.as_mut().poll(cx))).await;
                    assert!(polled.is_pending());
                    if is_there {
                        cells.broadcast(number);
                        grid.quiescence().await?;
                    }
                }
                if !is_there {
                    cells.broadcast(number);
                }
                assert_eq!(cells.reduction::<u64>(Op::Sum).await?, 3 * number);
            }
            Ok(())
        });
        embedded::run(job.time_limit(Duration::from_secs(60)), 2).unwrap();
    }
}
