//! Clients: calls by name, calls with the verbs of GridRPC, and groups that are mapped as a whole.

pub(crate) mod by_name;
pub(crate) mod connection_pool;
pub(crate) mod connector;
pub(crate) mod group_calls;
pub(crate) mod groups;
pub(crate) mod platform;
pub(crate) mod server_list;
pub(crate) mod single_call;
pub(crate) mod store;
pub(crate) mod task_client;
pub(crate) mod verbs;
