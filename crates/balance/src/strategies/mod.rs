//! Strategies that decide on which PE each actor should live, and their common parts.

pub(crate) mod auto;
pub(crate) mod border;
pub(crate) mod capacity;
pub(crate) mod greedy;
pub(crate) mod grid_cut;
pub(crate) mod groups;
pub(crate) mod handler_exchange;
pub(crate) mod load_evening;
pub(crate) mod local_search;
pub(crate) mod none;
pub(crate) mod pe_lag;
pub(crate) mod random;
pub(crate) mod refine;
pub(crate) mod registry;
pub(crate) mod replicate;
pub(crate) mod rotate;
pub(crate) mod site_distance;
pub(crate) mod strategy;
pub(crate) mod tighten;
pub(crate) mod vacate;
