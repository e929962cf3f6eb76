//! Spans of calls for OpenTelemetry, and the context that goes from a client to its server.
//!
//! Calls have spans of [`tracing`], with the fields of the semantic conventions of OpenTelemetry.
//! The subscriber of the program decides which spans are recorded, and where they go; this crate
//! installs none. A layer such as that of `tracing-opentelemetry` exports them.
//!
//! **Start.** `tracing` does not know the identifiers of OpenTelemetry. So a program whose spans
//! are to be connected across processes sets a [`Propagator`] once ([`set_propagator`]).
//!
//! **Steady state.** The propagator reads the [`TraceContext`] of the client's span, in the form of
//! the `traceparent` of W3C Trace Context. The context travels with the call, also through a
//! registry, and the propagator makes it the parent of the server's span. The function is executed
//! inside of that span, so that spans of the function are below it.
//!
//! **Cost.** A call without a context carries no additional byte. Without a subscriber, a span
//! costs one comparison with the maximum level that is recorded.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::OnceLock;
use thiserror::Error;
use tracing::field::{Empty, display};
use tracing::{Instrument, Span};

/// The target of the spans.
const TARGET: &str = "gridspan_rpc";
/// The value of `rpc.system`.
const SYSTEM: &str = "gridspan";
/// Length of a context as text, in bytes.
const TEXT_BYTES: usize = 55;

static PROPAGATOR: OnceLock<Box<dyn Propagator>> = OnceLock::new();

/// The place of a span in a trace, as a `traceparent` of W3C Trace Context (2021, section 3.2)
/// states it.
///
/// ```
/// use gridspan_rpc::trace::TraceContext;
///
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context: TraceContext = text.parse()?;
/// assert_eq!(context.span_id(), 0x00f0_67aa_0ba9_02b7);
/// assert!(context.is_sampled());
/// assert_eq!(context.to_string(), text);
/// # Ok::<(), gridspan_rpc::trace::TraceContextError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
}

/// The error of a text that is not a `traceparent`. A server ignores such a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a traceparent of W3C Trace Context; write 00-TRACE-SPAN-FLAGS in hexadecimal digits")]
pub struct TraceContextError;

impl TraceContext {
    /// The context with these identifiers and flags; `None` if an identifier is 0, which the
    /// standard does not allow.
    pub fn new(trace_id: u128, span_id: u64, flags: u8) -> Option<Self> {
        (trace_id != 0 && span_id != 0).then_some(Self { trace_id, span_id, flags })
    }

    /// Identifies the trace.
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// Identifies the span.
    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// Whether the client may have recorded the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }
}

impl Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace_id, span_id, flags } = self;
        write!(f, "00-{trace_id:032x}-{span_id:016x}-{flags:02x}")
    }
}

impl FromStr for TraceContext {
    type Err = TraceContextError;

    fn from_str(text: &str) -> Result<Self, TraceContextError> {
        parsed(text).ok_or(TraceContextError)
    }
}

fn parsed(text: &str) -> Option<TraceContext> {
    let (known, rest) = text.split_at_checked(TEXT_BYTES)?;
    let mut fields = known.split('-');
    let mut field = |digits: usize| {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        fields.next().filter(|field| field.len() == digits && field.bytes().all(is_hex))
    };
    let (version, trace_id, span_id, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
    // Later versions may have more fields behind these.
    let is_known = match version {
        "00" => rest.is_empty(),
        "ff" => false,
        _ => rest.is_empty() || rest.starts_with('-'),
    };
    let trace_id = u128::from_str_radix(trace_id, 16).ok()?;
    let span_id = u64::from_str_radix(span_id, 16).ok()?;
    let flags = u8::from_str_radix(flags, 16).ok()?;
    TraceContext::new(trace_id, span_id, flags).filter(|_| is_known)
}

/// Connects the spans of calls with the tracing system of the program.
///
/// The chapter on calls has one for `tracing-opentelemetry`.
///
/// ```
/// use gridspan_rpc::trace::{Propagator, TraceContext, set_propagator};
/// use tracing::Span;
///
/// /// Takes the numbers that the subscriber of this process gives to spans.
/// struct NumbersOfSpans;
///
/// impl Propagator for NumbersOfSpans {
///     fn inject(&self, span: &Span) -> Option<TraceContext> {
///         TraceContext::new(1, span.id()?.into_u64(), 1)
///     }
///
///     fn extract(&self, client: &TraceContext, span: &Span) {
///         println!("{:?} is below {client}", span.id());
///     }
/// }
///
/// set_propagator(NumbersOfSpans)?;
/// assert!(set_propagator(NumbersOfSpans).is_err(), "there is one already");
/// # Ok::<(), gridspan_rpc::trace::PropagatorError>(())
/// ```
pub trait Propagator: Send + Sync + 'static {
    /// Returns the context of a client's span, which its server gets; `None` if the span is not
    /// part of a trace.
    fn inject(&self, span: &Span) -> Option<TraceContext>;

    /// Makes the context of a client the parent of a server's span, which has not been entered yet.
    fn extract(&self, client: &TraceContext, span: &Span);
}

