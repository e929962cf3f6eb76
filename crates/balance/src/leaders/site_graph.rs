//! The part of the object graph that a leader knows: the actors of its site, and the actors of
//! other sites with which they exchange messages.

use super::note::{Border, LeaderActor, SiteTalk, SiteView};
use crate::cutter::Graph;
use crate::snapshot::ActorKey;
use crate::snapshot::objects::{weight, weight_max};
use std::collections::BTreeMap;

/// The actors of a site, by key, followed by the actors of other sites that are known by name.
#[derive(Clone, Debug)]
pub(super) struct SiteGraph {
    pub(super) site: u32,
    pub(super) members: Vec<LeaderActor>,
    /// Actors of other sites: key and site.
    pub(super) strangers: Vec<(ActorKey, u32)>,
    /// Each pair once: sender, receiver, messages, bytes. At least one of the two is a member.
    pub(super) talks: Vec<(u32, u32, u64, u64)>,
    /// For each other site, the actors that both sites know by name.
    pub(super) known: BTreeMap<u32, Known>,
}

/// Positions of actors: first those in the border of the site with the lower number, then those in
/// the border of the other site.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Members that the other site knows; `None` for an actor that is not a member.
    pub(super) ours: Vec<Option<u32>>,
    /// Actors of the other site that are known here.
    pub(super) theirs: Vec<u32>,
}

/// The messages known to a leader before the borders of others arrive: those inside its site, and
/// those to other sites.
pub(super) struct Borders {
    pub(super) members: Vec<LeaderActor>,
    pub(super) inner: Vec<(u32, u32, u64, u64)>,
    pub(super) outgoing: BTreeMap<u32, Border>,
}

impl Borders {
    /// Divides the measurements into those that stay here and those that other leaders need.
    pub(super) fn of(view: SiteView) -> Self {
        let mut members = view.members;
        members.sort_by_key(|member| member.load.id);
        members.dedup_by_key(|member| member.load.id);
        let mut inner: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
        let mut outer: BTreeMap<u32, Vec<&SiteTalk>> = BTreeMap::new();
        for talk in &view.talks {
            // A sender that has moved belongs to another site, and its earlier messages are not
            // counted.
            let Some(from) = position(&members, talk.from) else { continue };
            match position(&members, talk.to) {
                Some(to) if from == to => {}
                Some(to) => {
                    let (messages, bytes) = inner.entry((from, to)).or_default();
                    *messages = messages.saturating_add(talk.messages);
                    *bytes = bytes.saturating_add(talk.bytes);
                }
                None if talk.at == view.site => {}
                None => outer.entry(talk.at.0).or_default().push(talk),
            }
        }
        let outgoing = outer.into_iter().map(|(site, talks)| (site, border(&talks))).collect();
        let inner = inner.into_iter().map(|((a, b), (messages, bytes))| (a, b, messages, bytes));
        Self { inner: inner.collect(), members, outgoing }
    }

    /// Returns the site graph, once the borders of the others have arrived.
    pub(super) fn join(self, site: u32, incoming: &BTreeMap<u32, Border>) -> SiteGraph {
        let Self { members, inner, outgoing } = self;
        let mut graph =
            SiteGraph { site, members, strangers: vec![], talks: inner, known: BTreeMap::new() };
        let (empty, others) = (Border::default(), outgoing.keys().chain(incoming.keys()));
        for &other in others.collect::<std::collections::BTreeSet<_>>() {
            let [outgoing, incoming] =
                [&outgoing, incoming].map(|all| all.get(&other).unwrap_or(&empty));
            // Both sites come to the same result, since each has both borders.
            if !outgoing.talks.is_empty() || !incoming.talks.is_empty() {
                graph.add(other, outgoing, incoming);
            }
        }
        graph
    }
}

