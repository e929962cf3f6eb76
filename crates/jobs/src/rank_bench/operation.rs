//! The operations that are measured, their data, and what their results must be.

use crate::pingpong::ladder::WINDOW;
use clap::ValueEnum;
use gridspan_ranks::{Comm, RankError, ops, wait_all};
use serde::{Deserialize, Serialize};

/// How ranks handle the messages of a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Handling {
    /// Send a buffer and receive into it.
    Keep,
    /// Send a buffer, and test for the answer all the time, so that the PE never sleeps.
    Poll,
    /// Also overwrite the buffer before each send, and read all of it after each receive.
    Touch,
    /// Pass vectors to the runtime and take vectors from it, without copies within a process.
    Move,
}

/// An operation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Operation {
    RoundTrip,
    Window,
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    /// An allreduce of as many floating-point numbers, with sums that are rounded only at the end.
    ExactAllreduce,
    ReduceScatter,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
}

use Operation::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, ExactAllreduce, Gather, Reduce, ReduceScatter,
    RoundTrip, Scatter, Window,
};

impl Operation {
    /// The collective operations with data.
    pub(super) const COLLECTIVE: [Self; 9] = [
        Bcast,
        Reduce,
        Allreduce,
        ExactAllreduce,
        ReduceScatter,
        Gather,
        Scatter,
        Allgather,
        Alltoall,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            RoundTrip => "round trip",
            Window => "window",
            Barrier => "barrier",
            Bcast => "bcast",
            Reduce => "reduce",
            Allreduce => "allreduce",
            ExactAllreduce => "allreduce_exact",
            ReduceScatter => "reduce_scatter",
            Gather => "gather",
            Scatter => "scatter",
            Allgather => "allgather",
            Alltoall => "alltoall",
        }
    }

    pub(super) async fn once(self, world: &Comm, data: &mut Data) -> Result<(), RankError> {
        match self {
            RoundTrip => round_trip(world, &mut data.bytes, data.handling).await,
            Window => window(world, &data.bytes).await,
            Barrier => world.barrier().await,
            Bcast => world.bcast(&mut data.bytes, 0).await,
            Reduce => world.reduce(&data.numbers, ops::sum, 0).await.map(drop),
            Allreduce => world.allreduce(&data.numbers, ops::sum).await.map(drop),
            ExactAllreduce => world.allreduce_exact(&data.fractions).await.map(drop),
            ReduceScatter => {
                world.reduce_scatter(&data.numbers, &data.counts, ops::sum).await.map(drop)
            }
            Gather => world.gather(&data.bytes, 0).await.map(drop),
            Scatter => world.scatter(&data.blocks, 0).await.map(drop),
            Allgather => world.allgather(&data.bytes).await.map(drop),
            Alltoall => world.alltoall(&data.blocks).await.map(drop),
        }
    }
}

/// The data that a rank sends.
pub(super) struct Data {
    /// One message.
    bytes: Vec<u8>,
    handling: Handling,
    /// The same number of bytes, as numbers; at least one number.
    numbers: Vec<u64>,
    /// As many multiples of 1/2, whose sums need no rounding.
    fractions: Vec<f64>,
    /// How many of `numbers` each rank gets when a reduce_scatter divides them.
    counts: Vec<usize>,
    /// A message for each rank, if there are collective operations.
    blocks: Vec<u8>,
}

impl Data {
    pub(super) fn new(world: &Comm, bytes: usize, handling: Handling, is_collective: bool) -> Self {
        let ranks = if is_collective { world.size() as usize } else { 0 };
        let count = (bytes / 8).max(1);
        let share = |rank: usize| count / ranks + usize::from(rank < count % ranks);
        Self {
            bytes: pattern(world.rank(), bytes),
            handling,
            numbers: vec![u64::from(world.rank()); count],
            fractions: vec![f64::from(world.rank()) / 2.0; count],
            counts: (0..ranks).map(share).collect(),
            blocks: pattern(world.rank(), bytes).repeat(ranks),
        }
    }
}

/// Returns the bytes that a rank sends.
fn pattern(rank: u32, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u32).wrapping_mul(7).wrapping_add(rank) as u8).collect()
}

/// The rank with which this one exchanges messages, if it is the first or the last.
fn partner(world: &Comm) -> Option<u32> {
    let last = world.size() - 1;
    match world.rank() {
        0 => Some(last),
        rank if rank == last => Some(0),
        _ => None,
    }
}

async fn round_trip(
    world: &Comm,
    bytes: &mut Vec<u8>,
    handling: Handling,
) -> Result<(), RankError> {
    let Some(partner) = partner(world) else { return Ok(()) };
    if world.rank() == 0 {
        send(world, bytes, partner, handling).await?;
        receive(world, bytes, partner, handling).await
    } else {
        receive(world, bytes, partner, handling).await?;
        send(world, bytes, partner, handling).await
    }
}

