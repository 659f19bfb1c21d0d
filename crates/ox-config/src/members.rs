//! The members of an ensemble: `server.N`, `group.N` and `weight.N` lines, of `zoo.cfg` or of a dynamic file.
//!
//! Values are used with the blanks behind them, as Apache does: a blank after a port is an error. The order of checks
//! within a line is Apache's, because it decides which error an operator sees.

use std::collections::{BTreeMap, BTreeSet};

use crate::address::{self, Address};
use crate::error::{Cause, ConfigError, Place};
use crate::readers;
use crate::settings::Entry;
use crate::start::Outside;

/// What a member does in the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Participant,
    Observer,
}

/// One `server.N` line.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) role: Role,
    /// The part behind the semicolon.
    pub(crate) client: Option<Address>,
    /// Where the line stands.
    place: Place,
}

/// What the lines of members are read with.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) outside: &'a Outside<'a>,
    /// Whether a member may have several addresses.
    pub(crate) multi_address: bool,
}

impl Role {
    pub(crate) fn read(text: &str) -> Result<Role, Cause> {
        match readers::trim(text) {
            role if role.eq_ignore_ascii_case("participant") => Ok(Role::Participant),
            role if role.eq_ignore_ascii_case("observer") => Ok(Role::Observer),
            role => Err(Cause::PeerType(role.to_owned())),
        }
    }

    /// As Apache's messages name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Participant => "PARTICIPANT",
            Role::Observer => "OBSERVER",
        }
    }
}

/// Whether a line of this key belongs to the members.
pub(crate) fn is_member_key(key: &str) -> bool {
    ["server.", "group", "weight"].iter().any(|start| key.starts_with(start))
}

/// All members by id, checked with their groups.
pub(crate) fn read<'e>(
    lines: impl IntoIterator<Item = (&'e str, &'e Entry)>,
    reading: Reading<'_>,
) -> Result<BTreeMap<i64, Member>, ConfigError> {
    let mut seen = Seen::default();
    for (key, entry) in lines {
        seen.add(key, entry, reading).map_err(|cause| entry.place.error(cause))?;
    }
    let Seen { members, grouped, hierarchical } = seen;
    let left_out =
        members.iter().find(|(id, member)| hierarchical && member.role == Role::Participant && !grouped.contains(id));
    match left_out {
        Some((id, member)) => Err(member.place.error(Cause::InNoGroup(*id))),
        None => Ok(members),
    }
}

#[derive(Default)]
struct Seen {
    members: BTreeMap<i64, Member>,
    grouped: BTreeSet<i64>,
    /// Whether there are groups or weights.
    hierarchical: bool,
}

impl Seen {
    fn add(&mut self, key: &str, entry: &Entry, reading: Reading<'_>) -> Result<(), Cause> {
        if let Some(id) = key.strip_prefix("server.") {
            let id = number(id)?;
            self.members.insert(id, Member::read(id, entry, reading)?);
        } else if key.starts_with("group") {
            self.hierarchical = true;
            number(behind_dot(key))?;
            for id in readers::split(&entry.raw, ':') {
                let id = number(id)?;
                if !self.grouped.insert(id) {
                    return Err(Cause::InSeveralGroups(id));
                }
            }
        } else if key.starts_with("weight") {
            self.hierarchical = true;
            number(behind_dot(key))?;
            number(&entry.raw)?;
        } else if key == "version" && i64::from_str_radix(&entry.raw, 16).is_err() {
            // Compat: a version in zoo.cfg is read though nothing uses it (probed case "version in static file").
            let expected = "a hexadecimal number".to_owned();
            return Err(Cause::NotANumber { text: entry.raw.clone(), expected });
        }
        Ok(())
    }
}

