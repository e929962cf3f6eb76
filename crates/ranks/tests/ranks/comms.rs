//! Communicators.

use crate::common::{check, simulate};
use gridspan_ranks::{ANY_SOURCE, ANY_TAG, RankError, RankGroup, ops, run_then};
use std::time::Duration;

#[test]
fn ranks_are_divided_by_colour_and_ordered_by_key() {
    check(
        10,
        async |world| {
            let me = world.rank();
            let colour = (me < 9).then_some(me % 3);
            let Some(part) = world.split(colour, -i64::from(me)).await? else {
                return Ok((0, 0, 0));
            };
            assert_eq!(part.world_rank(part.rank()), Some(me));
            Ok((part.size(), part.rank(), part.allreduce(&[me], ops::sum).await?[0]))
        },
        |rank| match rank {
            9 => (0, 0, 0),
            // The ranks of colour c are c, c + 3, c + 6, in descending order.
            _ => (3, 2 - rank / 3, 3 * (rank % 3) + 9),
        },
    );
}

#[test]
fn communicators_that_are_made_at_the_same_time_differ() {
    check(
        6,
        async |world| {
            let me = world.rank();
            let row = world.split(Some(me / 3), 0).await?.ok_or("no row")?;
            let column = world.split(Some(me % 3), 0).await?.ok_or("no column")?;
            // The first three ranks have used more communicator numbers than the others.
            if me < 3 {
                drop(row.dup().await?);
            }
            let (one, other) = futures_util::future::join(row.dup(), column.dup()).await;
            let (row, column) = (one?, other?);
            assert_ne!(row.number(), column.number());
            let mine = [me];
            let sums = futures_util::future::join(
                row.allreduce(&mine, ops::sum),
                column.allreduce(&mine, ops::sum),
            );
            let (row, column) = sums.await;
            Ok((row?[0], column?[0]))
        },
        // Rows are 0, 1, 2 and 3, 4, 5.
        |me| (3 + 9 * (me / 3), 3 + 2 * (me % 3)),
    );
}

#[test]
fn communicators_are_made_in_the_order_of_the_calls() {
    check(
        2,
        async |world| {
            let (me, other) = (world.rank(), 1 - world.rank());
            let (one, two) = (world.dup().await?, world.dup().await?);
            // Only rank 1 has the message when its first `one.dup` is complete, so it calls
            // `one.dup` again before rank 0 does. Both ranks have called `two.dup` by then.
            if me == 0 {
                world.send(&[0_u8], 1, 5).await?;
            }
            world.barrier().await?;
            let twice = async {
                one.dup().await?;
                world.recv::<u8>(other, 5).await?;
                one.dup().await
            };
            let late = async {
                if me == 1 {
                    world.sleep(Duration::from_millis(5)).await;
                    world.send(&[0_u8], 0, 5).await?;
                }
                Ok::<_, RankError>(())
            };
            let (third, second, sent) = futures_util::future::join3(twice, two.dup(), late).await;
            sent?;
            Ok(second?.number() < third?.number())
        },
        |_| true,
    );
}

#[test]
fn operations_on_a_communicator_keep_their_order_while_another_one_is_copied() {
    check(
        2,
        async |world| {
            let (one, two) = (world.dup().await?, world.dup().await?);
            if world.rank() == 0 {
                // Rank 1 has begun all three when rank 0 begins.
                world.sleep(Duration::from_millis(5)).await;
            }
            let all = futures_util::future::join3(one.dup(), two.dup(), two.barrier());
            let (one, two, waited) = all.await;
            waited?;
            Ok((one?.size(), two?.size()))
        },
        |_| (2, 2),
    );
}

#[test]
fn messages_stay_on_their_communicator() {
    check(
        2,
        async |world| {
            let (me, other) = (world.rank(), 1 - world.rank());
            let copy = world.dup().await?;
            assert_ne!(copy.number(), world.number());
            world.send(&[1 + 10 * me], other, 0).await?;
            copy.send(&[2 + 10 * me], other, 0).await?;
            let second = copy.recv::<u32>(ANY_SOURCE, ANY_TAG).await?.0[0];
            let first = world.recv::<u32>(ANY_SOURCE, ANY_TAG).await?.0[0];
            Ok((first, second))
        },
        |rank| (1 + 10 * (1 - rank), 2 + 10 * (1 - rank)),
    );
}

