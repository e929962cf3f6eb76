//! Has a message in place of an actor of a job, and must not compile.

use gridspan::prelude::*;

#[derive(Serialize, Deserialize)]
struct Message;

fn main() {
    let _ = Job::new("cells").actor::<Message>();
}
