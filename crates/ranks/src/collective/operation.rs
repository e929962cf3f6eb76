//! One collective operation of one rank: its messages, and their paths over the tree.
//!
//! - `ascend`: from each rank to the leader of its site.
//! - `to_root`: on to the root. `exchange`: between all leaders, so that each site has everything
//!   after one crossing of the wide area.
//! - `descend`: from the leader of a site to its ranks. `distribute`: from the root to all.

use super::collected::Collected;
use crate::comm::Comm;
use crate::content::Content;
use crate::error::{CallSite, RankError};
use crate::local::slots::Outcome;
use crate::local::{Begun, LocalState};
use crate::matching::{Arrived, Pattern};
use crate::p2p::wait::CollectiveReceive;
use crate::packet::{Load, Part, Payload};
use crate::request::go_on;
use crate::selector::TagSelector;
use crate::tree::CommTree;
use std::future::poll_fn;

pub(crate) struct Operation {
    pub(super) comm: Comm,
    number: u32,
    pub(crate) at: CallSite,
}

impl Operation {
    /// Begins an operation. All ranks begin their operations in the same order.
    pub(crate) fn new(comm: &Comm, call: &'static str) -> Self {
        Self { number: comm.operation(), at: comm.at(call), comm: comm.clone() }
    }

    /// Begins an operation that has a root.
    pub(crate) fn rooted(comm: &Comm, call: &'static str, root: u32) -> Result<Self, RankError> {
        let operation = Self::new(comm, call);
        let at = operation.at.with(Some(root), None);
        comm.check(root, at)?;
        Ok(Self { at, ..operation })
    }

    pub(super) fn me(&self) -> u32 {
        self.comm.rank()
    }

    /// Completes an operation that the rank waits for. Lets the PE send the rank's messages before
    /// the rank computes, since the ranks below it in the tree wait for them.
    ///
    /// `run` returns the future instead of being the future: an async function holds a future that
    /// is its argument twice, as the argument and as the awaited future, in each waiting rank.
    pub(crate) async fn complete<T, U>(&self, run: impl FnOnce() -> U) -> Result<T, RankError>
    where
        U: Future<Output = Result<T, RankError>>,
    {
        let local = &self.comm.local;
        local.with(|state| self.revocation(state)).map_or(Ok(()), Err)?;
        let result = run().await;
        if local.with(|state| state.gives_way_after_collective()) {
            go_on(local).await;
        }
        result
    }

    /// Sends parts to a rank.
    pub(crate) fn post(&self, to: u32, parts: Vec<Part>) {
        let label = self.comm.collective_label(self.number);
        let pe_of = |rank| self.comm.scope.place(rank).1;
        let is_near = pe_of(to) == pe_of(self.me());
        if let Some(to) = self.comm.world_rank(to) {
            self.comm.local.with(|state| {
                state.note_sent(is_near);
                state.post(to, label, Load::Parts(parts));
            });
        }
    }

    /// Sends the same parts to each of these ranks.
    fn post_to_all(&self, ranks: &[u32], parts: &[Part]) {
        let (comm, label) = (&self.comm, self.comm.collective_label(self.number));
        let pe_of = |rank| comm.scope.place(rank).1;
        let here = pe_of(self.me());
        comm.local.with(|state| {
            state.outbox.reserve(ranks.len());
            for rank in ranks {
                if let Some(to) = comm.world_rank(*rank) {
                    state.note_sent(pe_of(*rank) == here);
                    state.post(to, label, Load::Parts(parts.to_vec()));
                }
            }
        });
    }

    /// Receives the parts of a rank.
    ///
    /// Not an async function: each waiting rank holds this future, so it keeps no values that are
    /// needed for a moment only.
    pub(crate) fn take(&self, from: u32) -> impl Future<Output = Result<Vec<Part>, RankError>> {
        let mut receiving = CollectiveReceive::new(&self.comm.local);
        poll_fn(move |cx| {
            let begin = |state: &mut LocalState| self.receive(from, state);
            let fails = |state: &LocalState| {
                state.failures.of_collective(self.comm.number(), &self.comm.scope, self.at)
            };
            receiving.poll(cx, begin, fails).map(|outcome| match outcome? {
                Outcome::Message(Arrived {
                    message: Payload { load: Load::Parts(parts), .. },
                    ..
                }) => Ok(parts),
                _ => Err(RankError::Cancelled { at: self.at.with(Some(from), None) }),
            })
        })
    }