#[test]
fn communicators_of_different_parents_have_different_numbers() {
    check(
        8,
        async |world| {
            let me = world.rank();
            // One half makes two more communicators than the other before they meet again.
            let half = world.split(Some(me / 4), 0).await?.ok_or("no half")?;
            if me < 4 {
                half.dup().await?;
                half.dup().await?;
            }
            let pair = world.split(Some(me % 4), 0).await?.ok_or("no pair")?;
            let (other, number) = (1 - pair.rank(), [pair.number(), half.number()]);
            let mut found = [0; 2];
            pair.sendrecv(&number, other, 0, &mut found, other, 0).await?;
            let all = world.allgather(&[pair.number()]).await?;
            assert_eq!(all.iter().filter(|n| **n == pair.number()).count(), 2);
            Ok((found[0] == number[0], found[1] == number[1]))
        },
        |_| (true, false),
    );
}

#[test]
fn groups_make_communicators_in_their_order() {
    check(
        6,
        async |world| {
            let group = world.group().include(&[5, 1, 3])?;
            let Some(comm) = world.create(&group).await? else { return Ok(vec![]) };
            comm.allgather(&[world.rank()]).await
        },
        |rank| if rank % 2 == 1 { vec![5, 1, 3] } else { vec![] },
    );
}

#[test]
fn groups_without_common_ranks_make_a_communicator_each_in_one_call() {
    check(
        7,
        async |world| {
            let me = world.rank();
            let group = match me {
                6 => RankGroup::default(),
                _ if me % 2 == 0 => world.group().include(&[4, 0, 2])?,
                _ => world.group().include(&[1, 3, 5])?,
            };
            let Some(comm) = world.create(&group).await? else { return Ok(vec![]) };
            comm.allgather(&[me]).await
        },
        |rank| match rank {
            6 => vec![],
            _ if rank % 2 == 0 => vec![4, 0, 2],
            _ => vec![1, 3, 5],
        },
    );
}

#[test]
fn ranks_know_their_sites() {
    let job = run_then(
        12,
        async |world| {
            let me = world.rank();
            let mine = world.site(me).ok_or("at no site")?;
            let part = world.split_by_site().await?;
            let sites = world.sites();
            let count = sites.iter().filter(|site| **site == mine).count() as u32;
            assert_eq!((part.size(), world.site(12)), (count, None));
            assert!(!world.site_name(mine).is_empty() && world.site_name(99).is_empty());
            part.allreduce(&[me], ops::sum).await
        },
        |sums| {
            // Twelve ranks in blocks over three sites of four PEs.
            let expected: Vec<_> =
                [6, 22, 38].into_iter().flat_map(|sum| vec![vec![sum]; 4]).collect();
            assert_eq!(sums, expected);
            Ok(())
        },
    );
    simulate(job, crate::common::SITES).unwrap();
}

#[test]
fn a_grid_shifts_rows_and_columns() {
    check(
        13,
        async |world| {
            let Some(grid) = world.cartesian(&[3, 4], &[false, true]).await? else {
                return Ok(vec![]);
            };
            let coords = grid.coords(grid.rank())?;
            let mut found = vec![];
            for axis in 0..2 {
                let (from, to) = grid.shift(axis, 1)?;
                let mut number = [100 + grid.rank()];
                grid.sendrecv_replace(&mut number, to, 0, from, 0).await?;
                found.push(number[0]);
            }
            let row = grid.sub(&[false, true]).await?;
            assert_eq!((row.dims(), row.rank()), (&[4][..], coords[1]));
            found.push(row.allreduce(&[grid.rank()], ops::sum).await?[0]);
            assert_eq!(
                grid.neighbours().iter().flatten().count(),
                if coords[0] == 1 { 4 } else { 3 }
            );
            assert!(grid.shift(2, 1).is_err());
            assert_eq!(grid.shift(1, i64::MAX)?, grid.shift(1, 3)?);
            assert_eq!(grid.shift(1, i64::MIN)?, grid.shift(1, 0)?);
            assert_eq!(grid.shift(0, i64::MIN)?, (None, None));
            Ok(found)
        },
        |rank| match rank {
            12 => vec![],
            _ => {
                let (row, column) = (rank / 4, rank % 4);
                // The first row receives nothing, and keeps its own.
                let above = if row == 0 { rank } else { rank - 4 };
                vec![100 + above, 100 + 4 * row + (column + 3) % 4, 16 * row + 6]
            }
        },
    );
}
