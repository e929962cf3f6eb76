//! What a registry knows: its servers, how calls reach them, and the links between them.

pub(crate) mod link_table;
pub(crate) mod route;
pub(crate) mod server_table;
