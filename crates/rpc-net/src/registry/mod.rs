//! The state of a registry: its servers, the routes of calls to them, and the links between them.

pub(crate) mod link_table;
pub(crate) mod route;
pub(crate) mod server_table;
