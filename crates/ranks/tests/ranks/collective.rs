//! Collective operations.

use crate::common::{SITES, check, failure, simulate};
use gridspan_ranks::{RankError, TypedBlock, ops, run_then, wait_all};
use gridspan_runtime::ExactSum;
use gridspan_runtime::driver::embedded;
use std::sync::{Arc, Mutex};

const RANKS: u32 = 13;

/// The sum of the ranks below `rank`.
fn below(rank: u32) -> u32 {
    rank * rank.saturating_sub(1) / 2
}

#[test]
fn reductions_combine_the_values_of_all_ranks() {
    check(
        RANKS,
        async |world| {
            let me = world.rank();
            let all = world.allreduce(&[me, me * me, 1], ops::sum).await?;
            let largest =
                world.allreduce(&[[f64::from(me % 5), f64::from(me)]], ops::max_loc).await?;
            let at_root = world.reduce(&[1_u64 << me], ops::bit_or, 4).await?;
            let product = world.reduce(&[u128::from(me + 1)], ops::product, RANKS - 1).await?;
            Ok((all, largest, at_root, product))
        },
        |rank| {
            let squares = (0..RANKS).map(|rank| rank * rank).sum();
            let factorial: u128 = (1..=u128::from(RANKS)).product();
            (
                vec![below(RANKS), squares, RANKS],
                vec![[4.0, 4.0]],
                (rank == 4).then(|| vec![(1 << RANKS) - 1]),
                (rank == RANKS - 1).then(|| vec![factorial]),
            )
        },
    );
}

#[test]
fn scans_combine_the_values_of_lower_ranks() {
    check(
        RANKS,
        async |world| {
            let me = world.rank();
            let to_me = world.scan(&[me, 1], ops::sum).await?;
            Ok((to_me, world.exscan(&[me, 1], ops::sum).await?))
        },
        |rank| {
            let before = (rank > 0).then(|| vec![below(rank), rank]);
            (vec![below(rank + 1), rank + 1], before)
        },
    );
}

/// Joins the digits of a number to those of another, which does not commute.
pub(crate) fn join(left: &mut [u64], right: &[u64]) {
    for (left, right) in left.iter_mut().zip(right) {
        *left = *left << (4 * right.ilog(16).saturating_add(1)) | right;
    }
}

#[test]
fn operators_that_do_not_commute_see_the_ranks_in_order() {
    check(
        11,
        async |world| {
            let digit = [u64::from(world.rank()) + 1];
            let all = world.allreduce(&digit, join).await?[0];
            let to_me = world.scan(&digit, join).await?[0];
            let at_root = world.reduce(&digit, join, 3).await?;
            Ok((all, to_me, at_root))
        },
        |rank| {
            let digits = |ranks: u32| (0..ranks).fold(0, |all, r| all << 4 | (u64::from(r) + 1));
            (digits(11), digits(rank + 1), (rank == 3).then(|| vec![digits(11)]))
        },
    );
}

#[test]
fn blocks_of_a_reduction_have_the_bits_of_the_whole() {
    check(
        RANKS,
        async |world| {
            let me = world.rank();
            // Some ranks get nothing.
            let counts: Vec<usize> = (0..RANKS as usize).map(|rank| (rank * 7) % 5).collect();
            let begin: usize = counts[..me as usize].iter().sum();
            let length: usize = counts.iter().sum();
            // Sums that depend on the order of the ranks, and an operator that does not commute.
            let numbers: Vec<f64> =
                (0..length).map(|at| 0.1 + f64::from(me) * 1e3_f64.powi(at as i32 % 7)).collect();
            let digits = vec![u64::from(me) + 1; length];
            let mine = begin..begin + counts[me as usize];
            let sums = world.reduce_scatter(&numbers, &counts, ops::sum).await?;
            let joined = world.reduce_scatter(&digits, &counts, join).await?;
            let expected = world.allreduce(&numbers, ops::sum).await?[mine.clone()].to_vec();
            let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect();
            let (sums, expected): (Vec<u64>, Vec<u64>) = (bits(&sums), bits(&expected));
            let all_joined = world.allreduce(&digits, join).await?[mine].to_vec();
            Ok((sums == expected, joined == all_joined, sums.len()))
        },
        |rank| (true, true, (rank as usize * 7) % 5),
    );
}

