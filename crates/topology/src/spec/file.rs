//! Reads a grid file.

use crate::id::SiteId;
use crate::link::Link;
use crate::quantity::{ByteCount, Probability, QuantityError};
use crate::spec::file_error::{GridFileError, GridFileProblem, Located};
use crate::spec::grid::GridSpec;
use crate::spec::host_range::expand_hosts;
use crate::spec::site::{ClusterSpec, HostSpec, SiteSpec, Sites, check_host_name};
use crate::spec::source::{self, Key, Section, Value, located, text};
use crate::speed::Speed;
use crate::units::Latency;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use toml::de::{DeTable, DeValue};

/// Maximum size of a file in bytes, many times that of the largest grid.
const MAX_FILE_BYTES: usize = 1 << 20;
/// Maximum number of sites that a message names.
const MAX_SITES_SHOWN: usize = 10;

const fn key(name: &'static str, expected: &'static str, example: &'static str) -> Key {
    Key { name, expected, example }
}

const SITE: Key = key("site", "tables with a name each", "[site.delft]");
const LINK: Key = key("link", "a list of tables", "[[link]]");
const WAN: Key = key("wan", "a table", "[wan]");
const LAN: Key = key("lan", "a table", "lan = { latency = \"50us\" }");
const LOOPBACK: Key = key("loopback", "a string with a unit", "loopback = \"0.5us\"");
const TIMELINE: Key =
    key("timeline", "a list of strings", "timeline = [\"at 60s link a-b rate=10mbit\"]");
const ROOT_KEYS: &[Key] = &[SITE, LINK, WAN, LAN, LOOPBACK, TIMELINE];

const HOSTS: Key = key("hosts", "a list of strings", "hosts = [\"d[01-04]\"]");
const PES: Key = key("pes", "a whole number from 1", "pes = 2");
const SPEED: Key = key("speed", "a number from 0.01 to 100, or a fraction as text", "speed = 0.5");
const CLUSTER: Key = key("cluster", "tables with a name each", "[site.delft.cluster.das]");
const PORT: Key = key("port", "a whole number from 1 to 65535", "port = 7000");
const GATEWAY: Key = key("gateway", "the name of a host", "gateway = \"head.delft\"");
const UPLINK: Key = key("uplink", "a string with a unit", "uplink = \"1gbit\"");
const SITE_KEYS: &[Key] = &[HOSTS, PES, SPEED, LAN, CLUSTER, PORT, GATEWAY, UPLINK];
const CLUSTER_KEYS: &[Key] = &[HOSTS, PES, SPEED, LAN];

const LATENCY: Key = key("latency", "a string with a unit", "latency = \"32ms\"");
const BANDWIDTH: Key = key("bandwidth", "a string with a unit", "bandwidth = \"100mbit\"");
const JITTER: Key = key("jitter", "a string with a unit", "jitter = \"1ms\"");
const LOSS: Key = key("loss", "a string", "loss = \"0.1%\"");
const QUEUE: Key = key("queue", "a string with a unit", "queue = \"1MB\"");
const REORDER: Key = key("reorder", "true or false", "reorder = true");
const LOST_AFTER: Key = key("lost_after", "a string with a unit", "lost_after = \"60s\"");
const LINK_KEYS: &[Key] = &[LATENCY, BANDWIDTH, JITTER, LOSS, QUEUE, REORDER, LOST_AFTER];

const BETWEEN: Key = key("between", "two names of sites", "between = [\"delft\", \"urbana\"]");
const FROM: Key = key("from", "the name of a site", "from = \"delft\"");
const TO: Key = key("to", "the name of a site", "to = \"urbana\"");
const LINK_ENTRY_KEYS: &[Key] =
    &[BETWEEN, FROM, TO, LATENCY, BANDWIDTH, JITTER, LOSS, QUEUE, REORDER, LOST_AFTER];

