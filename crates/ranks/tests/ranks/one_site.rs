//! Collective operations among the ranks of one site, which exchange their data in rounds.

use crate::common::simulate;
use crate::long_vectors::{sum_by_tree, term};
use gridspan_ranks::{Comm, RankError, ops, run_then};
use gridspan_runtime::ExactSum;
use std::time::Duration;

/// Composes maps `x -> a x + b` over the integers modulo `2^64`, which does not commute.
fn compose(left: &mut [[u64; 2]], right: &[[u64; 2]]) {
    for (left, [c, d]) in left.iter_mut().zip(right) {
        let [a, b] = *left;
        *left = [a.wrapping_mul(*c), a.wrapping_mul(*d).wrapping_add(b)];
    }
}

/// Carries out the operations whose result all ranks get. Returns whether each is right.
async fn results_for_all(comm: Comm) -> Result<[bool; 5], RankError> {
    let (me, ranks) = (comm.rank(), comm.size());
    let map = |rank: u32| [2 * u64::from(rank) + 3, u64::from(rank) + 1];
    let composed = comm.allreduce(&[map(me); 2], compose).await?;
    let mut all_maps = [map(0); 2];
    (1..ranks).for_each(|rank| compose(&mut all_maps, &[map(rank); 2]));
    let sum = comm.allreduce(&[term(me, 0)], ops::sum).await?[0];
    let by_tree = sum_by_tree(0, 0, ranks.next_power_of_two(), ranks);
    let ragged = |rank: u32| vec![rank; (rank % 3) as usize];
    let blocks = comm.allgatherv(&ragged(me)).await?;
    comm.barrier().await?;
    let joined = comm.allgather(&[me, 7]).await?;
    let exact = comm.allreduce_exact(&[term(me, 1), 0.5]).await?;
    let mut exact_term = ExactSum::default();
    (0..ranks).for_each(|rank| exact_term.add(term(rank, 1)));
    Ok([
        composed == all_maps,
        sum.to_bits() == by_tree.to_bits(),
        blocks.into_iter().eq((0..ranks).map(ragged)),
        joined.into_iter().eq((0..ranks).flat_map(|rank| [rank, 7])),
        exact == [exact_term.total(), 0.5 * f64::from(ranks)],
    ])
}

#[test]
fn all_ranks_of_a_site_of_any_size_get_the_results_in_the_order_of_the_ranks() {
    for nodes in 1..=17_u32 {
        // One rank on each node, and several.
        for ranks in [nodes, 2 * nodes + 1] {
            let function = async |world: Comm| {
                let in_order = results_for_all(world.clone()).await?;
                // The key reorders the ranks, so their neighbours are on other nodes than before.
                let key = i64::from(5 * world.rank() % 7);
                let part = world.split(Some(0), key).await?.ok_or("no part")?;
                Ok([in_order, results_for_all(part).await?])
            };
            let job = run_then(ranks, function, move |right| {
                assert!(right.iter().all(|right| *right == [[true; 5]; 2]), "{nodes}: {right:?}");
                Ok(())
            });
            simulate(job, &format!("1x{nodes}")).unwrap();
        }
    }
}

#[test]
fn a_part_of_the_ranks_gets_its_results_without_the_other_pes() {
    // The heads (first ranks) of some PEs are not in the part, and some PEs have no rank of it.
    for (grid, ranks) in [("1x5", 5), ("1x3x2", 10)] {
        let function = async |world: Comm| {
            let is_in = !matches!(world.rank() % 5, 1 | 3);
            match world.split(is_in.then_some(0), 0).await? {
                Some(part) => results_for_all(part).await,
                None => Ok([true; 5]),
            }
        };
        let job = run_then(ranks, function, move |right| {
            assert!(right.iter().all(|right| *right == [true; 5]), "{grid}: {right:?}");
            Ok(())
        });
        simulate(job, grid).unwrap();
    }
}

#[test]
fn the_ranks_of_each_of_several_sites_get_their_results() {
    let function = async |world: Comm| {
        let site = world.split_by_site().await?;
        let here = results_for_all(site).await?;
        Ok([here, results_for_all(world).await?])
    };
    let job = run_then(14, function, |right| {
        assert!(right.iter().all(|right| *right == [[true; 5]; 2]), "{right:?}");
        Ok(())
    });
    simulate(job, "2x3x2,wan=5ms").unwrap();
}

#[test]
fn no_rank_of_a_site_leaves_a_barrier_before_the_last_one_comes() {
    const LATE: Duration = Duration::from_millis(5);
    for nodes in [2_u32, 3, 5, 8] {
        for last in 0..nodes {
            let function = move |world: Comm| async move {
                if world.rank() == last {
                    world.sleep(LATE).await;
                }
                world.barrier().await?;
                // `now` is the time at which the current turn began.
                world.yield_now().await;
                Ok(world.now().as_nanos())
            };
            let job = run_then(nodes, function, move |times| {
                let late = LATE.as_nanos() as u64;
                assert!(times.iter().all(|time| *time >= late), "{last} of {nodes}: {times:?}");
                Ok(())
            });
            simulate(job, &format!("1x{nodes}")).unwrap();
        }
    }
}

#[test]
fn a_result_for_all_ranks_of_a_small_site_takes_little_more_than_one_latency() {
    const ROUNDS: u32 = 10;
    let function = async |world: Comm| {
        world.barrier().await?;
        let begin = world.now();
        for _ in 0..ROUNDS {
            assert_eq!(world.allreduce(&[1_u64], ops::sum).await?, [8]);
        }
        world.yield_now().await;
        Ok(world.now().since(begin).as_secs_f64() / f64::from(ROUNDS))
    };
    let job = run_then(8, function, |times| {
        // Recursive doubling takes three latencies of 50 microseconds.
        assert!(times.iter().all(|time| (40e-6..100e-6).contains(time)), "{times:?}");
        Ok(())
    });
    simulate(job, "1x8").unwrap();
}
