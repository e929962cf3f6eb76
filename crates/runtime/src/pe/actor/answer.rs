//! The answer to a question that is part of checkpoints.

use crate::error::AskError;
use crate::message::payload::Payload;
use serde::de::DeserializeOwned;

/// The answer to a question of [`Context::ask_tagged`](crate::Context::ask_tagged), or the reason
/// why there is none. [`Actor::answered`](crate::Actor::answered) turns it into a message.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*, TaggedAnswer};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// # #[derive(Clone, Serialize, Deserialize)]
/// enum Message {
///     AskNeighbour,
///     Number(Reply<u64>),
///     NumberIs(u64),
/// }
///
/// impl Actor for Cell {
///     # type Index = Ix1;
///     # type Init = u64;
///     type Message = Message;
///     # fn create(number: u64, _cx: &mut Context<Self>) -> Self { Cell(number) }
///
///     fn handle(&mut self, message: Message, cx: &mut Context<Self>) {
///         match message {
///             Message::AskNeighbour => {
///                 let next = cx.collection().at(Ix1((cx.index().0 + 1) % 4));
///                 cx.ask_tagged(&next, Duration::from_secs(10), 7, Message::Number);
///             }
///             Message::Number(reply) => cx.reply(reply, self.0),
///             Message::NumberIs(number) => cx.contribute(Sum, self.0 * number, To::main()),
///         }
///     }
///
///     fn answered(answer: TaggedAnswer) -> Option<Message> {
///         match answer.tag {
///             7 => Some(Message::NumberIs(answer.get().unwrap_or(0))),
///             _ => None, // ends the job with an error
///         }
///     }
/// }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// # let cells = grid.create::<Cell>(Ix1::range(4), |index| index.0 as u64).await?;
/// # cells.broadcast(Message::AskNeighbour);
/// # assert_eq!(cells.reduction::<u64>(Sum).await?, 2 + 2 * 3);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Debug)]
pub struct TaggedAnswer {
    /// The tag of the question.
    pub tag: u64,
    pub(crate) answer: Result<Payload, AskError>,
}

impl TaggedAnswer {
    /// Returns the answer as a `T`.
    ///
    /// # Errors
    ///
    /// [`AskError::Timeout`] if no answer came in time, and [`AskError::Malformed`] if it has
    /// another type.
    pub fn get<T: DeserializeOwned + 'static>(self) -> Result<T, AskError> {
        self.answer.and_then(|payload| payload.open().map_err(AskError::from))
    }
}
