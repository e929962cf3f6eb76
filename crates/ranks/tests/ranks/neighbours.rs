//! Exchanges between neighbours.

use crate::common::{check, failure, simulate};
use gridspan_ranks::{Comm, TypedBlock, run_then};
use std::time::Duration;

/// The destinations of a rank among seven: edges of different lengths, one of them twice, and one
/// to the rank itself.
fn destinations(rank: u32) -> Vec<u32> {
    match rank {
        0 => vec![3, 1, 3, 6],
        4 => vec![4],
        5 => vec![],
        _ => vec![(rank + 2) % 7],
    }
}

fn sources(rank: u32) -> Vec<u32> {
    let count = |from: u32| destinations(from).iter().filter(|to| **to == rank).count();
    (0..7).rev().flat_map(|from| vec![from; count(from)]).collect()
}

#[test]
fn each_rank_gets_the_blocks_of_its_sources() {
    check(
        7,
        async |world| {
            let me = world.rank();
            let graph = world.graph(&sources(me), &destinations(me)).await?;
            assert_eq!(
                (graph.sources(), graph.destinations()),
                (&sources(me)[..], &destinations(me)[..])
            );
            let mut found = Vec::new();
            for _ in 0..3 {
                let all = graph.ineighbour_allgatherv(vec![me; me as usize]);
                // The last number of a block tells apart the edges between two ranks.
                let blocks = |first| {
                    let edges = destinations(me).into_iter().enumerate();
                    edges.map(|(at, to)| vec![first, me, to, at as u32]).collect::<Vec<_>>()
                };
                let each = graph.ineighbour_alltoallv(blocks(1))?;
                found = graph.neighbour_alltoallv(blocks(2)).await?;
                let first = each.await?;
                assert!(first.iter().zip(&found).all(|(one, other)| one[1..] == other[1..]));
                assert!(
                    all.await?
                        .iter()
                        .zip(sources(me))
                        .all(|(block, from)| *block == vec![from; from as usize])
                );
                assert_eq!(graph.neighbour_allgatherv(&[me]).await?.concat(), sources(me));
            }
            Ok(found)
        },
        |rank| {
            let mut used = [0; 7];
            let block = |from: u32| {
                let edges = destinations(from).into_iter().enumerate();
                let mut here = edges.filter(|(_, to)| *to == rank).skip(used[from as usize]);
                used[from as usize] += 1;
                let (at, _) = here.next().unwrap();
                vec![2, from, rank, at as u32]
            };
            sources(rank).into_iter().map(block).collect()
        },
    );
}

#[test]
fn an_immediate_exchange_gives_each_rank_blocks_of_the_types_of_its_sources() {
    check(
        7,
        async |world| {
            let me = world.rank();
            let graph = world.graph(&sources(me), &destinations(me)).await?;
            // Even ranks give texts, and odd ones numbers.
            let mut blocks = Vec::new();
            for to in destinations(me) {
                blocks.push(match me % 2 {
                    0 => TypedBlock::value(&format!("[{me}, {to}]"))?,
                    _ => TypedBlock::from(vec![me, to]),
                });
            }
            let later = graph.ineighbour_alltoallw(blocks)?;
            // Another exchange while the first is under way.
            assert_eq!(graph.neighbour_allgatherv(&[me]).await?.concat(), sources(me));
            let blocks = later.await?;
            assert_eq!(blocks.len(), sources(me).len());
            let mut found = Vec::new();
            for (block, from) in blocks.iter().zip(sources(me)) {
                found.push(match from % 2 {
                    0 => block.to_value::<String>()?,
                    _ => format!("{:?}", block.to_vec::<u32>()?),
                });
            }
            Ok(found)
        },
        |rank| sources(rank).into_iter().map(|from| format!("{:?}", [from, rank])).collect(),
    );
    let text = failure(async |world| {
        let graph = world.graph(&[world.rank()], &[world.rank()]).await?;
        graph.ineighbour_alltoallw(vec![]).map(drop)
    });
    assert!(text.contains("ineighbour_alltoallw"), "{text}");
    assert!(text.contains("0 elements where 1 are expected"), "{text}");
}

#[test]
fn edges_that_only_one_end_names_are_errors() {
    let text = failure(async |world| {
        let destinations: &[u32] = if world.rank() == 0 { &[1] } else { &[] };
        world.graph(&[], destinations).await.map(drop)
    });
    assert!(
        text.contains("graph, on the world: an edge is named by its sender or its receiver only"),
        "{text}"
    );
    let text = failure(async |world| world.graph(&[], &[2]).await.map(drop));
    assert!(text.contains("graph with rank 2, on the world: there is no rank 2 among 2"), "{text}");
    let text = failure(async |world| {
        let graph = world.graph(&[world.rank()], &[world.rank()]).await?;
        graph.neighbour_alltoallv::<u8>(vec![]).await.map(drop)
    });
    assert!(text.contains("0 elements where 1 are expected"), "{text}");
}

#[test]
fn what_a_rank_sends_to_its_neighbours_leaves_before_it_computes() {
    // Rank 0 has no sources.
    let milliseconds = async |world: Comm| {
        let (sources, destinations, blocks) = match world.rank() {
            0 => (vec![], vec![1], vec![vec![7_u8]]),
            _ => (vec![0], vec![], vec![]),
        };
        let graph = world.graph(&sources, &destinations).await?;
        let begin = world.now();
        graph.neighbour_alltoallv(blocks).await?;
        let arrived = world.now().since(begin).as_millis() as u64;
        world.charge(Duration::from_secs(1));
        world.yield_now().await;
        Ok(arrived)
    };
    let job = run_then(2, milliseconds, |arrived| {
        assert!(arrived[1] < 900, "{arrived:?}");
        Ok(())
    });
    simulate(job, "2x1").unwrap();
}
