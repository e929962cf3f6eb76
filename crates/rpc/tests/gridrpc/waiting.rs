//! Waiting for sessions.

use crate::fixture::{ADD, FAIL, SLEEP, client, code, servers, simulated, stranger};
use gridspan_rpc::calls::{Config, GridRpc, SessionId};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

const UNKNOWN: SessionId = SessionId(999);

#[test]
fn waiting_returns_the_results() {
    client(async |rpc| {
        let session = rpc.call_async(&rpc.handle(&ADD).await?, &(1, 2)).await?;
        assert_eq!(rpc.wait(&session).await?, 3);
        Ok(())
    });
}

#[test]
fn waiting_for_a_session_whose_results_were_taken_is_code_7() {
    client(async |rpc| {
        let session = rpc.call_async(&rpc.handle(&ADD).await?, &(1, 2)).await?;
        rpc.wait(&session).await?;
        assert_eq!(code(rpc.wait(&session).await), 7);
        Ok(())
    });
}

#[test]
fn waiting_for_a_session_that_fails_is_code_10() {
    client(async |rpc| {
        let session = rpc.call_async(&rpc.handle(&FAIL).await?, &()).await?;
        assert_eq!(code(rpc.wait(&session).await), 10);
        Ok(())
    });
}

#[test]
fn waiting_needs_an_initialised_client() {
    stranger(async |rpc| {
        assert_eq!(code(rpc.wait_and(&[UNKNOWN]).await), 1);
        assert_eq!(code(rpc.wait_or(&[UNKNOWN]).await), 1);
        assert_eq!(code(rpc.wait_all().await), 1);
        assert_eq!(code(rpc.wait_any().await), 1);
        Ok(())
    });
}

#[test]
fn a_session_of_another_client_is_code_7() {
    simulated(async |grid| {
        let services = servers(&grid).await?;
        let (mut one, mut other) = (GridRpc::new(&services), GridRpc::new(&services));
        one.initialize(&Config::default())?;
        other.initialize(&Config::default())?;
        let session = one.call_async(&one.handle(&ADD).await?, &(1, 2)).await?;
        assert_eq!(code(other.wait(&session).await), 7);
        assert_eq!(one.wait(&session).await?, 3);
        Ok(())
    });
}

#[test]
fn wait_and_takes_as_long_as_the_last_session() {
    simulated(async |grid| {
        let mut rpc = GridRpc::new(&servers(&grid).await?);
        rpc.initialize(&Config::default())?;
        let (slow, fast) =
            (rpc.handle_on(&SLEEP, "slow").await?, rpc.handle_on(&SLEEP, "fast").await?);
        let long = rpc.call_async(&slow, &3000).await?;
        let short = rpc.call_async(&fast, &2000).await?;
        let begin = grid.now().await.unwrap();
        rpc.wait_and(&[long.id(), short.id()]).await?;
        let took_s = grid.now().await.unwrap().since(begin).as_secs_f64();
        assert!((2.9..3.1).contains(&took_s), "{took_s}");
        assert_eq!((rpc.results(&long).await?, rpc.results(&short).await?), (3000, 2000));
        Ok(())
    });
}

#[test]
fn wait_and_with_an_unknown_session_is_code_7() {
    client(async |rpc| {
        let session = rpc.call_async(&rpc.handle(&ADD).await?, &(1, 2)).await?;
        assert_eq!(code(rpc.wait_and(&[session.id(), UNKNOWN]).await), 7);
        Ok(())
    });
}

#[test]
fn wait_and_with_a_failed_session_is_code_10() {
    client(async |rpc| {
        let good = rpc.call_async(&rpc.handle(&ADD).await?, &(1, 2)).await?;
        let bad = rpc.call_async(&rpc.handle(&FAIL).await?, &()).await?;
        assert_eq!(code(rpc.wait_and(&[good.id(), bad.id()]).await), 10);
        assert_eq!(rpc.results(&good).await?, 3);
        Ok(())
    });
}

#[test]
fn wait_or_returns_the_first_session_that_ends() {
    client(async |rpc| {
        let long = rpc.call_async(&rpc.handle_on(&SLEEP, "slow").await?, &3000).await?;
        let short = rpc.call_async(&rpc.handle_on(&SLEEP, "fast").await?, &2000).await?;
        assert_eq!(rpc.wait_or(&[long.id(), short.id()]).await?, short.id());
        assert_eq!(code(rpc.probe(long.id()).await), 11);
        Ok(())
    });
}

#[test]
fn wait_or_with_an_unknown_session_is_code_7() {
    client(async |rpc| {
        let session = rpc.call_async(&rpc.handle(&ADD).await?, &(1, 2)).await?;
        assert_eq!(code(rpc.wait_or(&[session.id(), UNKNOWN]).await), 7);
        Ok(())
    });
}

