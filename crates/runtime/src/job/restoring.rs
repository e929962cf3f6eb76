//! Whether a job can continue from a checkpoint, and what differs between the two.
//!
//! A job continues if it has all actor types of the checkpoint's collections, by name, in the same
//! version and structure or in a later version, and if its lists of placement maps and reducers
//! begin with those of the checkpoint. Its types may come in another order, and it may have more of
//! them. Types that checkpoints leave out may have changed.

use crate::address::collection::{CollectionInfo, Map};
use crate::address::id::KindId;
use crate::coordinator::CoordinatorPart;
use crate::error::{CheckpointError, StartError};
use crate::message::{ActorType, Image, Manifest, RestorePlan, RestoreTarget};
use crate::pe::{Common, ResizedGroup, Resizing, Restoration};
use gridspan_topology::{Layout, PeId};
use std::collections::BTreeMap;
use std::fmt::Display;

/// Compares an image with a job that continues from it by a plan, and returns what the job needs.
///
/// # Errors
///
/// The variants of [`StartError`] about checkpoints.
pub(crate) fn restoration(
    image: &Image,
    common: &Common,
    plan: &RestorePlan,
) -> Result<Restoration, StartError> {
    let mut manifest = image.inner().clone();
    if manifest.job != common.run.job {
        let (was, is) = (manifest.job, common.run.job.clone());
        return Err(StartError::CheckpointOfOther { was, is });
    }
    if !fits(plan, &manifest.layout, &common.layout) {
        return Err(unreadable("the plan to restore it does not fit the layout"));
    }
    check_names("placement map", &manifest.maps, &common.run.maps)?;
    check_names("reducer", &manifest.reducers, &common.run.reducers)?;
    let mut coordinator = CoordinatorPart::decode(&manifest.coordinator).map_err(unreadable)?;
    let types = Types::compare(&manifest, &coordinator, common)?;
    let mut groups = BTreeMap::new();
    for (info, _) in &manifest.collections {
        let group = types.kind(info).map(|kind| Changing { info, kind, plan, common });
        if let Some(group) = group.filter(|it| it.sizes(&manifest.layout).is_some()) {
            groups.insert(info.id, group.resize(&manifest, &coordinator)?);
        }
    }
    for (info, _) in &mut manifest.collections {
        info.kind = types.kind(info).unwrap_or(info.kind);
        let members = groups.get(&info.id).map(|group| u64::from(group.members));
        info.members = members.unwrap_or(info.members);
        coordinator.adapt(info, members);
    }
    manifest.coordinator = coordinator.encode();
    let Types { kinds, earlier } = types;
    Ok(Restoration { manifest, kinds, earlier, groups, is_again: plan.is_again })
}

/// Whether a plan is for these layouts.
fn fits(plan: &RestorePlan, before: &Layout, layout: &Layout) -> bool {
    let parts = before.pe_count() as usize;
    let is_known = |pe: &PeId| layout.contains(*pe);
    let is_sound = |target: &RestoreTarget| match target {
        RestoreTarget::On(pe) => is_known(pe),
        RestoreTarget::Over(shares) | RestoreTarget::Shared(shares) => {
            !shares.is_empty() && shares.iter().all(|(pe, share)| is_known(pe) && *share > 0)
        }
        RestoreTarget::Homes => true,
    };
    plan.readers.len() == parts
        && plan.targets.len() == parts
        && plan.readers.iter().all(is_known)
        && plan.targets.iter().all(is_sound)
}

/// Checks that the job has these names, in this order, before others: values of the checkpoint
/// refer to them by their position.
fn check_names(what: &str, then: &[String], now: &[String]) -> Result<(), StartError> {
    let differing =
        then.iter().enumerate().find(|&(position, name)| now.get(position) != Some(name));
    match differing {
        None => Ok(()),
        Some((_, name)) => {
            let (what, name) = (what.to_owned(), name.clone());
            Err(StartError::CheckpointWithOther { what, name })
        }
    }
}

/// The actor types of a checkpoint, compared with those of the job.
struct Types {
    /// The number of each type in the job, if the job has the type.
    kinds: Vec<Option<KindId>>,
    /// The types whose states have an earlier version in the checkpoint.
    earlier: BTreeMap<KindId, ActorType>,
}

