//! The errors of GridRPC, with the codes of the standard (GFD-R.P.052, section 4).

use super::signature::Signature;
use gridspan_runtime::{GridError, JobError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The error of a GridRPC verb. Each variant has a code of the standard.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RpcError {
    /// The client is not initialised, or is finalised.
    #[error("the client is not initialised; call `initialize` first")]
    NotInitialized,
    /// The configuration file does not exist.
    #[error("there is no configuration file {path}; check the path")]
    ConfigFileNotFound {
        /// Path of the file.
        path: String,
    },
    /// The configuration is invalid, or its file cannot be read.
    #[error("the configuration is wrong: {reason}")]
    ConfigFileError {
        /// What is invalid, or why the file cannot be read.
        reason: String,
    },
    /// There is no server of this name.
    #[error("there is no server `{server}`; see `Services::list`")]
    ServerNotFound {
        /// The server that was asked for.
        server: String,
    },
    /// There are no servers.
    #[error("there are no servers; start one")]
    NoServers,
    /// The server of the handle, or of the call, has left.
    #[error("the server has left; create the handle again")]
    ServerLeft,
    /// No server offers the function.
    #[error(
        "no server offers `{function}`; add it to the catalogue, or start a server that has it"
    )]
    FunctionNotFound {
        /// The function.
        function: String,
    },
    /// The handle belongs to another client, or to this one before it was last initialised.
    #[error("the handle does not belong to this client; create it again")]
    InvalidFunctionHandle,
    /// A server offers the function with a signature other than that of the call. Build both
    /// programs with the same definition of it.
    #[error(
        "server `{server}` offers `{function}` as {offered}, but the call has {called}; \
         build both programs with the same definition of it"
    )]
    FunctionDiffers {
        /// The function.
        function: String,
        /// The server.
        server: String,
        /// The server's signature.
        offered: String,
        /// The caller's signature.
        called: String,
    },
    /// There is no such session, or its result has been taken.
    #[error("there is no session {session}, or its result has been taken")]
    InvalidSessionId {
        /// The session.
        session: u64,
    },
    /// The last server that was tried refused the call, or its arguments are too large or cannot be
    /// encoded.
    #[error("the call was refused: {reason}")]
    RpcRefused {
        /// Reason of the refusal.
        reason: String,
    },
    /// The last server that was tried, or the registry, did not answer in time.
    #[error("no server answered in time; set a longer timeout, or check the links")]
    CommunicationFailed,
    /// The function failed, or the call was cancelled.
    #[error("the call failed: {reason}")]
    SessionFailed {
        /// Reason of the failure.
        reason: String,
    },
    /// The call has not ended.
    #[error("the call has not ended yet; wait for it")]
    NotCompleted,
    /// None of the calls has ended.
    #[error("none of the calls has ended yet; wait for one")]
    NoneCompleted,
    /// An operation of the grid failed, for a reason other than a timeout.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// An error for which the standard has no code.
    #[error("{reason}")]
    Other {
        /// Description of the error.
        reason: String,
    },
    /// An error whose code is not in the standard.
    #[error("an error of unknown code {code}")]
    Unknown {
        /// The code.
        code: i32,
    },
    /// The client is initialised already.
    #[error("the client is initialised already; finalise it first")]
    AlreadyInitialized,
}

impl From<RpcError> for JobError {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::Grid(error) => Self::Grid(error),
            error => Self::failed(error),
        }
    }
}

/// The standard's text for an unknown code.
pub const UNKNOWN_CODE_TEXT: &str = "GRPC_UNKNOWN_ERROR_CODE";

/// The standard's names of the codes from 0 on.
const NAMES: [&str; 17] = [
    "GRPC_NO_ERROR",
    "GRPC_NOT_INITIALIZED",
    "GRPC_CONFIGFILE_NOT_FOUND",
    "GRPC_CONFIGFILE_ERROR",
    "GRPC_SERVER_NOT_FOUND",
    "GRPC_FUNCTION_NOT_FOUND",
    "GRPC_INVALID_FUNCTION_HANDLE",
    "GRPC_INVALID_SESSION_ID",
    "GRPC_RPC_REFUSED",
    "GRPC_COMMUNICATION_FAILED",
    "GRPC_SESSION_FAILED",
    "GRPC_NOT_COMPLETED",
    "GRPC_NONE_COMPLETED",
    "GRPC_OTHER_ERROR_CODE",
    "GRPC_UNKNOWN_ERROR_CODE",
    "GRPC_ALREADY_INITIALIZED",
    "GRPC_LAST_ERROR_CODE",
];

impl RpcError {
    /// The error for a function whose signature at a server is not that of the call.
    pub(crate) fn differs(
        function: &str,
        server: &str,
        offered: &Signature,
        called: &Signature,
    ) -> Self {
        let [function, server] = [function, server].map(str::to_owned);
        let [offered, called] = [offered, called].map(Signature::to_string);
        Self::FunctionDiffers { function, server, offered, called }
    }

    /// The standard's code.
    pub fn code(&self) -> i32 {
        match self {
            Self::NotInitialized => 1,
            Self::ConfigFileNotFound { .. } => 2,
            Self::ConfigFileError { .. } => 3,
            Self::ServerNotFound { .. } | Self::NoServers | Self::ServerLeft => 4,
            Self::FunctionNotFound { .. } => 5,
            Self::InvalidFunctionHandle | Self::FunctionDiffers { .. } => 6,
            Self::InvalidSessionId { .. } => 7,
            Self::RpcRefused { .. } => 8,
            Self::CommunicationFailed => 9,
            Self::SessionFailed { .. } => 10,
            Self::NotCompleted => 11,
            Self::NoneCompleted => 12,
            Self::Grid(_) | Self::Other { .. } => 13,
            Self::Unknown { .. } => 14,
            Self::AlreadyInitialized => 15,
        }
    }
}

/// The name of an error, for spans.
pub(super) fn kind(error: &RpcError) -> &'static str {
    error_string(error.code())
}

/// The standard's text for a code, which is its name.
pub fn error_string(code: i32) -> &'static str {
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
    name.copied().unwrap_or(UNKNOWN_CODE_TEXT)
}