impl GridSpec {
    /// Reads a grid file: TOML of at most 1 MiB with these tables.
    ///
    /// | where | key | meaning | default |
    /// | --- | --- | --- | --- |
    /// | top | `loopback` | latency between PEs of one node | `"0.5us"` |
    /// | | `timeline` | changes while a job runs; see [`GridSpec::with_change`] | nothing |
    /// | `[site.NAME]` | `hosts` | host names; `d[01-04,7]` expands to five. A host that is listed twice runs two nodes | required, or a cluster |
    /// | | `pes` | PEs per host, at least 1 | `1` |
    /// | | `speed` | speed of the processors of its hosts in simulations and emulated grids, from 0.01 to 100; real processors are measured | `1` |
    /// | | `lan` | the link inside this site | `[lan]` |
    /// | | `port` | the UDP port of the first node of each host; further nodes of a host take the next ones | any |
    /// | | `gateway` | the host through which `ssh` reaches the others | none |
    /// | | `uplink` | the rate that all traffic between this site and other sites shares, each way | `"unlimited"` |
    /// | `[site.NAME.cluster.NAME]` | `hosts`, `pes`, `speed` | hosts with a separate network | |
    /// | | `lan` | the link inside the cluster | the site's `lan` |
    /// | `[lan]` | | the link inside sites | [`Link::lan`] |
    /// | `[wan]` | | the link between sites | [`Link::wan`] |
    /// | `[[link]]` | `between` | two sites: the link in both directions | |
    /// | | `from`, `to` | two sites: the link in this direction | |
    ///
    /// A link has the keys `latency` (one way), `bandwidth`, `jitter`, `loss`, `queue`, `reorder`
    /// and `lost_after`, as in [`Link`]. Keys that an entry leaves out have the values of `[wan]`
    /// or `[lan]`; an entry for one direction takes them from the entry for both directions, if
    /// there is one. Sites are numbered in the order of the file.
    ///
    /// ```
    /// use gridspan_topology::{GridSpec, Latency, NodeId};
    ///
    /// let spec = GridSpec::from_toml(r#"
    ///     [site.delft]
    ///     hosts = ["d[01-04]"]
    ///     pes = 2
    ///     lan = { latency = "50us", bandwidth = "10gbit" }
    ///
    ///     [site.urbana]
    ///     hosts = ["u1", "u2"]
    ///
    ///     [[link]]
    ///     between = ["delft", "urbana"]
    ///     latency = "32ms"
    ///     loss = "0.1%"
    /// "#)?;
    /// assert_eq!(spec.host(NodeId(3)), "d04");
    /// assert_eq!(spec.layout().pe_count(), 10);
    /// assert_eq!(spec.link(NodeId(3), NodeId(4)).latency, Latency::from_millis(32));
    /// # Ok::<(), gridspan_topology::GridFileError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`GridFileError`], with the line and the column, at the first problem of the file.
    pub fn from_toml(text: &str) -> Result<Self, GridFileError> {
        read(text).map_err(|problem| GridFileError::new(text, problem))
    }
}

fn read(text: &str) -> Result<GridSpec, Located> {
    if text.len() > MAX_FILE_BYTES {
        let problem = GridFileProblem::TooLarge { max_bytes: MAX_FILE_BYTES };
        return Err(Located { offset: 0, problem });
    }
    let root = DeTable::parse(text).map_err(|error| Located {
        offset: error.span().map_or(0, |span| span.start),
        problem: GridFileProblem::Syntax { message: error.message().to_owned() },
    })?;
    let root = Section::new(root.get_ref(), 0, "a grid file", ROOT_KEYS)?;
    let wan = read_table(&root, WAN, Link::wan())?;
    let lan = read_table(&root, LAN, Link::lan())?;

    let mut sites = Sites::default();
    for (name, value) in root.tables(SITE)? {
        let hosts_left = sites.room_for_hosts();
        let site = read_site(name.get_ref(), value, lan, hosts_left)?;
        sites.push(site).map_err(|error| located(name, error))?;
    }
    let sites = sites.into_vec();
    if sites.is_empty() {
        return Err(root.located(GridFileProblem::NoSites));
    }
    let mut spec = GridSpec::from_checked(sites).with_wan(wan);
    if let Some(loopback) = root.quantity(LOOPBACK)? {
        spec = spec.with_loopback(loopback);
    }
    read_links(&root, &mut spec)?;
    for value in root.array(TIMELINE)? {
        let change = source::text(value, TIMELINE)?;
        spec = spec.with_change(change).map_err(|error| located(value, error))?;
    }
    Ok(spec)
}