#[test]
fn blocks_of_a_reduction_cross_between_sites_in_one_latency() {
    // Three sites of four PEs, 8 ms apart.
    let job = run_then(
        12,
        async |world| {
            world.barrier().await?;
            let begin = world.now();
            world.reduce_scatter(&[1_u32; 24], &[2; 12], ops::sum).await?;
            Ok(world.now().since(begin).as_millis() as u64)
        },
        |times| {
            // Ranks leave the barrier up to a crossing apart.
            assert!(times.iter().all(|time| *time < 2 * 8 + 2), "{times:?}");
            Ok(())
        },
    );
    simulate(job, SITES).unwrap();
}

#[test]
fn data_are_broadcast_gathered_and_scattered() {
    check(
        RANKS,
        async |world| {
            let me = world.rank();
            let mut numbers = if me == 5 { [7.5, -1.0] } else { [0.0; 2] };
            world.bcast(&mut numbers, 5).await?;
            let text = world.bcast_value((me == 2).then(|| "text".to_owned()), 2).await?;
            let gathered = world.gather(&[me, me + 1], 6).await?;
            let ragged = world.gatherv(&vec![me; me as usize], 0).await?;
            let all = world.allgather(&[me]).await?;
            let all_ragged = world.allgatherv(&vec![me; (me % 3) as usize]).await?;
            let list: Vec<u32> = (0..2 * RANKS).collect();
            let mine = world.scatter(if me == 8 { &list } else { &[] }, 8).await?;
            let blocks: Vec<Vec<u32>> = (0..RANKS).map(|rank| vec![rank; rank as usize]).collect();
            let block = world.scatterv(if me == 1 { &blocks } else { &[] }, 1).await?;
            Ok((numbers, text, gathered, ragged, (all, all_ragged), mine, block))
        },
        |rank| {
            let ragged = |length: fn(u32) -> u32| {
                (0..RANKS).map(|rank| vec![rank; length(rank) as usize]).collect::<Vec<_>>()
            };
            (
                [7.5, -1.0],
                "text".to_owned(),
                (rank == 6).then(|| (0..RANKS).flat_map(|rank| [rank, rank + 1]).collect()),
                (rank == 0).then(|| ragged(|rank| rank)),
                ((0..RANKS).collect(), ragged(|rank| rank % 3)),
                vec![2 * rank, 2 * rank + 1],
                vec![rank; rank as usize],
            )
        },
    );
}

#[test]
fn every_rank_gives_something_to_every_other() {
    check(
        RANKS,
        async |world| {
            let me = world.rank();
            let numbers: Vec<u32> = (0..RANKS).flat_map(|to| [100 * me + to, to]).collect();
            let exchanged = world.alltoall(&numbers).await?;
            let blocks = (0..RANKS).map(|to| vec![me; (to % 4) as usize]).collect();
            let ragged = world.alltoallv(blocks).await?;
            let counts: Vec<usize> = (0..RANKS as usize).collect();
            let numbers = vec![me; below(RANKS) as usize];
            let sums = world.reduce_scatter(&numbers, &counts, ops::sum).await?;
            Ok((exchanged, ragged, sums))
        },
        |rank| {
            (
                (0..RANKS).flat_map(|from| [100 * from + rank, rank]).collect::<Vec<_>>(),
                (0..RANKS).map(|from| vec![from; (rank % 4) as usize]).collect::<Vec<_>>(),
                vec![below(RANKS); rank as usize],
            )
        },
    );
}

/// What a rank gives another: numbers of one of two types, a text, or nothing.
fn typed(from: u32, to: u32) -> Result<TypedBlock, RankError> {
    Ok(match (from + 2 * to) % 4 {
        0 => TypedBlock::from(vec![from; to as usize]),
        1 => TypedBlock::from(&[f64::from(from), f64::from(to)][..]),
        2 => TypedBlock::value(&format!("from {from} to {to}"))?,
        _ => TypedBlock::empty(),
    })
}

