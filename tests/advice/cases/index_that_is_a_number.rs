//! Must not compile: the index type of its actors is a number.

use gridspan::prelude::*;

#[derive(Serialize, Deserialize)]
struct Cell;

impl Actor for Cell {
    type Index = usize;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Cell
    }

    fn handle(&mut self, (): (), _cx: &mut Context<'_, Self>) {}
}

fn main() {}
