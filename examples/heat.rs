//! Heat spreads over a plate: actors that send messages to each other in a loop.
//!
//! A square plate is cut into cells, one actor each. In every step a cell sends its temperature to
//! its four neighbours, and once it has received the temperatures of all four it takes a weighted
//! mean. A cell waits for its neighbours only: cells far apart can be many steps apart, which hides
//! the latency between sites. Cells are sequential actors: the steps of each are a loop.
//!
//! ```text
//! cargo run --release --example heat
//! cargo run --release --example heat -- 64 200
//! GRIDSPAN_EMULATE=2x1,wan=20ms cargo run --release --example heat
//! gridctl sim --emulate 2x64,wan=20ms target/release/examples/heat
//! ```

use gridspan::prelude::*;
use gridspan::ranks::{Inbox, Resume, Sequential, SequentialActor};

/// The plate: the number of cells along each side, and the number of steps.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Plate {
    side: u32,
    steps: u32,
}

/// The fraction of its heat that a cell gives to each neighbour in a step. More than a quarter
/// would make the temperatures oscillate.
const SHARE: f64 = 0.2;
const NEIGHBOURS: u8 = 4;

/// One cell. All of its state moves with it when it migrates.
#[derive(Serialize, Deserialize)]
struct Cell {
    plate: Plate,
    temperature: f64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Start,
    Neighbour { step: u32, temperature: f64 },
}

impl Message {
    /// Returns the temperature that a neighbour has sent in this step, or else the message itself.
    fn temperature(self, in_step: u32) -> Result<f64, Self> {
        match self {
            Self::Neighbour { step, temperature } if step == in_step => Ok(temperature),
            other => Err(other),
        }
    }
}

impl SequentialActor for Cell {
    type Index = Ix2;
    type Init = (Plate, f64);
    type Message = Message;

    fn create((plate, temperature): (Plate, f64), _cx: &mut Context<'_, Sequential<Self>>) -> Self {
        Self { plate, temperature }
    }

    /// Neighbours may start earlier, and be a step ahead: their messages wait in the inbox.
    async fn run(mut self, inbox: Inbox<Self>) -> Resume<Self> {
        inbox.next_where(|message| matches!(message, Message::Start)).await;
        for step in 0..self.plate.steps {
            self.tell_neighbours(step, &inbox);
            let given = SHARE * f64::from(NEIGHBOURS) * self.temperature;
            let mut sum = 0.0;
            for _ in 0..NEIGHBOURS {
                sum += inbox.next_as(|message| message.temperature(step)).await;
            }
            self.temperature += SHARE * sum - given;
        }
        // Every member contributes to the first reduction, then to the second.
        inbox.contribute(Sum, self.temperature, To::main());
        inbox.contribute(Max, self.temperature, To::main());
        Resume::OnMessage(self)
    }
}

impl Cell {
    /// Sends the temperature to the neighbours. The plate wraps around at its edges.
    fn tell_neighbours(&self, step: u32, inbox: &Inbox<Self>) {
        let (Ix2(row, column), side) = (inbox.index(), self.plate.side as i32);
        for (down, right) in [(1, 0), (side - 1, 0), (0, 1), (0, side - 1)] {
            let neighbour = Ix2((row + down) % side, (column + right) % side);
            let message = Message::Neighbour { step, temperature: self.temperature };
            inbox.send(&inbox.collection().at(neighbour), message);
        }
    }
}

/// The main function of the job: it creates the cells, starts them, and awaits the results.
async fn spread(grid: Grid, plate: Plate) -> Result<(), JobError> {
    let Plate { side, steps } = plate;
    let init = |Ix2(row, column)| (plate, if (row, column) == (0, 0) { 1000.0 } else { 20.0 });
    let cells = grid.create::<Sequential<Cell>>(Ix2::grid(side, side), init).await?;

    let begin = grid.now().await?;
    cells.broadcast(Message::Start);
    let total: f64 = cells.reduction(Sum).await?;
    let hottest: f64 = cells.reduction(Max).await?;
    let elapsed = grid.now().await?.since(begin);

    let pes = grid.layout().pe_count();
    println!("{side} x {side} cells, {steps} steps on {pes} PEs in {elapsed:.3?}");
    println!("the hottest cell has {hottest:.3} degrees, all together {total:.3}");
    verify(side, total)
}

/// Compares the sum of all temperatures with that at the start. A NaN is a wrong sum, too.
fn verify(side: u32, total: f64) -> Result<(), JobError> {
    let expected = 20.0 * f64::from(side * side) + 980.0;
    if (total - expected).abs() <= 1e-6 * expected {
        println!("verified: yes (no heat was lost or made)");
        return Ok(());
    }
    Err(format!("verified: no (all cells together should have {expected:.3})").into())
}

fn job(plate: Plate) -> Job {
    Job::new("heat").actor::<Sequential<Cell>>().main(async move |grid| spread(grid, plate).await)
}

fn main() -> ExitCode {
    let numbers: Result<Vec<u32>, _> = std::env::args().skip(1).map(|word| word.parse()).collect();
    let plate = match numbers.as_deref() {
        Ok([]) => Plate { side: 16, steps: 100 },
        Ok(&[side @ 2..=1000, steps @ 1..=u32::MAX]) => Plate { side, steps },
        _ => {
            eprintln!("usage: heat [SIDE STEPS], with a side of 2 to 1000 cells");
            return ExitCode::from(2);
        }
    };
    gridspan::main(job(plate))
}

#[cfg(test)]
mod tests {
    use super::{Plate, job, verify};

    #[test]
    fn no_heat_is_lost() {
        let job = job(Plate { side: 8, steps: 20 });
        gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    }

    #[test]
    fn a_sum_that_differs_from_the_start_is_wrong() {
        // One cell of 1000 degrees, and 63 of 20.
        verify(8, 2260.0).unwrap();
        for total in [2259.0, 2261.0, f64::NAN] {
            let error = verify(8, total).unwrap_err().to_string();
            assert!(error.contains("verified: no (all cells together should have 2260.000)"));
        }
    }
}
