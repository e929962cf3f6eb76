//! Groups of ranks that find each other by ports and names.

use crate::common::{SITES, check, failure, simulate};
use futures_util::future::{Either, select};
use gridspan_ranks::{
    ANY_SOURCE, Comm, RankError, RankPort, RankRefusal, SpawnPlacement, ops, run,
};
use gridspan_runtime::driver::embedded;
use std::pin::pin;
use std::time::Duration;

#[test]
fn clients_connect_to_a_server_one_group_after_the_other() {
    check(
        7,
        async |world| {
            // Rank 0 serves two groups of three.
            let me = world.rank();
            let group = world.split(Some(me.div_ceil(3)), 0).await?.ok_or("no group")?;
            if me == 0 {
                let port = world.open_port().await?;
                world.publish_name("sum", port).await?;
                assert_eq!(world.lookup_name("sum").await?, Some(port));
                assert_eq!(world.lookup_name("product").await?, None);
                let mut total = 0;
                for _ in 0..2 {
                    let clients = group.accept(Some(port), 0).await?;
                    for _ in 0..clients.remote_size() {
                        total += clients.recv::<u32>(ANY_SOURCE, 5).await?.0[0];
                    }
                    let all = clients.merge(true).await?;
                    assert_eq!((all.rank(), all.size()), (3, 4));
                    all.barrier().await?;
                }
                world.unpublish_name("sum").await?;
                world.close_port(port).await?;
                assert!(world.unpublish_name("sum").await.is_err());
                return Ok(total);
            }
            // Rank 2 of the group is the root, and the only one that knows the port.
            let port = match group.rank() {
                2 => Some(world.wait_for_name("sum").await?),
                _ => None,
            };
            let server = group.connect(port, 2).await?;
            assert_eq!(
                (server.rank(), server.remote_group().world_ranks()),
                (group.rank(), &[0][..])
            );
            server.send(&[me], 0, 5).await?;
            let all = server.merge(false).await?;
            all.barrier().await?;
            Ok(all.rank())
        },
        |rank| if rank == 0 { 21 } else { (rank - 1) % 3 },
    );
}

#[test]
fn spawned_groups_connect_to_each_other() {
    check(
        1,
        async |world| {
            if let Some(parents) = world.parent() {
                // The children of the first spawn accept, and those of the second connect.
                let accepts = world.world_rank(0) == Some(1);
                let is_first = world.rank() == 0;
                let other = if accepts {
                    let port = if is_first { Some(world.open_port().await?) } else { None };
                    if let Some(port) = port {
                        world.publish_name("first", port).await?;
                    }
                    world.accept(port, 0).await?
                } else {
                    let port =
                        if is_first { Some(world.wait_for_name("first").await?) } else { None };
                    world.connect(port, 0).await?
                };
                let numbers = other.allgatherv(&[world.rank()]).await?;
                assert_eq!(numbers.len() as u32, other.remote_size());
                parents.send(&[other.remote_size()], 0, 0).await?;
                return Ok(0);
            }
            let groups = [
                world.spawn(2, SpawnPlacement::Block).await?,
                world.spawn(3, SpawnPlacement::RoundRobin).await?,
            ];
            let mut found = 0;
            for group in &groups {
                for child in 0..group.remote_size() {
                    found = 10 * found + group.recv::<u32>(child, 0).await?.0[0];
                }
                for child in 0..group.remote_size() {
                    group.notify_end(child)?.await?;
                }
            }
            Ok(found)
        },
        |_| 33_222,
    );
}

#[test]
fn ranks_gather_by_the_name_of_a_group() {
    check(
        9,
        async |world| {
            let me = world.rank();
            let mut sums = vec![];
            for round in 0..3 {
                // A name can be used again.
                let name = format!("group {}", me % 3);
                let group = world.join_group(&name, 3).await?;
                assert_eq!((group.size(), group.rank()), (3, me / 3));
                sums.push(group.allreduce(&[me + round], ops::sum).await?[0]);
            }
            Ok(sums)
        },
        |rank| (0..3).map(|round| 9 + 3 * (rank % 3) + 3 * round).collect(),
    );
}

