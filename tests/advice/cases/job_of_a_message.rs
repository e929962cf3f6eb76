//! Job of a message, which must not compile.

use gridspan::prelude::*;

#[derive(Serialize, Deserialize)]
struct Message;

fn main() {
    let _ = Job::new("cells").actor::<Message>();
}