    /// Begins to receive the parts of a rank.
    fn receive(&self, from: u32, state: &mut LocalState) -> Begun<Arrived<Payload>> {
        let context = self.comm.collective_label(self.number).context;
        let tag = TagSelector::Tag(self.number);
        let pattern = Pattern { context, source: Some(from), tag };
        state.receive(pattern, self.comm.scope.peers(Some(from)), self.at.with(Some(from), None))
    }

    /// The error of this operation if the communicator was revoked.
    pub(crate) fn revocation(&self, state: &LocalState) -> Option<RankError> {
        state.failures.revocation(self.comm.number(), self.at)
    }

    /// Receives the parts of a rank, and adds them to the collected ones.
    pub(super) async fn add_from(
        &self,
        from: u32,
        collected: &mut impl Collected,
    ) -> Result<(), RankError> {
        for part in self.take(from).await? {
            collected.add(part)?;
        }
        Ok(())
    }

    /// Collects up to the leader of the site. Returns whether this rank is the leader.
    pub(super) async fn ascend(
        &self,
        tree: &CommTree,
        collected: &mut impl Collected,
    ) -> Result<bool, RankError> {
        for child in tree.children(self.me()) {
            self.add_from(*child, collected).await?;
        }
        match tree.parent(self.me()) {
            Some(parent) => {
                self.post(parent, collected.parts()?);
                Ok(false)
            }
            None => Ok(true),
        }
    }

    /// Collects at the root. Returns whether this rank is the root.
    pub(super) async fn to_root(
        &self,
        tree: &CommTree,
        collected: &mut impl Collected,
    ) -> Result<bool, RankError> {
        if !self.ascend(tree, collected).await? {
            return Ok(false);
        }
        let root = tree.leaders()[0];
        if root != self.me() {
            self.post(root, collected.parts()?);
            return Ok(false);
        }
        for leader in &tree.leaders()[1..] {
            self.add_from(*leader, collected).await?;
        }
        Ok(true)
    }

    /// Exchanges the collected parts of all sites between their leaders.
    pub(super) async fn exchange(
        &self,
        tree: &CommTree,
        collected: &mut impl Collected,
    ) -> Result<(), RankError> {
        if tree.leaders().len() < 2 {
            return Ok(());
        }
        let others = || tree.leaders().iter().filter(|leader| **leader != self.me());
        let parts = collected.parts()?;
        for leader in others() {
            self.post(*leader, parts.clone());
        }
        for leader in others() {
            self.add_from(*leader, collected).await?;
        }
        Ok(())
    }

    /// Distributes parts from the leader of a site, which has them, to its ranks.
    pub(super) async fn descend(
        &self,
        tree: &CommTree,
        parts: Option<Vec<Part>>,
    ) -> Result<Vec<Part>, RankError> {
        let parts = match (parts, tree.parent(self.me())) {
            (None, Some(parent)) => self.take(parent).await?,
            (parts, _) => parts.unwrap_or_default(),
        };
        self.post_to_all(tree.children(self.me()), &parts);
        Ok(parts)
    }

    /// Distributes parts from the root, which has them, to all ranks.
    pub(super) async fn distribute(
        &self,
        tree: &CommTree,
        parts: Option<Vec<Part>>,
    ) -> Result<Vec<Part>, RankError> {
        let root = tree.leaders()[0];
        let parts = if let Some(parts) = parts {
            self.post_to_all(&tree.leaders()[1..], &parts);
            Some(parts)
        } else if tree.parent(self.me()).is_none() {
            Some(self.take(root).await?)
        } else {
            None
        };
        self.descend(tree, parts).await
    }

    /// The content of the only part.
    pub(crate) fn only(&self, parts: Vec<Part>) -> Result<Content, RankError> {
        match <[Part; 1]>::try_from(parts) {
            Ok([part]) => Ok(part.content),
            Err(parts) => {
                Err(RankError::WrongLength { at: self.at, found: parts.len(), expected: 1 })
            }
        }
    }
}
