//! What can be wrong with the description of an ensemble.

use super::Role;
use crate::ServerId;

/// Why a description is refused. Texts that begin like Apache's are an interface: operators look for them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnsembleError {
    /// `\u` without four hexadecimal digits.
    #[error("Malformed \\uxxxx encoding in line {0}. Expected four hexadecimal digits after \\u")]
    MalformedEscape(u32),
    /// A line that describes something else.
    #[error("Unrecognised parameter: {0}; expected server.N, group.N, weight.N or version")]
    Key(String),
    /// An id, a weight or the version is no number.
    #[error("For input string: \"{text}\"; expected {expected}")]
    NotANumber {
        /// The text.
        text: String,
        /// What it should have been.
        expected: &'static str,
    },
    /// A server of the wrong form.
    #[error(
        "{0} does not have the form server_config or server_config;client_config where server_config is the pipe \
         separated list of host:port:port or host:port:port:type and client_config is port or host:port"
    )]
    Form(String),
    /// A bracket that is not closed.
    #[error("{0} starts with '[' but has no matching ']:'")]
    NoClosingBracket(String),
    /// A bracketed address that ends in a colon.
    #[error("{0} doesn't have a port after colon")]
    NoPortAfterColon(String),
    /// An address that is not `host:port`.
    #[error("Badly formed address: {0}; expected host:port")]
    NotAnAddress(String),
    /// A port that is no number.
    #[error("Address unresolved: {host}:{port}; expected a port number")]
    PortNotANumber {
        /// Host before it.
        host: String,
        /// The text.
        port: String,
    },
    /// A number that is no port.
    #[error("port out of range:{0}; expected 0 to 65535")]
    PortOutOfRange(i32),
    /// One port for two purposes.
    #[error("Client and election port must be different! Please update the configuration file on server.{0}")]
    SamePorts(ServerId),
    /// Neither participant nor observer.
    #[error("Unrecognised peertype: {0}; expected participant or observer")]
    Role(String),
    /// Addresses of one server with different roles.
    #[error("Multiple addresses should have similar roles: {} vs {}", .first.upper_name(), .other.upper_name())]
    RolesDiffer {
        /// Role of the first address.
        first: Role,
        /// The one that differs.
        other: Role,
    },
    /// Several addresses, which are off.
    #[error(
        "Multiple address feature is disabled, but multiple addresses were specified for sid {0}; it takes \
         -Dzookeeper.multiAddress.enabled=true"
    )]
    MultiAddressOff(ServerId),
    /// Some address stands in two places, so that quorum and election addresses cannot be printed in pairs.
    #[error("server.{0} needs as many different quorum addresses as election addresses on each host, and at least one")]
    Unpaired(ServerId),
    /// A host that another server would read as something else.
    #[error("host {host:?} of server.{server} has characters that no host name has")]
    Host {
        /// Whose.
        server: ServerId,
        /// The text.
        host: String,
    },
    /// Apache prints such a version in a form that it does not read.
    #[error("version {0} is negative")]
    Version(i64),
    /// A number that no server may have.
    #[error("server.{0} is not possible; expected 0 or more, and less than 2^63-1")]
    NotAServer(ServerId),
    /// Nobody could decide anything.
    #[error("an ensemble needs at least one participant")]
    NoParticipants,
    /// A server in two groups.
    #[error("Server {0}is in multiple groups")]
    InSeveralGroups(ServerId),
    /// A participant in no group.
    #[error("Server {0}is not in a group")]
    InNoGroup(ServerId),
    /// Only participants have a weight without saying so.
    #[error("server {0} is in a group but is not a participant and has no weight")]
    NoWeight(ServerId),
    /// With such weights two quorums need not have a member in common.
    #[error("the weight of server {0} is negative, or the weights are too large together")]
    Weight(ServerId),
}
