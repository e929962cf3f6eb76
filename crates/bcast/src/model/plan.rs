//! A plan as it is sent to the nodes: trees, their parts of a message, and an identifier that
//! broadcasts carry instead.

use super::draft::{Draft, DraftStripe};
use super::fluid::Sending;
use crate::trees::{Tree, TreeError};
use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// The identifier of a plan, which a broadcast carries instead of the trees. A root never uses a
/// version for two plans.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct PlanId {
    /// The node that broadcasts.
    pub root: NodeId,
    /// The version; later plans of a root have higher versions.
    pub version: u64,
}

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.root, self.version)
    }
}

/// One of the trees of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stripe {
    /// The tree.
    pub tree: Tree,
    /// Its part of the segments, relative to the others.
    pub weight: u32,
}

/// The trees that messages from one root take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct BroadcastPlan {
    id: PlanId,
    stripes: Vec<Stripe>,
    segment_bytes: u64,
    sending: Sending,
    predicted: Duration,
}

/// A part of a message, and the stripe that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The position of its stripe in the plan.
    pub stripe: usize,
    /// Its beginning in the message, in bytes.
    pub offset: u64,
    /// Its size in bytes; zero only if the message is empty.
    pub bytes: u64,
}

/// The reason why a plan is invalid. No plan was made; plan again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BroadcastPlanError {
    /// There is no tree, a tree has no weight, or there are more than
    /// [`BroadcastPlan::MAX_STRIPES`].
    #[error(
        "a plan has one to {} trees, each with a weight above zero; this one has {stripes} trees",
        BroadcastPlan::MAX_STRIPES
    )]
    Stripes {
        /// Number of trees.
        stripes: usize,
    },
    /// The trees do not all lead from the root of the plan to the same nodes.
    #[error(
        "tree {stripe} of the plan has another root or other nodes; give all trees the same nodes"
    )]
    Members {
        /// The position of the tree.
        stripe: usize,
    },
    /// The root, or a node of its default plan, is not a member of the advisor.
    #[error(
        "{root} or a node of its default plan is not a member of the advisor; give it all nodes"
    )]
    NoMember {
        /// The root.
        root: NodeId,
    },
    /// Segments have no bytes.
    #[error("a segment has zero bytes; give it at least one")]
    Segment,
    /// The edges do not form a tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl BroadcastPlan {
    /// Maximum number of trees of a plan; more than half a dozen have never paid off.
    pub const MAX_STRIPES: usize = 64;
    /// Upper limit of the size of a segment, regardless of the plan, since it has to fit a frame.
    pub const SEGMENT_BYTES_MAX: u64 = 32 << 20;
    /// The weight of a stripe that carries the whole message.
    const PARTS: f64 = 65_536.0;

    /// Makes a plan from a draft; `members[n]` is its node `n`. Panics if there are fewer members
    /// than the draft has nodes.
    ///
    /// # Errors
    ///
    /// [`BroadcastPlanError`] if the draft has no tree or too many, the edges of one form no tree,
    /// the trees do not reach the same nodes, or segments have no bytes.
    pub fn from_draft(
        id: PlanId,
        draft: &Draft,
        members: &[NodeId],
        predicted: Duration,
    ) -> Result<Self, BroadcastPlanError> {
        let name = |node: u32| members[node as usize];
        let stripe = |stripe: &DraftStripe| {
            let edges: Vec<(NodeId, NodeId)> =
                stripe.edges.iter().map(|&(from, to)| (name(from), name(to))).collect();
            let weight = (stripe.share * Self::PARTS).round().max(1.0) as u32;
            Ok(Stripe { tree: Tree::from_edges(id.root, &edges)?, weight })
        };
        let stripes = draft.stripes.iter().map(stripe).collect::<Result<_, TreeError>>()?;
        let unchecked = Unchecked {
            id,
            stripes,
            segment_bytes: draft.segment_bytes,
            sending: draft.sending,
            predicted,
        };
        Self::try_from(unchecked)
    }

    /// The default plan, which all nodes know from the beginning: one tree, and version 0. Segments
    /// have at least one byte.
    pub fn known_to_all(tree: Tree, segment_bytes: u64) -> Self {
        let id = PlanId { root: tree.root(), version: 0 };
        let (sending, predicted) = (Sending::Concurrent, Duration::ZERO);
        let segment_bytes = segment_bytes.max(1);
        Self { id, stripes: vec![Stripe { tree, weight: 1 }], segment_bytes, sending, predicted }
    }

    /// Its identifier.
    pub fn id(&self) -> PlanId {
        self.id
    }

    /// Its trees: at least one, all over the same nodes.
    pub fn stripes(&self) -> &[Stripe] {
        &self.stripes
    }

    /// The size of a segment, in bytes.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// The sends that a node may begin while a segment leaves it.
    pub fn sending(&self) -> Sending {
        self.sending
    }

    /// Predicted time for the size that the plan was made for.
    pub fn predicted(&self) -> Duration {
        self.predicted
    }

    /// The segments of a message, in order. Every node computes the same list. Stripes take turns
    /// by weight.
    pub fn segments(&self, bytes: u64) -> impl Iterator<Item = Segment> + '_ {
        let total: i64 = self.stripes.iter().map(|stripe| i64::from(stripe.weight)).sum();
        let mut credit = vec![0_i64; self.stripes.len()];
        let size = self.segment_bytes.min(Self::SEGMENT_BYTES_MAX);
        let count = bytes.div_ceil(size).max(1);
        (0..count).map(move |number| {
            for (credit, stripe) in credit.iter_mut().zip(&self.stripes) {
                *credit += i64::from(stripe.weight);
            }
            let richest =
                (0..credit.len()).max_by_key(|&place| (credit[place], usize::MAX - place));
            let stripe = richest.unwrap_or(0);
            credit[stripe] -= total;
            let offset = number * size;
            Segment { stripe, offset, bytes: (bytes - offset).min(size) }
        })
    }
}

