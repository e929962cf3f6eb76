//! Reads the shorthand for an emulated grid, such as `2x4,wan=32ms`.

use crate::link::{Link, LinkError};
use crate::quantity::{ByteCount, Probability, QuantityError};
use crate::spec::grid::GridSpec;
use crate::spec::site::{HostSpec, MAX_HOSTS, MAX_PES, MAX_SITES, SiteError, SiteSpec, shorten};
use crate::spec::timeline::TimelineError;
use crate::speed::Speed;
use crate::units::{Bandwidth, Latency};
use std::collections::BTreeSet;
use thiserror::Error;

/// Maximum length of a shorthand in bytes, far longer than all options together.
const MAX_TEXT_BYTES: usize = 1024;
const OPTIONS: &str =
    "`wan`, `rate`, `jitter`, `loss`, `queue`, `uplink`, `lan`, `lanrate`, `speed`";

/// Error of a shorthand. Nothing was created; the message says what to write.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum EmulateError {
    /// The text does not start with numbers of sites and hosts.
    #[error("`{}` is not a shape; write SITESxHOSTS or SITESxHOSTSxPES, such as `2x4`", shorten(.text))]
    Shape {
        /// The text.
        text: String,
    },
    /// The shorthand is longer than 1024 bytes.
    #[error("the shorthand is longer than {MAX_TEXT_BYTES} bytes; write a grid file instead")]
    TooLong,
    /// There are too many sites, hosts or PEs, or a site has another error.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// An option has an unknown name.
    #[error("there is no option `{}`; write one of {OPTIONS}, such as `wan=32ms`", shorten(.option))]
    UnknownOption {
        /// The text of the option.
        option: String,
    },
    /// An option has no value.
    #[error("option `{option}` has no value; write `{option}=VALUE`")]
    NoValue {
        /// The name of the option.
        option: String,
    },
    /// An option is given twice.
    #[error("`{option}` is given twice; remove one")]
    Repeated {
        /// The name of the option.
        option: String,
    },
    /// The value of an option cannot be read.
    #[error("option `{option}`: {error}")]
    Quantity {
        /// The name of the option.
        option: String,
        /// The error of the value.
        error: QuantityError,
    },
    /// The options together do not describe a link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A change after a semicolon is invalid.
    #[error(transparent)]
    Change(#[from] TimelineError),
}

impl GridSpec {
    /// Reads `SITESxHOSTS` or `SITESxHOSTSxPES` (per host, default 1) and options after commas.
    /// The sites are called `a`, `b`, …, and their hosts `a1`, `a2`, ….
    ///
    /// | option | meaning | default |
    /// | --- | --- | --- |
    /// | `wan` | latency between sites, one way | `10ms` |
    /// | `rate` | bandwidth between sites | `1gbit` |
    /// | `jitter` | further delay between sites, drawn from zero to this | none |
    /// | `loss` | probability that a packet between sites is lost | `0%` |
    /// | `queue` | bytes that may wait for the link between sites | `unlimited` |
    /// | `uplink` | bandwidth between a site and all others together, each way | `unlimited` |
    /// | `lan` | latency inside a site, one way | `50us` |
    /// | `lanrate` | bandwidth inside a site | `10gbit` |
    /// | `speed` | speeds of hosts, such as `1:1/3`; hosts of all sites take them in turn | `1` |
    ///
    /// Changes while a job runs follow after semicolons, as in
    /// [`with_change`](GridSpec::with_change): `2x2,wan=8ms; at 60s link a-b rate=10mbit`.
    ///
    /// ```
    /// use gridspan_topology::{GridSpec, Latency, NodeId};
    ///
    /// let spec = GridSpec::from_emulate("2x4,wan=32ms,loss=0.1%")?;
    /// assert_eq!(spec.layout().node_count(), 8);
    /// assert_eq!(spec.link(NodeId(3), NodeId(4)).latency, Latency::from_millis(32));
    /// # Ok::<(), gridspan_topology::EmulateError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`EmulateError`] if the text is no such shape or too long, an option is unknown, repeated or
    /// has no valid value, the options together describe no valid link, a change is invalid, or the
    /// grid has too many sites, hosts or PEs.
    pub fn from_emulate(text: &str) -> Result<Self, EmulateError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(EmulateError::TooLong);
        }
        let mut parts = text.split(';');
        let text = parts.next().unwrap_or_default();
        let (shape, options) = text.split_once(',').map_or((text, None), |(s, o)| (s, Some(o)));
        let shape = parse_shape(shape.trim())?;
        let (wan, lan) = (Link::wan(), Link::lan());
        let mut settings = Settings { wan, lan, uplink: None, speeds: vec![Speed::ORDINARY] };
        let mut seen = BTreeSet::new();
        for option in options.into_iter().flat_map(|options| options.split(',')) {
            let option = option.trim();
            let unknown = || EmulateError::UnknownOption { option: option.to_owned() };
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let known = settings.set(name, value).map_err(|error| match option.contains('=') {
                false => EmulateError::NoValue { option: name.to_owned() },
                true => EmulateError::Quantity { option: name.to_owned(), error },
            })?;
            if !known {
                return Err(unknown());
            }
            if !seen.insert(name) {
                return Err(EmulateError::Repeated { option: name.to_owned() });
            }
        }
        settings.wan.validate()?;
        settings.lan.validate()?;
        let sites = sites(shape, &settings);
        let spec = GridSpec::new(sites)?.with_lan(settings.lan).with_wan(settings.wan);
        Ok(parts.try_fold(spec, |spec, change| spec.with_change(change))?)
    }
}