impl Types {
    fn compare(
        manifest: &Manifest,
        coordinator: &CoordinatorPart,
        common: &Common,
    ) -> Result<Self, StartError> {
        let now = common.actor_types();
        let number = |then: &ActorType| {
            let position = now.iter().position(|now| now.name == then.name)?;
            Some(KindId(position as u16))
        };
        let kinds = manifest.types.iter().map(number).collect();
        let mut types = Self { kinds, earlier: BTreeMap::new() };
        for (info, _) in &manifest.collections {
            let then = manifest.types.get(info.kind.index());
            let then = then.ok_or_else(|| unreadable("it has a collection of an unknown type"))?;
            let Some(kind) = types.kind(info) else {
                let (what, name) = ("actor type".to_owned(), then.name.clone());
                return Err(StartError::CheckpointWithOther { what, name });
            };
            let has_ended = || coordinator.operations(info).is_some_and(|it| it.members == 0);
            if common.is_left_out(kind) && has_ended() {
                // The checkpoint has none of its states and messages.
                continue;
            }
            if is_earlier(then, &now[kind.index()])? {
                types.earlier.insert(kind, then.clone());
            }
        }
        Ok(types)
    }

    /// The present type of a collection.
    fn kind(&self, info: &CollectionInfo) -> Option<KindId> {
        self.kinds.get(info.kind.index()).copied().flatten()
    }
}

/// Whether states of a type have to be upgraded.
fn is_earlier(then: &ActorType, now: &ActorType) -> Result<bool, StartError> {
    let (actor, was, is) = (now.name.clone(), then.version, now.version);
    if was > is {
        return Err(StartError::CheckpointNewer { actor, was, is });
    }
    let parts = [(&then.messages, &now.messages), (&then.states, &now.states)];
    let changed = parts.into_iter().find(|(then, now)| then.structure != now.structure);
    match changed.filter(|_| was == is) {
        Some((then, now)) => Err(StartError::CheckpointChanged {
            what: now.name.clone(),
            was: then.brief.clone(),
            is: now.brief.clone(),
            version: is,
        }),
        None => Ok(was < is),
    }
}

/// A collection that may be a group of another size now.
struct Changing<'a> {
    info: &'a CollectionInfo,
    kind: KindId,
    plan: &'a RestorePlan,
    common: &'a Common,
}

impl Changing<'_> {
    /// The former and the present number of PEs or nodes if it is a group, they differ, and the
    /// group does not keep its members.
    fn sizes(&self, before: &Layout) -> Option<[String; 2]> {
        if matches!(self.common.resizing.get(&self.kind), Some(Resizing::Keep)) {
            return None;
        }
        let layout = &self.common.layout;
        let (was, is, what) = match self.info.map {
            Map::PerPe => (before.pe_count(), layout.pe_count(), "PEs"),
            Map::PerNode => (before.node_count(), layout.node_count(), "nodes"),
            _ => return None,
        };
        (was != is).then(|| [was, is].map(|number| format!("{number} {what}")))
    }

    /// The group on the present layout.
    fn resize(
        &self,
        manifest: &Manifest,
        coordinator: &CoordinatorPart,
    ) -> Result<ResizedGroup, StartError> {
        let &Self { info, kind, plan, common } = self;
        let operations = coordinator.operations(info);
        let operations = operations.ok_or_else(|| unreadable("it lacks a collection"))?;
        let rule = common.resizing.get(&kind);
        if operations.members == 0 || matches!(rule, Some(Resizing::End)) {
            return Ok(ResizedGroup::ended(kind));
        }
        let [was, is] = self.sizes(&manifest.layout).unwrap_or_default();
        let actor = common.kind(kind).map_or("an actor", |kind| kind.name()).to_owned();
        if rule.is_none() {
            return Err(StartError::CheckpointOfGroup { actor, was, is });
        }
        if operations.is_under_way {
            return Err(StartError::CheckpointOfBusyGroup { actor, was, is });
        }
        let layouts = (&manifest.layout, &*common.layout);
        Ok(ResizedGroup::new((kind, info.map), layouts, plan, operations.counts))
    }
}

fn unreadable(reason: impl Display) -> StartError {
    CheckpointError::inconsistent(reason).into()
}