impl Member {
    fn read(id: i64, entry: &Entry, reading: Reading<'_>) -> Result<Member, Cause> {
        let text = &entry.raw;
        let wrong_form = || Cause::ServerForm(text.clone());
        let parts = readers::split(text, ';');
        let (servers, client) = match parts[..] {
            [servers] => (servers, None),
            [servers, client] => (servers, Some(read_client(client, text, reading)?)),
            _ => return Err(wrong_form()),
        };
        let addresses = readers::split(servers, '|');
        if 1 < addresses.len() && !reading.multi_address {
            return Err(Cause::MultiAddressOff(id));
        }
        let mut role = None;
        for address in addresses {
            let fields = address::host_and_fields(address)?;
            let &[host, quorum, election, ref rest @ ..] = &fields[..] else {
                return Err(wrong_form());
            };
            if 1 < rest.len() {
                return Err(wrong_form());
            }
            if port(host, quorum)? == port(host, election)? {
                return Err(Cause::SamePorts(id));
            }
            for own in rest {
                let own = Role::read(own)?;
                let first: &mut Role = role.get_or_insert(own);
                if *first != own {
                    return Err(Cause::RolesDiffer { first: first.name(), other: own.name() });
                }
            }
        }
        Ok(Member { role: role.unwrap_or(Role::Participant), client, place: entry.place.clone() })
    }
}

/// `[host:]port`; without a host, every interface.
fn read_client(client: &str, whole: &str, reading: Reading<'_>) -> Result<Address, Cause> {
    let (host, text) = match address::host_and_fields(client)?[..] {
        [port] => ("0.0.0.0", port),
        [host, port] => (host, port),
        _ => return Err(Cause::ServerForm(whole.to_owned())),
    };
    Ok(Address::new(host, port(host, text)?, reading.outside))
}

fn port(host: &str, text: &str) -> Result<u16, Cause> {
    match readers::int(text) {
        Some(number) => address::port(number),
        None => Err(Cause::AddressUnresolved { host: host.to_owned(), port: text.to_owned() }),
    }
}

fn number(text: &str) -> Result<i64, Cause> {
    let expected = || "a whole number of 64 bits".to_owned();
    readers::long(text).ok_or_else(|| Cause::NotANumber { text: text.to_owned(), expected: expected() })
}

/// What stands behind the first dot, the whole without one.
fn behind_dot(key: &str) -> &str {
    key.split_once('.').map_or(key, |(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let resolve = |_: &str| None;
        let read = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let outside = Outside { read: &read, resolve: &resolve };
        let entry = Entry::new(text, text, Place::Argument("server.1"));
        let member = Member::read(1, &entry, Reading { outside: &outside, multi_address: true });
        let shown = match member {
            Ok(Member { role, client, .. }) => {
                format!("{} {}", role.name(), client.map_or("-".to_owned(), |client| client.java_text()))
            }
            Err(cause) => cause.to_string(),
        };
        assert!(shown.contains(expected), "{text:?}: {shown}");
    }

    #[test]
    fn good_lines() {
        check("h:1:2", "PARTICIPANT -");
        check("h:1:2;", "PARTICIPANT -");
        check("h:1:2: Observer ;2181", "OBSERVER /0.0.0.0:2181");
        check("[::1]:1:2:participant;[::1]:5", "PARTICIPANT /[0:0:0:0:0:0:0:1]:5");
        check("h:1:2;name:5", "PARTICIPANT name/<unresolved>:5");
        check("h:1:2|i:1:2:observer", "OBSERVER -");
    }

    #[test]
    fn bad_lines() {
        for text in ["", ";", "h", "h:1", "h:1:2:observer:3", "h:1:2;1;2", "h:1:2;a:b:c", "h:1:2;:", "[::1]"] {
            check(text, "does not have the form");
        }
        check("h:1:2 ", "Address unresolved: h:2 ;");
        check("h:1:2;x", "Address unresolved: 0.0.0.0:x");
        check("h:1:65536", "port out of range:65536");
        check("h:1:1", "Client and election port must be different!");
        check("h:1:2:leader", "Unrecognised peertype: leader");
        check("h:1:2:observer|h:3:4:participant", "similar roles: OBSERVER vs PARTICIPANT");
    }
}
