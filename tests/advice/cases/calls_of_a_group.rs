//! Must not compile: it passes a type that is not a catalogue, a function whose input and output
//! are not tuples, plain values as arguments of a call in a group, and the name of a heuristic.

use gridspan::prelude::*;
use gridspan::rpc::calls::{Catalogue, Function, Functions, RpcError, Services, with_rpc};
use gridspan::rpc::group::Mapper;

const SQUARE: Function<u64, u64> = Function::new("square", |n, _| Ok(n * n));
const FILL: Function<(u64,), (Vec<u64>,)> =
    Function::new("fill", |(n,), _| Ok(((0..n).collect(),)));

struct Numbers;

impl Catalogue for Numbers {
    fn functions() -> Functions {
        Functions::new().with_parts(&SQUARE).with_parts(&FILL)
    }
}

async fn fill(grid: &Grid) -> Result<(), RpcError> {
    let services: Services<Numbers> = Services::on_all_pes(grid).await?;
    let map = Mapper::new(&services).map("heft", async |group| {
        group.call(&FILL, (10_u64,));
        Ok(())
    });
    map.await
}

fn main() -> ExitCode {
    gridspan::main(with_rpc::<Vec<u64>>(Job::new("fill")).main(async |grid: Grid| {
        fill(&grid).await?;
        Ok(())
    }))
}
