//! An actor whose message does not implement the traits of serde; it must not compile.

use gridspan::prelude::*;

#[derive(Serialize, Deserialize)]
struct Cell;

#[derive(Clone)]
enum Message {
    Warm(f64),
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Cell
    }

    fn handle(&mut self, _message: Message, _cx: &mut Context<'_, Self>) {}
}

fn main() {}