/// Makes the border of talks, with each actor listed once.
fn border(talks: &[&SiteTalk]) -> Border {
    let list = |key: fn(&SiteTalk) -> ActorKey| {
        let mut keys: Vec<ActorKey> = talks.iter().map(|talk| key(talk)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    let (ours, yours) = (list(|talk| talk.from), list(|talk| talk.to));
    let at = |list: &[ActorKey], key| list.partition_point(|known| *known < key) as u32;
    let mut sums: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for talk in talks {
        let pair = (at(&ours, talk.from), at(&yours, talk.to));
        let (messages, bytes) = sums.entry(pair).or_default();
        *messages = messages.saturating_add(talk.messages);
        *bytes = bytes.saturating_add(talk.bytes);
    }
    let talks = sums.into_iter().map(|((a, b), (messages, bytes))| (a, b, messages, bytes));
    Border { talks: talks.collect(), ours, yours }
}

fn position(members: &[LeaderActor], key: ActorKey) -> Option<u32> {
    members.binary_search_by_key(&key, |member| member.load.id).ok().map(|at| at as u32)
}

impl SiteGraph {
    /// Adds the borders that this site and another have sent to each other.
    fn add(&mut self, other: u32, outgoing: &Border, incoming: &Border) {
        let mut names: Vec<ActorKey> =
            outgoing.yours.iter().chain(&incoming.ours).copied().collect();
        names.sort_unstable();
        names.dedup();
        let first = self.members.len() + self.strangers.len();
        self.strangers.extend(names.iter().map(|&name| (name, other)));
        let stranger = |key| (first + names.partition_point(|known| *known < key)) as u32;
        let member = |key| position(&self.members, key);
        let [ours_outgoing, ours_incoming] =
            [&outgoing.ours, &incoming.yours].map(|keys| keys.iter().map(|&key| member(key)));
        let [theirs_outgoing, theirs_incoming] =
            [&outgoing.yours, &incoming.ours].map(|keys| keys.iter().map(|&key| stranger(key)));
        let (ours, theirs): (Vec<Option<u32>>, Vec<u32>) = match self.site < other {
            true => (
                ours_outgoing.chain(ours_incoming).collect(),
                theirs_outgoing.chain(theirs_incoming).collect(),
            ),
            false => (
                ours_incoming.chain(ours_outgoing).collect(),
                theirs_incoming.chain(theirs_outgoing).collect(),
            ),
        };
        let sent = outgoing.talks.iter().filter_map(|&(from, to, messages, bytes)| {
            let from = member(*outgoing.ours.get(from as usize)?)?;
            Some((from, stranger(*outgoing.yours.get(to as usize)?), messages, bytes))
        });
        let received = incoming.talks.iter().filter_map(|&(from, to, messages, bytes)| {
            let to = member(*incoming.yours.get(to as usize)?)?;
            Some((stranger(*incoming.ours.get(from as usize)?), to, messages, bytes))
        });
        let both: Vec<_> = sent.chain(received).collect();
        self.talks.extend(both);
        self.known.insert(other, Known { ours, theirs });
    }

    /// Returns the number of members and strangers.
    pub(super) fn len(&self) -> usize {
        self.members.len() + self.strangers.len()
    }

    /// Returns the key of a member or stranger.
    pub(super) fn key(&self, vertex: u32) -> ActorKey {
        match self.members.get(vertex as usize) {
            Some(member) => member.load.id,
            None => self.strangers[vertex as usize - self.members.len()].0,
        }
    }

    /// Returns the site of a member or stranger.
    pub(super) fn site_of(&self, vertex: u32) -> u32 {
        match (vertex as usize).checked_sub(self.members.len()) {
            Some(stranger) => self.strangers[stranger].1,
            None => self.site,
        }
    }

    /// Returns the undirected graph for the cutter; strangers have no load.
    pub(super) fn graph(&self, works: &[u64]) -> Graph {
        let mut loads = works.to_vec();
        loads.resize(self.len(), 0);
        graph_of(&loads, &self.talks)
    }
}

/// Returns the graph of vertices with these works that exchange these messages.
pub(super) fn graph_of(works: &[u64], talks: &[(u32, u32, u64, u64)]) -> Graph {
    let most = weight_max(works.len());
    let works: Vec<u64> = works.iter().map(|&work| work.min(most)).collect();
    let most = weight_max(talks.len());
    let edge = |&(from, to, messages, bytes): &(u32, u32, u64, u64)| {
        (from, to, talk_weight(messages, bytes).min(most))
    };
    Graph::new(&works, &talks.iter().map(edge).collect::<Vec<_>>()).unwrap_or_default()
}

/// Returns the weight of the messages between two actors.
pub(super) fn talk_weight(messages: u64, bytes: u64) -> u64 {
    u64::try_from(weight(messages, bytes)).unwrap_or(u64::MAX)
}
