//! Must not compile: registers the type of a message as that of an actor.

use gridspan::prelude::*;

#[derive(Serialize, Deserialize)]
struct Message;

fn main() {
    let _ = Job::new("cells").actor::<Message>();
}