/// The error of a second propagator. The first one stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the process has a propagator of traces already; set one, at the start of the program")]
pub struct PropagatorError;

/// Sets the propagator of all calls of this process.
///
/// # Errors
///
/// [`PropagatorError`] if there is one.
pub fn set_propagator(propagator: impl Propagator) -> Result<(), PropagatorError> {
    PROPAGATOR.set(Box::new(propagator)).map_err(|_| PropagatorError)
}

/// Returns the context of a client's span, for its server; `None` if no subscriber records the
/// span, or there is no propagator.
pub fn context_of(span: &Span) -> Option<TraceContext> {
    match span.is_disabled() {
        true => None,
        false => PROPAGATOR.get()?.inject(span),
    }
}

/// How a client waits for the outcome of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Its span ends with the call.
    ToTheEnd,
    /// Its span ends when the call is on its way.
    ToTheStart,
}

/// Returns the span of a client that calls a function and waits for the results. `server`: where
/// the call goes, if it leaves the job.
pub fn client_span(function: &str, server: Option<SocketAddr>) -> Span {
    calling(function, server, Waits::ToTheEnd)
}

/// Returns the span of a client that calls a function.
pub(crate) fn calling(function: &str, server: Option<SocketAddr>, waits: Waits) -> Span {
    let kind = match waits {
        Waits::ToTheEnd => "client",
        Waits::ToTheStart => "producer",
    };
    tracing::info_span!(
        target: TARGET,
        "call",
        otel.name = function,
        otel.kind = kind,
        otel.status_code = Empty,
        otel.status_description = Empty,
        rpc.system = SYSTEM,
        rpc.method = function,
        server.address = server.map(|address| display(address.ip())),
        server.port = server.map(|address| address.port()),
        "error.type" = Empty,
    )
}

/// Returns the span of a server that executes a function. Its parent is the client's span, if the
/// call has a context; it is never a span of the thread that happens to execute the function.
pub(crate) fn server_span(function: &str, server: &str, client: Option<&TraceContext>) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        parent: None,
        "execute",
        otel.name = function,
        otel.kind = "server",
        otel.status_code = Empty,
        otel.status_description = Empty,
        rpc.system = SYSTEM,
        rpc.method = function,
        gridspan.server = server,
        "error.type" = Empty,
    );
    if let Some(client) = client.filter(|_| !span.is_disabled())
        && let Some(propagator) = PROPAGATOR.get()
    {
        propagator.extract(client, &span);
    }
    span
}

/// Notes in a span that its call has failed. `kind` is the name of the error.
pub fn note_failure(span: &Span, kind: &str, error: &dyn Display) {
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", display(error));
    span.record("error.type", kind);
}

/// Awaits a call inside of its span, where a failure is noted. `kind` names an error.
pub(crate) async fn within<T, E: Display>(
    span: Span,
    kind: impl FnOnce(&E) -> &'static str,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let outcome = call.instrument(span.clone()).await;
    if let Err(error) = &outcome {
        note_failure(&span, kind(error), error);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the standard, section 3.2.4.
    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_read_as_the_standard_says() {
        let context: TraceContext = EXAMPLE.parse().unwrap();
        assert_eq!(context.trace_id(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.span_id(), context.is_sampled()), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(context.to_string(), EXAMPLE);
        let not_sampled = EXAMPLE.replace("-01", "-00").parse::<TraceContext>().unwrap();
        assert!(!not_sampled.is_sampled());
        let later =
            [EXAMPLE.replace("00-4b", "01-4b"), EXAMPLE.replace("00-4b", "cc-4b") + "-what"];
        for later in later {
            assert_eq!(later.parse::<TraceContext>(), Ok(context), "{later}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let wrong = [
            String::new(),
            "00".to_owned(),
            "é".repeat(40),
            EXAMPLE.to_uppercase(),
            EXAMPLE.replace("00-4b", "ff-4b"),
            EXAMPLE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            EXAMPLE.replace("00f067aa0ba902b7", &"0".repeat(16)),
            EXAMPLE.replace("00f0", "00f"),
            EXAMPLE.replace("00f0", "+0f0"),
            EXAMPLE.to_owned() + "-more",
            EXAMPLE.replace("00-4b", "01-4b") + "more",
        ];
        for text in wrong {
            assert_eq!(text.parse::<TraceContext>(), Err(TraceContextError), "{text}");
        }
    }

    #[test]
    fn a_span_without_a_subscriber_has_no_context() {
        let span = client_span("add", None);
        assert!(span.is_disabled(), "this process has no subscriber");
        assert_eq!(context_of(&span), None);
    }
}
