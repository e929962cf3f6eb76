//! Flows: messages from the span that sent them to the span that handled them.
//!
//! The number of a flow is that of the span that handled the message, among all spans of the
//! recording, plus one. A message has no flow if main or the runtime sent it, if the span that sent
//! it was not kept, or if that span does not begin before the receiving one (clocks may differ).

use gridspan_record::Recording;

/// The flows of a recording.
pub(super) struct Flows<'a> {
    recording: &'a Recording,
    end_ns: u64,
    /// For each PE of the recording, the number of spans of all PEs before it.
    before: Vec<u64>,
    /// Number of the sending span, and number of its flow.
    sent: Vec<(u64, u64)>,
}

impl<'a> Flows<'a> {
    /// Finds the flows.
    pub(super) fn new(recording: &'a Recording) -> Self {
        let mut before = vec![];
        let mut spans = 0;
        for record in &recording.pes {
            before.push(spans);
            spans += record.spans.len() as u64;
        }
        let end_ns = recording.end_ns();
        let mut flows = Self { recording, end_ns, before, sent: vec![] };
        let mut sent = vec![];
        for (pe, record) in recording.pes.iter().enumerate() {
            for span in 0..record.spans.len() {
                if let Some(sender) = flows.sender(pe, span) {
                    sent.push((sender, flows.number(pe, span)));
                }
            }
        }
        sent.sort_unstable();
        flows.sent = sent;
        flows
    }

    /// Returns the flow that leads to the span at position `span` of the PE at position `pe`.
    pub(super) fn received(&self, pe: usize, span: usize) -> Option<u64> {
        self.sender(pe, span).map(|_| self.number(pe, span))
    }

    /// Returns the flows from the span at position `span` of the PE at position `pe`.
    pub(super) fn sent(&self, pe: usize, span: usize) -> Vec<u64> {
        let sender = self.before[pe] + span as u64;
        let begin = self.sent.partition_point(|(number, _)| *number < sender);
        let of_sender = self.sent[begin..].iter().take_while(|(number, _)| *number == sender);
        of_sender.map(|(_, flow)| *flow).collect()
    }

    /// The number of the span that sent the message which this one handled.
    fn sender(&self, pe: usize, span: usize) -> Option<u64> {
        let pes = &self.recording.pes;
        let receiver = &pes[pe].spans[span];
        let cause = receiver.cause.as_ref()?;
        let number = cause.span?;
        let from = pes.binary_search_by_key(&cause.pe, |record| record.pe).ok()?;
        let at = pes[from].spans.binary_search_by_key(&number, |span| span.number).ok()?;
        // The sender must come first: Perfetto takes the earliest event of a flow as its source,
        // and of two at the same time the first one in the file. The writer moves events after the
        // end of the job to that end.
        let sender_begin = pes[from].spans[at].begin_ns.min(self.end_ns);
        let is_before = (sender_begin, from, at) < (receiver.begin_ns.min(self.end_ns), pe, span);
        is_before.then(|| self.before[from] + at as u64)
    }

    /// The number of the flow to a span.
    fn number(&self, pe: usize, span: usize) -> u64 {
        self.before[pe] + span as u64 + 1
    }
}
