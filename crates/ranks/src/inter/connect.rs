//! Groups of ranks that connect to each other.

use super::InterComm;
use super::asking::{ask, ask_for_group};
use crate::collective::operation::Operation;
use crate::comm::Comm;
use crate::error::RankError;
use crate::name_server::{ServerReply, ServerRequest};
use crate::port::RankPort;
use crate::refusal::RankRefusal;

/// # Connecting
///
/// Two groups of ranks of one job without a common rank connect through a [`RankPort`], which one
/// of them opens and the other gets to know, for example as a service.
///
/// ```
/// use gridspan::ranks::{self, Comm, InterComm};
///
/// // Ranks 0 and 1 serve, and ranks 2 to 4 are their clients.
/// let job = ranks::run(5, async |world: Comm| {
///     let serves = world.rank() < 2;
///     let group = world.split(Some(u32::from(serves)), 0).await?.ok_or("no group")?;
///     let is_first = group.rank() == 0;
///     if serves {
///         let port = if is_first { Some(world.open_port().await?) } else { None };
///         if let Some(port) = port {
///             world.publish_name("doubling", port).await?;
///         }
///         let clients: InterComm = group.accept(port, 0).await?;
///         if is_first {
///             for client in 0..clients.remote_size() {
///                 let (number, _) = clients.recv::<u64>(client, 0).await?;
///                 clients.send(&[2 * number[0]], client, 0).await?;
///             }
///         }
///     } else {
///         let port = if is_first { Some(world.wait_for_name("doubling").await?) } else { None };
///         let servers: InterComm = group.connect(port, 0).await?;
///         servers.send(&[u64::from(servers.rank())], 0, 0).await?;
///         assert_eq!(servers.recv::<u64>(0, 0).await?.0, [2 * u64::from(servers.rank())]);
///     }
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
impl Comm {
    /// Opens a port.
    ///
    /// # Errors
    ///
    /// Only those of the messages that it sends and receives.
    pub async fn open_port(&self) -> Result<RankPort, RankError> {
        let at = self.at("open_port");
        match ask(&self.local, ServerRequest::OpenPort, at).await? {
            ServerReply::Port(Some(port)) => Ok(port),
            _ => Err(RankError::Cancelled { at }),
        }
    }

    /// Closes a port, and ends its services. Groups that accept or connect there fail. Groups that
    /// are connected stay so.
    ///
    /// # Errors
    ///
    /// [`RankError::Refused`] if the port is not open.
    pub async fn close_port(&self, port: RankPort) -> Result<(), RankError> {
        ask(&self.local, ServerRequest::ClosePort(port), self.at("close_port")).await.map(drop)
    }

    /// Waits for another group that [connects](Self::connect) to a port. A collective operation;
    /// the root gives the port, and others may give `None`. Several groups that accept at a port
    /// are connected in the order of their calls.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations), and [`RankError::Refused`] at
    /// all ranks if the root gives no port, if the port is not open or is closed meanwhile, or if a
    /// rank is in both groups.
    pub async fn accept(&self, port: Option<RankPort>, root: u32) -> Result<InterComm, RankError> {
        self.meet("accept", port, root, true).await
    }

    /// Waits for another group that [accepts](Self::accept) at a port. A collective operation; the
    /// root gives the port, and others may give `None`.
    ///
    /// # Errors
    ///
    /// Those of [`accept`](Self::accept).
    pub async fn connect(&self, port: Option<RankPort>, root: u32) -> Result<InterComm, RankError> {
        self.meet("connect", port, root, false).await
    }

    async fn meet(
        &self,
        call: &'static str,
        port: Option<RankPort>,
        root: u32,
        accepts: bool,
    ) -> Result<InterComm, RankError> {
        let operation = Operation::rooted(self, call, root)?;
        let request = (self.rank() == root).then(|| match port {
            Some(port) if accepts => Ok(ServerRequest::Accept(port, self.placed())),
            Some(port) => Ok(ServerRequest::Connect(port, self.placed())),
            None => Err(RankRefusal::NoPort),
        });
        let (number, remote) = ask_for_group(&operation, &self.local, root, request).await?;
        self.scope.places().learn(number, &[&remote]);
        Ok(InterComm::new(self, number, accepts, remote.ranks))
    }
}
