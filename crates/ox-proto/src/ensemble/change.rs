//! Computes the ensemble that results from a reconfiguration. The order of the checks and the error code of each are
//! Apache's.

use super::{Address, Addresses, Ensemble, EnsembleBuilder, EnsembleError, Member, Role, Rule, VERSION, is_member_key};
use crate::{ErrorCode, ServerId, properties, text};
use std::collections::BTreeMap;

/// The arguments of a reconfig request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change<'a> {
    /// Servers to add or change: `server.N=spec`, comma separated.
    pub joining: Option<&'a str>,
    /// Ids of servers to remove, comma separated.
    pub leaving: Option<&'a str>,
    /// The complete new membership; if set, the other two are ignored.
    pub members: Option<&'a str>,
}

/// Settings of the server that restrict changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeRules {
    /// Whether servers may have several addresses.
    pub addresses: Addresses,
    /// Whether `standaloneEnabled` is set: then a single participant is not a valid ensemble.
    pub standalone_enabled: bool,
}

/// The defaults of an unconfigured server.
impl Default for ChangeRules {
    fn default() -> Self {
        Self { addresses: Addresses::One, standalone_enabled: true }
    }
}

impl Ensemble {
    /// The ensemble with `change` applied, as `version`.
    pub fn changed(&self, change: &Change<'_>, version: i64, rules: ChangeRules) -> Result<Self, ErrorCode> {
        let (members, rule) = match change.members {
            Some(members) => replaced(members, rules)?,
            None if self.rule != Rule::Majority => return Err(ErrorCode::BadArguments),
            None => (self.changed_members(change, rules)?, Rule::Majority),
        };
        let participants = members.values().filter(|member| member.role == Role::Participant).count();
        if participants < if rules.standalone_enabled { 2 } else { 1 } {
            return Err(ErrorCode::BadArguments);
        }
        Self::new(version, members, rule).map_err(|_| ErrorCode::BadArguments)
    }

    fn changed_members(
        &self,
        change: &Change<'_>,
        rules: ChangeRules,
    ) -> Result<BTreeMap<ServerId, Member>, ErrorCode> {
        let mut members = self.members.clone();
        for leaving in list(change.leaving.unwrap_or_default(), ',') {
            members.remove(&number(leaving)?);
        }
        for joining in list(change.joining.unwrap_or_default(), ',') {
            let [name, spec] = list(joining, '=')[..] else { return Err(ErrorCode::BadArguments) };
            let id = number(name.rsplit_once('.').map_or(name, |(_, id)| id))?;
            let member = Member::parse(id, spec, rules.addresses).map_err(|_| ErrorCode::BadArguments)?;
            let others = members.iter().filter(|(other, _)| **other != id);
            if member.client.is_none() || others.into_iter().any(|(_, other)| member.conflicts_with(other)) {
                return Err(ErrorCode::BadArguments);
            }
            members.insert(id, member);
        }
        Ok(members)
    }
}

/// Parses a complete membership that replaces the current one.
fn replaced(members: &str, rules: ChangeRules) -> Result<(BTreeMap<ServerId, Member>, Rule), ErrorCode> {
    let lines = members.replace(',', "\n");
    let pairs = properties::parse_text(&lines).map_err(|_| ErrorCode::MarshallingError)?;
    let pairs: BTreeMap<_, _> = pairs.into_iter().map(|pair| (pair.key, pair.value)).collect();
    if pairs.keys().any(|key| !is_member_key(key) && *key != VERSION) {
        return Err(ErrorCode::BadArguments);
    }
    let mut builder = EnsembleBuilder::new(rules.addresses);
    for (key, value) in &pairs {
        builder.add(key, value).map_err(|error| {
            let is_number = matches!(error, EnsembleError::NotANumber { .. });
            if is_number { ErrorCode::MarshallingError } else { ErrorCode::BadArguments }
        })?;
    }
    if builder.participant_without_group().is_some() {
        return Err(ErrorCode::BadArguments);
    }
    let EnsembleBuilder { members, groups, .. } = builder;
    let participants = members.values().filter(|member| member.role == Role::Participant).count();
    let observers = members.len() - participants;
    let is_allowed = match (participants, rules.standalone_enabled) {
        (0, false) => false,
        (0 | 1, true) => observers == 0,
        _ => true,
    };
    if !is_allowed {
        return Err(ErrorCode::MarshallingError);
    }
    Ok((members, groups.map_or(Rule::Majority, Rule::Hierarchical)))
}

