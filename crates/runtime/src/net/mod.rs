//! The cluster transport: frames between the nodes of a job over QUIC.
//!
//! | part | purpose |
//! | --- | --- |
//! | [`Transport`] | the protocol, without sockets, clocks or threads |
//! | [`UdpPort`], [`Emulator`] | the socket, and wide-area links under it |
//! | [`NetLoop`] | the loop that runs a transport over a socket |
//! | [`VirtualTransport`] | the protocol in virtual time, for a simulator |
//! | [`Authority`], [`Identity`] | certificates of the nodes of a job |
//! | [`bootstrap`] | the start of a node process |
//! | [`EnrolmentListener`], [`EnrolmentToken`], [`SecureStream`] | the start of nodes without a private channel to their launcher |

pub mod bootstrap;
mod config;
mod congestion;
mod connections;
mod emulator;
mod enrolment;
mod event;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hello;
mod identity;
mod incoming;
mod link;
mod net_loop;
mod observed_controller;
mod outgoing;
mod peer;
mod peers;
mod port_checks;
mod probe_packet;
mod prober;
mod sampler;
mod secure_stream;
mod seeded;
mod send_costs;
mod transport;
mod udp;
mod virtual_time;
mod wire;

pub use config::{Congestion, TransportConfig, TransportLimits};
pub use emulator::{DueBatch, Emulator, EmulatorStats};
pub use enrolment::{
    EnrolmentCloser, EnrolmentError, EnrolmentListener, EnrolmentSecret, EnrolmentToken, Unsecured,
};
pub use event::{FrameClass, LinkStats, LossReason, SendError, TransportEvent};
pub use hello::HelloRefusal;
pub use identity::{Authority, Identity, IdentityError, NodeKey, NodePublicKey, check_job_name};
pub use net_loop::NetLoop;
pub use secure_stream::{SecureReader, SecureStream};
pub use transport::Transport;
pub use udp::{Outbound, PortError, UdpPort, Waker};
pub use virtual_time::{VirtualJob, VirtualTransport};
