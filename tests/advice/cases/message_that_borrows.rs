use gridspan::prelude::*;

#[derive(Serialize, Deserialize)]
struct Cell;

impl Actor for Cell {
    type Index = Ix1;
    type Init = ();
    type Message = &'static str;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Cell
    }

    fn handle(&mut self, _message: &'static str, _cx: &mut Context<'_, Self>) {}
}

fn main() {}
