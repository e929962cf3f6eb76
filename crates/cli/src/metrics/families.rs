//! The metrics of a job, and their values in a sample.
//!
//! Labels are sites, nodes, links and actor types, so that the size of samples bounds the number of
//! series. Nodes have series only if all of them are in the sample. A sample of a large job has
//! only the nodes that compute most and least, which change from sample to sample.

use super::exposition::{Exposition, Family, Kind, Labels, Sum, Totals};
use crate::top::Moment;
use gridspan_runtime::message::telemetry::{
    LinkTelemetry, OTHER_TYPES, SEVERAL_SITES, TelemetryCounts, TypeTelemetry,
};
use gridspan_topology::SiteId;

/// Microseconds and nanoseconds in a second.
const MICROS: u64 = 1_000_000;
const NANOS: u64 = 1_000_000_000;

/// Takes a value out of counts.
type Reading = fn(&TelemetryCounts) -> u64;

/// A quantity that PEs count. Each kind of place, such as a site, has a family for it, whose name
/// begins with the kind.
struct Count {
    name: &'static str,
    kind: Kind,
    per_unit: u64,
    help: &'static str,
    of: Reading,
}

const fn counter(name: &'static str, per_unit: u64, help: &'static str, of: Reading) -> Count {
    Count { name, kind: Kind::Counter, per_unit, help, of }
}

const fn gauge(name: &'static str, help: &'static str, of: Reading) -> Count {
    Count { name, kind: Kind::Gauge, per_unit: 1, help, of }
}

static COUNTS: [Count; 9] = [
    counter("processor_seconds_total", MICROS, "Time in which PEs had a processor.", |it| {
        it.ran_us
    }),
    counter(
        "processor_wait_seconds_total",
        MICROS,
        "Time in which PEs were ready to run and other threads had the processor.",
        |it| it.waited_us,
    ),
    counter("messages_handled_total", 1, "Messages that actors have handled.", |it| it.handled),
    gauge("messages_waiting", "Messages that are ready to be handled.", |it| it.waiting),
    gauge("waiting_message_bytes", "Bytes of all messages that wait.", |it| it.waiting_bytes),
    gauge("actors", "Actors, with replicas.", |it| it.actors),
    counter("actor_migrations_total", 1, "Actors that have moved away.", |it| it.migrations),
    counter("tasks_done_total", 1, "Tasks that were run.", |it| it.tasks_done),
    gauge("tasks_waiting", "Tasks that wait.", |it| it.tasks_waiting),
];

/// How PEs use their time.
static STATES: [(&str, Reading); 3] =
    [("busy", |it| it.busy_us), ("network", |it| it.network_us), ("idle", |it| it.idle_us)];

/// A place with PEs.
struct Place<'a> {
    labels: Vec<(&'static str, String)>,
    nodes: u32,
    pes: u32,
    counts: &'a TelemetryCounts,
    memory_bytes: u64,
}

impl Place<'_> {
    /// Its labels, and further ones.
    fn labels(&self, further: &[(&str, &str)]) -> Labels {
        let own = self.labels.iter().map(|(name, value)| (*name, value.as_str()));
        Labels::new(&own.chain(further.iter().copied()).collect::<Vec<_>>())
    }

    /// One of its counts.
    fn sum(&self, of: Reading) -> Sum {
        Sum { value: of(self.counts), nodes: self.nodes }
    }
}

/// Renders the metrics of a moment of a job. `totals`: those of earlier moments.
pub(super) fn text(moment: &Moment, totals: &mut Totals) -> String {
    totals.note_run(moment.run);
    let mut exposition = Exposition::new(totals);
    add_job(moment, &mut exposition);
    add_sites(moment, &mut exposition);
    let sample = &moment.sample;
    if sample.nodes.len() as u64 == u64::from(sample.node_count()) {
        add_nodes(moment, &mut exposition);
    }
    add_types(moment, &mut exposition);
    add_links(moment, &mut exposition);
    exposition.into_text()
}

