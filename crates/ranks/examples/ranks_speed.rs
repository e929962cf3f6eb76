//! Measures messages between two ranks, and a barrier of many: `cargo run --release -p
//! gridspan-ranks --example ranks_speed`.
#![allow(missing_docs, clippy::print_stdout)]

use gridspan_ranks::{Comm, RankError, run};
use gridspan_runtime::JobError;
use gridspan_runtime::driver::embedded;
use std::time::Duration;

/// The time of the driver, taken in a new turn of the PE.
async fn now(world: &Comm) -> f64 {
    world.sleep(Duration::from_nanos(1)).await;
    world.now().as_secs_f64()
}

/// Sends a message to and fro, and returns the time of one way in nanoseconds.
async fn ping_pong(world: &Comm, bytes: usize, rounds: u32) -> Result<f64, RankError> {
    let other = 1 - world.rank();
    let mut buffer = vec![1_u8; bytes];
    world.barrier().await?;
    let begin = now(world).await;
    for _ in 0..rounds {
        if world.rank() == 0 {
            world.send(&buffer, other, 0).await?;
            world.recv_into(&mut buffer, other, 0).await?;
        } else {
            world.recv_into(&mut buffer, other, 0).await?;
            world.send(&buffer, other, 0).await?;
        }
    }
    let seconds = now(world).await - begin;
    Ok(seconds * 1e9 / (2.0 * f64::from(rounds)))
}

async fn sizes(world: Comm) -> Result<(), RankError> {
    for (bytes, rounds) in [(8, 200_000), (1 << 10, 100_000), (64 << 10, 10_000), (1 << 20, 1000)] {
        ping_pong(&world, bytes, rounds / 10).await?;
        let mut times = Vec::new();
        for _ in 0..5 {
            times.push(ping_pong(&world, bytes, rounds).await?);
        }
        times.sort_by(f64::total_cmp);
        if world.rank() == 0 {
            println!("{bytes:>8} bytes: {:>10.0} ns one way (median of 5)", times[2]);
        }
    }
    Ok(())
}

async fn barriers(world: Comm) -> Result<(), RankError> {
    const ROUNDS: u32 = 10;
    world.barrier().await?;
    let begin = now(&world).await;
    for _ in 0..ROUNDS {
        world.barrier().await?;
    }
    let seconds = now(&world).await - begin;
    if world.rank() == 0 {
        println!("{:.3} ms a barrier", seconds * 1e3 / f64::from(ROUNDS));
    }
    Ok(())
}

fn main() -> Result<(), JobError> {
    for pes in [1, 2] {
        println!("two ranks on {pes} PEs");
        embedded::run(run(2, sizes), pes)?;
    }
    for ranks in [1000, 100_000] {
        println!("{ranks} ranks on 2 PEs");
        embedded::run(run(ranks, barriers), 2)?;
    }
    Ok(())
}
