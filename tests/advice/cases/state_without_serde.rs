//! Has an actor that does not implement the traits of serde, and must not compile.

use gridspan::prelude::*;

struct Cell {
    temperature: f64,
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = f64;
    type Message = f64;

    fn create(temperature: f64, _cx: &mut Context<'_, Self>) -> Self {
        Cell { temperature }
    }

    fn handle(&mut self, warmth: f64, _cx: &mut Context<'_, Self>) {
        self.temperature += warmth;
    }
}

fn main() {}
