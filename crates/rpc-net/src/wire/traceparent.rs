//! The context of a client's span in a request: a `traceparent` as text, or nothing.
//!
//! The field is left out if there is no context, and a receiver ignores fields of JSON that it does
//! not know. So processes of different builds understand each other, with or without the field. A
//! text that is not a `traceparent` is ignored, as W3C Trace Context requires.

use gridspan_rpc::trace::TraceContext;
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(
    context: &Option<TraceContext>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match context {
        Some(context) => to.collect_str(context),
        None => to.serialize_none(),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<TraceContext>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

#[cfg(test)]
mod tests {
    use crate::wire::messages::{Request, TextCall, read};
    use gridspan_rpc::trace::TraceContext;
    use std::time::Duration;

    /// A call as builds without spans write it.
    const OLD: &str = r#"{"Call":{"number":3,"function":"add","arguments":"[1,2]","timeout":{"secs":5,"nanos":0}}}"#;
    const CONTEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn call(text: &str) -> TextCall {
        match read(text.as_bytes()).unwrap() {
            Request::Call(call) => call,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_call_without_a_context_is_written_and_read_as_before() {
        let call = call(OLD);
        assert_eq!(call.traceparent, None);
        assert_eq!(serde_json::to_string(&Request::Call(call)).unwrap(), OLD);
    }

    #[test]
    fn a_context_is_read_as_written_and_a_wrong_one_counts_as_none() {
        let context: TraceContext = CONTEXT.parse().unwrap();
        let traceparent = Some(context);
        let traced = TextCall {
            number: 0,
            function: "add".to_owned(),
            arguments: "[1,2]".to_owned(),
            timeout: Duration::from_secs(5),
            traceparent,
        };
        let text = serde_json::to_string(&Request::Call(traced.clone())).unwrap();
        assert!(text.contains(&format!(r#""traceparent":"{CONTEXT}""#)), "{text}");
        assert_eq!(call(&text), traced);
        for wrong in [CONTEXT.to_uppercase().as_str(), "", "00-0-0-00"] {
            assert_eq!(call(&text.replace(CONTEXT, wrong)).traceparent, None, "{wrong}");
        }
    }
}
