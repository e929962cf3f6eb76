//! Initialising, finalising and the configuration.

use crate::fixture::{ADD, SLEEP, client, code, simulated, stranger};
use gridspan_rpc::calls::{Config, RpcError};
use std::path::Path;
use std::time::Duration;

#[test]
fn a_client_is_initialised_once() {
    stranger(async |mut rpc| {
        assert_eq!(code(rpc.initialize(&Config::default())), 0);
        assert_eq!(code(rpc.initialize(&Config::default())), 15);
        Ok(())
    });
}

#[test]
fn a_client_that_was_finalised_can_be_initialised_again() {
    client(async |mut rpc| {
        rpc.finalize().await?;
        assert_eq!(code(rpc.initialize(&Config::default())), 0);
        assert_eq!(rpc.call(&rpc.handle(&ADD).await?, &(1, 2)).await?, 3);
        Ok(())
    });
}

#[test]
fn finalising_needs_an_initialised_client() {
    stranger(async |mut rpc| {
        assert_eq!(rpc.finalize().await, Err(RpcError::NotInitialized));
        Ok(())
    });
}

#[test]
fn finalising_cancels_the_clients_calls() {
    let report = simulated(async |grid| {
        let mut rpc = gridspan_rpc::calls::GridRpc::new(&crate::fixture::servers(&grid).await?);
        rpc.initialize(&Config::default())?;
        let handle = rpc.handle_on(&SLEEP, "slow").await?;
        for _ in 0..1000 {
            rpc.call_async(&handle, &1000).await?;
        }
        rpc.finalize().await
    });

    // One may be in execution; the others are removed from the server's queue.
    assert!(report.virtual_time.as_secs_f64() < 3.0, "{}", report.virtual_time);
}

#[test]
fn a_dropped_or_finalised_client_leaves_no_load_on_servers() {
    simulated(async |grid| {
        let services = crate::fixture::servers(&grid).await?;
        for is_finalised in [false, true] {
            let mut rpc = gridspan_rpc::calls::GridRpc::new(&services);
            rpc.initialize(&Config::default())?;
            let handle = rpc.handle(&SLEEP).await?;
            for _ in 0..100 {
                rpc.call_async(&handle, &1000).await?;
            }
            assert!(services.load_s().await? > 40.0);
            if is_finalised {
                rpc.finalize().await?;
            }
            drop(rpc);
            // Long enough for the call in execution.
            grid.sleep(Duration::from_millis(1100)).await.unwrap();
            assert!(services.load_s().await? < 1e-9, "{}", services.load_s().await?);
        }
        Ok(())
    });
}

#[test]
fn a_configuration_is_read_from_text() {
    let config = Config::parse("timeout = \"30s\"\nattempts = 2").unwrap();

    assert_eq!((config.timeout, config.attempts), (Duration::from_secs(30), 2));
    assert_eq!(Config::parse("").unwrap(), Config::default());
}

#[test]
fn a_missing_configuration_is_code_2() {
    assert_eq!(code(Config::read(Path::new("/nowhere/client.toml"))), 2);
}

#[test]
fn an_invalid_configuration_is_code_3() {
    for text in
        ["timeout = ", "colour = 1", "timeout = \"soon\"", "timeout = \"0s\"", "attempts = 0"]
    {
        assert_eq!(code(Config::parse(text)), 3, "{text}");
    }
}

#[test]
fn a_client_cannot_be_initialised_with_an_invalid_configuration() {
    stranger(async |mut rpc| {
        let wrong = Config::default().with_attempts(0);
        assert_eq!(code(rpc.initialize(&wrong)), 3);
        assert_eq!(code(rpc.handle(&ADD).await), 1);
        Ok(())
    });
}
