//! Options of messages: when the receiver handles them, and in which order broadcasts arrive.

use crate::pe::rank::{FIRST_STEP, priority_of_step};

/// The priority of a message: of the messages that are ready on a PE, those with lower numbers are
/// handled first. The default is 0.
///
/// Messages from one actor to another keep their order within one priority. Broadcasts reach all
/// mailboxes in the same order, whatever their priority; the priority only decides the order in
/// which a mailbox's messages are handled.
/// Numbers from 2^30 on count as 2^30 - 1, so that all priorities come before the messages of
/// [steps](InStep).
///
/// ```
/// use gridspan::Priority;
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Log(Vec<u64>);
///
/// impl Actor for Log {
///     # type Index = Ix1;
///     # type Init = ();
///     # type Message = u64;
///     # fn create((): (), _cx: &mut Context<Self>) -> Self { Log(vec![]) }
///     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
///         let me = cx.me();
///         self.0.push(number);
///         match number {
///             0 => {
///                 cx.send_with(Priority(5), &me, 3);
///                 cx.send(&me, 2);
///                 cx.send_with(Priority(-5), &me, 1);
///             }
///             3 => cx.contribute(Concat, self.0.clone(), To::main()),
///             _ => {}
///         }
///     }
/// }
/// # let job = Job::new("priorities").actor::<Log>().main(async |grid: Grid| {
/// # let logs = grid.create::<Log>(Ix1::range(1), |_| ()).await?;
/// # logs.member(Ix1(0)).send(0);
/// # assert_eq!(logs.reduction::<Vec<u64>>(Concat).await?, [0, 1, 2, 3]);
/// # Ok(())
/// # });
/// # Runner::on_threads(1).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

/// The step of the job to which a message belongs.
///
/// Messages of older steps are handled first, whatever their order of arrival. Of the messages of
/// one step, those to receivers nearer to another site are handled first, once a rebalance has
/// measured the distance. So a job can work on the data that it has while messages cross wide-area
/// links. Messages with a [`Priority`], even the lowest, come before the messages of all steps.
/// Messages from one actor to another keep their order within one step.
///
/// ```
/// use gridspan::InStep;
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Log(Vec<u64>);
///
/// impl Actor for Log {
///     # type Index = Ix1;
///     # type Init = ();
///     # type Message = u64;
///     # fn create((): (), _cx: &mut Context<Self>) -> Self { Log(vec![]) }
///     fn handle(&mut self, step: u64, cx: &mut Context<Self>) {
///         let me = cx.me();
///         self.0.push(step);
///         match step {
///             0 => (1..=3).rev().for_each(|step| cx.send_with(InStep(step), &me, step)),
///             3 => cx.contribute(Concat, self.0.clone(), To::main()),
///             _ => {}
///         }
///     }
/// }
/// # let job = Job::new("steps").actor::<Log>().main(async |grid: Grid| {
/// # let logs = grid.create::<Log>(Ix1::range(1), |_| ()).await?;
/// # logs.member(Ix1(0)).send(0);
/// # assert_eq!(logs.reduction::<Vec<u64>>(Concat).await?, [0, 1, 2, 3]);
/// # Ok(())
/// # });
/// # Runner::on_threads(1).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InStep(pub u64);

/// Marks a broadcast that keeps no order with other broadcasts or messages. Each member handles it
/// once.
///
/// It goes straight to all nodes without waiting for another node to number it, so the sender's
/// distance from the coordinator does not matter. A member that is being inserted at the same time
/// may or may not handle it.
///
/// ```
/// use gridspan::{Priority, Unordered};
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Total(u64);
/// # impl Actor for Total {
/// #     type Index = Ix1;
/// #     type Init = ();
/// #     type Message = Option<u64>;
/// #     fn create((): (), _cx: &mut Context<Self>) -> Self { Total(0) }
/// #     fn handle(&mut self, message: Option<u64>, cx: &mut Context<Self>) {
/// #         match message {
/// #             Some(number) => self.0 += number,
/// #             None => cx.contribute(Sum, self.0, To::main()),
/// #         }
/// #     }
/// # }
/// # let job = Job::new("unordered").actor::<Total>().main(async |grid: Grid| {
///
/// let totals = grid.create::<Total>(Ix1::range(10), |_| ()).await?;
/// totals.broadcast_with(Unordered, Some(1));
/// totals.broadcast_with((Unordered, Priority(2)), Some(2));
/// grid.quiescence().await?;
/// # totals.broadcast(None);
/// # assert_eq!(totals.reduction::<u64>(Sum).await?, 30);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unordered;

/// Options of a message to one member or to a section: its [`Priority`], or the [step](InStep) to
/// which it belongs.
///
/// ```
/// use gridspan::{InStep, SendOptions};
///
/// /// By step where the job has steps, else like any other message.
/// fn options(step: Option<u64>) -> SendOptions {
///     step.map_or_else(SendOptions::default, |step| InStep(step).into())
/// }
///
/// assert_ne!(options(Some(7)), options(None));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    pub(crate) priority: i32,
}

impl SendOptions {
    /// After all other messages, including those of steps.
    pub(crate) const BEHIND_ALL: Self = Self { priority: i32::MAX };
}

impl From<Priority> for SendOptions {
    #[inline]
    fn from(Priority(number): Priority) -> Self {
        Self { priority: number.min(FIRST_STEP - 1) }
    }
}

impl From<InStep> for SendOptions {
    #[inline]
    fn from(InStep(step): InStep) -> Self {
        Self { priority: priority_of_step(step) }
    }
}

/// Options of a message to all members of a collection: its [`Priority`], and whether it is
/// [`Unordered`].
///
/// ```
/// use gridspan::{BroadcastOptions, Priority, Unordered};
///
/// let urgent = BroadcastOptions::from(Priority(-1));
/// assert_ne!(urgent, (Unordered, Priority(-1)).into());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BroadcastOptions {
    pub(crate) priority: i32,
    pub(crate) is_unordered: bool,
}

impl From<Priority> for BroadcastOptions {
    #[inline]
    fn from(priority: Priority) -> Self {
        Self { priority: SendOptions::from(priority).priority, is_unordered: false }
    }
}

impl From<Unordered> for BroadcastOptions {
    #[inline]
    fn from(_: Unordered) -> Self {
        Self { priority: 0, is_unordered: true }
    }
}

impl From<(Unordered, Priority)> for BroadcastOptions {
    #[inline]
    fn from((_, priority): (Unordered, Priority)) -> Self {
        Self { is_unordered: true, ..Self::from(priority) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pe::rank::is_step;

    #[test]
    fn a_priority_is_never_a_step() {
        for number in [FIRST_STEP - 1, FIRST_STEP, i32::MAX] {
            assert!(!is_step(SendOptions::from(Priority(number)).priority));
            assert!(!is_step(BroadcastOptions::from((Unordered, Priority(number))).priority));
        }
        assert!(is_step(SendOptions::from(InStep(0)).priority));
    }
}
