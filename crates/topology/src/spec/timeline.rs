//! Changes that take effect while a job runs: of links, such as `at 60s link a-b rate=10mbit`, and
//! of the foreign load of nodes, such as `at 60s node a1 load=1`.

use crate::id::{NodeId, SiteId};
use crate::link::{Link, LinkError};
use crate::quantity::{ByteCount, Probability, QuantityError};
use crate::spec::site::shorten;
use crate::units::{Bandwidth, Latency, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use thiserror::Error;

/// Maximum length of a change in bytes, far more than any change needs.
const MAX_TEXT_BYTES: usize = 512;
const FORM: &str = "`at TIME link SITE-SITE NAME=VALUE …`, such as `at 60s link a-b rate=10mbit`, or `at TIME node HOST load=N`";
const SETTINGS: &str = "`latency`, `rate`, `jitter`, `loss`, `queue`, `reorder`";

/// Maximum number of changes of one grid.
pub(super) const CHANGES_MAX: usize = 1024;
/// Maximum number of processes on one node; more are a mistake.
const LOAD_MAX: u32 = 1024;

/// Error of a change. Nothing was changed; the message says what to write.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum TimelineError {
    /// The text does not have the form of a change.
    #[error("`{}` is not a change; write {FORM}", shorten(.text))]
    Form {
        /// The text.
        text: String,
    },
    /// There are too many changes.
    #[error("a grid has at most {CHANGES_MAX} changes; remove some")]
    TooMany,
    /// The sites do not exist in the grid.
    #[error("`{}` does not name two sites of the grid, or can be read in several ways; write SITE-SITE, or SITE>SITE for one direction, with two of {known}", shorten(.ends))]
    Ends {
        /// The text of the sites.
        ends: String,
        /// Some of the known names.
        known: String,
    },
    /// The host does not exist in the grid.
    #[error("there is no host `{}` in the grid; write one of {known}", shorten(.host))]
    Host {
        /// The name of the host.
        host: String,
        /// Some of the known names.
        known: String,
    },
    /// A load cannot be read.
    #[error("`{}` is not a foreign load; write `load=` and how many processes compute, at most {LOAD_MAX}", shorten(.text))]
    Load {
        /// The text.
        text: String,
    },
    /// A setting has an unknown name.
    #[error("there is no setting `{}`; write one of {SETTINGS}", shorten(.setting))]
    Setting {
        /// The text of the setting.
        setting: String,
    },
    /// A value cannot be read.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// The settings together do not describe a link.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// The changed parameters of a link; `None` leaves a parameter as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Settings {
    latency: Option<Latency>,
    bandwidth: Option<Bandwidth>,
    jitter: Option<Latency>,
    loss: Option<f64>,
    queue_bytes: Option<u64>,
    reorder: Option<bool>,
}

impl Settings {
    /// Reads one `NAME=VALUE`.
    fn set(&mut self, text: &str) -> Result<(), TimelineError> {
        let unknown = || TimelineError::Setting { setting: text.to_owned() };
        let (name, value) = text.split_once('=').ok_or_else(unknown)?;
        match name {
            "latency" => self.latency = Some(value.parse()?),
            "rate" => self.bandwidth = Some(value.parse()?),
            "jitter" => self.jitter = Some(value.parse()?),
            "loss" => self.loss = Some(value.parse::<Probability>()?.0),
            "queue" => self.queue_bytes = Some(value.parse::<ByteCount>()?.0),
            "reorder" => self.reorder = Some(value.parse().map_err(|_| unknown())?),
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// Returns the link with these settings.
    pub(super) fn apply(&self, link: &Link) -> Link {
        Link {
            latency: self.latency.unwrap_or(link.latency),
            bandwidth: self.bandwidth.unwrap_or(link.bandwidth),
            jitter: self.jitter.map_or(link.jitter, Latency::duration),
            loss: self.loss.unwrap_or(link.loss),
            queue_bytes: self.queue_bytes.unwrap_or(link.queue_bytes),
            reorder: self.reorder.unwrap_or(link.reorder),
            lost_after: link.lost_after,
        }
    }
}

/// A change of the link between two sites, or inside one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) at: Time,
    pub(super) from: SiteId,
    pub(super) to: SiteId,
    /// Whether the other direction changes too.
    pub(super) both: bool,
    pub(super) settings: Settings,
}

impl Change {
    /// Whether the change concerns this direction.
    pub(super) fn concerns(&self, from: SiteId, to: SiteId) -> bool {
        (self.from, self.to) == (from, to) || (self.both && (self.to, self.from) == (from, to))
    }
}

/// Processes of other users that compute on a node from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ForeignLoad {
    pub(super) at: Time,
    pub(super) node: NodeId,
    pub(super) processes: u32,
}

