//! Panics in code of an actor that runs outside of its handlers.

use super::{ASK, outcome};
use gridspan_runtime::{Actor, AskError, Context, Ix1, Job, PeId, Reply, TaggedAnswer};
use serde::{Deserialize, Serialize};

/// The code that panics.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Deed {
    Create,
    Arrive,
    Resume,
    Answered,
    Closure,
}

#[derive(Serialize, Deserialize)]
struct Fragile(Deed);

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Go,
    Question(Reply<u64>),
}

impl Actor for Fragile {
    type Index = Ix1;
    type Init = Deed;
    type Message = Message;

    fn create(deed: Deed, _cx: &mut Context<'_, Self>) -> Self {
        assert!(deed != Deed::Create, "as asked");
        Self(deed)
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        let me = cx.me();
        match (message, self.0) {
            (Message::Question(reply), _) => cx.reply(reply, 1),
            (Message::Go, Deed::Create) => {}
            (Message::Go, Deed::Arrive) => cx.migrate_to(PeId(1)),
            (Message::Go, Deed::Resume) => cx.at_sync(),
            (Message::Go, Deed::Answered) => cx.ask_tagged(&me, ASK, 0, Message::Question),
            (Message::Go, Deed::Closure) => {
                let answered = |_: Result<u64, AskError>| -> Message { panic!("as asked") };
                cx.ask(&me, ASK, Message::Question, answered);
            }
        }
    }

    fn arrived(&mut self, _cx: &mut Context<'_, Self>) {
        panic!("as asked");
    }

    fn resume(&mut self, _cx: &mut Context<'_, Self>) {
        panic!("as asked");
    }

    fn answered(_answer: TaggedAnswer) -> Option<Message> {
        panic!("as asked");
    }
}

#[test]
fn a_panic_outside_of_a_handler_ends_the_job_and_names_the_actor() {
    for deed in [Deed::Create, Deed::Arrive, Deed::Resume, Deed::Answered, Deed::Closure] {
        let panicking = || {
            Job::new("panics").actor::<Fragile>().main(async move |grid| {
                let members = grid.create::<Fragile>(Ix1::range(1), |_| deed).await?;
                members.member(Ix1(0)).send(Message::Go);
                grid.quiescence().await?;
                Ok(())
            })
        };
        for outcome in outcome(panicking) {
            let error = outcome.unwrap_err().to_string();
            let is_named = error.contains("Fragile panicked on pe") && error.contains("as asked");
            assert!(is_named, "{deed:?}: {error}");
        }
    }
}
