//! Hands actors over from one leader to another, with their loads and messages.

use super::cut::Places;
use super::note::{LeaderActor, NewTalk, Newcomer};
use super::site_graph::{SiteGraph, graph_of};
use crate::cost::CostModel;
use crate::snapshot::objects::pulls;
use crate::snapshot::{ActorKey, ActorLoad};
use crate::strategies::site_distance::hops_from;
use gridspan_topology::PeId;
use std::collections::BTreeMap;

/// The actors that a site will have, by key, with their messages.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteActors {
    pub(super) members: Vec<LeaderActor>,
    /// Messages between members: sender, receiver, messages, bytes.
    pub(super) inner: Vec<(u32, u32, u64, u64)>,
    pub(super) outer: Vec<OuterTalk>,
}

/// Messages exchanged with an actor of another site.
#[derive(Clone, Copy, Debug)]
pub(super) struct OuterTalk {
    pub(super) member: u32,
    pub(super) site: u32,
    pub(super) is_sent: bool,
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl SiteActors {
    /// Returns the PE of each member.
    pub(super) fn cut(&self, places: &Places<'_>, site: u32) -> Vec<PeId> {
        let actors: Vec<ActorLoad> = self.members.iter().map(|member| member.load).collect();
        let works: Vec<u64> = actors.iter().map(|load| places.terms.work(load)).collect();
        let graph = graph_of(&works, &self.inner);
        let pulls = pulls(actors.iter(), &graph);
        let mut busy = works;
        let overhead = CostModel::default().message_overhead.as_nanos() as u64;
        for talk in &self.outer {
            let busy = &mut busy[talk.member as usize];
            *busy = busy.saturating_add(talk.messages.saturating_mul(overhead));
        }
        let busy = graph_of(&busy, &self.inner);
        places.cut_site(site, actors, (&graph, &busy), pulls)
    }

    /// Returns for each member its PE and its distance in hops from another site.
    pub(super) fn hops(&self, mapping: &[PeId], steps: u64) -> Vec<(ActorKey, PeId, u8)> {
        let is_often = |messages: u64| messages.saturating_mul(2) >= steps;
        let border = self.outer.iter().filter(|talk| is_often(talk.messages));
        let edges = self.inner.iter().filter(|talk| is_often(talk.2)).map(|talk| (talk.0, talk.1));
        let hops = hops_from(self.members.len(), border.map(|talk| talk.member), edges);
        let all = self.members.iter().zip(mapping).zip(hops);
        all.map(|((member, &pe), hops)| (member.load.id, pe, hops)).collect()
    }
}

impl SiteGraph {
    /// Returns the present actors of the site.
    pub(super) fn as_site_actors(&self) -> SiteActors {
        let count = self.members.len() as u32;
        let mut site_actors = SiteActors { members: self.members.clone(), ..SiteActors::default() };
        for &(from, to, messages, bytes) in &self.talks {
            if from < count && to < count {
                site_actors.inner.push((from, to, messages, bytes));
                continue;
            }
            let is_sent = from < count;
            let (member, other) = if is_sent { (from, to) } else { (to, from) };
            let site = self.site_of(other);
            site_actors.outer.push(OuterTalk { member, site, is_sent, messages, bytes });
        }
        site_actors
    }
}

/// Returns the actors that should go to other sites, by site. `targets` has the site of each member
/// and stranger.
pub(super) fn leaving(site: &SiteGraph, targets: &[u32]) -> BTreeMap<u32, Vec<Newcomer>> {
    let mut all: BTreeMap<u32, Vec<Newcomer>> = BTreeMap::new();
    let mut place = vec![u32::MAX; site.members.len()];
    for (at, member) in site.members.iter().enumerate().filter(|(at, _)| targets[*at] != site.site)
    {
        let newcomers = all.entry(targets[at]).or_default();
        place[at] = newcomers.len() as u32;
        newcomers.push(Newcomer { member: *member, talks: Vec::new() });
    }
    for &(from, to, messages, bytes) in &site.talks {
        for (vertex, other, is_sent) in [(from, to, true), (to, from, false)] {
            let here = targets[vertex as usize];
            let there = targets[other as usize];
            let Some(&at) = place.get(vertex as usize).filter(|at| **at != u32::MAX) else {
                continue;
            };
            if !is_sent && here == there {
                continue;
            }
            if let Some(newcomer) = all.get_mut(&here).and_then(|all| all.get_mut(at as usize)) {
                let other = site.key(other);
                newcomer.talks.push(NewTalk { other, site: there, is_sent, messages, bytes });
            }
        }
    }
    all
}

/// Returns the actors that the site will have: those that stay, and those that come.
pub(super) fn site_actors(
    site: &SiteGraph,
    targets: &[u32],
    newcomers: impl Iterator<Item = Newcomer>,
) -> SiteActors {
    let here = site.site;
    let (mut members, mut talks): (Vec<LeaderActor>, Vec<(ActorKey, NewTalk)>) = Default::default();
    let staying = site.members.iter().zip(targets).filter(|(_, target)| **target == here);
    members.extend(staying.map(|(member, _)| *member));
    for &(from, to, messages, bytes) in &site.talks {
        for (vertex, other, is_sent) in [(from, to, true), (to, from, false)] {
            let there = targets[other as usize];
            let is_ours =
                (vertex as usize) < site.members.len() && targets[vertex as usize] == here;
            if is_ours && (is_sent || there != here) {
                let talk =
                    NewTalk { other: site.key(other), site: there, is_sent, messages, bytes };
                talks.push((site.key(vertex), talk));
            }
        }
    }
    for newcomer in newcomers {
        let key = newcomer.member.load.id;
        members.push(newcomer.member);
        talks.extend(newcomer.talks.into_iter().map(|talk| (key, talk)));
    }
    members.sort_by_key(|member| member.load.id);
    members.dedup_by_key(|member| member.load.id);
    let position = |key| members.binary_search_by_key(&key, |member| member.load.id).ok();
    let (mut inner, mut outer) = (Vec::new(), Vec::new());
    for (key, NewTalk { other, site, is_sent, messages, bytes }) in talks {
        let Some(member) = position(key).map(|at| at as u32) else { continue };
        if site != here {
            outer.push(OuterTalk { member, site, is_sent, messages, bytes });
        } else if let Some(other) = position(other) {
            inner.push((member, other as u32, messages, bytes));
        }
    }
    SiteActors { members, inner, outer }
}
