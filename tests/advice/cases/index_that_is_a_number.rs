//! Has a number as index of actors, and must not compile.

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