fn add_job(moment: &Moment, to: &mut Exposition<'_>) {
    let sample = &moment.sample;
    let info = Labels::new(&[("job", moment.job.as_str()), ("program", moment.program.as_str())]);
    let help = "The name of the job and of its program; the value is always 1.";
    to.add(Family { name: "gridspan_job_info", kind: Kind::Gauge, help, per_unit: 1 }, [(info, 1)]);
    let mut add = |name, kind, per_unit, help, value| {
        to.add(Family { name, kind, help, per_unit }, [(Labels::new(&[]), value)]);
    };
    let (began, nodes) = (moment.began_ms, moment.grid.layout().node_count());
    let help = "When the job began, in Unix time.";
    add("gridspan_job_start_time_seconds", Kind::Gauge, 1000, help, began);
    add("gridspan_job_nodes", Kind::Gauge, 1, "Nodes of the job.", u64::from(nodes));
    let help = "Nodes whose counters are in the other metrics.";
    add("gridspan_job_nodes_reporting", Kind::Gauge, 1, help, sample.node_count().into());
    if let Some(step) = sample.newest_step.checked_sub(1) {
        let help = "The newest step of which a message was handled.";
        add("gridspan_job_newest_step", Kind::Gauge, 1, help, step);
    }
    let help = "Rebalances that have moved actors.";
    add("gridspan_job_rebalances_total", Kind::Counter, 1, help, moment.rebalances);
    add("gridspan_job_lost_nodes_total", Kind::Counter, 1, "Nodes that were lost.", moment.losses);
    let mean = sample.telemetry_ns / u64::from(sample.node_count().max(1));
    let help = "Time that the last sample took on a node, on average.";
    add("gridspan_telemetry_mean_sample_seconds", Kind::Gauge, NANOS, help, mean);
    let (help, max) =
        ("Time that the last sample took on the slowest node.", sample.telemetry_ns_max);
    add("gridspan_telemetry_slowest_sample_seconds", Kind::Gauge, NANOS, help, max);
}

fn add_sites(moment: &Moment, to: &mut Exposition<'_>) {
    let sites = &moment.sample.sites;
    let places = sites.iter().map(|site| Place {
        labels: vec![("site", site_name(moment, site.site))],
        nodes: site.nodes,
        pes: site.pes,
        counts: &site.counts,
        memory_bytes: site.memory_bytes,
    });
    let places: Vec<Place<'_>> = places.collect();
    let help = "Nodes of the site whose counters are known.";
    let nodes =
        places.iter().zip(sites).map(|(place, site)| (place.labels(&[]), site.nodes.into()));
    to.add(Family { name: "gridspan_site_nodes", kind: Kind::Gauge, help, per_unit: 1 }, nodes);
    add_places("gridspan_site_", &places, to);
}

fn add_nodes(moment: &Moment, to: &mut Exposition<'_>) {
    let nodes = &moment.sample.nodes;
    let places = nodes.iter().map(|node| Place {
        labels: vec![("site", site_name(moment, node.site)), ("node", moment.node_name(node.node))],
        nodes: 1,
        pes: node.pes,
        counts: &node.counts,
        memory_bytes: node.memory_bytes,
    });
    let places: Vec<Place<'_>> = places.collect();
    let help = "PEs inside a handler that takes so long that their counters are old.";
    let late =
        places.iter().zip(nodes).map(|(place, node)| (place.labels(&[]), node.late_pes.into()));
    to.add(Family { name: "gridspan_node_late_pes", kind: Kind::Gauge, help, per_unit: 1 }, late);
    add_places("gridspan_node_", &places, to);
}

