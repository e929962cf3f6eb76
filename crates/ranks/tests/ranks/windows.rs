//! Windows: ranks access the elements of other ranks.

use crate::common::{check, failure};
use futures_util::future::{Either, join, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use gridspan_ranks::{Comm, ops};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn ranks_read_and_change_the_memory_of_others() {
    check(
        5,
        async |world| {
            let (me, size) = (world.rank(), world.size());
            // Rank r exposes r + 1 elements.
            let window = world.window(vec![0_u32; me as usize + 1], ops::sum).await?;
            assert_eq!((window.len(4), window.is_empty(0)), (5, false));
            for rank in me..size {
                window.put(&[10 * me + rank], rank, me as usize)?;
            }
            window.fence().await?;
            for rank in 0..size {
                window.accumulate(&[100], rank, rank as usize)?;
            }
            window.fence().await?;
            let next = (me + 1) % size;
            let read = window.get(next, 0..next as usize + 1).await?;
            window.fence().await?;
            Ok((window.local(|mine| mine.to_vec()), read))
        },
        |rank| {
            let memory = |rank: u32| {
                let mut memory: Vec<u32> = (0..=rank).map(|from| 10 * from + rank).collect();
                memory[rank as usize] += 500;
                memory
            };
            (memory(rank), memory((rank + 1) % 5))
        },
    );
}

/// Uses its communicator when it is dropped.
struct UsesAtEnd(Comm);

impl Drop for UsesAtEnd {
    fn drop(&mut self) {
        self.0.charge(Duration::ZERO);
    }
}

#[test]
fn an_operator_may_own_values_that_use_its_rank_when_they_are_dropped() {
    check(
        2,
        async |world| {
            let owned = UsesAtEnd(world.clone());
            let add = move |mine: &mut [u64], others: &[u64]| {
                let _owned = &owned;
                ops::sum(mine, others);
            };
            let window = world.window(vec![0_u64; 1], add).await?;
            window.accumulate(&[1], 0, 0)?;
            window.fence().await?;
            Ok(window.local(|mine| mine[0]))
        },
        |rank| if rank == 0 { 2 } else { 0 },
    );
}

#[test]
fn counters_are_fetched_and_increased_once_by_each() {
    check(
        6,
        async |world| {
            let window = world.window(vec![0_u64; 1], ops::sum).await?;
            let mut found = vec![];
            for _ in 0..10 {
                found.push(window.get_accumulate(&[1], 2, 0).await?[0]);
            }
            assert!(found.is_sorted());
            let mut all = world.allgatherv(&found).await?.concat();
            all.sort_unstable();
            Ok(all == (0..60).collect::<Vec<u64>>())
        },
        |_| true,
    );
}

#[test]
fn an_exclusive_lock_protects_a_change_of_several_steps() {
    check(
        6,
        async |world| {
            let window = world.window(vec![0_i64; 2], ops::sum).await?;
            for _ in 0..5 {
                window.lock(3, true).await?;
                let read = window.get(3, 0..2).await?;
                assert_eq!(read[0], read[1]);
                window.put(&[read[0] + 1], 3, 0)?;
                world.yield_now().await;
                window.put(&[read[1] + 1], 3, 1)?;
                window.unlock(3).await?;
            }
            window.fence().await?;
            window.lock(3, false).await?;
            let read = window.get(3, 0..2).await?;
            window.unlock(3).await?;
            window.fence().await?;
            Ok(read)
        },
        |_| vec![30, 30],
    );
}

#[test]
fn an_operator_may_use_a_communicator() {
    check(
        2,
        async |world| {
            let charging = world.clone();
            let add = move |left: &mut [u32], right: &[u32]| {
                charging.charge(Duration::from_micros(1));
                ops::sum(left, right);
            };
            let window = world.window(vec![0_u32], add).await?;
            for rank in 0..2 {
                window.accumulate(&[1], rank, 0)?;
            }
            window.fence().await?;
            let before = window.get_accumulate(&[10], 1 - world.rank(), 0).await?[0];
            Ok((before, window.free().await?[0]))
        },
        |_| (2, 12),
    );
}

#[test]
fn an_operator_may_begin_a_collective_operation() {
    check(
        2,
        async |world| {
            let pair = world.dup().await?;
            let begun = Arc::new(Mutex::new(None));
            let (beginning, kept) = (pair.clone(), begun.clone());
            let add = move |left: &mut [u32], right: &[u32]| {
                *kept.lock().unwrap() = Some(beginning.ibarrier());
                ops::sum(left, right);
            };
            let window = world.window(vec![0_u32], add).await?;
            if world.rank() == 0 {
                window.accumulate(&[1], 1, 0)?;
                window.flush(1).await?;
                pair.barrier().await?;
                world.send(&[0_u8], 1, 0).await?;
            } else {
                // Nothing else wakes this rank before the barrier has ended.
                world.recv::<u8>(0, 0).await?;
                let barrier = begun.lock().unwrap().take().ok_or("no barrier has begun")?;
                barrier.await?;
            }
            Ok(window.free().await?[0])
        },
        |rank| rank,
    );
}

#[test]
fn an_access_beyond_the_elements_is_an_error() {
    let text = failure(async |world| {
        let window = world.window(vec![0_u8; 3], ops::sum).await?;
        window.put(&[1, 2], 1, 2)
    });
    assert!(text.contains("put with rank 1"), "{text}");
    assert!(text.contains("elements 2..4 of 3"), "{text}");
}

#[test]
fn windows_of_different_elements_are_an_error_that_names_both() {
    fn replace(left: &mut [[f64; 2]], right: &[[f64; 2]]) {
        left.copy_from_slice(right);
    }
    let text = failure(async |world| {
        if world.rank() == 0 {
            assert!(world.window(vec![0.0_f64], ops::sum).await.is_err());
            return Ok(());
        }
        world.window(vec![[0.0_f64; 2]], replace).await.map(drop)
    });
    assert!(text.contains("f64 was sent where [f64; 2] is expected"), "{text}");
}

#[test]
fn a_look_at_the_own_elements_inside_another_one_is_an_error() {
    let text = failure(async |world| {
        let window = world.window(vec![0_u8; 3], ops::sum).await?;
        let seen = window.local(|_| window.local(|inner| inner.len()));
        Err(format!("the inner look saw {seen} elements").into())
    });
    assert!(text.contains("`local` was called inside another call of it"), "{text}");
}

#[test]
fn a_lock_that_a_rank_stops_waiting_for_holds_up_no_other() {
    check(
        3,
        async |world| {
            let window = world.window(vec![0_u32], ops::sum).await?;
            let me = world.rank();
            if me == 0 {
                window.lock(0, true).await?;
            }
            world.barrier().await?;
            if me == 1 {
                let lock = pin!(window.lock(0, true));
                let delay = pin!(world.sleep(Duration::from_millis(20)));
                assert!(matches!(select(lock, delay).await, Either::Right(_)));
            }
            world.barrier().await?;
            if me == 0 {
                window.unlock(0).await?;
            }
            // Rank 1 has left the queue, and can come again.
            window.lock(0, true).await?;
            window.accumulate(&[1], 0, 0)?;
            window.unlock(0).await?;
            Ok(window.free().await?[0])
        },
        |rank| if rank == 0 { 3 } else { 0 },
    );
}

#[test]
fn a_flush_also_waits_for_the_accesses_of_one_that_was_dropped() {
    const LENGTH: usize = 4 << 20;
    check(
        3,
        async |world| {
            let me = world.rank();
            let length = if me == 1 { LENGTH } else { 0 };
            let window = world.window(vec![0_u8; length], ops::sum).await?;
            let mut found = 1;
            match me {
                0 => {
                    // Over the wide area, this transfer takes longer than other ranks' messages.
                    let ones = vec![1_u8; LENGTH];
                    window.put(&ones, 1, 0)?;
                    {
                        let flush = pin!(window.flush(1));
                        let delay = pin!(world.sleep(Duration::from_micros(100)));
                        drop(select(flush, delay).await);
                    }
                    window.flush(1).await?;
                    world.send(&[0_u8], 2, 0).await?;
                }
                2 => {
                    world.recv::<u8>(0, 0).await?;
                    found = window.get(1, LENGTH - 1..LENGTH).await?[0];
                }
                _ => {}
            }
            window.fence().await?;
            Ok(found)
        },
        |_| 1,
    );
}

#[test]
fn a_flush_also_waits_for_a_change_whose_result_is_no_longer_wanted() {
    const LENGTH: usize = 4 << 20;
    check(
        3,
        async |world| {
            let me = world.rank();
            let length = if me == 1 { LENGTH } else { 0 };
            let window = world.window(vec![0_u8; length], ops::sum).await?;
            let mut found = 1;
            match me {
                0 => {
                    // Over the wide area, this transfer takes longer than other ranks' messages.
                    let ones = vec![1_u8; LENGTH];
                    {
                        let change = pin!(window.get_accumulate(&ones, 1, 0));
                        let delay = pin!(world.sleep(Duration::from_micros(100)));
                        drop(select(change, delay).await);
                    }
                    window.flush(1).await?;
                    world.send(&[0_u8], 2, 0).await?;
                }
                2 => {
                    world.recv::<u8>(0, 0).await?;
                    found = window.get(1, LENGTH - 1..LENGTH).await?[0];
                }
                _ => {}
            }
            window.fence().await?;
            Ok(found)
        },
        |_| 1,
    );
}

#[test]
fn a_flush_that_is_dropped_leaves_another_one_waiting() {
    const LENGTH: usize = 4 << 20;
    check(
        2,
        async |world| {
            let me = world.rank();
            let length = if me == 1 { LENGTH } else { 0 };
            let window = world.window(vec![0_u8; length], ops::sum).await?;
            if me == 0 {
                let ones = vec![1_u8; LENGTH];
                window.put(&ones, 1, 0)?;
                // The transfer over the wide area takes longer than the delay.
                let dropped = async {
                    let flush = pin!(window.flush(1));
                    let delay = pin!(world.sleep(Duration::from_micros(100)));
                    drop(select(flush, delay).await);
                };
                let (flushed, ()) = join(window.flush(1), dropped).await;
                flushed?;
            }
            window.fence().await?;
            Ok(window.local(|mine| mine.iter().all(|element| *element == 1)))
        },
        |_| true,
    );
}

#[test]
fn several_tasks_wait_for_the_same_accesses() {
    check(
        2,
        async |world| {
            let (me, other) = (world.rank(), 1 - world.rank());
            let window = world.window(vec![0_u32; 4], ops::sum).await?;
            {
                // Each flush has a different waker, and waits for all accesses.
                let mut flushes = FuturesUnordered::new();
                for at in 0..4 {
                    window.put(&[me + 1], other, at)?;
                    flushes.push(window.flush(other));
                }
                while let Some(flushed) = flushes.next().await {
                    flushed?;
                }
            }
            window.fence().await?;
            Ok(window.local(|mine| mine.to_vec()))
        },
        |rank| vec![2 - rank; 4],
    );
}

#[test]
fn a_freed_window_returns_its_elements() {
    check(
        4,
        async |world| {
            let mut sums = vec![];
            for round in 0..3 {
                let window = world.window(vec![u64::from(world.rank()); 2], ops::sum).await?;
                window.accumulate(&[round], (world.rank() + 1) % 4, 1)?;
                sums.push(window.free().await?);
            }
            Ok(sums)
        },
        |rank| (0..3).map(|round| vec![u64::from(rank), u64::from(rank) + round]).collect(),
    );
}
