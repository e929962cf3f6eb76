//! Function handles, and blocking calls.

use crate::fixture::{
    ADD, FAIL, PANIC, SLEEP, SPECIAL, UNKNOWN, client, code, servers, simulated, stranger,
};
use gridspan_rpc::calls::{Config, Function, GridRpc, RpcError};

#[test]
fn a_handle_has_the_name_of_its_function() {
    client(async |rpc| {
        let handle = rpc.handle(&ADD).await?;
        assert_eq!((handle.name(), handle.is_bound()), ("add", false));
        Ok(())
    });
}

#[test]
fn a_handle_of_a_function_that_no_server_offers_is_code_5() {
    client(async |rpc| {
        assert_eq!(code(rpc.handle(&UNKNOWN).await), 5);
        Ok(())
    });
}

#[test]
fn a_handle_needs_an_initialised_client() {
    stranger(async |rpc| {
        assert_eq!(code(rpc.handle(&ADD).await), 1);
        assert_eq!(code(rpc.handle_on(&ADD, "slow").await), 1);
        Ok(())
    });
}

#[test]
fn a_handle_may_be_bound_to_a_server() {
    client(async |rpc| {
        let handle = rpc.handle_on(&ADD, "slow").await?;
        assert!(handle.is_bound());
        assert_eq!(rpc.call(&handle, &(20, 22)).await?, 42);
        Ok(())
    });
}

#[test]
fn a_handle_on_a_server_that_does_not_exist_is_code_4() {
    client(async |rpc| {
        assert_eq!(code(rpc.handle_on(&ADD, "nowhere").await), 4);
        Ok(())
    });
}

#[test]
fn a_handle_on_a_server_that_does_not_offer_the_function_is_code_5() {
    client(async |rpc| {
        assert_eq!(code(rpc.handle_on(&SPECIAL, "fast").await), 5);
        assert_eq!(code(rpc.handle_on(&SPECIAL, "slow").await), 0);
        Ok(())
    });
}

#[test]
fn a_handle_from_before_the_last_initialisation_is_code_6() {
    client(async |mut rpc| {
        let old = rpc.handle(&ADD).await?;
        rpc.finalize().await?;
        rpc.initialize(&Config::default())?;
        assert_eq!(rpc.call(&old, &(1, 1)).await, Err(RpcError::InvalidFunctionHandle));
        assert_eq!(code(rpc.call_async(&old, &(1, 1)).await), 6);
        Ok(())
    });
}

#[test]
fn a_session_tells_which_function_it_calls() {
    client(async |rpc| {
        let session = rpc.call_async(&rpc.handle(&ADD).await?, &(1, 1)).await?;
        assert_eq!(rpc.function_of(session.id()).await?, "add");
        rpc.wait(&session).await?;
        assert_eq!(code(rpc.function_of(session.id()).await), 7);
        Ok(())
    });
}

#[test]
fn a_call_returns_its_results() {
    client(async |rpc| {
        assert_eq!(rpc.call(&rpc.handle(&ADD).await?, &(-3, 5)).await?, 2);
        assert_eq!(rpc.call(&rpc.handle(&SPECIAL).await?, &()).await?, 7);
        Ok(())
    });
}

#[test]
fn a_call_needs_an_initialised_client() {
    client(async |mut rpc| {
        let handle = rpc.handle(&ADD).await?;
        rpc.finalize().await?;
        assert_eq!(code(rpc.call(&handle, &(1, 1)).await), 1);
        assert_eq!(code(rpc.call_async(&handle, &(1, 1)).await), 1);
        Ok(())
    });
}

#[test]
fn a_function_that_fails_is_code_10_with_its_reason() {
    client(async |rpc| {
        let failed = rpc.call(&rpc.handle(&FAIL).await?, &()).await;
        assert_eq!(failed, Err(RpcError::SessionFailed { reason: "as asked".to_owned() }));
        Ok(())
    });
}

#[test]
fn a_function_that_panics_is_code_10_and_its_server_goes_on() {
    client(async |rpc| {
        let failed = rpc.call(&rpc.handle_on(&PANIC, "slow").await?, &()).await;
        let reason = "the function panicked: as asked".to_owned();
        assert_eq!(failed, Err(RpcError::SessionFailed { reason }));
        assert_eq!(rpc.call(&rpc.handle_on(&ADD, "slow").await?, &(1, 1)).await?, 2);
        Ok(())
    });
}

#[test]
fn arguments_of_another_type_are_code_10() {
    const OTHER: Function<String, i64> = Function::new("add", |_, _| Ok(0));
    client(async |rpc| {
        let failed = rpc.call(&rpc.handle(&OTHER).await?, &"no numbers at all".to_owned()).await;
        assert_eq!(code(failed), 10);
        Ok(())
    });
}

/// Arguments one byte larger than the limit.
#[derive(serde::Deserialize)]
struct Large(Vec<u8>);

impl serde::Serialize for Large {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

#[test]
fn arguments_that_are_too_large_are_refused_with_code_8() {
    const LARGE: Function<Large, i64> = Function::new("add", |_, _| Ok(0));
    client(async |rpc| {
        let refused = rpc.call(&rpc.handle(&LARGE).await?, &Large(vec![0; (1 << 30) + 1])).await;
        assert_eq!(code(refused), 8);
        Ok(())
    });
}

#[test]
fn calls_go_to_the_server_that_ends_them_first() {
    simulated(async |grid| {
        let mut rpc = GridRpc::new(&servers(&grid).await?);
        rpc.initialize(&Config::default())?;
        let handle = rpc.handle(&SLEEP).await?;
        let begin = grid.now().await.unwrap();
        for _ in 0..3 {
            rpc.call_async(&handle, &2000).await?;
        }
        rpc.wait_all().await?;
        let took_s = grid.now().await.unwrap().since(begin).as_secs_f64();
        // Of three calls of 2 s, two go to the server that takes 1 s for each.
        assert!((1.9..2.1).contains(&took_s), "{took_s}");
        Ok(())
    });
}
