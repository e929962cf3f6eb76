//! Changes of links while a job runs, such as `at 60s link a-b rate=10mbit`.

use crate::id::SiteId;
use crate::link::{Link, LinkError};
use crate::quantity::{ByteCount, Probability, QuantityError};
use crate::spec::site::shorten;
use crate::units::{Bandwidth, Latency, Time};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A change takes far less.
const MAX_TEXT_BYTES: usize = 512;
/// How a change is written.
const FORM: &str = "`at TIME link SITE-SITE NAME=VALUE …`, such as `at 60s link a-b rate=10mbit`";
/// The settings there are.
const SETTINGS: &str = "`latency`, `rate`, `jitter`, `loss`, `queue`, `reorder`";

/// At most this many changes in one grid.
pub(super) const CHANGES_MAX: usize = 1024;

/// Why a change was refused. Nothing was changed; the message says what to write.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TimelineError {
    /// The text does not have the form of a change.
    #[error("`{}` is no change of a link; write {FORM}", shorten(.text))]
    Form {
        /// What was written.
        text: String,
    },
    /// There are too many.
    #[error("a grid has at most {CHANGES_MAX} changes of links; remove some")]
    TooMany,
    /// The sites are none of the grid.
    #[error("`{}` joins no two sites of the grid, or more than two; write SITE-SITE, or SITE>SITE for one direction, with two of {known}", shorten(.ends))]
    Ends {
        /// What was written.
        ends: String,
        /// Some of the names there are.
        known: String,
    },
    /// A setting of an unknown name.
    #[error("there is no setting `{}`; write one of {SETTINGS}", shorten(.setting))]
    Setting {
        /// What was written.
        setting: String,
    },
    /// A value that cannot be read.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// The settings together describe no link.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// What becomes different about a link; what is `None` stays.
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

    /// The link with these settings.
    pub(super) fn apply(&self, link: &Link) -> Link {
        Link {
            latency: self.latency.unwrap_or(link.latency),
            bandwidth: self.bandwidth.unwrap_or(link.bandwidth),
            jitter: self.jitter.map_or(link.jitter, Latency::duration),
            loss: self.loss.unwrap_or(link.loss),
            queue_bytes: self.queue_bytes.unwrap_or(link.queue_bytes),
            reorder: self.reorder.unwrap_or(link.reorder),
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
    /// Whether it is about this direction.
    pub(super) fn concerns(&self, from: SiteId, to: SiteId) -> bool {
        (self.from, self.to) == (from, to) || (self.both && (self.to, self.from) == (from, to))
    }
}

/// Reads a change; `sites` are the names of all sites, in order.
pub(super) fn parse(text: &str, sites: &[&str]) -> Result<Change, TimelineError> {
    let form = || TimelineError::Form { text: text.to_owned() };
    if text.len() > MAX_TEXT_BYTES {
        return Err(form());
    }
    let mut words = text.split_ascii_whitespace();
    let (Some("at"), Some(at), Some("link"), Some(ends)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(form());
    };
    let at = Time::ZERO + at.parse::<Latency>()?.duration();
    let (from, to, both) = parse_ends(ends, sites)?;
    let mut settings = Settings::default();
    let mut count = 0;
    for word in words {
        settings.set(word)?;
        count += 1;
    }
    if count == 0 {
        return Err(form());
    }
    Ok(Change { at, from, to, both, settings })
}

/// Reads `SITE-SITE` or `SITE>SITE`. Names may contain `-`, so that every one is tried.
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

    #[test]
    fn a_change_names_its_time_its_link_and_what_becomes_different() {
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
    fn names_with_dashes_are_found_and_what_could_mean_two_links_is_refused() {
        let change = parse("at 1s link a-b-a loss=0%", &["a", "b", "a-b"]).unwrap();
        assert_eq!((change.from, change.to), (SiteId(2), SiteId(0)));
        let refused = parse("at 1s link a-b-c loss=0%", &["a", "b-c", "a-b", "c"]);
        assert!(matches!(refused, Err(TimelineError::Ends { .. })));
    }

    #[test]
    fn what_is_no_change_is_refused_with_the_form() {
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