#[test]
fn waiting_for_one_of_no_sessions_is_code_12_and_for_all_succeeds() {
    client(async |rpc| {
        assert_eq!(code(rpc.wait_or(&[]).await), 12);
        assert_eq!(code(rpc.wait_and(&[]).await), 0);
        assert_eq!(code(rpc.wait_any().await), 12);
        assert_eq!(code(rpc.wait_all().await), 0);
        Ok(())
    });
}

#[test]
fn wait_all_waits_for_all_sessions() {
    client(async |rpc| {
        let handle = rpc.handle(&SLEEP).await?;
        let mut sessions = Vec::new();
        for ms in [10, 300, 20] {
            sessions.push(rpc.call_async(&handle, &ms).await?);
        }
        rpc.wait_all().await?;
        for session in &sessions {
            assert_eq!(code(rpc.probe(session.id()).await), 0);
        }
        Ok(())
    });
}

#[test]
fn a_session_of_a_dropped_wait_for_any_is_returned_by_the_next_one() {
    for ends_first in [true, false] {
        simulated(async move |grid| {
            let mut rpc = GridRpc::new(&servers(&grid).await?);
            rpc.initialize(&Config::default())?;
            let handle = rpc.handle_on(&SLEEP, "slow").await?;
            let session = rpc.call_async(&handle, &1000).await?;
            {
                let mut dropped = pin!(rpc.wait_any());
                let first = poll_fn(|cx| Poll::Ready(dropped.as_mut().poll(cx))).await;
                assert!(first.is_pending());
                if ends_first {
                    grid.sleep(Duration::from_secs(2)).await.unwrap();
                }
            }
            grid.sleep(Duration::from_secs(2)).await.unwrap();
            assert_eq!(rpc.wait_any().await?, session.id());
            assert_eq!(code(rpc.wait_any().await), 12);
            Ok(())
        });
    }
}

#[test]
fn a_session_of_two_dropped_waits_for_any_is_returned_by_the_next_one() {
    simulated(async |grid| {
        let mut rpc = GridRpc::new(&servers(&grid).await?);
        rpc.initialize(&Config::default())?;
        let handle = rpc.handle_on(&SLEEP, "slow").await?;
        let session = rpc.call_async(&handle, &1000).await?;
        {
            let mut one = pin!(rpc.wait_any());
            let mut other = pin!(rpc.wait_any());
            for wait in [&mut one, &mut other] {
                let first = poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx))).await;
                assert!(first.is_pending());
            }
            grid.sleep(Duration::from_secs(2)).await.unwrap();
        }
        assert_eq!(rpc.wait_any().await?, session.id());
        Ok(())
    });
}

#[test]
fn a_session_of_dropped_waits_for_it_is_returned_by_a_wait_for_any() {
    for ends_first in [true, false] {
        simulated(async move |grid| {
            let mut rpc = GridRpc::new(&servers(&grid).await?);
            rpc.initialize(&Config::default())?;
            let handle = rpc.handle_on(&SLEEP, "slow").await?;
            let session = rpc.call_async(&handle, &1000).await?;
            let ids = [session.id(); 2];
            {
                let (mut and, mut or) = (pin!(rpc.wait_and(&ids)), pin!(rpc.wait_or(&ids)));
                let (mut all, mut one) = (pin!(rpc.wait_all()), pin!(rpc.wait(&session)));
                poll_fn(|cx| {
                    assert!(and.as_mut().poll(cx).is_pending());
                    assert!(or.as_mut().poll(cx).is_pending());
                    assert!(all.as_mut().poll(cx).is_pending());
                    assert!(one.as_mut().poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                if ends_first {
                    grid.sleep(Duration::from_secs(2)).await.unwrap();
                }
            }
            grid.sleep(Duration::from_secs(2)).await.unwrap();
            assert_eq!(rpc.wait_any().await?, session.id());
            assert_eq!(code(rpc.wait_any().await), 12);
            assert_eq!(rpc.wait(&session).await?, 1000);
            Ok(())
        });
    }
}

#[test]
fn wait_any_returns_each_session_once_as_it_ends() {
    client(async |rpc| {
        let handle = rpc.handle_on(&SLEEP, "slow").await?;
        let first = rpc.call_async(&handle, &10).await?;
        let second = rpc.call_async(&handle, &10).await?;
        assert_eq!(rpc.wait_any().await?, first.id());
        assert_eq!(rpc.wait_any().await?, second.id());
        assert_eq!(code(rpc.wait_any().await), 12);
        Ok(())
    });
}
