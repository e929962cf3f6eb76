//! The actor types of a job, its placement maps and its reducers.

use crate::Actor;
use crate::Context;
use crate::address::collection::{CreateAt, PlacementMap};
use crate::address::index::Ix1;
use crate::job::Job;
use crate::reduce::{Custom, CustomOp, Op};

impl Job {
    /// Adds an actor type. The order of types is part of the definition.
    pub fn actor<A: Actor>(mut self) -> Self {
        self.registry.add::<A>();
        self
    }

    /// Adds an actor type whose actors may be replicated at two sites. Actors at both sites that
    /// exchange messages with such an actor then wait for one crossing of the wide area in a step
    /// instead of two. Both replicas do the work. A strategy decides whether that is worth it:
    /// `auto`, or `replicate`, which always replicates at the borders of sites.
    ///
    /// The caller promises that actors of this type are determinate (G. Kahn, "The semantics of a
    /// simple language for parallel programming", 1974): the messages that an actor sends to
    /// another, and their order, follow from its initial state and from the messages it received.
    /// Only the order of messages from one sender at one priority or step may matter. A broadcast
    /// counts as a message to each member, and all broadcasts of an actor to one collection are in
    /// one order, whatever their priorities. The messages that an actor sends must not depend on
    /// how messages of different senders, priorities or steps interleave, even in ways that cannot
    /// occur while the actor is in one place. They must not depend on time, place, or
    /// [`Actor::arrived`] either.
    ///
    /// Handlers may send, multicast, broadcast, contribute, count items of phases, answer, and
    /// request a migration; other effects of handlers outside the actor happen twice. The job ends
    /// with an error if such an actor asks, sets timers, waits for quiescence or at a sync point,
    /// inserts members, or destroys itself, or if its two replicas have handled the same messages
    /// and have sent different numbers of messages when one of them ends.
    pub fn deterministic<A: Actor>(mut self) -> Self {
        self.registry.add_deterministic::<A>();
        self
    }

    /// Adds an actor type whose members are created by the first message to them. `init` makes the
    /// initial value of a member from its index. It is part of the job's definition, so it must
    /// give the same on every node. Call this once for a type.
    ///
    /// [`Grid::create`](crate::Grid::create) creates the first members of a collection as usual,
    /// from any values. From then on a message to a member that does not exist creates it, once:
    /// all messages to it are handled once, and in order from each sender, whether they are sent
    /// before or after its creation. They count in the memory budget while they wait. Messages are
    /// those of `send`, `ask` and timers, results of reductions that are sent to the member, and
    /// multicasts to sections that it belongs to. A broadcast creates no member. Groups have one
    /// member for each PE or node from the start, and no other.
    ///
    /// A created member takes part in reductions, broadcasts and sync points like an inserted one;
    /// see [`Context::insert`](crate::Context::insert). So contribute to a reduction over a
    /// collection while no members are being created, for example after quiescence. A broadcast
    /// that a sender makes right after a message to a new member may or may not reach that member.
    ///
    /// A member that has destroyed itself is created again, from the value of `init`, by the next
    /// message that arrives for it; messages that had arrived before it ended are dropped. An
    /// insertion by [`Context::insert`](crate::Context::insert) or
    /// [`Collection::insert_on`](crate::Collection::insert_on) ends the job with an error, because
    /// a message could create the same member at the same time.
    ///
    /// ```
    /// use gridspan_runtime::{Actor, Context, CreateAt, Ix1, Job, Op, To};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Word { count: u64 }
    ///
    /// #[derive(Clone, serde::Serialize, serde::Deserialize)]
    /// enum Message { Seen, Report }
    ///
    /// impl Actor for Word {
    ///     type Index = Ix1;
    ///     type Init = u64;
    ///     type Message = Message;
    ///
    ///     fn create(count: u64, _cx: &mut Context<Self>) -> Self { Word { count } }
    ///
    ///     fn handle(&mut self, message: Message, cx: &mut Context<Self>) {
    ///         match message {
    ///             Message::Seen => self.count += 1,
    ///             Message::Report => cx.contribute(Op::Concat, self.count, To::main()),
    ///         }
    ///     }
    /// }
    ///
    /// let job = Job::new("words").on_demand::<Word>(CreateAt::Home, |_index| 0);
    /// let job = job.main(async |grid| {
    ///     let words = grid.create::<Word>(Ix1::range(0), |_| 0).await?;
    ///     for number in [7, 2_000_000, 7] {
    ///         words.member(Ix1(number)).send(Message::Seen);
    ///     }
    ///     grid.quiescence().await?;
    ///     words.broadcast(Message::Report);
    ///     let counts: Vec<u64> = words.reduction(Op::Concat).await?;
    ///     assert_eq!(counts, [2, 1]);
    ///     Ok(())
    /// });
    /// # gridspan_runtime::driver::embedded::run(job, 2).unwrap();
    /// ```
    pub fn on_demand<A: Actor>(mut self, at: CreateAt, init: fn(A::Index) -> A::Init) -> Self {
        self.registry.add_on_demand::<A>(at, init);
        self
    }

