//! One server of an ensemble: the value of `server.N=`.
//!
//! ```text
//! host:quorumPort:electionPort[:role][|host:quorumPort:electionPort[:role]...][;[clientHost:]clientPort]
//! ```
//! The order of checks is Apache's, because it decides which error an operator sees.

use super::EnsembleError;
use super::address::{Address, Delimited, fields};
use crate::ServerId;
use crate::text;
use std::collections::BTreeSet;
use std::fmt;

/// A server's part in the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Votes in elections and acknowledges proposals.
    Participant,
    /// Receives committed transactions only.
    Observer,
}

impl Role {
    /// Parses a role; case and surrounding blanks do not matter.
    pub fn parse(text: &str) -> Result<Self, EnsembleError> {
        match text::trim(text) {
            role if role.eq_ignore_ascii_case("participant") => Ok(Self::Participant),
            role if role.eq_ignore_ascii_case("observer") => Ok(Self::Observer),
            role => Err(EnsembleError::Role(role.to_owned())),
        }
    }

    /// Name in configuration files and texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Participant => "participant",
            Self::Observer => "observer",
        }
    }

    /// Name in Apache's messages.
    pub fn upper_name(self) -> &'static str {
        match self {
            Self::Participant => "PARTICIPANT",
            Self::Observer => "OBSERVER",
        }
    }
}

/// Whether a server may have several addresses (`multiAddress.enabled`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    One,
    Several,
}

/// Quorum and election addresses are two independent sets: which of them were written side by side has no meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub role: Role,
    /// Where a leader listens for learners; distinct.
    pub quorum: Vec<Address>,
    /// Where notifications are exchanged; distinct.
    pub election: Vec<Address>,
    /// Where clients connect, if the line has a client part.
    pub client: Option<Address>,
}

impl Member {
    /// Parses the specification of server `id`.
    pub fn parse(id: ServerId, spec: &str, addresses: Addresses) -> Result<Self, EnsembleError> {
        let wrong_form = || EnsembleError::Form(spec.to_owned());
        let (servers, client) = match text::split(spec, ';')[..] {
            [servers] => (servers, None),
            [servers, client] => (servers, Some(read_client(client, spec)?)),
            _ => return Err(wrong_form()),
        };
        let servers = text::split(servers, '|');
        if 1 < servers.len() && addresses == Addresses::One {
            return Err(EnsembleError::MultiAddressOff(id));
        }
        let (mut quorum, mut election, mut role) = (Distinct::default(), Distinct::default(), None);
        for server in servers {
            let fields = fields(server)?;
            let &[host, quorum_port, election_port, ref rest @ ..] = &fields[..] else {
                return Err(wrong_form());
            };
            if 1 < rest.len() {
                return Err(wrong_form());
            }
            let (for_quorum, for_election) = (Address::read(host, quorum_port)?, Address::read(host, election_port)?);
            if for_quorum.port == for_election.port {
                return Err(EnsembleError::SamePorts(id));
            }
            quorum.push(for_quorum);
            election.push(for_election);
            for own in rest {
                let own = Role::parse(own)?;
                let first: &mut Role = role.get_or_insert(own);
                if *first != own {
                    return Err(EnsembleError::RolesDiffer { first: *first, other: own });
                }
            }
        }
        let role = role.unwrap_or(Role::Participant);
        Ok(Self { role, quorum: quorum.list, election: election.list, client })
    }

    /// Whether both have the same role and the same addresses, in any order.
    pub fn is_same(&self, other: &Self) -> bool {
        let keys = |list: &[Address]| list.iter().map(Address::key).collect::<BTreeSet<_>>();
        self.role == other.role
            && keys(&self.quorum) == keys(&other.quorum)
            && keys(&self.election) == keys(&other.election)
            && self.client.as_ref().map(Address::key) == other.client.as_ref().map(Address::key)
    }

    /// Checks what [`fmt::Display`] relies on.
    pub(super) fn check(&self, id: ServerId) -> Result<(), EnsembleError> {
        let hosts = |list| sorted(list).into_iter().map(|(host, _)| host);
        if self.quorum.is_empty() || !hosts(&self.quorum).eq(hosts(&self.election)) {
            return Err(EnsembleError::Unpaired(id));
        }
        // Several lines with one host are printed with their ports in another combination, which must be readable, too.
        let (quorum, election) = (sorted(&self.quorum), sorted(&self.election));
        if quorum.iter().zip(&election).any(|((_, quorum), (_, election))| quorum == election) {
            return Err(EnsembleError::SamePorts(id));
        }
        let mut addresses = self.quorum.iter().chain(&self.election).chain(&self.client);
        match addresses.find(|address| !address.is_plain()) {
            None => Ok(()),
            Some(address) => Err(EnsembleError::Host { server: id, host: address.host.clone() }),
        }
    }
}

