//! Probing sessions.

use crate::fixture::{ADD, SLEEP, client, code, stranger};
use gridspan_rpc::calls::SessionId;

const UNKNOWN: SessionId = SessionId(999);

#[test]
fn a_session_that_has_ended_is_code_0() {
    client(async |rpc| {
        let session = rpc.call_async(&rpc.handle(&ADD).await?, &(1, 2)).await?;
        rpc.wait_and(&[session.id()]).await?;
        assert_eq!(code(rpc.probe(session.id()).await), 0);
        Ok(())
    });
}

#[test]
fn a_session_that_runs_is_code_11() {
    client(async |rpc| {
        let session = rpc.call_async(&rpc.handle(&SLEEP).await?, &1000).await?;
        assert_eq!(code(rpc.probe(session.id()).await), 11);
        assert_eq!(code(rpc.results(&session).await), 11);
        Ok(())
    });
}

#[test]
fn an_unknown_session_is_code_7() {
    client(async |rpc| {
        assert_eq!(code(rpc.probe(UNKNOWN).await), 7);
        Ok(())
    });
}

#[test]
fn probe_or_returns_the_session_that_has_ended() {
    client(async |rpc| {
        let long = rpc.call_async(&rpc.handle_on(&SLEEP, "slow").await?, &1000).await?;
        let short = rpc.call_async(&rpc.handle_on(&ADD, "fast").await?, &(1, 2)).await?;
        rpc.wait_and(&[short.id()]).await?;
        assert_eq!(rpc.probe_or(&[long.id(), short.id()]).await?, short.id());
        Ok(())
    });
}

#[test]
fn probe_or_of_running_sessions_is_code_12() {
    client(async |rpc| {
        let handle = rpc.handle(&SLEEP).await?;
        let (one, other) =
            (rpc.call_async(&handle, &1000).await?, rpc.call_async(&handle, &1000).await?);
        assert_eq!(code(rpc.probe_or(&[one.id(), other.id()]).await), 12);
        assert_eq!(code(rpc.probe_or(&[]).await), 12);
        Ok(())
    });
}

#[test]
fn probe_or_with_an_unknown_session_is_code_7() {
    client(async |rpc| {
        let session = rpc.call_async(&rpc.handle(&ADD).await?, &(1, 2)).await?;
        rpc.wait_and(&[session.id()]).await?;
        assert_eq!(code(rpc.probe_or(&[session.id(), UNKNOWN]).await), 7);
        Ok(())
    });
}

#[test]
fn probing_needs_an_initialised_client() {
    stranger(async |rpc| {
        assert_eq!(code(rpc.probe(UNKNOWN).await), 1);
        assert_eq!(code(rpc.probe_or(&[UNKNOWN]).await), 1);
        Ok(())
    });
}