impl From<&BroadcastPlan> for Draft {
    /// The plan over nodes that are numbered by their identifiers.
    fn from(plan: &BroadcastPlan) -> Self {
        let total: f64 = plan.stripes.iter().map(|stripe| f64::from(stripe.weight)).sum();
        let stripe = |stripe: &Stripe| DraftStripe {
            edges: stripe.tree.edges_from_root().map(|(from, to)| (from.0, to.0)).collect(),
            share: f64::from(stripe.weight) / total,
        };
        let stripes = plan.stripes.iter().map(stripe).collect();
        Self { stripes, segment_bytes: plan.segment_bytes, sending: plan.sending }
    }
}

/// A received plan before validation.
#[derive(Deserialize)]
struct Unchecked {
    id: PlanId,
    stripes: Vec<Stripe>,
    segment_bytes: u64,
    sending: Sending,
    predicted: Duration,
}

impl TryFrom<Unchecked> for BroadcastPlan {
    type Error = BroadcastPlanError;

    fn try_from(raw: Unchecked) -> Result<Self, BroadcastPlanError> {
        let Unchecked { id, stripes, segment_bytes, sending, predicted } = raw;
        let count = stripes.len();
        let is_weighted = stripes.iter().all(|stripe| stripe.weight > 0);
        let first = match stripes.first() {
            Some(first) if count <= Self::MAX_STRIPES && is_weighted => first,
            _ => return Err(BroadcastPlanError::Stripes { stripes: count }),
        };
        let is_alike = |stripe: &Stripe| {
            stripe.tree.root() == id.root && stripe.tree.nodes().eq(first.tree.nodes())
        };
        if let Some(stripe) = stripes.iter().position(|stripe| !is_alike(stripe)) {
            return Err(BroadcastPlanError::Members { stripe });
        }
        if segment_bytes == 0 {
            return Err(BroadcastPlanError::Segment);
        }
        Ok(Self { id, stripes, segment_bytes, sending, predicted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(shares: &[f64], segment_bytes: u64) -> Result<BroadcastPlan, BroadcastPlanError> {
        let stripes =
            shares.iter().map(|&share| DraftStripe { edges: vec![(1, 0)], share }).collect();
        let draft = Draft { stripes, segment_bytes, sending: Sending::Concurrent };
        let id = PlanId { root: NodeId(9), version: 4 };
        BroadcastPlan::from_draft(id, &draft, &[NodeId(7), NodeId(9)], Duration::from_millis(3))
    }

    #[test]
    fn segments_cover_the_message_and_stripes_take_turns_by_weight() {
        let plan = plan(&[0.75, 0.25], 10).unwrap();

        let segments: Vec<Segment> = plan.segments(75).collect();

        let stripes: Vec<usize> = segments.iter().map(|segment| segment.stripe).collect();
        assert_eq!(stripes, [0, 0, 1, 0, 0, 0, 1, 0]);
        assert_eq!(segments[7], Segment { stripe: 0, offset: 70, bytes: 5 });
        assert_eq!(plan.segments(0).count(), 1, "an empty message arrives too");
    }

    #[test]
    fn a_plan_is_read_back_unchanged_and_an_invalid_one_is_refused() {
        let good = serde_json::to_string(&plan(&[1.0], 1024).unwrap()).unwrap();

        assert_eq!(
            serde_json::from_str::<BroadcastPlan>(&good).unwrap(),
            plan(&[1.0], 1024).unwrap()
        );
        for (from, to) in [
            ("\"segment_bytes\":1024", "\"segment_bytes\":0"),
            ("\"weight\":65536", "\"weight\":0"),
            ("{\"root\":9,\"version\":4}", "{\"root\":7,\"version\":4}"),
            ("[[9,7]]", "[[7,9]]"),
        ] {
            assert!(good.contains(from), "{good}");
            assert!(
                serde_json::from_str::<BroadcastPlan>(&good.replace(from, to)).is_err(),
                "{to}"
            );
        }
        assert_eq!(plan(&[], 1), Err(BroadcastPlanError::Stripes { stripes: 0 }));
    }
}
