//! Names, by which ranks find services and gather in groups.

use super::asking::ask;
use crate::comm::Comm;
use crate::error::{CallSite, RankError};
use crate::local::slots::Outcome;
use crate::name_server::{ServerReply, ServerRequest};
use crate::port::RankPort;
use crate::refusal::RankRefusal;
use crate::request::CommRequest;

/// Largest length of a name, in bytes, so that the name server stays small.
const NAME_BYTES_MAX: usize = 1024;

fn checked(name: &str, at: CallSite) -> Result<String, RankError> {
    if name.len() > NAME_BYTES_MAX {
        let (bytes, max) = (name.len() as u64, NAME_BYTES_MAX as u64);
        return Err(RankError::Refused { at, refusal: RankRefusal::NameTooLong { bytes, max } });
    }
    Ok(name.to_owned())
}

/// # Names
///
/// All ranks of a job share its services and the groups that gather, which outlast migration
/// points.
impl Comm {
    /// Publishes a port as a service.
    ///
    /// # Errors
    ///
    /// [`RankError::Refused`] if the service exists, for a port that is not open, or for a name
    /// of more than 1,024 bytes.
    pub async fn publish_name(&self, service: &str, port: RankPort) -> Result<(), RankError> {
        let at = self.at("publish_name");
        let service = checked(service, at)?;
        ask(&self.local, ServerRequest::Publish { service, port }, at).await.map(drop)
    }

    /// Ends a service. Its port stays open.
    ///
    /// # Errors
    ///
    /// [`RankError::Refused`] if there is no such service.
    pub async fn unpublish_name(&self, service: &str) -> Result<(), RankError> {
        let at = self.at("unpublish_name");
        let service = checked(service, at)?;
        ask(&self.local, ServerRequest::Unpublish { service }, at).await.map(drop)
    }

    /// Returns the port of a service, if it is published.
    ///
    /// # Errors
    ///
    /// [`RankError::Refused`] for a name of more than 1,024 bytes.
    pub async fn lookup_name(&self, service: &str) -> Result<Option<RankPort>, RankError> {
        self.port_of("lookup_name", service, false).await
    }

    /// Waits until a service is published, and returns its port.
    ///
    /// # Errors
    ///
    /// Those of [`lookup_name`](Self::lookup_name).
    pub async fn wait_for_name(&self, service: &str) -> Result<RankPort, RankError> {
        let at = self.at("wait_for_name");
        let found = self.port_of("wait_for_name", service, true).await?;
        found.ok_or(RankError::Cancelled { at })
    }

    async fn port_of(
        &self,
        call: &'static str,
        service: &str,
        waits: bool,
    ) -> Result<Option<RankPort>, RankError> {
        let at = self.at(call);
        let service = checked(service, at)?;
        match ask(&self.local, ServerRequest::Lookup { service, waits }, at).await? {
            ServerReply::Port(found) => Ok(found),
            _ => Err(RankError::Cancelled { at }),
        }
    }

    /// Waits until `ranks` ranks of the job have called this with the same name, and returns a
    /// communicator of these ranks, in the order of their [numbers](Self::world_rank). A rank may
    /// call this on any communicator. Afterwards the name is free for another group.
    ///
    /// ```
    /// use gridspan::ranks::{self, ops};
    ///
    /// // The ranks that find an even number work together.
    /// let job = ranks::run(6, async |world| {
    ///     if world.rank() % 2 == 0 {
    ///         let even = world.join_group("even", 3).await?;
    ///         assert_eq!(even.rank(), world.rank() / 2);
    ///         assert_eq!(even.allreduce(&[world.rank()], ops::sum).await?, [6]);
    ///     }
    ///     Ok(())
    /// });
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`RankError::Refused`] if others have named another number of ranks, if this rank waits for
    /// this group already, for a group of no ranks, or for a name of more than 1,024 bytes.
    pub async fn join_group(&self, name: &str, ranks: u32) -> Result<Comm, RankError> {
        let at = self.at("join_group");
        let (group, places) = (checked(name, at)?, self.scope.places());
        let place = places.of(self.local.rank);
        let request = ServerRequest::Join { group, ranks, place };
        let ServerReply::Gathered { number, group } = ask(&self.local, request, at).await? else {
            return Err(RankError::Cancelled { at });
        };
        places.learn(number, &[&group]);
        let gathered = self.part(group.ranks, number).ok_or(RankError::Cancelled { at })?;
        // The copy has a number that its ranks agree on.
        gathered.dup().await
    }

    /// Begins to wait for the end of a rank: the request completes once it has ended.
    ///
    /// ```
    /// use gridspan::ranks::{self, SpawnPlacement};
    ///
    /// let job = ranks::run(1, async |world| {
    ///     if world.parent().is_some() {
    ///         return Ok(());
    ///     }
    ///     let children = world.spawn(2, SpawnPlacement::RoundRobin).await?;
    ///     for child in 0..2 {
    ///         children.notify_end(child)?.await?;
    ///     }
    ///     Ok(())
    /// });
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub fn notify_end(&self, rank: u32) -> Result<CommRequest<'static, ()>, RankError> {
        let at = self.at("notify_end").with(Some(rank), None);
        let rank = self.check(rank, at)?;
        let ticket = self.local.with(|state| state.ask_end(rank, at));
        Ok(CommRequest::later(&self.local, at, ticket, move |outcome| match outcome {
            Outcome::Reply(_) => Ok(()),
            _ => Err(RankError::Cancelled { at }),
        }))
    }
}
