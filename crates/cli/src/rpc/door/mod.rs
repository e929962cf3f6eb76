//! Calls from outside of a job: a door that whoever has its token may knock at, over QUIC with mutual TLS.
//!
//! | part | is |
//! | --- | --- |
//! | `token` | where a door is, and the certificates by which both sides know each other |
//! | `wire`, `budget` | what is asked and answered: one stream for each question; and how much of it may wait |
//! | `hall` | the servers behind a door: its own, and those that have joined |
//! | `daemon` | opens the door, and answers |
//! | `workshop`, `shelf`, `gate` | executes tasks of groups whose data goes from server to server |
//! | `member` | a server that joins the door of another |
//! | `serve` | a process that does either |
//! | `visitor`, `owner` | whoever calls, and whoever begins a group |
//!
//! **Start.** A daemon makes a certificate authority that is forgotten at once, certificates for itself and for its
//! guests, and writes the latter with its address as a *token*, a file that its user alone can read. Whoever
//! has the token may call, and join as a server.
//!
//! **Steady state.** Functions and arguments are named in text (JSON), so that a caller needs no program of its own.
//! The daemon sends a call to the server that would end it first, as the registry of a job does, and to the
//! next if that is lost, refuses or is late. So a function may be executed more than once.
//!
//! **Failure.** A server whose connection ends or is silent for some seconds is forgotten, and its calls are made
//! elsewhere. Servers whose registry is gone look for it at the same address until it is back; the registry keeps
//! its certificates beside the token if that has a path of its own. A call whose caller is gone, or that
//! was late, is taken back from its server, which ends what it executes of it and begins nothing else.
//!
//! **End.** A daemon that is told to end takes no more calls, answers those it has, and says good-bye.

mod budget;
mod daemon;
mod gate;
mod hall;
mod member;
mod owner;
mod serve;
mod shelf;
mod token;
mod visitor;
mod wire;
mod workshop;

pub(crate) use daemon::DoorOptions;
pub(crate) use owner::Owner;
pub(crate) use serve::{Role, ServeOptions, serve};
pub(crate) use token::{DoorError, Token};
pub(crate) use visitor::Visitor;
pub(crate) use wire::{Input, Listed, Order, Source, Times, Trouble};
