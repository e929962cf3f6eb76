//! A layer that keeps spans, and a propagator that uses their numbers as identifiers.

use gridspan_rpc::trace::{Propagator, TraceContext};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Span, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// The only trace.
const TRACE: u128 = 0x7ace;
/// Prefixes of the targets whose spans the collector keeps: those of calls and of the tests.
const TARGETS: [&str; 2] = ["gridspan_rpc", "spans"];

#[derive(Clone, Debug)]
pub(crate) struct KeptSpan {
    pub(crate) number: u64,
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
    /// The parent in this process.
    pub(crate) parent: Option<u64>,
    /// The remote parent that the propagator has set.
    client: Option<TraceContext>,
    is_over: bool,
}

impl KeptSpan {
    /// The value of a field; empty if there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

impl Visit for KeptSpan {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

/// All spans of this process. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Collector {
    spans: Arc<Mutex<Vec<KeptSpan>>>,
}

impl Collector {
    /// Creates the collector of this process.
    pub(crate) fn installed() -> Self {
        let collector = Self::default();
        let subscriber = tracing_subscriber::registry().with(collector.clone());
        tracing::subscriber::set_global_default(subscriber).unwrap();
        gridspan_rpc::trace::set_propagator(collector.clone()).unwrap();
        collector
    }

    fn spans(&self) -> MutexGuard<'_, Vec<KeptSpan>> {
        self.spans.lock().unwrap()
    }

    fn with(&self, id: &Id, change: impl FnOnce(&mut KeptSpan)) {
        let is_it = |span: &&mut KeptSpan| span.number == id.into_u64();
        if let Some(span) = self.spans().iter_mut().rev().find(is_it) {
            change(span);
        }
    }

    /// The spans of this kind that are about this function, in the order in which they began.
    pub(crate) fn of(&self, kind: &str, function: &str) -> Vec<KeptSpan> {
        let is_it = |span: &&KeptSpan| {
            span.field("otel.kind") == kind && span.field("rpc.method") == function
        };
        self.spans().iter().filter(is_it).cloned().collect()
    }

    /// The spans of this name, in the order in which they began.
    pub(crate) fn named(&self, name: &str) -> Vec<KeptSpan> {
        self.spans().iter().filter(|span| span.name == name).cloned().collect()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    fn enabled(&self, metadata: &Metadata<'_>, _cx: Context<'_, S>) -> bool {
        metadata.is_span() && TARGETS.iter().any(|target| metadata.target().starts_with(target))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let parent = cx.span(id).and_then(|span| span.parent()).map(|span| span.id().into_u64());
        let mut span = KeptSpan {
            number: id.into_u64(),
            name: attributes.metadata().name(),
            fields: BTreeMap::new(),
            parent,
            client: None,
            is_over: false,
        };
        attributes.record(&mut span);
        self.spans().push(span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _cx: Context<'_, S>) {
        self.with(id, |span| values.record(span));
    }

    fn on_close(&self, id: Id, _cx: Context<'_, S>) {
        self.with(&id, |span| span.is_over = true);
    }
}

impl Propagator for Collector {
    fn inject(&self, span: &Span) -> Option<TraceContext> {
        TraceContext::new(TRACE, span.id()?.into_u64(), 1)
    }

    fn extract(&self, client: &TraceContext, span: &Span) {
        if let Some(id) = span.id() {
            self.with(&id, |span| span.client = Some(*client));
        }
    }
}

/// Asserts that each of these calls has one span of the client and one of a server, and that all
/// spans have ended. The parents of the servers' spans are different spans of the client, in any
/// order.
pub(crate) fn assert_pairs(clients: &[KeptSpan], servers: &[KeptSpan], calls: usize) {
    assert_eq!((clients.len(), servers.len()), (calls, calls), "{clients:#?} {servers:#?}");
    let mut numbers: Vec<u64> = clients.iter().map(|span| span.number).collect();
    for server in servers {
        assert_eq!(server.parent, None, "it is below no span of its thread");
        let context = server.client.expect("the context has come to the server");
        assert_eq!(context.trace_id(), TRACE);
        let at = numbers.iter().position(|number| *number == context.span_id());
        numbers.remove(at.expect("its parent is the span of the client"));
    }
    for span in clients.iter().chain(servers) {
        assert_eq!(span.field("rpc.system"), "gridspan");
        assert!(span.is_over, "{span:?}");
    }
}
