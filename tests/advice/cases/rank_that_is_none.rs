//! Has a struct that implements neither `Rank` nor `SequentialActor`, and must not compile.

use gridspan::prelude::*;
use gridspan::ranks::{self, Sequential};

#[derive(Serialize, Deserialize)]
struct Adder;

fn main() -> ExitCode {
    let _job = Job::new("adders").actor::<Sequential<Adder>>();
    gridspan::main(ranks::job::<Adder>("adder", 4, |_rank| ()))
}
