//! Ranks that start more ranks.

use super::InterComm;
use super::asking::ask_for_group;
use crate::collective::operation::Operation;
use crate::comm::Comm;
use crate::content::Content;
use crate::error::RankError;
use crate::local::link::Link;
use crate::name_server::{PlacedRanks, SPAWNED_MAX, ServerRequest, Spawn, SpawnPlacement};
use crate::refusal::RankRefusal;
use serde::Serialize;

/// # Spawning
///
/// Spawned ranks, the children, run the function or the struct of the job, in a separate world.
/// They have a [`parent`](Self::parent), by which the program can tell them from other ranks. They
/// come to migration points with all other ranks of the job, and the job ends only when they have
/// ended too. Their results are dropped.
///
/// Rank 0 of the job serves the requests to spawn, to connect, and about names, but only while no
/// rank of its PE computes.
impl Comm {
    /// Starts `ranks` more ranks, and waits until they have begun. A collective operation, in which
    /// only the arguments of rank 0 count.
    ///
    /// # Errors
    ///
    /// [`RankError::Refused`] for no ranks, for more than 2^24 in a call or 2^31 - 1 in a job, for
    /// a site or PE that does not exist, and if [`Rank::Init`](crate::Rank::Init) is not `()`: use
    /// [`spawn_from`](Self::spawn_from) then.
    pub async fn spawn(
        &self,
        ranks: u32,
        placement: SpawnPlacement,
    ) -> Result<InterComm, RankError> {
        self.spawn_from(vec![(); ranks as usize], placement).await
    }

    /// Starts a rank for each of the values, which have the type
    /// [`Rank::Init`](crate::Rank::Init), and waits until they have begun. A collective operation,
    /// in which only the arguments of rank 0 count; other ranks may pass an empty list.
    ///
    /// ```
    /// use gridspan::prelude::*;
    /// use gridspan::ranks::{self, Comm, Continuation, Rank, RankError, SpawnPlacement};
    ///
    /// /// Spawns two ranks, which send their names to rank 0 after a migration point.
    /// #[derive(Serialize, Deserialize)]
    /// struct Member { name: String, has_moved: bool }
    ///
    /// impl Rank for Member {
    ///     type Init = String;
    ///     type Value = ();
    ///
    ///     fn create(name: String, _world: &Comm) -> Self { Member { name, has_moved: false } }
    ///
    ///     async fn run(self, world: Comm) -> Result<Continuation<Self>, RankError> {
    ///         if !self.has_moved {
    ///             if world.parent().is_none() {
    ///                 let names = vec!["one".to_owned(), "two".to_owned()];
    ///                 world.spawn_from(names, SpawnPlacement::Block).await?;
    ///             }
    ///             return Ok(Continuation::Migrate(Member { has_moved: true, ..self }));
    ///         }
    ///         if let Some(parents) = world.parent() {
    ///             parents.send_value(&self.name, 0, 0).await?;
    ///         } else {
    ///             let (name, _) = world.children()[0].recv_value::<String>(1, 0).await?;
    ///             assert_eq!(name, "two");
    ///         }
    ///         Ok(Continuation::Done(()))
    ///     }
    /// }
    ///
    /// let job = ranks::job::<Member>("members", 1, |_rank| "founder".to_owned());
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`spawn`](Self::spawn), and [`RankError::Refused`] for values of another type.
    pub async fn spawn_from<I: Serialize + Send + 'static>(
        &self,
        inits: Vec<I>,
        placement: SpawnPlacement,
    ) -> Result<InterComm, RankError> {
        let operation = Operation::rooted(self, "spawn", 0)?;
        let at = operation.at;
        let request = (self.rank() == 0).then(|| -> Result<ServerRequest, RankRefusal> {
            let (ranks, max) = (inits.len() as u64, SPAWNED_MAX);
            if ranks > u64::from(max) {
                return Err(RankRefusal::SpawnCount { ranks, max });
            }
            let inits = Content::encoded(&inits, at).map_err(not_encoded)?;
            let parents = self.placed();
            let links = self.scope.places().links().clone();
            Ok(ServerRequest::Spawn(Spawn { placement, inits, parents, links }))
        });
        drop(inits);
        let (number, remote) = ask_for_group(&operation, &self.local, 0, request).await?;
        self.scope.places().learn(number, &[&remote]);
        let link = Link::new(number, false, self.group().world_ranks(), &remote.ranks);
        self.local.with(|state| state.links.push(link.clone()));
        InterComm::of_link(self, &link).ok_or_else(|| "this rank is not one of the parents".into())
    }

    /// The inter-communicator with the ranks that have spawned this rank's world; `None` for ranks
    /// with which the job began.
    pub fn parent(&self) -> Option<InterComm> {
        let link = self.local.with(|state| state.links.iter().find(|link| link.is_parent).cloned());
        InterComm::of_link(self, &link?)
    }

    /// The inter-communicators with the ranks that this rank has taken part in spawning, in the
    /// order of the calls.
    pub fn children(&self) -> Vec<InterComm> {
        let links = self.local.with(|state| state.links.clone());
        let spawned = links.iter().filter(|link| !link.is_parent);
        spawned.filter_map(|link| InterComm::of_link(self, link)).collect()
    }

    /// The ranks of this communicator, and where they live.
    pub(super) fn placed(&self) -> PlacedRanks {
        let ranks = self.group().world_ranks().to_vec();
        let places = (0..self.size()).map(|rank| self.scope.place(rank)).collect();
        PlacedRanks { ranks, places }
    }
}

fn not_encoded(error: RankError) -> RankRefusal {
    let reason = match error {
        RankError::Malformed { reason, .. } => reason,
        error => error.to_string(),
    };
    RankRefusal::InitNotEncoded { reason }
}