/// Adds the families of places of one kind. `kind`: the prefix of their names.
fn add_places(kind: &str, places: &[Place<'_>], to: &mut Exposition<'_>) {
    let gauge = |name, help| Family { name, kind: Kind::Gauge, help, per_unit: 1 };
    let name = format!("{kind}pes");
    let pes = places.iter().map(|place| (place.labels(&[]), place.pes.into()));
    to.add(gauge(&name, "PEs."), pes);
    let name = format!("{kind}resident_memory_bytes");
    let memory = places.iter().map(|place| (place.labels(&[]), place.memory_bytes));
    to.add(gauge(&name, "Resident memory of the processes, read every five seconds."), memory);
    let name = format!("{kind}pe_seconds_total");
    let help = "Time of PEs: busy with messages and other work, in the network, or idle.";
    let times = places.iter().flat_map(|place| {
        STATES.iter().map(move |(state, of)| (place.labels(&[("state", *state)]), place.sum(*of)))
    });
    to.add_sums(Family { name: &name, kind: Kind::Counter, help, per_unit: MICROS }, times);
    for count in &COUNTS {
        let name = format!("{kind}{}", count.name);
        let Count { kind, help, per_unit, .. } = *count;
        let values = places.iter().map(|place| (place.labels(&[]), place.sum(count.of)));
        to.add_sums(Family { name: &name, kind, help, per_unit }, values);
    }
}

fn add_types(moment: &Moment, to: &mut Exposition<'_>) {
    let types = move || {
        moment.sample.types.iter().map(move |it| {
            let (name, site) = (type_name(moment, it.number), site_name(moment, it.site));
            (Labels::new(&[("type", name.as_str()), ("site", site.as_str())]), it)
        })
    };
    let nodes = moment.sample.node_count();
    let mut add = |name, kind, help, of: fn(&TypeTelemetry) -> u64| {
        let sums = types().map(|(labels, it)| (labels, Sum { value: of(it), nodes }));
        to.add_sums(Family { name, kind, help, per_unit: 1 }, sums);
    };
    let help = "Actors of the type, with replicas.";
    add("gridspan_actor_type_actors", Kind::Gauge, help, |it| it.actors);
    let help = "Messages that actors of the type have handled.";
    add("gridspan_actor_type_messages_handled_total", Kind::Counter, help, |it| it.handled);
    let help = "Messages to actors of the type that are ready to be handled.";
    add("gridspan_actor_type_messages_waiting", Kind::Gauge, help, |it| it.waiting);
}

fn add_links(moment: &Moment, to: &mut Exposition<'_>) {
    let links = move || {
        moment.sample.links.iter().map(move |link| {
            let [from, into] = [link.from, link.to].map(|site| site_name(moment, site));
            (Labels::new(&[("from", from.as_str()), ("to", into.as_str())]), link)
        })
    };
    let nodes = moment.sample.node_count();
    let mut add = |name, kind, help, of: &dyn Fn(&LinkTelemetry) -> Option<u64>| {
        let sum = |link: &LinkTelemetry| Some(Sum { value: of(link)?, nodes });
        let sums = links().filter_map(|(labels, link)| Some((labels, sum(link)?)));
        to.add_sums(Family { name, kind, help, per_unit: 1 }, sums);
    };
    let help = "Messages from nodes of a site to other nodes, of the same site or another.";
    add("gridspan_link_messages_total", Kind::Counter, help, &|link| Some(link.messages));
    let help = "Bytes of frames from nodes of a site to other nodes.";
    add("gridspan_link_bytes_total", Kind::Counter, help, &|link| Some(link.bytes));
    let help = "The measured bandwidth between two sites.";
    add("gridspan_link_bandwidth_bytes_per_second", Kind::Gauge, help, &|link| {
        Some(moment.bandwidth(link.from, link.to)?.bits_per_second() / 8)
    });
}

fn site_name(moment: &Moment, site: SiteId) -> String {
    match site {
        SEVERAL_SITES => "several".to_owned(),
        site => moment.site_name(site),
    }
}

/// The name of an actor type with its module path, which distinguishes types of one name.
fn type_name(moment: &Moment, number: u16) -> String {
    match moment.sample.type_names.get(usize::from(number)) {
        Some(name) => name.clone(),
        None if number == OTHER_TYPES => "others".to_owned(),
        None => format!("type {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::fixtures::moment;

    /// The value of a series.
    fn value(text: &str, series: &str) -> f64 {
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let found = lines.find(|(name, _)| *name == series);
        found.unwrap_or_else(|| panic!("{series} is missing in\n{text}")).1.parse().unwrap()
    }

    #[test]
    fn the_counts_of_a_sample_are_those_of_its_places() {
        let text = text(&moment(10), &mut Totals::default());
        let is =
            |series: &str, expected: f64| assert_eq!(value(&text, series), expected, "{series}");

        is("gridspan_job_info{job=\"leanmd-4711\",program=\"leanmd\"}", 1.0);
        is("gridspan_job_nodes", 4.0);
        is("gridspan_job_newest_step", 50.0);
        is("gridspan_job_rebalances_total", 2.0);
        is("gridspan_telemetry_slowest_sample_seconds", 12e-6);
        // Nodes 2 and 3 are busy for 50 % and 70 % of ten seconds.
        is("gridspan_site_pe_seconds_total{site=\"b\",state=\"busy\"}", 12.0);
        is("gridspan_site_nodes{site=\"b\"}", 2.0);
        is("gridspan_site_messages_handled_total{site=\"b\"}", 70_000.0);
        is("gridspan_node_messages_handled_total{site=\"b\",node=\"b/3\"}", 40_000.0);
        is("gridspan_node_late_pes{site=\"b\",node=\"b/3\"}", 1.0);
        is("gridspan_node_resident_memory_bytes{site=\"a\",node=\"a/0\"}", 52_400_000.0);
        is("gridspan_actor_type_actors{type=\"jobs::leanmd::Cell\",site=\"a\"}", 30.0);
        is("gridspan_link_bytes_total{from=\"a\",to=\"b\"}", 50_000_000.0);
        is("gridspan_link_bandwidth_bytes_per_second{from=\"a\",to=\"b\"}", 12_500_000.0);
    }

    #[test]
    fn nodes_are_left_out_if_a_sample_does_not_list_all() {
        let mut moment = moment(10);
        moment.sample.nodes.pop();

        let text = text(&moment, &mut Totals::default());

        assert!(!text.contains("gridspan_node_"), "{text}");
        assert!(text.contains("gridspan_site_actors{site=\"b\"} 32\n"), "{text}");
    }

    #[test]
    fn counters_of_a_job_that_has_lost_a_node_do_not_fall() {
        let (before, mut after) = (moment(10), moment(11));
        after.sample.sites.pop();
        after.sample.sites[0].counts.handled /= 2;
        let mut totals = Totals::default();
        let (before, after) = (text(&before, &mut totals), text(&after, &mut totals));
        let series = "gridspan_site_messages_handled_total{site=\"a\"}";
        assert_eq!([value(&before, series), value(&after, series)], [30_000.0, 30_000.0]);
    }

    #[test]
    fn counters_do_not_jump_when_a_node_answers_again() {
        let (mut without, mut totals) = (moment(11), Totals::default());
        let site = &mut without.sample.sites[1];
        (site.nodes, site.counts.handled) = (1, 33_000);
        for part in &mut without.sample.types {
            part.handled /= 2;
        }
        for link in &mut without.sample.links {
            link.bytes /= 2;
        }
        let texts = [moment(10), without, moment(12), moment(13)];
        let texts = texts.map(|moment| text(&moment, &mut totals));

        let risen = |series: &str| texts.each_ref().map(|text| value(text, series));
        let handled = risen("gridspan_site_messages_handled_total{site=\"b\"}");
        assert_eq!(handled, [70_000.0, 70_000.0, 70_000.0, 77_000.0]);
        let of_type =
            "gridspan_actor_type_messages_handled_total{type=\"jobs::leanmd::Cell\",site=\"a\"}";
        assert_eq!(risen(of_type), [29_900.0, 29_900.0, 29_900.0, 32_890.0]);
        let bytes = risen("gridspan_link_bytes_total{from=\"a\",to=\"b\"}");
        assert_eq!(bytes, [50e6, 50e6, 50e6, 55e6]);
    }

    #[test]
    fn places_without_a_number_have_names() {
        let mut moment = moment(10);
        moment.sample.types[0].number = OTHER_TYPES;
        moment.sample.types[1].site = SEVERAL_SITES;
        let text = text(&moment, &mut Totals::default());
        assert!(text.contains("{type=\"others\",site=\"a\"} 30\n"), "{text}");
        assert!(text.contains("{type=\"jobs::leanmd::Cell\",site=\"several\"} 30\n"), "{text}");
    }
}
