//! Reductions of long vectors to all ranks, which ranks divide into shares.

use crate::collective::join;
use crate::common::{check, simulate};
use gridspan_ranks::{RankError, ops, run_then};
use gridspan_runtime::Layout;
use gridspan_runtime::driver::embedded;
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use std::sync::{Arc, Mutex};

const RANKS: u32 = 13;

/// A term of an element, whose sum over the ranks depends on its order.
pub(crate) fn term(rank: u32, at: usize) -> f64 {
    (f64::from(rank) * 1.7 + at as f64).sin() * 10_f64.powi((rank as i32 + at as i32) % 17)
}

/// The sum of the terms of `size` ranks from `begin` on, added in the order of the binary tree over
/// the numbers of the ranks. Ranks that do not exist are left out.
pub(crate) fn sum_by_tree(at: usize, begin: u32, size: u32, ranks: u32) -> f64 {
    if size == 1 {
        return term(begin, at);
    }
    let left = sum_by_tree(at, begin, size / 2, ranks);
    match begin + size / 2 < ranks {
        true => left + sum_by_tree(at, begin + size / 2, size / 2, ranks),
        false => left,
    }
}

/// Reduces a vector, which ranks divide into shares if it is long and a network is between them.
/// Returns whether the sums and the joined digits of all elements are right.
async fn reduce_long_vectors(
    world: gridspan_ranks::Comm,
    length: usize,
) -> Result<bool, RankError> {
    let (me, ranks) = (world.rank(), world.size());
    let terms: Vec<f64> = (0..length).map(|at| term(me, at)).collect();
    let sums = world.allreduce(&terms, ops::sum).await?;
    let later = world.iallreduce(terms, ops::sum).await?;
    let tree = |at: usize| sum_by_tree(at, 0, ranks.next_power_of_two(), ranks).to_bits();
    let right = |sums: &[f64]| sums.iter().map(|sum| sum.to_bits()).eq((0..length).map(tree));
    // Digits below 16, which show the order of the ranks.
    let digits = world.allreduce(&vec![u64::from(me) % 15 + 1; length], join).await?;
    let expected = (0..ranks).fold(0_u64, |all, rank| all << 4 | u64::from(rank % 15 + 1));
    Ok(right(&sums) && right(&later) && digits.iter().all(|digits| *digits == expected))
}

#[test]
fn long_vectors_have_the_bits_of_the_tree_over_the_ranks_under_all_drivers() {
    // 16 KiB. The number of elements is prime, so that shares have different lengths.
    check(RANKS, async |world| reduce_long_vectors(world, 2039).await, |_| true);
    let job = || {
        run_then(
            RANKS,
            async |world| reduce_long_vectors(world, 2039).await,
            |right| {
                assert_eq!(right, [true; RANKS as usize]);
                Ok(())
            },
        )
    };
    // Sites of one node, of several, one site alone, and a slow link.
    let slow = "3x2,wan=5ms; at 1ms link a-c rate=10mbit";
    for grid in ["2x3,wan=20ms", "13x1,wan=5ms", "1x4", "4x8,wan=20ms,lanrate=1gbit", slow] {
        simulate(job(), grid).unwrap();
    }
    let quic = GridSpec::from_emulate("2x2,wan=2ms").unwrap();
    embedded::run_emulated(job(), &quic).unwrap();
}

#[test]
fn sites_of_different_sizes_share_a_long_vector() {
    for pes in [[4, 1, 2], [1, 7, 3]] {
        let sites = pes.map(|pes: u32| (format!("with{pes}"), vec![1; pes as usize])).to_vec();
        let spec = GridSpec::from_layout(&Layout::new(sites)).unwrap();
        // More ranks than PEs, and not a multiple of their number.
        let job = run_then(
            RANKS,
            async |world| {
                let all = reduce_long_vectors(world.clone(), 30_011).await?;
                // A communicator whose ranks are scattered over the sites.
                let part = world.split(Some(world.rank() % 2), 0).await?.ok_or("no part")?;
                let sums = part.allreduce(&vec![1_u64; 30_011], ops::sum).await?;
                Ok(all && sums.iter().all(|sum| *sum == u64::from(part.size())))
            },
            |right| {
                assert_eq!(right, [true; RANKS as usize]);
                Ok(())
            },
        );
        Simulation::new(job, spec, SimOptions::with_seed(7)).unwrap().run().outcome.unwrap();
    }
}

/// Reduces a megabyte on a grid whose sites have this setting. Returns the longest time in ms.
fn slowest_megabyte(uplink: &str) -> f64 {
    let slowest = Arc::new(Mutex::new(0.0));
    let found = slowest.clone();
    let function = async |world: gridspan_ranks::Comm| {
        world.barrier().await?;
        let begin = world.now();
        let terms: Vec<f64> = (0..1 << 17).map(|at| term(world.rank(), at)).collect();
        let sums = world.allreduce(&terms, ops::sum).await?;
        // Some of each share.
        for at in (0..1 << 17).step_by(509) {
            assert_eq!(sums[at].to_bits(), sum_by_tree(at, 0, 32, 32).to_bits());
        }
        world.yield_now().await;
        Ok(world.now().since(begin).as_secs_f64() * 1e3)
    };
    let job = run_then(32, function, move |times| {
        *found.lock().unwrap() = times.into_iter().fold(0.0, f64::max);
        Ok(())
    });
    simulate(job, &format!("4x8,wan=20ms,rate=1gbit{uplink}")).unwrap();
    *slowest.lock().unwrap()
}

#[test]
fn a_long_vector_crosses_a_slow_uplink_twice_in_shares() {
    // A vector takes 84 ms over an uplink. In one crossing each site would send and receive three:
    // 272 ms. In two these are one and a half: 126 ms, and at least one latency more.
    let time = slowest_megabyte(",uplink=100mbit");
    assert!((140.0..200.0).contains(&time), "{time} ms");
    // One crossing and 8.4 ms.
    let time = slowest_megabyte("");
    assert!((25.0..31.0).contains(&time), "{time} ms");
}

#[test]
fn vectors_that_cross_twice_have_the_bits_of_the_tree_over_the_ranks() {
    // Several heads for each site, one, and more sites than heads at a site.
    for grid in ["3x3,wan=5ms,uplink=1mbit", "4x1,wan=5ms,uplink=1mbit", "5x2,wan=5ms,uplink=1mbit"]
    {
        let function = async |world: gridspan_ranks::Comm| {
            let all = reduce_long_vectors(world.clone(), 2039).await?;
            // Sites of different sizes.
            let first =
                world.split(Some(u32::from(world.rank() < 8)), 0).await?.ok_or("no part")?;
            let first = reduce_long_vectors(first, 2039).await?;
            // A communicator whose ranks are scattered over the sites.
            let part = world.split(Some(world.rank() % 2), 0).await?.ok_or("no part")?;
            Ok(all && first && reduce_long_vectors(part, 2039).await?)
        };
        let job = run_then(RANKS, function, |right| {
            assert_eq!(right, [true; RANKS as usize]);
            Ok(())
        });
        simulate(job, grid).unwrap();
    }
}