fn read_site(
    name: &str,
    value: &Value<'_>,
    lan: Link,
    hosts_left: usize,
) -> Result<SiteSpec, Located> {
    let section = Section::of(value, SITE, "a site", SITE_KEYS)?;
    let lan = read_table(&section, LAN, lan)?;
    let pes = read_pes(&section)?.unwrap_or(1);
    let speed = read_speed(&section)?.unwrap_or_default();
    let mut site = SiteSpec::new(name, vec![], lan);
    read_hosts(&section, Kind { pes, speed, cluster: None }, hosts_left, &mut site.hosts)?;
    for (name, value) in section.tables(CLUSTER)? {
        let section = Section::of(value, CLUSTER, "a cluster", CLUSTER_KEYS)?;
        let kind = Kind {
            pes: read_pes(&section)?.unwrap_or(pes),
            speed: read_speed(&section)?.unwrap_or(speed),
            cluster: Some(site.clusters.len() as u32),
        };
        read_hosts(&section, kind, hosts_left, &mut site.hosts)?;
        let lan = read_table(&section, LAN, lan)?;
        site.clusters.push(ClusterSpec { name: name.get_ref().to_string(), lan });
    }
    if let Some(value) = section.value(PORT) {
        let port = section.count(PORT)?.and_then(|port| u16::try_from(port).ok());
        site.port = Some(port.filter(|&port| port > 0).ok_or_else(|| PORT.refuse(value))?);
    }
    if let Some(value) = section.value(GATEWAY) {
        site.gateway = Some(text(value, GATEWAY)?.to_owned());
    }
    site.uplink = section.quantity(UPLINK)?;
    Ok(site)
}

fn read_pes(section: &Section<'_, '_>) -> Result<Option<u32>, Located> {
    let pes = section.count(PES)?;
    match (pes, section.value(PES)) {
        (Some(0), Some(value)) => Err(PES.refuse(value)),
        _ => Ok(pes),
    }
}

/// Reads a speed: a number, or a fraction as text.
fn read_speed(section: &Section<'_, '_>) -> Result<Option<Speed>, Located> {
    let Some(value) = section.value(SPEED) else { return Ok(None) };
    let written: Cow<'_, str> = match value.get_ref() {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().into(),
        // Such as 0x10.
        DeValue::Integer(number) => {
            let whole = u64::from_str_radix(number.as_str(), number.radix());
            whole.map_err(|_| SPEED.refuse(value))?.to_string().into()
        }
        DeValue::Float(number) => number.as_str().into(),
        _ => text(value, SPEED)?.into(),
    };
    written.parse().map(Some).map_err(|error: QuantityError| located(value, error))
}

/// The common properties of hosts that are listed together.
#[derive(Clone, Copy)]
struct Kind {
    pes: u32,
    speed: Speed,
    cluster: Option<u32>,
}

/// Adds the hosts of a site or cluster to those of the site.
fn read_hosts(
    section: &Section<'_, '_>,
    Kind { pes, speed, cluster }: Kind,
    hosts_left: usize,
    hosts: &mut Vec<HostSpec>,
) -> Result<(), Located> {
    for value in section.array(HOSTS)? {
        let pattern = text(value, HOSTS)?;
        let names = expand_hosts(pattern, hosts_left - hosts.len()).map_err(|error| {
            located(value, GridFileProblem::Hosts { pattern: pattern.to_owned(), error })
        })?;
        for name in names {
            check_host_name(&name).map_err(|error| located(value, error))?;
            hosts.push(HostSpec { name, pes, cluster, speed });
        }
    }
    Ok(())
}

/// Returns the link in the table at `key`, or `base` if there is none.
fn read_table(section: &Section<'_, '_>, key: Key, base: Link) -> Result<Link, Located> {
    let Some(value) = section.value(key) else { return Ok(base) };
    read_link(&Section::of(value, key, "a link", LINK_KEYS)?, base)
}

