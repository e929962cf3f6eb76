//! Contributes a struct to a reduction, and must not compile.

use gridspan::prelude::*;

#[derive(Serialize, Deserialize)]
struct Particle;

#[derive(Serialize, Deserialize)]
struct Cell;

impl Actor for Cell {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Cell
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, Self>) {
        cx.contribute(Concat, Particle, To::main());
    }
}

fn main() {}