/// What a rank has got from another, as text.
fn opened(block: &TypedBlock, from: u32, to: u32) -> Result<String, RankError> {
    Ok(match (from + 2 * to) % 4 {
        0 => format!("{:?}", block.to_vec::<u32>()?),
        1 => {
            let mut numbers = [0.0; 3];
            let count = block.copy_to(&mut numbers)?;
            format!("{count} of {numbers:?}")
        }
        2 => block.to_value()?,
        _ => format!("{} bytes", block.bytes()),
    })
}

#[test]
fn each_pair_of_ranks_exchanges_data_of_another_type() {
    check(
        7,
        async |world| {
            let (me, size) = (world.rank(), world.size());
            let blocks = || (0..size).map(|to| typed(me, to)).collect::<Result<Vec<_>, _>>();
            let later = world.ialltoallw(blocks()?);
            let found = world.alltoallw(blocks()?).await?;
            let mut all = vec![];
            for (from, (one, other)) in (0..).zip(found.iter().zip(&later.await?)) {
                let text = opened(one, from, me)?;
                assert_eq!(text, opened(other, from, me)?);
                all.push(text);
            }
            // Around a ring, each to its right neighbour.
            let ring = world.graph(&[(me + size - 1) % size], &[(me + 1) % size]).await?;
            let block = ring.neighbour_alltoallw(vec![typed(me, (me + 1) % size)?]).await?;
            all.push(opened(&block[0], (me + size - 1) % size, me)?);
            Ok(all)
        },
        |rank| {
            let text = |from: u32| match (from + 2 * rank) % 4 {
                0 => format!("{:?}", vec![from; rank as usize]),
                1 => format!("2 of [{from}.0, {rank}.0, 0.0]"),
                2 => format!("from {from} to {rank}"),
                _ => "0 bytes".to_owned(),
            };
            (0..7).chain([(rank + 6) % 7]).map(text).collect()
        },
    );
}

#[test]
fn a_block_of_another_type_is_an_error_that_names_its_sender() {
    let text = failure(async |world| {
        let blocks = vec![TypedBlock::from(vec![1.5]), TypedBlock::from(vec![1.5])];
        let found = world.alltoallw(blocks).await?;
        found[1].to_vec::<u8>().map(drop)
    });
    assert!(text.contains("alltoallw with rank 1, on the world: f64 was sent where u8"), "{text}");
    let text = failure(async |world| world.alltoallw(vec![]).await.map(drop));
    assert!(text.contains("alltoallw, on the world: 0 elements where 2 are expected"), "{text}");
}

#[test]
fn immediate_operations_go_on_while_the_rank_does_other_things() {
    check(
        6,
        async |world| {
            let me = world.rank();
            // The last rank begins long after the others.
            if me == 5 {
                for rank in 0..5 {
                    world.recv::<u8>(rank, 0).await?;
                }
            }
            let mut sums = vec![];
            for power in 0..4 {
                sums.push(world.iallreduce(vec![me.pow(power)], ops::sum));
            }
            let barrier = world.ibarrier();
            let chosen = world.ibcast(vec![me], 3)?;
            let gathered = world.igatherv(vec![me], 2)?;
            let everything = world.iallgatherv(vec![me]);
            let before = world.iexscan(vec![1_u32], ops::sum);
            let exchanged = world.ialltoallv(vec![vec![me]; 6]);
            let block = world.iscatterv((0..6).map(|rank| vec![rank]).collect::<Vec<_>>(), 1)?;
            if me < 5 {
                world.send(&[0_u8], 5, 0).await?;
            }
            let sums = wait_all(sums).await?.concat();
            barrier.await?;
            let more = (gathered.await?, everything.await?, exchanged.await?);
            Ok((sums, chosen.await?[0], before.await?, more, block.await?))
        },
        |rank| {
            let each: Vec<Vec<u32>> = (0..6).map(|rank| vec![rank]).collect();
            (
                vec![6, 15, 55, 225],
                3,
                (rank > 0).then(|| vec![rank]),
                ((rank == 2).then(|| each.clone()), each.clone(), each),
                vec![rank],
            )
        },
    );
}

