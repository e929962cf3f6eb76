//! Recordings that tests build by hand.

use gridspan_record::{
    Bin, DriverKind, Header, JobEnding, PeRecord, RecordedLink, RecordedNode, RecordedPe,
    Recording, Span, SpanCause, TypeTotal,
};

/// A millisecond in nanoseconds.
pub(crate) const MS: u64 = 1_000_000;

/// A recording in virtual time without content, with this number of sites (`a`, `b`, ...), of nodes
/// at each of them, and one PE on each node. Links between sites have 10 ms, 1 MB/s and no loss;
/// those inside have 0.05 ms.
pub(crate) fn recording(sites: u32, nodes: u32) -> Recording {
    let name = |site: u32| char::from(b'a' + site as u8).to_string();
    let node = |number: u32| {
        let site = number / nodes;
        let name = format!("{}/{number}", name(site));
        RecordedNode { site, host: format!("h{number}"), name }
    };
    let link = |from: u32, to: u32| match from == to {
        true => RecordedLink { from, to, latency_us: 50.0, ..RecordedLink::default() },
        false => {
            let bytes_per_second = Some(1e6);
            RecordedLink { from, to, latency_us: 10_000.0, bytes_per_second, loss: 0.0 }
        }
    };
    let all = 0..sites * nodes;
    let header = Header {
        job: "planted".to_owned(),
        command: vec!["sim".to_owned(), "planted".to_owned()],
        sites: (0..sites).map(name).collect(),
        nodes: all.clone().map(node).collect(),
        pes: all.clone().map(|node| RecordedPe { node, speed: 1.0 }).collect(),
        driver: DriverKind::Simulated,
        links: (0..sites).flat_map(|from| (0..sites).map(move |to| link(from, to))).collect(),
        ..Header::default()
    };
    let types = vec!["Worker".to_owned(), "Sink".to_owned()];
    let record = |pe| PeRecord { pe, types: types.clone(), ..PeRecord::default() };
    Recording { header, pes: all.map(record).collect(), ..Recording::default() }
}

/// A bin with busy time of type 0 and idle time.
pub(crate) fn busy_bin(busy_ns: u64, idle_ns: u64) -> Bin {
    Bin { busy_ns: vec![(0, busy_ns)], idle_ns, ..Bin::default() }
}

/// A span of type 0 on a PE. The number of its actor is that of the PE plus one.
pub(crate) fn span(pe: u32, number: u64, [begin_ms, end_ms]: [u64; 2]) -> Span {
    Span {
        number,
        begin_ns: begin_ms * MS,
        duration_ns: (end_ms - begin_ms) * MS,
        actor: u64::from(pe) + 1,
        ..Span::default()
    }
}

/// A message from a span of a PE, sent and received at these times.
pub(crate) fn from(pe: u32, span: u64, [sent_ms, received_ms]: [u64; 2]) -> Option<SpanCause> {
    let [sent_ns, received_ns] = [sent_ms, received_ms].map(|ms| ms * MS);
    Some(SpanCause { pe, span: Some(span), sent_ns, received_ns, bytes: 100 })
}

/// A message from main.
pub(crate) fn from_main([sent_ms, received_ms]: [u64; 2]) -> Option<SpanCause> {
    from(0, 0, [sent_ms, received_ms]).map(|cause| SpanCause { span: None, ..cause })
}

/// Ends a recording at `end_ms`, and adds the bins and totals that follow from its spans. PEs are
/// idle when no span runs.
pub(crate) fn complete(recording: &mut Recording, end_ms: u64) {
    recording.ending = Some(JobEnding { at_ns: end_ms * MS, ..JobEnding::default() });
    for record in &mut recording.pes {
        record.bin_ns = MS;
        record.bins = (0..end_ms).map(|ms| bin(record, ms)).collect();
        let of = |number: u16| {
            let spans = record.spans.iter().filter(move |span| span.kind == number);
            let times = spans.map(|span| span.duration_ns);
            let (count, total_ns) = times.clone().fold((0, 0), |(n, sum), ns| (n + 1, sum + ns));
            TypeTotal { number, count, total_ns, max_ns: times.max().unwrap_or(0) }
        };
        record.totals = (0..record.types.len() as u16).map(of).collect();
    }
}

/// The bin of a millisecond, throughout which a PE is either busy or idle.
fn bin(record: &PeRecord, ms: u64) -> Bin {
    let at = ms * MS;
    let running = record.spans.iter().find(|span| span.begin_ns <= at && at < span.end_ns());
    match running {
        Some(span) => Bin { busy_ns: vec![(span.kind, MS)], ..Bin::default() },
        None => Bin { idle_ns: MS, ..Bin::default() },
    }
}