    /// Adds an actor type whose [groups](crate::Grid::create_group) can change their size, so that
    /// the job can continue from a checkpoint on another number of PEs or nodes: on fewer after a
    /// loss, or on any number after a restart. The functions are part of the job's definition, so
    /// they must give the same on every node. Call this once for a type.
    ///
    /// A member goes with its PE. If several come to one PE, the runtime merges them: it calls
    /// `merge` on the first one, once for each of the others. The first is a member whose own PE
    /// goes on; the others follow in the order of their old indices. The merged member gets the
    /// waiting and delayed messages of all. If no member comes to a PE, or its member had destroyed
    /// itself, [`create`](Actor::create) makes one from the value of `init`, unless all members of
    /// the group had destroyed themselves. After that, the runtime calls
    /// [`arrived`](Actor::arrived) for the members that existed before. Do not contribute to a
    /// reduction in these functions.
    ///
    /// The index of a member is that of its new PE or node. So references to members, and sections,
    /// that actors or main keep from before may name other members, or none: messages to an index
    /// that the group does not have are dropped. Make sections again after a restoration. If the
    /// number stays the same, so do all indices.
    ///
    /// No checkpoint is made while some members have contributed to an operation over the group and
    /// others have not. Await reductions over the group before a
    /// [progress point](crate::Grid::progress). Otherwise the messages that make members contribute
    /// may still wait: a merged member then gets two of them, and a new member gets none.
    ///
    /// ```
    /// use gridspan::prelude::*;
    /// use gridspan::{CheckpointEvery, Checkpoints};
    ///
    /// /// Counts what happens on its PE.
    /// #[derive(Serialize, Deserialize)]
    /// struct Tally { events: u64 }
    ///
    /// #[derive(Clone, Serialize, Deserialize)]
    /// enum Message { Happened, Report }
    ///
    /// impl Actor for Tally {
    ///     type Index = Ix1;
    ///     type Init = ();
    ///     type Message = Message;
    ///
    ///     fn create((): (), _cx: &mut Context<Self>) -> Self { Tally { events: 0 } }
    ///
    ///     fn handle(&mut self, message: Message, cx: &mut Context<Self>) {
    ///         match message {
    ///             Message::Happened => self.events += 1,
    ///             Message::Report => cx.contribute(Sum, self.events, To::main()),
    ///         }
    ///     }
    /// }
    ///
    /// let job = Job::new("tallies")
    ///     .resizable_group::<Tally>(|_index| (), |tally, other, _cx| tally.events += other.events)
    ///     .checkpoints(Checkpoints::every(CheckpointEvery::Points(1)))
    ///     .restartable_main(async |grid: Grid| {
    ///         let tallies = match grid.restored().await? {
    ///             Some(reference) => grid.collection(reference),
    ///             None => grid.create_group::<Tally>(Per::Pe, |_| ()).await?,
    ///         };
    ///         tallies.member(Ix1(0)).send(Message::Happened);
    ///         grid.progress(&tallies.reference()).await?;
    ///         tallies.broadcast(Message::Report);
    ///         assert_eq!(tallies.reduction::<u64>(Sum).await?, 1);
    ///         Ok(())
    ///     });
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    pub fn resizable_group<A: Actor<Index = Ix1>>(
        mut self,
        init: fn(Ix1) -> A::Init,
        merge: fn(&mut A, A, &mut Context<'_, A>),
    ) -> Self {
        self.registry.add_resizable::<A>(init, merge);
        self
    }

    /// Adds an actor type whose groups keep their members if the job goes on from a checkpoint with
    /// another number of PEs or nodes, after a loss or a restart. Each member keeps its index and
    /// goes with its PE; after a restart, the member of index *i* goes to PE *i* modulo the number
    /// of PEs. Members of lost PEs go to other PEs of the site. Several may then be on one PE, and
    /// none on another. Use it where others know the members by their indices, as clients know
    /// servers.
    ///
    /// ```
    /// use gridspan::prelude::*;
    /// use gridspan::{CheckpointEvery, Checkpoints};
    ///
    /// /// Counts its answers.
    /// #[derive(Serialize, Deserialize)]
    /// struct Server { answers: u64 }
    ///
    /// impl Actor for Server {
    ///     type Index = Ix1;
    ///     type Init = ();
    ///     type Message = Reply<u64>;
    ///
    ///     fn create((): (), _cx: &mut Context<Self>) -> Self { Server { answers: 0 } }
    ///
    ///     fn handle(&mut self, reply: Reply<u64>, cx: &mut Context<Self>) {
    ///         self.answers += 1;
    ///         cx.reply(reply, self.answers);
    ///     }
    /// }
    ///
    /// let job = Job::new("servers")
    ///     .kept_group::<Server>()
    ///     .checkpoints(Checkpoints::every(CheckpointEvery::Points(1)))
    ///     .restartable_main(async |grid: Grid| {
    ///         let (first, servers) = match grid.restored().await? {
    ///             Some((first, reference)) => (first, grid.collection(reference)),
    ///             None => (0, grid.create_group::<Server>(Per::Pe, |_| ()).await?),
    ///         };
    ///         for n in first..5_u64 {
    ///             grid.progress(&(n, servers.reference())).await?;
    ///             let answers = servers.member(Ix1(1)).ask(Duration::MAX, |reply| reply).await?;
    ///             assert_eq!(answers, n + 1);
    ///         }
    ///         Ok(())
    ///     });
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    pub fn kept_group<A: Actor<Index = Ix1>>(mut self) -> Self {
        self.registry.add_kept::<A>();
        self
    }

    /// Adds an actor type that checkpoints leave out, with the messages and timers for its members.
    /// A main that begins again creates collections of this type again, on any number of PEs. Use
    /// it for actors whose work main repeats: after a restoration, messages to the former members
    /// are dropped, and a question that another actor has [asked them with a
    /// tag](Context::ask_tagged) has no answer. Only actors of other transient types can be
    /// [bound](crate::Grid::create_bound) to them. No checkpoint is made while one of them waits
    /// for an answer that goes to a [closure](Context::ask).
    ///
    /// ```
    /// use gridspan::prelude::*;
    /// use gridspan::{CheckpointEvery, Checkpoints};
    ///
    /// /// Answers from a table that it makes at its start.
    /// #[derive(Serialize, Deserialize)]
    /// struct Server { squares: Vec<u64> }
    ///
    /// impl Actor for Server {
    ///     type Index = Ix1;
    ///     type Init = u64;
    ///     type Message = (u64, Reply<u64>);
    ///
    ///     fn create(size: u64, _cx: &mut Context<Self>) -> Self {
    ///         Server { squares: (0..size).map(|n| n * n).collect() }
    ///     }
    ///
    ///     fn handle(&mut self, (n, reply): (u64, Reply<u64>), cx: &mut Context<Self>) {
    ///         cx.reply(reply, self.squares[n as usize]);
    ///     }
    /// }
    ///
    /// let job = Job::new("squares")
    ///     .transient::<Server>()
    ///     .checkpoints(Checkpoints::every(CheckpointEvery::Points(1)))
    ///     .restartable_main(async |grid: Grid| {
    ///         let first = grid.restored::<u64>().await?.unwrap_or(0);
    ///         let servers = grid.create_group::<Server>(Per::Pe, |_| 100).await?;
    ///         for n in first..5 {
    ///             grid.progress(&n).await?;
    ///             let server = servers.member(Ix1(0));
    ///             let square = server.ask(Duration::MAX, move |reply| (n, reply)).await?;
    ///             assert_eq!(square, n * n);
    ///         }
    ///         Ok(())
    ///     });
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    pub fn transient<A: Actor>(mut self) -> Self {
        self.registry.add_transient::<A>();
        self
    }

    /// Adds the type of workers for tasks of this name. Their groups end before a checkpoint is
    /// made, so that none of them is restored on another number of PEs.
    pub(crate) fn workers<A: Actor>(mut self, tasks: &'static str) -> Self {
        self.registry.add_workers::<A>(tasks);
        self
    }

    /// Adds a placement map for [`Placement::Custom`](crate::Placement::Custom).
    pub fn placement(mut self, map: PlacementMap) -> Self {
        self.maps.push(map);
        self
    }

    /// Adds an operation for reductions, and returns it for use in contributions.
    pub fn reducer(mut self, name: impl Into<String>, combine: CustomOp) -> (Self, Op) {
        self.reducers.push((name.into(), combine));
        let position = u16::try_from(self.reducers.len() - 1).expect("fewer than 65,536 reducers");
        (self, Op::Custom(Custom(position)))
    }
}