impl Member {
    /// Whether the two share an address. Loopback and wildcard addresses do not count.
    fn conflicts_with(&self, other: &Self) -> bool {
        other.public_addresses().any(|theirs| self.public_addresses().any(|mine| mine.is_same(theirs)))
    }

    fn public_addresses(&self) -> impl Iterator<Item = &Address> {
        let all = self.quorum.iter().chain(&self.election).chain(&self.client);
        all.filter(|address| !address.is_wildcard() && !address.is_loopback())
    }
}

/// The trimmed, non-empty parts of a list.
fn list(text: &str, separator: char) -> Vec<&str> {
    text.split(separator).map(text::trim).filter(|part| !part.is_empty()).collect()
}

fn number(text: &str) -> Result<ServerId, ErrorCode> {
    text.parse().map(ServerId).map_err(|_| ErrorCode::MarshallingError)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: ChangeRules = ChangeRules { addresses: Addresses::One, standalone_enabled: true };

    fn ensemble() -> Ensemble {
        let text = "server.1=a:1:2;5\nserver.2=b:1:2;5\nserver.3=c:1:2:observer;5\nversion=7";
        Ensemble::parse(text, Addresses::One).unwrap()
    }

    fn check(ensemble: &Ensemble, change: Change<'_>, rules: ChangeRules, expected: Result<&str, ErrorCode>) {
        let changed = ensemble.changed(&change, 9, rules).map(|changed| changed.to_string());
        assert_eq!(changed.as_deref().map_err(|code| *code), expected, "{change:?}");
    }

    #[test]
    fn change_adds_removes_and_replaces_servers() {
        let joining = |spec| Change { joining: Some(spec), ..Change::default() };
        let leaving = |ids| Change { leaving: Some(ids), ..Change::default() };
        let ok = |change: Change<'_>, expected: &str| check(&ensemble(), change, RULES, Ok(expected));
        let all = "server.1=a:1:2:participant;0.0.0.0:5\nserver.2=b:1:2:participant;0.0.0.0:5\n";
        ok(Change::default(), &format!("{all}server.3=c:1:2:observer;0.0.0.0:5\nversion=9"));
        ok(leaving(" 3 ,, 77"), &format!("{all}version=9"));
        ok(joining("server.3 = c:1:2;5"), &format!("{all}server.3=c:1:2:participant;0.0.0.0:5\nversion=9"));
        ok(
            Change { joining: Some("4=d:1:2;5"), leaving: Some("1,3"), members: None },
            "server.2=b:1:2:participant;0.0.0.0:5\nserver.4=d:1:2:participant;0.0.0.0:5\nversion=9",
        );
    }

    /// A line describes a member completely, so a line without a role makes a participant. Nothing else promotes a
    /// server: neither a new address nor a change that concerns other servers.
    #[test]
    fn k106_address_change_keeps_role() {
        let voters = |ensemble: &Ensemble| ensemble.voters().collect::<Vec<_>>();
        let changes = [
            Change { joining: Some("server.3=d:1:2:observer;5"), ..Change::default() },
            Change { joining: Some("server.3=c:3:4:observer;6"), ..Change::default() },
            Change { joining: Some("server.3=c:1:2:observer;other:5"), ..Change::default() },
            Change { joining: Some("server.1=d:1:2;5,server.2=e:1:2;6"), ..Change::default() },
            Change { joining: Some("server.4=d:1:2:observer;5"), leaving: Some("77"), members: None },
        ];
        for change in changes {
            let changed = ensemble().changed(&change, 9, RULES).unwrap();
            assert_eq!(voters(&changed), voters(&ensemble()), "{change:?}");
            assert_eq!(changed.members()[&ServerId(3)].role, Role::Observer, "{change:?}");
            let read = Ensemble::parse(&changed.to_string(), Addresses::One).unwrap();
            assert_eq!(voters(&read), voters(&changed), "other servers parse the same voters");
        }
        let promoted = Change { joining: Some("server.3=c:1:2;5"), ..Change::default() };
        assert_eq!(
            voters(&ensemble().changed(&promoted, 9, RULES).unwrap()).len(),
            3,
            "the change asked for a participant"
        );
    }

    #[test]
    fn invalid_change_returns_apaches_error_code() {
        let joining = |spec| Change { joining: Some(spec), ..Change::default() };
        let leaving = |ids| Change { leaving: Some(ids), ..Change::default() };
        for (change, code) in [
            (leaving("x"), ErrorCode::MarshallingError),
            (leaving("1"), ErrorCode::BadArguments), // leaves a single participant
            (leaving("1,2"), ErrorCode::BadArguments),
            (joining("server.4"), ErrorCode::BadArguments),
            (joining("server.x=d:1:2;5"), ErrorCode::MarshallingError),
            (joining("server.4=d:1:2"), ErrorCode::BadArguments), // no client port
            (joining("server.4=d:1;5"), ErrorCode::BadArguments),
            (joining("server.4=a:1:9;5"), ErrorCode::BadArguments), // server 1 has that address
            (joining("server.-1=d:1:2;5"), ErrorCode::BadArguments),
        ] {
            check(&ensemble(), change, RULES, Err(code));
        }
        let alone = ChangeRules { standalone_enabled: false, ..RULES };
        let expected = "server.2=b:1:2:participant;0.0.0.0:5\nserver.3=c:1:2:observer;0.0.0.0:5\nversion=9";
        check(&ensemble(), leaving("1"), alone, Ok(expected));
        check(&ensemble(), leaving("1,2"), alone, Err(ErrorCode::BadArguments));
    }

    #[test]
    fn loopback_addresses_do_not_conflict() {
        let text = "server.1=127.0.0.1:1:2;5\nserver.2=127.0.0.1:3:4;6\nversion=7";
        let local = Ensemble::parse(text, Addresses::One).unwrap();
        let joining = Change { joining: Some("3=127.0.0.1:1:2;0.0.0.0:5"), ..Change::default() };
        assert!(local.changed(&joining, 9, RULES).is_ok());
    }

    #[test]
    fn members_replace_whole_ensemble() {
        let members = |members| Change { members: Some(members), joining: Some("x"), leaving: Some("x") };
        let expected = "server.4=d:1:2:participant\nserver.5=e:1:2:participant;0.0.0.0:5\nversion=9";
        check(&ensemble(), members("server.5=e:1:2;5,server.4=d:1:2\nversion=44"), RULES, Ok(expected));
        for (text, code) in [
            ("", ErrorCode::BadArguments),
            ("server.4=d:1:2", ErrorCode::BadArguments),
            ("server.x=d:1:2,server.4=d:1:2", ErrorCode::MarshallingError),
            ("server.4=d:1,server.5=e:1:2", ErrorCode::BadArguments),
            ("server.4=d:1:2:observer", ErrorCode::MarshallingError),
            ("server.4=d:1:2,server.5=e:1:2:observer", ErrorCode::MarshallingError),
            ("tickTime=5", ErrorCode::BadArguments),
            ("server.4=d:1:2,server.5=e:1:2,group.1=4", ErrorCode::BadArguments),
        ] {
            check(&ensemble(), members(text), RULES, Err(code));
        }
        let alone = ChangeRules { standalone_enabled: false, ..RULES };
        check(&ensemble(), members(""), alone, Err(ErrorCode::MarshallingError));
        check(&ensemble(), members("server.4=d:1:2"), alone, Ok("server.4=d:1:2:participant\nversion=9"));
    }

    #[test]
    fn groups_need_full_membership_change() {
        let text = "server.4=d:1:2,server.5=e:1:2,group.1=4:5";
        let grouped = ensemble().changed(&Change { members: Some(text), ..Change::default() }, 9, RULES).unwrap();
        assert!(grouped.to_string().contains("weight.5=1\nversion=9"));
        check(&grouped, Change::default(), RULES, Err(ErrorCode::BadArguments));
    }
}
