//! The smallest job: one actor on every PE prints where it runs.
//!
//! ```text
//! cargo run --example hello
//! GRIDSPAN_EMULATE=2x2,wan=20ms cargo run --example hello
//! gridctl run -n 4 target/debug/examples/hello
//! GRIDSPAN_DRIVER=sim GRIDSPAN_PES=512 cargo run --example hello
//! ```

use gridspan::prelude::*;

/// An actor on one PE that prints a greeting.
#[derive(Serialize, Deserialize)]
struct Greeter;

#[derive(Clone, Serialize, Deserialize)]
struct Greet;

impl Actor for Greeter {
    type Index = Ix1;
    type Init = ();
    type Message = Greet;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, _message: Greet, cx: &mut Context<'_, Self>) {
        let (pe, layout) = (cx.pe(), cx.layout());
        println!("hello from {pe} of {}", layout.site_name(layout.site_of(pe)));
        cx.contribute(Sum, 1_u64, To::main());
    }
}

async fn greet(grid: Grid) -> Result<(), JobError> {
    let greeters = grid.create_group::<Greeter>(Per::Pe, |_pe| ()).await?;
    greeters.broadcast(Greet);
    let greetings: u64 = greeters.reduction(Sum).await?;
    let pes = grid.layout().pe_count();
    if greetings != u64::from(pes) {
        return Err(format!("verified: no ({greetings} greetings of {pes} PEs)").into());
    }
    println!("verified: yes ({greetings} greetings of {pes} PEs)");
    Ok(())
}

fn job() -> Job {
    Job::new("hello").actor::<Greeter>().main(greet)
}

fn main() -> ExitCode {
    gridspan::main(job())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_pe_greets() {
        gridspan::embed::Runner::on_threads(2).run(super::job()).unwrap();
    }
}