/// The specification as Apache prints it: addresses sorted by host, the role once and always.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, ((host, quorum), (_, election))) in sorted(&self.quorum).iter().zip(sorted(&self.election)).enumerate()
        {
            let bar = if at == 0 { "" } else { "|" };
            write!(f, "{bar}{}:{quorum}:{election}", Delimited(host))?;
        }
        write!(f, ":{}", self.role.name())?;
        self.client.as_ref().map_or(Ok(()), |client| write!(f, ";{client}"))
    }
}

/// Printed hosts with ports, in printing order.
// Compat: quorum and election addresses are sorted independently, so addresses of a host that has several may be paired
// differently than they were written (capture 10).
fn sorted(list: &[Address]) -> Vec<(String, u16)> {
    let mut sorted: Vec<_> = list.iter().map(|address| (address.java_host().into_owned(), address.port)).collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    sorted
}

/// Distinct addresses in insertion order.
#[derive(Default)]
struct Distinct {
    list: Vec<Address>,
    keys: BTreeSet<(String, u16)>,
}

impl Distinct {
    fn push(&mut self, address: Address) {
        if self.keys.insert(address.key()) {
            self.list.push(address);
        }
    }
}

/// Parses `[host:]port`; without a host, every interface.
fn read_client(client: &str, spec: &str) -> Result<Address, EnsembleError> {
    match fields(client)?[..] {
        [port] => Address::read("0.0.0.0", port),
        [host, port] => Address::read(host, port),
        _ => Err(EnsembleError::Form(spec.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: &str, expected: &str) {
        let shown = match Member::parse(ServerId(1), spec, Addresses::Several) {
            Ok(member) => member.to_string(),
            Err(error) => error.to_string(),
        };
        assert!(shown.contains(expected), "{spec:?}: {shown}");
    }

    #[test]
    fn valid_specification_prints_canonically() {
        check("h:1:2", "h:1:2:participant");
        check("h:1:2;", "h:1:2:participant");
        check("h:1:2: Observer ;2181", "h:1:2:observer;0.0.0.0:2181");
        check("[::1]:1:2:participant;[::1]:5", "[0:0:0:0:0:0:0:1]:1:2:participant;[0:0:0:0:0:0:0:1]:5");
        check("h:1:2;name:5", "h:1:2:participant;name:5");
        check("i:1:2|h:1:2:observer", "h:1:2|i:1:2:observer");
        check("h:1:4|h:3:2", "h:1:4|h:3:2:participant");
        check("h:1:2|H:1:2", "h:1:2:participant");
    }

    #[test]
    fn invalid_specification_reports_apaches_error() {
        for spec in ["", ";", "h", "h:1", "h:1:2:observer:3", "h:1:2;1;2", "h:1:2;a:b:c", "h:1:2;:", "[::1]"] {
            check(spec, "does not have the form");
        }
        check("h:1:2 ", "Address unresolved: h:2 ;");
        check("h:1:2;x", "Address unresolved: 0.0.0.0:x");
        check("h:1:65536", "port out of range:65536");
        check("h:1:1", "Client and election port must be different!");
        check("h:1:2:leader", "Unrecognised peertype: leader");
        check("h:1:2:observer|h:3:4:participant", "similar roles: OBSERVER vs PARTICIPANT");
        let off = Member::parse(ServerId(7), "h:1:2|i:1:2", Addresses::One);
        assert_eq!(off, Err(EnsembleError::MultiAddressOff(ServerId(7))));
    }

    #[test]
    fn members_compare_regardless_of_address_order() {
        let parse = |spec| Member::parse(ServerId(1), spec, Addresses::Several).unwrap();
        let cases = [
            ("h:1:2", "H:1:2:participant", true),
            ("h:1:2|i:3:4", "i:3:2|h:1:4", false),
            ("h:1:2|h:3:4", "h:3:2|h:1:4", true),
            ("h:1:2", "h:1:2:observer", false),
            ("h:1:2", "h:1:2;5", false),
            ("h:1:2;[::1]:5", "h:1:2;[0:0::1]:5", true),
            ("h:1:2", "h:1:3", false),
        ];
        for (one, other, same) in cases {
            assert_eq!(parse(one).is_same(&parse(other)), same, "{one} {other}");
        }
    }
}