#[test]
fn immediate_reductions_and_scans_combine_the_values_of_the_ranks_in_order() {
    check(
        RANKS,
        async |world| {
            let me = world.rank();
            let counts = (0..RANKS as usize).collect();
            let to_me = world.iscan(vec![me, 1], ops::sum);
            let at_root = world.ireduce(vec![u64::from(me) + 1], join, 4)?;
            let block = world.ireduce_scatter(vec![me; below(RANKS) as usize], counts, ops::sum);
            // The first number would absorb those between it and the last, if sums were rounded.
            let mine = match me {
                0 => 1e100,
                me if me + 1 == RANKS => -1e100,
                _ => 0.5,
            };
            let exact = world.iallreduce_exact(vec![mine, f64::from(me)]);
            let exact_at_root = world.ireduce_exact(vec![mine], 7)?;
            // They are awaited in another order than they have begun.
            let exact = (exact_at_root.await?, exact.await?);
            let block = block.await?;
            Ok((at_root.await?, to_me.await?, block, exact))
        },
        |rank| {
            let digits = (0..RANKS).fold(0_u64, |all, rank| all << 4 | (u64::from(rank) + 1));
            let sum = 0.5 * f64::from(RANKS - 2);
            (
                (rank == 4).then(|| vec![digits]),
                vec![below(rank + 1), rank + 1],
                vec![below(RANKS); rank as usize],
                ((rank == 7).then(|| vec![sum]), vec![sum, f64::from(below(RANKS))]),
            )
        },
    );
    let text = failure(async |world| world.ireduce_exact(vec![1.0], 2).map(drop));
    assert!(text.contains("ireduce_exact with rank 2, on the world: there is no rank 2"), "{text}");
}

#[test]
fn no_rank_leaves_a_barrier_before_all_have_come() {
    check(
        8,
        async |world| {
            let me = world.rank();
            if me == 7 {
                // No rank can have left the barrier before this one has come.
                for _ in 0..50 {
                    assert_eq!(world.iprobe(0, 1).await?, None);
                }
            }
            world.barrier().await?;
            if me == 0 {
                world.send(&[1_u8], 7, 1).await?;
            }
            if me == 7 {
                return Ok(world.recv::<u8>(0, 1).await?.0[0]);
            }
            Ok(1)
        },
        |_| 1,
    );
}

#[test]
fn a_barrier_that_meets_a_reduction_fails() {
    let mixed = |barrier_at: u32| {
        failure(move |world| async move {
            match world.rank() == barrier_at {
                true => world.barrier().await,
                false => world.allreduce(&[1_u32], ops::sum).await.map(drop),
            }
        })
    };
    let text = mixed(0);
    assert!(text.contains("barrier") && text.contains("another collective operation"), "{text}");
    let text = mixed(1);
    assert!(text.contains("allreduce") && text.contains("another collective operation"), "{text}");
}

#[test]
fn sums_have_the_same_bits_wherever_the_ranks_live() {
    let found = Arc::new(Mutex::new(Vec::new()));
    let job = || {
        let found = found.clone();
        let function = async |world: gridspan_ranks::Comm| {
            // Terms of very different sizes, whose sum depends on its order.
            let term =
                (f64::from(world.rank()) * 1.7).sin() * 10_f64.powi(world.rank() as i32 % 17);
            let all = world.allreduce(&[term], ops::sum).await?[0];
            let root = world.reduce(&[term], ops::sum, 11).await?;
            Ok((all.to_bits(), root.map(|root| root[0].to_bits())))
        };
        run_then(37, function, move |results| {
            found.lock().unwrap().push(results);
            Ok(())
        })
    };
    for pes in [1, 2, 5] {
        embedded::run(job(), pes).unwrap();
    }
    for grid in [SITES, "2x1x1,wan=50ms", "37x1x1,wan=1ms"] {
        simulate(job(), grid).unwrap();
    }
    let found = found.lock().unwrap();
    let (all, root) = (found[0][0].0, found[0][11].1);
    assert_eq!(root, Some(all));
    for results in found.iter() {
        assert!(results.iter().all(|(bits, _)| *bits == all));
        assert_eq!(results[11].1, root);
    }
    assert_eq!(found.len(), 6);
}

