//! Has a type of tasks that does not implement `Task`, and must not compile.

use gridspan::prelude::*;

#[derive(Serialize, Deserialize)]
struct Fib(u32);

fn main() {
    let _ = Job::new("fib").tasks::<Fib>();
}
