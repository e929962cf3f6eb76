//! Cancelling sessions.

use crate::fixture::{ADD, SLEEP, client, code, servers, simulated, stranger, surprise};
use gridspan_rpc::calls::{Config, GridRpc, SessionId};
use std::time::Duration;

#[test]
fn a_session_that_is_cancelled_has_failed() {
    client(async |rpc| {
        let session = rpc.call_async(&rpc.handle(&SLEEP).await?, &1000).await?;
        assert_eq!(code(rpc.cancel(session.id()).await), 0);
        assert_eq!(code(rpc.wait(&session).await), 10);
        Ok(())
    });
}

#[test]
fn cancelling_an_ended_session_keeps_its_results() {
    client(async |rpc| {
        let session = rpc.call_async(&rpc.handle(&ADD).await?, &(1, 2)).await?;
        rpc.wait_and(&[session.id()]).await?;
        assert_eq!(code(rpc.cancel(session.id()).await), 0);
        assert_eq!(rpc.wait(&session).await?, 3);
        Ok(())
    });
}

#[test]
fn cancelling_an_unknown_session_is_code_7() {
    client(async |rpc| {
        assert_eq!(code(rpc.cancel(SessionId(999)).await), 7);
        Ok(())
    });
}

#[test]
fn cancelling_needs_an_initialised_client() {
    stranger(async |rpc| {
        assert_eq!(code(rpc.cancel(SessionId(1)).await), 1);
        assert_eq!(code(rpc.cancel_all().await), 1);
        Ok(())
    });
}

#[test]
fn cancelled_calls_in_a_servers_queue_are_not_executed() {
    let report = simulated(async |grid| {
        let mut rpc = GridRpc::new(&servers(&grid).await?);
        rpc.initialize(&Config::default())?;
        let handle = rpc.handle_on(&SLEEP, "slow").await?;
        for _ in 0..100 {
            rpc.call_async(&handle, &1000).await?;
        }
        rpc.cancel_all().await?;
        assert_eq!(code(rpc.wait_all().await), 0, "no session runs");
        assert_eq!(rpc.call(&rpc.handle_on(&ADD, "slow").await?, &(1, 2)).await?, 3);
        Ok(())
    });

    assert!(report.virtual_time.as_secs_f64() < 2.0, "{}", report.virtual_time);
}

#[test]
fn a_text_call_that_is_given_up_ends_once_no_server_holds_it() {
    let report = simulated(async |grid| {
        let mut rpc = GridRpc::new(&servers(&grid).await?);
        rpc.initialize(&Config::default())?;
        let after = async |ms| drop(grid.sleep(Duration::from_millis(ms)).await);
        let begin = grid.now().await.unwrap();
        // When the call is given up, the server of speed 2 is executing it.
        let given_up = rpc.call_text_until("sleep", "4000", after(100)).await;
        assert_eq!(code(given_up), 10);
        let ended_s = grid.now().await.unwrap().since(begin).as_secs_f64();
        assert!((2.0..2.1).contains(&ended_s), "{ended_s}");
        assert_eq!(rpc.call_text_until("add", "[1, 2]", after(1_000)).await?, "3");
        assert_eq!(code(rpc.wait_all().await), 0);
        // A call that is given up while it waits behind another is never executed.
        let handle = rpc.handle(&SLEEP).await?;
        for _ in 0..2 {
            rpc.call_async(&handle, &1000).await?;
        }
        let waiting = rpc.call_text_until("sleep", "100000", after(10)).await;
        assert_eq!(code(waiting), 10);
        Ok(())
    });

    assert!(report.virtual_time.as_secs_f64() < 6.0, "{}", report.virtual_time);
}

#[test]
fn a_text_call_that_is_given_up_waits_for_servers_that_hold_earlier_attempts() {
    simulated(async |grid| {
        let services = servers(&grid).await?;
        let begin = grid.now().await.unwrap();
        let _other = surprise(&services).await?;
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default().with_timeout(Duration::from_secs(1)).with_attempts(2))?;
        // The first attempt is in the queue of the fast server, which is busy for 10 s. After one
        // second, the slow server begins the second attempt, which takes two seconds.
        let after = async |ms| drop(grid.sleep(Duration::from_millis(ms)).await);
        let given_up = rpc.call_text_until("sleep", "2000", after(1_500)).await;
        assert_eq!(code(given_up), 10);
        let ended_s = grid.now().await.unwrap().since(begin).as_secs_f64();
        assert!((9.9..10.5).contains(&ended_s), "{ended_s}");
        Ok(())
    });
}
