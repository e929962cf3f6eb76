//! Task that is none, which must not compile.

use gridspan::prelude::*;

#[derive(Serialize, Deserialize)]
struct Fib(u32);

fn main() {
    let _ = Job::new("fib").tasks::<Fib>();
}