/// Returns `base` with the settings of the table.
fn read_link(section: &Section<'_, '_>, base: Link) -> Result<Link, Located> {
    let link = Link {
        latency: section.quantity(LATENCY)?.unwrap_or(base.latency),
        bandwidth: section.quantity(BANDWIDTH)?.unwrap_or(base.bandwidth),
        jitter: section.quantity(JITTER)?.map_or(base.jitter, Latency::duration),
        loss: section.quantity(LOSS)?.map_or(base.loss, |Probability(loss)| loss),
        queue_bytes: section.quantity(QUEUE)?.map_or(base.queue_bytes, |ByteCount(bytes)| bytes),
        reorder: section.flag(REORDER)?.unwrap_or(base.reorder),
        lost_after: section.quantity(LOST_AFTER)?.map(Latency::duration).or(base.lost_after),
    };
    link.validate().map_err(|error| section.located(error))?;
    Ok(link)
}

/// The sites that an entry connects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ends {
    /// Ordered, so that `between = ["b", "a"]` is the same pair.
    Between(SiteId, SiteId),
    Directed(SiteId, SiteId),
}

fn read_links(root: &Section<'_, '_>, spec: &mut GridSpec) -> Result<(), Located> {
    let layout = spec.layout().clone();
    let names: BTreeMap<&str, SiteId> =
        layout.sites().map(|site| (layout.site_name(site), site)).collect();
    let mut seen = BTreeSet::new();
    let mut entries = Vec::new();
    for value in root.array(LINK)? {
        let section = Section::of(value, LINK, "a link", LINK_ENTRY_KEYS)?;
        let ends = read_ends(&section, &names)?;
        if !seen.insert(ends) {
            let (Ends::Between(from, to) | Ends::Directed(from, to)) = ends;
            let name = |site| layout.site_name(site).to_owned();
            let problem = GridFileProblem::DuplicateLink { from: name(from), to: name(to) };
            return Err(section.located(problem));
        }
        entries.push((ends, section));
    }
    // A direction builds on the entry for both directions, wherever that is in the file.
    entries.sort_by_key(|&(ends, _)| ends);
    for (ends, section) in entries {
        match ends {
            Ends::Between(one, other) => {
                let link = read_link(&section, *spec.link_between(one, other))?;
                spec.set_link(one, other, link);
                spec.set_link(other, one, link);
            }
            Ends::Directed(from, to) => {
                let link = read_link(&section, *spec.link_between(from, to))?;
                spec.set_link(from, to, link);
            }
        }
    }
    Ok(())
}

fn read_ends(section: &Section<'_, '_>, names: &BTreeMap<&str, SiteId>) -> Result<Ends, Located> {
    let site = |value: &Value<'_>, key: Key| {
        let name = text(value, key)?;
        names.get(name).copied().ok_or_else(|| {
            let known: Vec<_> =
                names.keys().take(MAX_SITES_SHOWN).map(|n| format!("`{n}`")).collect();
            let problem =
                GridFileProblem::UnknownSite { name: name.to_owned(), known: known.join(", ") };
            located(value, problem)
        })
    };
    let (ends, other_end) = match (section.value(BETWEEN), section.value(FROM), section.value(TO)) {
        (Some(value), None, None) => {
            let [one, other] = section.array(BETWEEN)? else { return Err(BETWEEN.refuse(value)) };
            let (a, b) = (site(one, BETWEEN)?, site(other, BETWEEN)?);
            (Ends::Between(a.min(b), a.max(b)), other)
        }
        (None, Some(from), Some(to)) => (Ends::Directed(site(from, FROM)?, site(to, TO)?), to),
        _ => return Err(section.located(GridFileProblem::LinkEnds)),
    };
    let (Ends::Between(one, other) | Ends::Directed(one, other)) = ends;
    if one == other {
        let name = other_end.get_ref().as_str().unwrap_or_default().to_owned();
        return Err(located(other_end, GridFileProblem::SameSite { name }));
    }
    Ok(ends)
}

#[cfg(test)]
mod tests;