#[test]
fn different_lengths_types_and_roots_are_errors() {
    let text = failure(async |world| {
        world.allreduce(&vec![1; 1 + world.rank() as usize], ops::sum).await?;
        Ok(())
    });
    assert!(text.contains("allreduce, on the world: 2 elements where 1 are expected"), "{text}");
    let text = failure(async |world| world.bcast(&mut [1], 2).await);
    assert!(text.contains("bcast with rank 2, on the world: there is no rank 2 among 2"), "{text}");
    let text = failure(async |world| match world.rank() {
        0 => world.bcast(&mut [1_u32], 0).await,
        _ => world.bcast(&mut [1_u64], 0).await,
    });
    assert!(text.contains("u32 was sent where u64 is expected"), "{text}");
    let text = failure(async |world| {
        let uneven = world.scatter(&[1, 2, 3], 0).await;
        assert!(matches!(uneven, Err(RankError::Indivisible { found: 3, ranks: 2, .. })));
        uneven.map(drop)
    });
    assert!(text.contains("3 elements do not divide among 2 ranks"), "{text}");
}

#[test]
fn vectors_of_different_lengths_are_an_error_whichever_ways_ranks_take() {
    // Three ranks on each of six PEs, of two sites or one, or of three sites with slow uplinks.
    const RANKS: u32 = 18;
    let fails_on = |grid: &str, odd: fn(u32, u32) -> bool, at: u32, [length, other]: [usize; 2]| {
        let function = move |world: gridspan_ranks::Comm| async move {
            let length = if odd(world.rank(), at) { other } else { length };
            world.allreduce(&vec![1_u64; length], ops::sum).await
        };
        let job = run_then(RANKS, function, |_results| Ok(()));
        let text = simulate(job, grid).unwrap_err().to_string();
        assert!(text.contains("elements where"), "{length}, {other} at {at} on {grid}: {text}");
    };
    let fails = |odd: fn(u32, u32) -> bool, at: u32, lengths: [usize; 2]| {
        for grid in ["2x3,wan=20ms", "1x6", "3x2,wan=20ms,uplink=5mbit"] {
            fails_on(grid, odd, at, lengths);
        }
    };
    // Pairs of lengths: one sent whole and one in shares, both whole, and both in shares.
    let lengths = [[1, 6000], [6000, 1], [40, 6000], [1, 2], [6000, 12_000], [6000, 5999]];
    for lengths in lengths {
        for at in [0, 1, 3, 7, 9, 13, 17] {
            fails(|rank, at| rank == at, at, lengths);
        }
        // A whole PE, a whole site, and ranks everywhere.
        fails(|rank, at| rank / 3 == at, 4, lengths);
        fails(|rank, at| rank / 9 == at, 1, lengths);
        fails(|rank, at| rank % 2 == at, 1, lengths);
    }
}

#[test]
fn a_result_for_all_takes_one_crossing_of_the_wide_area() {
    const ROUNDS: u32 = 10;
    let function = async |world: gridspan_ranks::Comm| {
        let (me, far) = (world.rank(), world.size() - 1);
        let mean = |begin: gridspan_runtime::Time| {
            world.now().since(begin).as_secs_f64() / f64::from(ROUNDS)
        };
        let begin = world.now();
        for _ in 0..ROUNDS {
            if me == 0 {
                world.send(&[1_u8], far, 0).await?;
                world.recv::<u8>(far, 0).await?;
            } else if me == far {
                world.recv::<u8>(0, 0).await?;
                world.send(&[1_u8], 0, 0).await?;
            }
        }
        let crossing = mean(begin) / 2.0;
        world.barrier().await?;
        let begin = world.now();
        for _ in 0..ROUNDS {
            assert_eq!(world.allreduce(&[1_u64], ops::sum).await?, [32]);
        }
        let allreduce = mean(begin);
        let begin = world.now();
        for _ in 0..ROUNDS {
            world.barrier().await?;
        }
        Ok([crossing, allreduce, mean(begin)])
    };
    let job = run_then(32, function, |times| {
        let [crossing, allreduce, barrier] = times[0];
        assert!(crossing >= 0.02, "the sites are 20 ms apart, and not {crossing} s");
        let limit = 1.15 * crossing + 0.002;
        assert!(allreduce < limit && barrier < limit, "{times:?}");
        Ok(())
    });
    simulate(job, "4x8x1,wan=20ms").unwrap();
}

