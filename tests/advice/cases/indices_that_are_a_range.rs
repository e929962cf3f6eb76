//! A collection whose indices are a range of numbers; it must not compile.

use gridspan::prelude::*;

#[derive(Serialize, Deserialize)]
struct Cell;

impl Actor for Cell {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Cell
    }

    fn handle(&mut self, (): (), _cx: &mut Context<'_, Self>) {}
}

async fn start(grid: Grid) {
    let _ = grid.create::<Cell>(0..10, |_| ()).await;
}

fn main() {}
