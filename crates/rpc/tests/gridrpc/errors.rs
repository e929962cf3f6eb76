//! Error codes, their texts, and failed sessions.

use crate::fixture::{ADD, FAIL, SLEEP, client, code, stranger};
use gridspan_rpc::calls::{RpcError, SessionId, error_string};

#[test]
fn every_code_has_the_name_that_the_standard_gives_it() {
    let names = [
        "NO_ERROR",
        "NOT_INITIALIZED",
        "CONFIGFILE_NOT_FOUND",
        "CONFIGFILE_ERROR",
        "SERVER_NOT_FOUND",
        "FUNCTION_NOT_FOUND",
        "INVALID_FUNCTION_HANDLE",
        "INVALID_SESSION_ID",
        "RPC_REFUSED",
        "COMMUNICATION_FAILED",
        "SESSION_FAILED",
        "NOT_COMPLETED",
        "NONE_COMPLETED",
        "OTHER_ERROR_CODE",
        "UNKNOWN_ERROR_CODE",
        "ALREADY_INITIALIZED",
        "LAST_ERROR_CODE",
    ];
    for (code, name) in (0..).zip(names) {
        assert_eq!(error_string(code), format!("GRPC_{name}"));
    }
}

#[test]
fn a_code_outside_the_standard_has_the_text_for_unknown_codes() {
    for code in [-1, 17, i32::MAX] {
        assert_eq!(error_string(code), "GRPC_UNKNOWN_ERROR_CODE");
    }
}

#[test]
fn the_error_for_a_missing_function_says_what_to_do() {
    let error = RpcError::FunctionNotFound { function: "f".to_owned() };
    assert!(error.to_string().contains("add it to the catalogue"));
}

#[test]
fn a_session_that_succeeded_has_no_error() {
    client(async |rpc| {
        let session = rpc.call_async(&rpc.handle(&ADD).await?, &(1, 2)).await?;
        rpc.wait_and(&[session.id()]).await?;
        assert_eq!(rpc.error(session.id()).await?, None);
        Ok(())
    });
}

#[test]
fn a_failed_session_has_its_error_and_a_running_one_is_code_11() {
    client(async |rpc| {
        let runs = rpc.call_async(&rpc.handle_on(&SLEEP, "slow").await?, &1000).await?;
        let fails = rpc.call_async(&rpc.handle_on(&FAIL, "fast").await?, &()).await?;
        assert_eq!(code(rpc.wait_and(&[fails.id()]).await), 10);
        assert_eq!(rpc.error(fails.id()).await?.map(|error| error.code()), Some(10));
        assert_eq!(code(rpc.error(runs.id()).await), 11);
        Ok(())
    });
}

#[test]
fn the_error_of_an_unknown_session_is_code_7() {
    client(async |rpc| {
        assert_eq!(code(rpc.error(SessionId(999)).await), 7);
        Ok(())
    });
}

#[test]
fn failed_sessions_are_returned_one_by_one() {
    client(async |rpc| {
        let handle = rpc.handle_on(&FAIL, "slow").await?;
        let one = rpc.call_async(&handle, &()).await?;
        let other = rpc.call_async(&handle, &()).await?;
        assert_eq!(code(rpc.wait_all().await), 10);
        assert_eq!(rpc.failed_session().await?, Some(one.id()));
        assert_eq!(rpc.failed_session().await?, Some(other.id()));
        assert_eq!(rpc.failed_session().await?, None);
        Ok(())
    });
}

#[test]
fn asking_for_errors_needs_an_initialised_client() {
    stranger(async |rpc| {
        assert_eq!(code(rpc.error(SessionId(1)).await), 1);
        assert_eq!(code(rpc.failed_session().await), 1);
        Ok(())
    });
}
