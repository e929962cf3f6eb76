//! Must not compile: uses a struct as a rank and as a sequential actor, although the struct
//! implements neither `Rank` nor `SequentialActor`.

use gridspan::prelude::*;
use gridspan::ranks::{self, Sequential};

#[derive(Serialize, Deserialize)]
struct Adder;

fn main() -> ExitCode {
    let _job = Job::new("adders").actor::<Sequential<Adder>>();
    gridspan::main(ranks::job::<Adder>("adder", 4, |_rank| ()))
}