/// A line of a timeline.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entry {
    Link(Change),
    /// One load for each node of the host.
    Load(Vec<ForeignLoad>),
}

/// Reads a line; `sites` are the names of all sites and `hosts` the hosts of all nodes, in order.
pub(super) fn parse(text: &str, sites: &[&str], hosts: &[String]) -> Result<Entry, TimelineError> {
    let form = || TimelineError::Form { text: text.to_owned() };
    if text.len() > MAX_TEXT_BYTES {
        return Err(form());
    }
    let mut words = text.split_ascii_whitespace();
    let (Some("at"), Some(at), Some(what), Some(which)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(form());
    };
    let settings: Vec<&str> = words.collect();
    if settings.is_empty() {
        return Err(form());
    }
    let at = Time::ZERO + at.parse::<Latency>()?.duration();
    match what {
        "link" => parse_link(at, which, &settings, sites).map(Entry::Link),
        "node" => parse_load(at, which, &settings, hosts).map(Entry::Load),
        _ => Err(form()),
    }
}

fn parse_link(
    at: Time,
    ends: &str,
    words: &[&str],
    sites: &[&str],
) -> Result<Change, TimelineError> {
    let (from, to, both) = parse_ends(ends, sites)?;
    let mut settings = Settings::default();
    for word in words {
        settings.set(word)?;
    }
    Ok(Change { at, from, to, both, settings })
}

fn parse_load(
    at: Time,
    host: &str,
    words: &[&str],
    hosts: &[String],
) -> Result<Vec<ForeignLoad>, TimelineError> {
    let processes = match words {
        [word] => word.strip_prefix("load=").and_then(|count| count.parse().ok()),
        _ => None,
    };
    let Some(processes) = processes.filter(|&count: &u32| count <= LOAD_MAX) else {
        return Err(TimelineError::Load { text: words.join(" ") });
    };
    let nodes = hosts.iter().enumerate().filter(|(_, name)| *name == host);
    let loads: Vec<_> =
        nodes.map(|(node, _)| ForeignLoad { at, node: NodeId::from(node), processes }).collect();
    if loads.is_empty() {
        // A host that runs several nodes is named once.
        let mut seen = BTreeSet::new();
        let names = hosts.iter().filter(|host| seen.insert(*host)).take(10);
        let known: Vec<_> = names.map(|host| format!("`{host}`")).collect();
        return Err(TimelineError::Host { host: host.to_owned(), known: known.join(", ") });
    }
    Ok(loads)
}