#[test]
fn a_rank_that_stops_waiting_for_others_holds_up_none() {
    check(
        3,
        async |world| {
            let me = world.rank();
            let alone = world.split(Some(me), 0).await?.ok_or("no part")?;
            let port = match me {
                0 => Some(world.open_port().await?),
                _ => None,
            };
            let port = world.bcast_value(port, 0).await?;
            if me == 1 {
                let accepting = pin!(alone.accept(Some(port), 0));
                let delay = pin!(world.sleep(Duration::from_millis(30)));
                assert!(matches!(select(accepting, delay).await, Either::Right(_)));
            }
            if me == 1 {
                // The answer comes after the withdrawal has reached the name server.
                assert_eq!(world.lookup_name("none").await?, None);
            }
            world.barrier().await?;
            let other = match me {
                0 => alone.accept(Some(port), 0).await?,
                2 => alone.connect(Some(port), 0).await?,
                _ => return Ok(1),
            };
            let remote = other.remote_group().world_ranks()[0];
            Ok(remote)
        },
        |rank| 2 - rank,
    );
}

#[test]
fn ports_and_names_that_do_not_exist_are_errors() {
    let text = failure(async |world| {
        let port = world.open_port().await?;
        world.close_port(port).await?;
        let error = world.close_port(port).await.unwrap_err();
        let RankError::Refused { refusal, .. } = error else { return Err(error) };
        assert_eq!(refusal, RankRefusal::PortNotOpen { port });
        world.split(Some(world.rank()), 0).await?.ok_or("no part")?.accept(Some(port), 0).await?;
        Ok(())
    });
    assert!(text.contains("accept with rank 0, on communicator"), "{text}");
    assert!(text.contains("is not open"), "{text}");
    let text = failure(async |world| world.connect(None, 1).await.map(drop));
    assert!(text.contains("connect with rank 1, on the world: the root has no port"), "{text}");
    let text = failure(async |world| world.lookup_name(&"x".repeat(2000)).await.map(drop));
    assert!(text.contains("a name of 2000 bytes; use at most 1024"), "{text}");
}

#[test]
fn a_rank_that_accepts_and_is_never_connected_is_in_a_deadlock() {
    let lonely = async |world: Comm| {
        let alone = world.split(Some(world.rank()), 0).await?.ok_or("no part")?;
        if world.rank() == 1 {
            return Ok(());
        }
        let port = world.open_port().await?;
        alone.accept(Some(port), 0).await.map(drop)
    };
    let expected =
        "the ranks are in a deadlock: rank 0 waits in accept with rank 0, on communicator 1";
    let job = run(2, lonely).time_limit(Duration::from_secs(60));
    assert_eq!(embedded::run(job, 2).unwrap_err().to_string(), expected);
    assert_eq!(simulate(run(2, lonely), SITES).unwrap_err().to_string(), expected);
    // A round trip over this link takes longer than the interval at which ranks check their waits.
    let far = "2x1,wan=500ms";
    assert_eq!(simulate(run(2, lonely), far).unwrap_err().to_string(), expected);
}

/// Rank 0 accepts, and a rank that rank 1 spawns much later connects.
async fn patient(world: Comm) -> Result<(), RankError> {
    if let Some(parents) = world.parent() {
        let (port, _) = parents.recv_value::<RankPort>(0, 0).await?;
        return world.connect(Some(port), 0).await.map(drop);
    }
    let alone = world.split(Some(world.rank()), 0).await?.ok_or("no part")?;
    if world.rank() == 0 {
        let port = world.open_port().await?;
        world.publish_name("late", port).await?;
        return alone.accept(Some(port), 0).await.map(drop);
    }
    let port = world.wait_for_name("late").await?;
    world.sleep(Duration::from_secs(4)).await;
    world.charge(Duration::from_secs(4));
    alone.spawn(1, SpawnPlacement::Block).await?.send_value(&port, 0, 0).await
}

#[test]
fn a_rank_that_accepts_for_long_is_in_no_deadlock_while_others_may_connect() {
    embedded::run(run(2, patient).time_limit(Duration::from_secs(60)), 2).unwrap();
    simulate(run(2, patient), SITES).unwrap();
}
