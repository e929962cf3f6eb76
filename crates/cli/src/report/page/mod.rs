//! The page: one HTML file that loads nothing. Pictures are inline SVG, and the files of tables are
//! `data:` URLs.
//!
//! | module | content |
//! | --- | --- |
//! | `html` | texts, tables, panels |
//! | `chart` | bars, heat maps, areas |
//! | `overview` | outcome, limits, what was not recorded |
//! | `timeline` | what each PE did |
//! | `utilisation` | how the PEs of each site used their time, and how evenly they were loaded |
//! | `work`, `durations` | handlers, how long their runs take, waits, the critical path |
//! | `traffic` | messages and links |
//! | `broadcasts`, `tree` | large broadcasts, and the drawing of a tree |
//! | `events` | rebalances, other events |
//! | `graph`, `placement` | the actors before and after a rebalance, and their drawing |
//!
//! The size of the analysis bounds that of the page.

mod broadcasts;
mod chart;
mod durations;
mod events;
mod graph;
mod html;
mod overview;
mod placement;
mod timeline;
mod traffic;
mod tree;
mod utilisation;
mod work;

use crate::report::analysis::Analysis;
use html::escaped;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// Content security policy: the browser applies the styles and runs the script of the page, and
/// loads nothing.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'";

/// Renders the page.
pub(crate) fn render(analysis: &Analysis) -> String {
    let panels = [
        Some(overview::limits(analysis)),
        Some(timeline::panel(analysis)),
        Some(utilisation::panel(analysis)),
        Some(work::handlers(analysis)),
        Some(work::waits(analysis)),
        Some(work::path(analysis)),
        Some(traffic::communication(analysis)),
        Some(traffic::links(analysis)),
        broadcasts::panel(analysis),
        events::rebalances(analysis),
        graph::panel(analysis),
        events::list(analysis),
    ];
    let panels: String = panels.iter().flatten().map(html::Panel::render).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}: report</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{head}\
         <p class=\"finding\">{sentence}</p>\n{filter}{panels}\
         <footer><small>Made by gridctl {version} from a recording.</small></footer>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        title = escaped(&analysis.job),
        head = overview::head(analysis),
        sentence = escaped(&analysis.diagnosis.sentence),
        filter = timeline::filter(analysis),
        version = env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::analysis::fixtures::{MS, complete, from, recording, span};
    use gridspan_record::{
        DriverKind, JobEnding, RebalanceTrigger, RecordedEvent, RecordedHop, Recording, SentTo,
        Span, What,
    };

    fn page(recording: &Recording) -> String {
        render(&Analysis::of(recording))
    }

    fn two_sites() -> Recording {
        let mut recording = recording(2, 2);
        recording.pes[0].spans = vec![span(0, 0, [0, 20])];
        let last = Span { cause: from(0, 0, [20, 30]), ..span(2, 0, [30, 50]) };
        recording.pes[2].spans = vec![last];
        complete(&mut recording, 50);
        recording.pes[0].bins[20].sent = vec![SentTo { site: 1, messages: 1, bytes: 100 }];
        let balanced = What::Balanced {
            trigger: RebalanceTrigger::Request,
            strategy: "refine".to_owned(),
            moved: 4,
            bytes: 99,
            predicted_gain: Some(0.3),
            actual_gain: Some(-0.1),
            pause_ns: 0,
        };
        let hop = |from, to, ms: u64| RecordedHop { from, to, tree: 0, after_ns: Some(ms * MS) };
        let broadcast = What::Broadcast {
            root: 0,
            bytes: 90_000,
            reached: 3,
            plan: 0,
            duration_ns: 12 * MS,
            hops: vec![hop(0, 2, 11), hop(0, 1, 1), hop(2, 3, 12)],
        };
        recording.events = vec![
            RecordedEvent { at_ns: 10 * MS, what: balanced },
            RecordedEvent { at_ns: 15 * MS, what: broadcast },
        ];
        recording
    }

    #[test]
    fn the_page_has_all_panels_and_loads_nothing() {
        let html = page(&two_sites());
        let ids = [
            "limits",
            "timeline",
            "utilisation",
            "handlers",
            "waits",
            "path",
            "communication",
            "links",
            "broadcasts",
            "rebalances",
            "graph",
            "events",
        ];
        for id in ids {
            assert!(html.contains(&format!("<section id=\"{id}\">")), "{id}");
        }
        for loading in ["http:", "https:", "src=", "@import", "url(", "<link", "<iframe"] {
            assert!(!html.contains(loading), "{loading}");
        }
        assert!(html.contains("<p class=\"finding\">What limited the run"), "{html}");
        assert!(html.contains("<i class=\"mark rebalance\""));
        assert!(html.contains("refine at 10.0 ms, realised"));
        assert!(html.contains(">20.0 ms to 50.0 ms</text>"), "both handlers take 20 ms");
        assert!(html.contains("<title>b/3: all of it after 12.0 ms, from b/2</title>"), "{html}");
    }

    #[test]
    fn the_head_says_when_the_job_ended_how_and_where_it_ran() {
        let mut recording = two_sites();
        for node in &mut recording.header.nodes {
            node.host = "d01".to_owned();
        }
        recording.header.driver = DriverKind::Processes;
        recording.ending.as_mut().unwrap().failure = Some("lost node1".to_owned());
        recording.ending.as_mut().unwrap().exit_code = 1;
        let html = page(&recording);
        assert!(html.contains(">failed after 50.0 ms: lost node1</p>"), "{html}");
        assert!(html.contains("<dt>hosts</dt><dd>d01 (4 PEs)</dd>"), "{html}");
        recording.ending = None;
        let html = page(&recording);
        assert!(html.contains("cut off after 50.0 ms: the recording has no end</p>"), "{html}");
    }

    #[test]
    fn the_head_says_what_ran_what_recorded_it_and_whether_the_result_is_right() {
        let mut recording = two_sites();
        let before = page(&recording);
        for name in ["build of the program", "recorded by", "result"] {
            assert!(!before.contains(&format!("<dt>{name}</dt>")), "{name} in {before}");
        }
        recording.header.build = Some("00c0ffee00c0ffee".to_owned());
        recording.header.gridctl = Some("0.0.9".to_owned());
        recording.ending.as_mut().unwrap().verified = Some("verified: yes (4 < 5)".to_owned());
        let html = page(&recording);
        for fact in [
            "<dt>build of the program</dt><dd>00c0ffee00c0ffee</dd>",
            "<dt>recorded by</dt><dd>gridctl 0.0.9</dd>",
            "<dt>result</dt><dd>verified: yes (4 &lt; 5)</dd>",
        ] {
            assert!(html.contains(fact), "{fact} in {html}");
        }
    }

    #[test]
    fn sites_have_charts_of_their_time_with_axes() {
        let html = page(&two_sites());
        // One PE of two at each site computes for 20 of 50 ms.
        let wanted = "PEs computed for 20.0 % of the time at site b, the busiest one, and for 20.0 \
                      % at site a.";
        assert!(html.contains(wanted), "{html}");
        assert!(html.contains("aria-label=\"site a, 2 PEs\""), "{html}");
        assert_eq!(html.matches(">100 %</text>").count(), 2);
        assert!(html.contains("at most 4 times the mean"), "{html}");
    }

    #[test]
    fn actors_are_drawn_at_their_places_before_and_after_a_rebalance() {
        let mut recording = two_sites();
        // The actor goes on at the other site.
        recording.pes[2].spans[0].actor = 1;
        recording.pes[0].bins[15].sent = vec![SentTo { site: 1, messages: 1, bytes: 640 }];
        let html = page(&recording);
        for wanted in [
            "The rebalance by refine at 10.0 ms has the largest gain, -10.0 %. It moved 4 actors; \
             the recording has the places of 1 actor before and after, of which 1 moved.",
            "The largest group, 1 actor of type Worker, went from a to b.",
            "From site to site went 0 B in the 10.0 ms before it, and 640 B in the 10.0 ms after it.",
            "<title>1 actor, moves from a to b: 20.0 ms in handlers</title>",
            "<title>a → b: 640 B; b → a: 0 B</title>",
            "<title>a: 0 actors, 50 % in handlers</title>",
        ] {
            assert!(html.contains(wanted), "{wanted} in {html}");
        }
        assert_eq!(html.matches("<circle class=\"k0 moved\"").count(), 2);
        assert_eq!(html.matches("<circle class=\"place\"").count(), 4);
    }

    #[test]
    fn a_page_without_records_and_one_of_one_pe_are_complete() {
        let html = page(&Recording::default());
        assert!(html.contains("No PE has left a record."), "{html}");
        let mut one = recording(1, 1);
        one.pes[0].spans = vec![span(0, 0, [0, 20])];
        complete(&mut one, 20);
        let html = page(&one);
        assert!(html.contains("PEs computed for 100.0 % of the time."), "{html}");
        assert!(!html.contains("times the mean"), "{html}");
        for html in [html, page(&Recording::default())] {
            assert!(!html.contains("NaN") && !html.contains("inf "), "{html}");
        }
    }

    #[test]
    fn a_page_does_not_say_that_all_spans_were_dropped_if_few_are_kept() {
        let mut recording = two_sites();
        // Two spans are kept.
        recording.pes[0].dropped_spans = 19_998;
        let html = page(&recording);
        assert!(html.contains(">99.99 % of the spans were dropped to stay"), "{html}");
    }

    #[test]
    fn dropped_events_are_stated_also_if_they_are_few() {
        let mut recording = two_sites();
        let warning = What::Warning { text: "x".to_owned() };
        recording.events = vec![RecordedEvent { at_ns: 1, what: warning }; 999];
        recording.ending.as_mut().unwrap().dropped_events = 1;
        let html = page(&recording);
        let stated = "0.100 % of the events of the job had no room in the recording, and are not \
                      shown: 1 in all.";
        assert!(html.contains(stated), "{html}");
    }

    #[test]
    fn every_element_is_closed() {
        let html = page(&two_sites());
        for element in
            ["section", "svg", "table", "details", "div", "ol", "li", "p", "dl", "script"]
        {
            let begins = html.matches(&format!("<{element}>")).count()
                + html.matches(&format!("<{element} ")).count();
            assert_eq!(begins, html.matches(&format!("</{element}>")).count(), "{element}");
        }
    }

    #[test]
    fn names_of_a_recording_cannot_become_markup() {
        let mut recording = two_sites();
        let name = "</script><script>alert(1)</script>";
        recording.header.job = name.to_owned();
        recording.header.command = vec![name.to_owned()];
        recording.header.sites[0] = name.to_owned();
        recording.header.nodes[0].name = name.to_owned();
        recording.pes[0].types[0] = name.to_owned();
        recording
            .events
            .push(RecordedEvent { at_ns: 1, what: What::Warning { text: name.to_owned() } });
        recording.ending = Some(JobEnding {
            at_ns: 50 * MS,
            exit_code: 1,
            failure: Some(name.to_owned()),
            ..JobEnding::default()
        });
        let html = page(&recording);
        assert!(!html.contains("<script>alert"));
        assert_eq!(html.matches("</script>").count(), 2);
    }

    #[test]
    fn the_page_of_a_large_recording_is_small() {
        let mut recording = recording(3, 50);
        complete(&mut recording, 400);
        let all: Vec<SentTo> = (0..3).map(|site| SentTo { site, messages: 1, bytes: 9 }).collect();
        for (number, record) in (0..).zip(&mut recording.pes) {
            for (at, bin) in (0_u64..).zip(&mut record.bins) {
                bin.sent = all.clone();
                // Columns that differ from their neighbours need the most space.
                bin.busy_ns = vec![(0, (at * 7 + number) % 10 * MS / 20), (1, at % 3 * MS / 10)];
            }
        }
        recording.events = (0..5000)
            .map(|at| RecordedEvent {
                at_ns: at * 1000,
                what: What::Warning { text: "x".repeat(80) },
            })
            .collect();
        let html = page(&recording);
        assert!(html.len() < 4_000_000, "{} bytes", html.len());
    }

    #[test]
    fn an_empty_recording_has_a_page() {
        assert!(page(&Recording::default()).contains("What limited the run is unknown"));
    }
}