/// Reads `SITE-SITE` or `SITE>SITE`. Names may contain `-`, so every position is tried.
fn parse_ends(text: &str, sites: &[&str]) -> Result<(SiteId, SiteId, bool), TimelineError> {
    let site = |name| sites.iter().position(|&site| site == name).map(SiteId::from);
    let joined = |at: usize, both| Some((site(&text[..at])?, site(text.get(at + 1..)?)?, both));
    let marks = text.char_indices().filter(|&(_, mark)| mark == '-' || mark == '>');
    let mut found = marks.filter_map(|(at, mark)| joined(at, mark == '-'));
    match (found.next(), found.next()) {
        (Some(ends), None) => Ok(ends),
        _ => {
            let known: Vec<_> = sites.iter().take(10).map(|site| format!("`{site}`")).collect();
            Err(TimelineError::Ends { ends: text.to_owned(), known: known.join(", ") })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITES: &[&str] = &["a", "b", "a-b", "b-c"];

    fn parse(text: &str, sites: &[&str]) -> Result<Change, TimelineError> {
        match super::parse(text, sites, &[])? {
            Entry::Link(change) => Ok(change),
            Entry::Load(loads) => panic!("a load: {loads:?}"),
        }
    }

    fn loads(text: &str) -> Result<Vec<ForeignLoad>, TimelineError> {
        let hosts = ["d1", "d2", "d1"].map(str::to_owned);
        match super::parse(text, SITES, &hosts)? {
            Entry::Link(change) => panic!("a link: {change:?}"),
            Entry::Load(loads) => Ok(loads),
        }
    }

    #[test]
    fn a_load_applies_to_all_nodes_of_its_host() {
        let at = Time(60_000_000_000);
        let load = |node| ForeignLoad { at, node: NodeId(node), processes: 2 };

        assert_eq!(loads("at 60s node d1 load=2").unwrap(), [load(0), load(2)]);
        assert_eq!(loads("at 60s node d2 load=2").unwrap(), [load(1)]);
    }

    #[test]
    fn a_load_of_an_unknown_host_or_without_a_valid_count_is_refused() {
        let host = loads("at 1s node x load=1").unwrap_err().to_string();
        assert_eq!(host, "there is no host `x` in the grid; write one of `d1`, `d2`");
        for text in ["load=-1", "load=2000", "load=", "rate=1mbit", "load=1 load=2"] {
            let refused = loads(&format!("at 1s node d1 {text}"));
            assert!(matches!(refused, Err(TimelineError::Load { .. })), "{text}");
        }
        assert!(matches!(loads("at 1s node d1"), Err(TimelineError::Form { .. })));
    }

    #[test]
    fn a_change_has_a_time_a_link_and_settings() {
        let change = parse("at 60s link a-b rate=10mbit loss=1%", SITES).unwrap();

        assert_eq!(
            (change.at, change.from, change.to),
            (Time(60_000_000_000), SiteId(0), SiteId(1))
        );
        assert!(change.concerns(SiteId(1), SiteId(0)));
        let link = change.settings.apply(&Link::wan());
        assert_eq!(
            link,
            Link::wan().with_loss(0.01).with_bandwidth(Bandwidth::from_bits_per_second(10_000_000))
        );
    }

    #[test]
    fn one_direction_and_the_inside_of_a_site_can_be_named() {
        let change = parse("at 0s link b>a latency=1ms", SITES).unwrap();
        assert!(change.concerns(SiteId(1), SiteId(0)) && !change.concerns(SiteId(0), SiteId(1)));
        let inside = parse("at 0s link b-b latency=1ms", SITES).unwrap();
        assert!(inside.concerns(SiteId(1), SiteId(1)));
    }

    #[test]
    fn names_with_dashes_are_found_and_ambiguous_links_are_refused() {
        let change = parse("at 1s link a-b-a loss=0%", &["a", "b", "a-b"]).unwrap();
        assert_eq!((change.from, change.to), (SiteId(2), SiteId(0)));
        let refused = parse("at 1s link a-b-c loss=0%", &["a", "b-c", "a-b", "c"]);
        assert!(matches!(refused, Err(TimelineError::Ends { .. })));
    }

    #[test]
    fn malformed_changes_are_refused() {
        for text in ["", "at 60s", "at 60s link a-b", "60s link a-b rate=1mbit", &"x".repeat(600)] {
            assert!(matches!(parse(text, SITES), Err(TimelineError::Form { .. })), "{text}");
        }
        for text in ["at 1s link a-b rat=1mbit", "at 1s link a-b rate", "at 1s link a-b reorder=si"]
        {
            assert!(matches!(parse(text, SITES), Err(TimelineError::Setting { .. })), "{text}");
        }
        let unit = parse("at 60 link a-b rate=1mbit", SITES).unwrap_err();
        assert!(unit.to_string().contains("has no known unit"), "{unit}");
    }
}