/// Numbers of sites, hosts per site and PEs per host.
#[derive(Clone, Copy)]
struct Shape {
    sites: u32,
    hosts: u32,
    pes: u32,
}

struct Settings {
    wan: Link,
    lan: Link,
    uplink: Option<Bandwidth>,
    /// At least one speed; hosts take them in turn.
    speeds: Vec<Speed>,
}

impl Settings {
    /// Sets one option; returns false if there is none of this name.
    fn set(&mut self, name: &str, value: &str) -> Result<bool, QuantityError> {
        match name {
            "wan" => self.wan.latency = value.parse()?,
            "rate" => self.wan.bandwidth = value.parse()?,
            "jitter" => self.wan.jitter = value.parse::<Latency>()?.duration(),
            "loss" => self.wan.loss = value.parse::<Probability>()?.0,
            "queue" => self.wan.queue_bytes = value.parse::<ByteCount>()?.0,
            "uplink" => self.uplink = Some(value.parse()?),
            "lan" => self.lan.latency = value.parse()?,
            "lanrate" => self.lan.bandwidth = value.parse()?,
            "speed" => self.speeds = value.split(':').map(str::parse).collect::<Result<_, _>>()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Reads the shape and checks the limits before anything of that size is created.
fn parse_shape(text: &str) -> Result<Shape, EmulateError> {
    let refuse = || EmulateError::Shape { text: text.to_owned() };
    let mut factors = Vec::new();
    for factor in text.split('x') {
        if factor.is_empty() || !factor.bytes().all(|b| b.is_ascii_digit()) {
            return Err(refuse());
        }
        // A number that does not fit 32 bits exceeds all limits.
        factors.push(factor.parse().unwrap_or(u32::MAX));
    }
    let (sites, hosts, pes) = match factors[..] {
        [sites, hosts] => (sites, hosts, 1),
        [sites, hosts, pes] => (sites, hosts, pes),
        _ => return Err(refuse()),
    };
    if sites == 0 || hosts == 0 || pes == 0 {
        return Err(refuse());
    }
    let all_hosts = u64::from(sites) * u64::from(hosts);
    if sites as usize > MAX_SITES {
        return Err(SiteError::TooManySites.into());
    }
    if all_hosts > MAX_HOSTS as u64 {
        return Err(SiteError::TooManyHosts.into());
    }
    if all_hosts * u64::from(pes) > u64::from(MAX_PES) {
        return Err(SiteError::TooManyPes.into());
    }
    Ok(Shape { sites, hosts, pes })
}

fn sites(shape: Shape, settings: &Settings) -> Vec<SiteSpec> {
    let mut speeds = settings.speeds.iter().copied().cycle();
    let mut site_of = |n| {
        let name = letters(n);
        let host_of =
            |(n, speed)| HostSpec { speed, ..HostSpec::new(format!("{name}{n}"), shape.pes) };
        let hosts = (1..=shape.hosts).zip(&mut speeds).map(host_of).collect();
        SiteSpec { uplink: settings.uplink, ..SiteSpec::new(name, hosts, Link::lan()) }
    };
    (0..shape.sites).map(&mut site_of).collect()
}

/// Returns `a` … `z`, `aa`, `ab`, … as for the columns of a spreadsheet.
fn letters(mut n: u32) -> String {
    let mut name = Vec::new();
    loop {
        name.push(char::from(b'a' + (n % 26) as u8));
        if n < 26 {
            return name.into_iter().rev().collect();
        }
        n = n / 26 - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{NodeId, SiteId};
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn two_numbers_are_sites_and_hosts() {
        let spec = GridSpec::from_emulate("2x3").unwrap();

        let layout = spec.layout();
        assert_eq!((layout.site_count(), layout.node_count(), layout.pe_count()), (2, 6, 6));
        assert_eq!(layout.site_name(SiteId(1)), "b");
        assert_eq!(spec.host(NodeId(5)), "b3");
        assert_eq!(spec.link(NodeId(0), NodeId(5)), &Link::wan());
        assert_eq!(spec.link(NodeId(0), NodeId(1)), &Link::lan());
    }

    #[test]
    fn a_third_number_is_the_pes_of_each_host() {
        assert_eq!(GridSpec::from_emulate("2x2x4").unwrap().layout().pe_count(), 16);
    }

    #[test]
    fn options_set_the_links() {
        let text =
            "2x1, wan=32ms, rate=100mbit,jitter=1ms,loss=0.1%,queue=1MB,lan=9us,lanrate=1gbit";

        let spec = GridSpec::from_emulate(text).unwrap();

        let wan = Link::new(Latency::from_millis(32), Bandwidth::from_bits_per_second(100_000_000))
            .with_jitter(Duration::from_millis(1))
            .with_loss(0.001)
            .with_queue_bytes(1_000_000);
        let lan =
            Link::new(Latency::from_micros(9), Bandwidth::from_bits_per_second(1_000_000_000));
        assert_eq!(spec.link(NodeId(0), NodeId(1)), &wan);
        assert_eq!(spec.link_between(SiteId(1), SiteId(1)), &lan);
    }

    #[test]
    fn all_sites_have_the_same_uplink() {
        let uplinks = |text| {
            let spec = GridSpec::from_emulate(text).unwrap();
            [0, 1].map(|site| spec.uplink(SiteId(site)))
        };
        let gbit = Some(Bandwidth::from_bits_per_second(1_000_000_000));
        assert_eq!(uplinks("2x2,uplink=1gbit"), [gbit; 2]);
        assert_eq!(uplinks("2x2,uplink=unlimited"), [None; 2]);
        assert_eq!(uplinks("2x2"), [None; 2]);
        assert!(matches!(
            GridSpec::from_emulate("2x2,uplink=0mbit"),
            Err(EmulateError::Quantity { error: QuantityError::Zero { .. }, .. })
        ));
    }

    #[test]
    fn hosts_take_speeds_in_turn() {
        let spec = GridSpec::from_emulate("2x3,speed=1:1/3").unwrap();

        let factors: Vec<f64> = (0..6).map(|node| spec.speed(NodeId(node)).factor()).collect();
        let slow = 0.333_333;
        assert_eq!(factors, [1.0, slow, 1.0, slow, 1.0, slow]);
        assert_eq!(GridSpec::from_emulate("1x1").unwrap().speed(NodeId(0)), Speed::ORDINARY);
        assert!(GridSpec::from_emulate("1x1,speed=").is_err());
        assert!(GridSpec::from_emulate("1x1,speed=1:0").is_err());
    }

    #[test]
    fn the_twenty_seventh_site_is_aa() {
        assert_eq!([0, 25, 26, 27, 701, 702].map(letters), ["a", "z", "aa", "ab", "zz", "aaa"]);
    }

    #[test]
    fn a_refusal_says_what_to_write() {
        let message = |text| GridSpec::from_emulate(text).unwrap_err().to_string();
        assert_eq!(
            message("two"),
            "`two` is not a shape; write SITESxHOSTS or SITESxHOSTSxPES, such as `2x4`"
        );
        assert_eq!(
            message("2x2,wan32ms"),
            "there is no option `wan32ms`; write one of `wan`, `rate`, `jitter`, `loss`, `queue`, \
             `uplink`, `lan`, `lanrate`, `speed`, such as `wan=32ms`"
        );
        assert_eq!(
            message("2x2,wan=32"),
            "option `wan`: `32` has no known unit; write one of ns, us, µs, ms, s, min, h, such as \
             `32ms`"
        );
        assert_eq!(message("2x2,loss"), "option `loss` has no value; write `loss=VALUE`");
        assert!(message("2x2,loss=").starts_with("option `loss`: "), "with an example of a loss");
        assert_eq!(message("2x2,wan=1ms,wan=2ms"), "`wan` is given twice; remove one");
        assert_eq!(
            message("2x2,wan=1h,jitter=1h"),
            "latency plus jitter is 7200s; write at most an hour"
        );
    }

    #[test]
    fn malformed_shapes_and_shapes_beyond_the_limits_are_refused() {
        for text in ["", "2", "0x1", "1x0", "1x1x0", "1x1x1x1", "x", "2x", "-1x2", "2,wan=1ms"] {
            let refused = GridSpec::from_emulate(text);
            assert!(matches!(refused, Err(EmulateError::Shape { .. })), "{text}");
        }
        for (text, error) in [
            ("5000x1", SiteError::TooManySites),
            ("99999999999999999999x1", SiteError::TooManySites),
            ("2x40000", SiteError::TooManyHosts),
            ("1x65536x17", SiteError::TooManyPes),
            ("4096x4294967295x4294967295", SiteError::TooManyHosts),
        ] {
            assert_eq!(GridSpec::from_emulate(text), Err(EmulateError::Site(error)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,60}", near in "[0-9]{0,3}x[0-9]{0,3}(,[a-z]{0,5}=[0-9.]{0,3}[a-z%]{0,3}){0,3}") {
            let _ = GridSpec::from_emulate(&text);
            let _ = GridSpec::from_emulate(&near);
        }
    }
}