async fn send(
    world: &Comm,
    bytes: &mut Vec<u8>,
    to: u32,
    handling: Handling,
) -> Result<(), RankError> {
    match handling {
        Handling::Keep | Handling::Poll => world.send(bytes, to, 0).await,
        Handling::Touch => {
            let last = bytes.last().map_or(0, |byte| byte.wrapping_add(1));
            bytes.fill(last);
            world.send(bytes, to, 0).await
        }
        Handling::Move => world.send_vec(std::mem::take(bytes), to, 0).await,
    }
}

async fn receive(
    world: &Comm,
    bytes: &mut Vec<u8>,
    from: u32,
    handling: Handling,
) -> Result<(), RankError> {
    match handling {
        Handling::Keep => world.recv_into(bytes, from, 0).await.map(drop),
        Handling::Poll => {
            let mut receiving = world.irecv_into(bytes, from, 0)?;
            // Each test lets the PE handle other messages once.
            while receiving.test().await?.is_none() {}
            Ok(())
        }
        Handling::Touch => {
            world.recv_into(bytes, from, 0).await?;
            let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
            let last = bytes.last().map_or(0, |byte| u64::from(*byte));
            match sum == last * bytes.len() as u64 {
                true => Ok(()),
                false => Err("verified: no (a message was mixed with an older one)".into()),
            }
        }
        Handling::Move => {
            *bytes = world.recv(from, 0).await?.0;
            Ok(())
        }
    }
}

async fn window(world: &Comm, bytes: &[u8]) -> Result<(), RankError> {
    let Some(partner) = partner(world) else { return Ok(()) };
    if world.rank() == 0 {
        let sent = (0..WINDOW).map(|tag| world.isend(bytes, partner, tag));
        wait_all(sent.collect::<Result<Vec<_>, _>>()?).await?;
        world.recv::<u8>(partner, WINDOW).await?;
    } else {
        let received = (0..WINDOW).map(|tag| world.irecv::<u8>(partner, tag));
        wait_all(received.collect::<Result<Vec<_>, _>>()?).await?;
        world.send(&[0_u8], partner, WINDOW).await?;
    }
    Ok(())
}

/// Checks the results of the operations.
pub(super) async fn verify(
    world: &Comm,
    data: &Data,
    is_collective: bool,
) -> Result<(), RankError> {
    let bytes = data.bytes.len();
    let mut buffer = data.bytes.clone();
    round_trip(world, &mut buffer, Handling::Keep).await?;
    if partner(world).is_some() && buffer != pattern(0, bytes) {
        return Err("verified: no (a round trip has changed the bytes)".into());
    }
    if !is_collective {
        return Ok(());
    }
    match are_sums_right(world, data).await? && are_blocks_right(world, data).await? {
        true => Ok(()),
        false => Err("verified: no (a collective operation has a wrong result)".into()),
    }
}

/// Whether the ranks get the sums of what all of them give.
async fn are_sums_right(world: &Comm, data: &Data) -> Result<bool, RankError> {
    let ranks = world.size();
    let total = u64::from(ranks) * u64::from(ranks - 1) / 2;
    let at_root = world.reduce(&data.numbers, ops::sum, 0).await?;
    let at_all = world.allreduce(&data.numbers, ops::sum).await?;
    let mine = world.reduce_scatter(&data.numbers, &data.counts, ops::sum).await?;
    let exact = world.allreduce_exact(&data.fractions).await?;
    let is_complete = at_all.len() == data.numbers.len()
        && exact.len() == data.fractions.len()
        && Some(&mine.len()) == data.counts.get(world.rank() as usize);
    let all = at_root.iter().chain([&at_all, &mine]);
    Ok(is_complete
        && all.flatten().all(|number| *number == total)
        && exact.iter().all(|sum| *sum == total as f64 / 2.0))
}

/// Whether the ranks get the blocks that other ranks give.
async fn are_blocks_right(world: &Comm, data: &Data) -> Result<bool, RankError> {
    let (bytes, ranks) = (data.bytes.len(), world.size());
    let mut buffer = data.bytes.clone();
    world.bcast(&mut buffer, 0).await?;
    let each_of =
        |found: &[u8]| (0..ranks).flat_map(|rank| pattern(rank, bytes)).eq(found.iter().copied());
    Ok(buffer == pattern(0, bytes)
        && world.gather(&data.bytes, 0).await?.is_none_or(|found| each_of(&found))
        && world.scatter(&data.blocks, 0).await? == pattern(0, bytes)
        && each_of(&world.allgather(&data.bytes).await?)
        && each_of(&world.alltoall(&data.blocks).await?))
}
