//! Counts of the actions of a campaign's jobs.

/// Number of actions of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionCounts {
    /// Messages of main and of members to single members. A multicast counts once for each
    /// receiver.
    pub messages: u64,
    /// Members that arrived on another PE.
    pub migrations: u64,
    /// Of those, members with indices of five dimensions.
    pub migrations_in_five_dimensions: u64,
    /// Of those, members with indices of six dimensions.
    pub migrations_in_six_dimensions: u64,
    /// Migrations that were refused.
    pub refusals: u64,
    /// Insertions that were requested.
    pub insertions: u64,
    /// Of those, insertions at the index of a destroyed member.
    pub insertions_again: u64,
    /// Members that were destroyed.
    pub destructions: u64,
    /// Members that were created on demand.
    pub on_demand: u64,
    /// Ordered broadcasts of main and of members.
    pub broadcasts: u64,
    /// Of those, large ones that members sent; from nodes other than the coordinator's, they go
    /// directly to all nodes.
    pub large_broadcasts: u64,
    /// Unordered broadcasts.
    pub unordered_broadcasts: u64,
    /// Reductions that were completed.
    pub reductions: u64,
    /// Of those, reductions over sections across two collections.
    pub across: u64,
    /// Sync points that were started.
    pub syncs: u64,
    /// Questions asked.
    pub questions: u64,
    /// Notes that were written to deterministic actors.
    pub notes: u64,
    /// Replicas of deterministic actors that were created.
    pub replicas: u64,
    /// Tasks that were run in pools.
    pub tasks: u64,
    /// Pools that were open at the same time as others.
    pub pools: u64,
    /// Guests that were planned to join.
    pub guests: u64,
    /// Number of times that all members of a collection broadcast at once.
    pub from_all_roots: u64,
    /// Number of times that two members were selected to broadcast repeatedly in the same period.
    pub from_two_roots: u64,
    /// Number of times that the right to number broadcasts passed from the coordinator to another
    /// PE.
    pub handovers: u64,
    /// Number of requested moves of the coordinator.
    pub moves: u64,
    /// Phases whose completion main awaited.
    pub phases: u64,
    /// Members that were created in base collections and in collections bound to them.
    pub partners: u64,
    /// Number of times that the coordinator found quiescence.
    pub quiescences: u64,
}

impl ActionCounts {
    /// Counts a member of the main collections that arrived, by the dimensions of its index. The
    /// caller counts it in `migrations`.
    pub(super) fn arrived_in(&mut self, dimensions: u32) {
        self.migrations_in_five_dimensions += u64::from(dimensions == 5);
        self.migrations_in_six_dimensions += u64::from(dimensions == 6);
    }
}

impl std::ops::AddAssign for ActionCounts {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.migrations += other.migrations;
        self.migrations_in_five_dimensions += other.migrations_in_five_dimensions;
        self.migrations_in_six_dimensions += other.migrations_in_six_dimensions;
        self.refusals += other.refusals;
        self.insertions += other.insertions;
        self.insertions_again += other.insertions_again;
        self.destructions += other.destructions;
        self.on_demand += other.on_demand;
        self.broadcasts += other.broadcasts;
        self.large_broadcasts += other.large_broadcasts;
        self.unordered_broadcasts += other.unordered_broadcasts;
        self.reductions += other.reductions;
        self.across += other.across;
        self.syncs += other.syncs;
        self.questions += other.questions;
        self.notes += other.notes;
        self.replicas += other.replicas;
        self.tasks += other.tasks;
        self.pools += other.pools;
        self.guests += other.guests;
        self.from_all_roots += other.from_all_roots;
        self.from_two_roots += other.from_two_roots;
        self.handovers += other.handovers;
        self.moves += other.moves;
        self.phases += other.phases;
        self.partners += other.partners;
        self.quiescences += other.quiescences;
    }
}