#[test]
fn exact_sums_have_the_same_bits_for_any_number_of_ranks() {
    /// Terms that cancel, and whose plain sum depends on the order.
    fn terms() -> impl Iterator<Item = f64> {
        (0..240_i32).map(|at| f64::from(at % 7 - 3) * 10_f64.powi(at % 23 - 4) + 0.1)
    }
    let exact = {
        let mut sum = ExactSum::default();
        terms().for_each(|term| sum.add(term));
        sum.total()
    };
    assert_ne!(terms().sum::<f64>().to_bits(), exact.to_bits());
    for ranks in [1, 3, 7, 8, 240] {
        let job = run_then(
            ranks,
            async |world| {
                let (me, size) = (world.rank() as usize, world.size() as usize);
                // A column for each term of a rank. Ranks with fewer terms add zeros.
                let mut mine: Vec<f64> = terms().skip(me).step_by(size).collect();
                mine.resize(240_usize.div_ceil(size), 0.0);
                let columns = world.allreduce_exact(&mine).await?;
                let at_root = world.reduce_exact(&mine, 0).await?;
                assert!(at_root.is_none_or(|at_root| at_root == columns));
                let (later, last) = (world.iallreduce_exact(mine.clone()), world.size() - 1);
                let at_last = world.ireduce_exact(mine.clone(), last)?.await?;
                assert_eq!(at_last.is_some(), world.rank() == last);
                assert!(at_last.is_none_or(|at_last| at_last == columns));
                assert_eq!(later.await?, columns);
                assert_eq!(columns.len(), mine.len());
                Ok(columns)
            },
            move |found| {
                assert!(found.iter().all(|columns| *columns == found[0]));
                if found.len() == 240 {
                    assert_eq!(found[0][0].to_bits(), exact.to_bits());
                }
                for (column, total) in found[0].iter().enumerate() {
                    let mut sum = ExactSum::default();
                    let ranks = found.len();
                    terms().skip(column * ranks).take(ranks).for_each(|term| sum.add(term));
                    assert_eq!(total.to_bits(), sum.total().to_bits());
                }
                Ok(())
            },
        );
        simulate(job, crate::common::SITES).unwrap();
    }
}

#[test]
fn immediate_operations_of_blocks_of_one_length_give_them_joined() {
    check(
        5,
        async |world| {
            let (me, size) = (world.rank(), world.size());
            let all = world.iallgather(vec![me, 10 * me]);
            let gathered = world.igather(vec![me], 3)?;
            let given: Vec<u32> = if me == 2 { (0..2 * size).collect() } else { Vec::new() };
            let scattered = world.iscatter(&given, 2)?;
            let blocks: Vec<u32> = (0..size).map(|to| 10 * me + to).collect();
            let exchanged = world.ialltoall(&blocks)?;
            Ok((all.await?, gathered.await?, scattered.await?, exchanged.await?))
        },
        |rank| {
            let all: Vec<u32> = (0..5).flat_map(|from| [from, 10 * from]).collect();
            let gathered: Option<Vec<u32>> = (rank == 3).then(|| (0..5).collect());
            let exchanged: Vec<u32> = (0..5).map(|from| 10 * from + rank).collect();
            (all, gathered, vec![2 * rank, 2 * rank + 1], exchanged)
        },
    );
    let text = failure(async |world| {
        world.iallgather(vec![1_u8; 1 + world.rank() as usize]).await.map(drop)
    });
    assert!(text.contains("iallgather") && text.contains("elements where"), "{text}");
}
