//! Servers that come and go, and do not answer in time.

use crate::fixture::{ADD, SLEEP, code, servers, simulated, surprise};
use gridspan_rpc::calls::{Config, GridRpc, ServerPlan};
use gridspan_runtime::PeId;
use std::time::Duration;

#[test]
fn queued_calls_of_a_server_that_leaves_go_to_another() {
    simulated(async |grid| {
        let services = servers(&grid).await?;
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        let handle = rpc.handle(&SLEEP).await?;
        let mut sessions = Vec::new();
        for _ in 0..30 {
            sessions.push(rpc.call_async(&handle, &100).await?);
        }
        services.leave("fast").await?;
        rpc.wait_all().await?;
        for session in &sessions {
            assert_eq!(rpc.results(session).await?, 100);
        }
        assert_eq!(services.list().await?.len(), 1);
        Ok(())
    });
}

#[test]
fn a_bound_call_is_not_made_elsewhere() {
    simulated(async |grid| {
        let services = servers(&grid).await?;
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        let handle = rpc.handle_on(&ADD, "fast").await?;
        services.leave("fast").await?;
        assert_eq!(code(rpc.call(&handle, &(1, 2)).await), 4);
        assert_eq!(code(rpc.handle_on(&ADD, "fast").await), 4);
        assert_eq!(rpc.call(&rpc.handle(&ADD).await?, &(1, 2)).await?, 3);
        Ok(())
    });
}

#[test]
fn a_call_without_any_server_is_code_4() {
    simulated(async |grid| {
        let services = servers(&grid).await?;
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        let handle = rpc.handle(&ADD).await?;
        services.leave("fast").await?;
        services.leave("slow").await?;
        assert_eq!(code(rpc.call(&handle, &(1, 2)).await), 4);
        assert_eq!(code(services.leave("slow").await), 4);
        Ok(())
    });
}

#[test]
fn a_server_that_joins_is_called() {
    simulated(async |grid| {
        let services = servers(&grid).await?;
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        let quick = ServerPlan::new("quick", PeId(1)).with_speed(100.0);
        services.join(quick).await?;
        let begin = grid.now().await.unwrap();
        rpc.call(&rpc.handle(&SLEEP).await?, &1000).await?;
        let took_s = grid.now().await.unwrap().since(begin).as_secs_f64();
        assert!((0.010..0.011).contains(&took_s), "{took_s}");
        Ok(())
    });
}

#[test]
fn a_server_needs_an_existing_pe_and_a_positive_speed() {
    simulated(async |grid| {
        let services = servers(&grid).await?;
        assert_eq!(code(services.join(ServerPlan::new("far", PeId(99))).await), 13);
        let still = ServerPlan::new("still", PeId(1)).with_speed(0.0);
        assert_eq!(code(services.join(still).await), 13);
        Ok(())
    });
}

#[test]
fn a_call_that_is_not_answered_in_time_goes_to_the_next_server() {
    simulated(async |grid| {
        let services = servers(&grid).await?;
        let _other = surprise(&services).await?;
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default().with_timeout(Duration::from_secs(1)).with_attempts(2))?;
        let add = rpc.handle(&ADD).await?;
        let mut took_s = Vec::new();
        for _ in 0..3 {
            let begin = grid.now().await.unwrap();
            assert_eq!(rpc.call(&add, &(1, 2)).await?, 3);
            took_s.push(grid.now().await.unwrap().since(begin).as_secs_f64());
        }
        // The first call waits one second for the fast server, which counts as late from then on.
        assert!((1.0..1.1).contains(&took_s[0]), "{took_s:?}");
        assert!(took_s[1] < 0.1 && took_s[2] < 0.1, "{took_s:?}");

        let bound = rpc.handle_on(&ADD, "fast").await?;
        assert_eq!(code(rpc.call(&bound, &(1, 2)).await), 9, "it is bound");
        grid.sleep(Duration::from_secs(10)).await.unwrap();
        assert_eq!(rpc.call(&bound, &(1, 2)).await?, 3, "it answers again");
        assert_eq!(services.load_s().await?, 0.0);
        Ok(())
    });
}

#[test]
fn a_call_is_retried_on_a_server_that_joined_meanwhile() {
    simulated(async |grid| {
        let services = servers(&grid).await?;
        services.leave("slow").await?;
        let _other = surprise(&services).await?;
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default().with_timeout(Duration::from_secs(1)).with_attempts(2))?;
        let add = rpc.handle(&ADD).await?;
        let session = rpc.call_async(&add, &(1, 2)).await?;
        services.join(ServerPlan::new("new", PeId(1))).await?;
        assert_eq!(rpc.wait(&session).await?, 3);
        Ok(())
    });
}

#[test]
fn a_call_that_no_server_answers_in_time_is_code_9() {
    simulated(async |grid| {
        let mut rpc = GridRpc::new(&servers(&grid).await?);
        rpc.initialize(&Config::default().with_timeout(Duration::from_secs(1)))?;
        let begin = grid.now().await.unwrap();
        assert_eq!(code(rpc.call(&rpc.handle(&SLEEP).await?, &60_000).await), 9);
        let took_s = grid.now().await.unwrap().since(begin).as_secs_f64();
        assert!((1.9..2.1).contains(&took_s), "two servers, a second each: {took_s}");
        Ok(())
    });
}
