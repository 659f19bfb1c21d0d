//! Errors in the description of an ensemble.

use super::Role;
use crate::ServerId;

/// Why a description is refused. Texts that begin like Apache's are an interface: operators search for them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnsembleError {
    /// A `\u` escape without four hexadecimal digits.
    #[error("Malformed \\uxxxx encoding in line {0}. Expected four hexadecimal digits after \\u")]
    MalformedEscape(u32),
    #[error("Unrecognised parameter: {0}; expected server.N, group.N, weight.N or version")]
    Key(String),
    /// An id, a weight or the version is not a number.
    #[error("For input string: \"{text}\"; expected {expected}")]
    NotANumber { text: String, expected: &'static str },
    #[error(
        "{0} does not have the form server_config or server_config;client_config where server_config is the pipe \
         separated list of host:port:port or host:port:port:type and client_config is port or host:port"
    )]
    Form(String),
    #[error("{0} starts with '[' but has no matching ']:'")]
    NoClosingBracket(String),
    /// A bracketed address that ends in a colon.
    #[error("{0} doesn't have a port after colon")]
    NoPortAfterColon(String),
    #[error("Badly formed address: {0}; expected host:port")]
    NotAnAddress(String),
    #[error("Address unresolved: {host}:{port}; expected a port number")]
    PortNotANumber { host: String, port: String },
    #[error("port out of range:{0}; expected 0 to 65535")]
    PortOutOfRange(i32),
    /// Client and election port of one address are equal.
    #[error("Client and election port must be different! Please update the configuration file on server.{0}")]
    SamePorts(ServerId),
    #[error("Unrecognised peertype: {0}; expected participant or observer")]
    Role(String),
    #[error("Multiple addresses should have similar roles: {} vs {}", .first.upper_name(), .other.upper_name())]
    RolesDiffer {
        first: Role,
        /// The first role that differs from it.
        other: Role,
    },
    /// Several addresses although `multiAddress.enabled` is off.
    #[error(
        "Multiple address feature is disabled, but multiple addresses were specified for sid {0}; set \
         -Dzookeeper.multiAddress.enabled=true"
    )]
    MultiAddressOff(ServerId),
    /// An address occurs twice, so that quorum and election addresses cannot be printed in pairs.
    #[error("server.{0} needs as many different quorum addresses as election addresses on each host, and at least one")]
    Unpaired(ServerId),
    /// A host that another server would parse as something else.
    #[error("host {host:?} of server.{server} contains characters that are invalid in a host name")]
    Host { server: ServerId, host: String },
    /// Apache prints a negative version in a form that it cannot parse.
    #[error("version {0} is negative")]
    Version(i64),
    /// An id reserved by the protocol, or negative.
    #[error("server.{0} is not a valid server id; expected 0 to 2^63-2")]
    NotAServer(ServerId),
    #[error("an ensemble needs at least one participant")]
    NoParticipants,
    #[error("Server {0}is in multiple groups")]
    InSeveralGroups(ServerId),
    #[error("Server {0}is not in a group")]
    InNoGroup(ServerId),
    /// A server in a group has no weight. Only participants default to 1.
    #[error("server {0} is in a group but is not a participant and has no weight")]
    NoWeight(ServerId),
    /// With negative or overflowing weights two quorums need not intersect.
    #[error("the weight of server {0} is negative, or the sum of the weights overflows")]
    Weight(ServerId),
}
