//! An ensemble: its servers and its quorum rule.
//!
//! Notifications, NEWLEADER packets, `/zookeeper/config` and reconfig transactions all carry this text:
//!
//! ```text
//! server.1=127.0.0.1:2888:3888:participant;0.0.0.0:2181
//! server.2=127.0.0.1:2889:3889:observer;0.0.0.0:2182
//! version=100000004
//! ```
//! It is parsed by the rules of Java properties files. Whatever an [`Ensemble`] prints parses back to the same
//! ensemble, in Apache too: text that Apache cannot parse permanently kills one of its election threads, so
//! [`Ensemble::new`] refuses members that would print that way.

mod address;
mod change;
mod error;
mod member;

pub use address::Address;
pub use change::{Change, ChangeRules};
pub use error::EnsembleError;
pub use member::{Addresses, Member, Role};

use crate::{ServerId, properties, text};
use std::collections::BTreeMap;
use std::fmt;

/// One version of an ensemble's configuration, with at least one participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ensemble {
    version: i64,
    members: BTreeMap<ServerId, Member>,
    rule: Rule,
}

/// Which sets of participants form a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// More than half of the participants.
    Majority,
    /// More than half of the weight in more than half of the groups.
    Hierarchical(Groups),
}

/// Groups and weights. Within an [`Ensemble`], every participant and every server in a group has a weight, no weight is
/// negative, and their sum fits an `i64`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Each server belongs to one group.
    pub group_of: BTreeMap<ServerId, i64>,
    pub weights: BTreeMap<ServerId, i64>,
}

impl Ensemble {
    /// Validates the parts. Participants without a weight get weight 1.
    pub fn new(version: i64, members: BTreeMap<ServerId, Member>, mut rule: Rule) -> Result<Self, EnsembleError> {
        if version < 0 {
            return Err(EnsembleError::Version(version));
        }
        for (id, member) in &members {
            if !id.is_valid() {
                return Err(EnsembleError::NotAServer(*id));
            }
            member.check(*id)?;
        }
        if !members.values().any(|member| member.role == Role::Participant) {
            return Err(EnsembleError::NoParticipants);
        }
        if let Rule::Hierarchical(groups) = &mut rule {
            groups.complete(&members)?;
        }
        Ok(Self { version, members, rule })
    }

    /// Parses the text form.
    pub fn parse(text: &str, addresses: Addresses) -> Result<Self, EnsembleError> {
        let pairs = properties::parse_text(text).map_err(|escape| EnsembleError::MalformedEscape(escape.line))?;
        let lines: BTreeMap<_, _> = pairs.into_iter().map(|pair| (pair.key, pair.value)).collect();
        if let Some(key) = lines.keys().find(|key| !is_member_key(key) && *key != VERSION) {
            return Err(EnsembleError::Key(key.clone()));
        }
        let mut builder = EnsembleBuilder::new(addresses);
        lines.iter().try_for_each(|(key, value)| builder.add(key, value))?;
        builder.finish()
    }

    /// Servers with made-up addresses, for tests and simulations.
    pub fn of_numbers(
        version: i64,
        voters: impl IntoIterator<Item = ServerId>,
        observers: impl IntoIterator<Item = ServerId>,
    ) -> Result<Self, EnsembleError> {
        let member = |id: ServerId, role| {
            let address = |port| vec![Address::new(&format!("server{id}"), port)];
            (id, Member { role, quorum: address(2888), election: address(3888), client: None })
        };
        let voters = voters.into_iter().map(|id| member(id, Role::Participant));
        let observers = observers.into_iter().map(|id| member(id, Role::Observer));
        Self::new(version, voters.chain(observers).collect(), Rule::Majority)
    }

    /// The zxid of the reconfig transaction that created this configuration; 0 before the first.
    pub fn version(&self) -> i64 {
        self.version
    }

    pub fn with_version(self, version: i64) -> Result<Self, EnsembleError> {
        Self::new(version, self.members, self.rule)
    }

    pub fn members(&self) -> &BTreeMap<ServerId, Member> {
        &self.members
    }

    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Participants in ascending order of id.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> {
        self.with_role(Role::Participant)
    }

    /// Observers in ascending order of id.
    pub fn observers(&self) -> impl Iterator<Item = ServerId> {
        self.with_role(Role::Observer)
    }

    fn with_role(&self, role: Role) -> impl Iterator<Item = ServerId> {
        self.members.iter().filter(move |(_, member)| member.role == role).map(|(id, _)| *id)
    }

    /// The weight of a participant's vote. A server of weight 0 cannot lead.
    pub fn weight(&self, server: ServerId) -> i64 {
        match &self.rule {
            Rule::Majority => 1,
            Rule::Hierarchical(groups) => groups.weights.get(&server).copied().unwrap_or(0),
        }
    }

    /// Whether Apache treats both as the same configuration: the same kind of rule, and either the same version or the
    /// same servers, groups and weights.
    pub fn is_same(&self, other: &Self) -> bool {
        if std::mem::discriminant(&self.rule) != std::mem::discriminant(&other.rule) {
            return false;
        }
        let members = || {
            let mut pairs = self.members.iter().zip(&other.members);
            self.members.len() == other.members.len()
                && pairs.all(|((id, member), (other_id, other))| id == other_id && member.is_same(other))
        };
        self.version == other.version || (self.rule == other.rule && members())
    }
}

/// The text form as Apache prints it: sorted by id, without a line end after the version.
impl fmt::Display for Ensemble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, member) in &self.members {
            writeln!(f, "server.{id}={member}")?;
        }
        if let Rule::Hierarchical(Groups { group_of, weights }) = &self.rule {
            let mut groups: BTreeMap<i64, Vec<String>> = BTreeMap::new();
            group_of.iter().for_each(|(server, group)| groups.entry(*group).or_default().push(server.to_string()));
            for (group, servers) in groups {
                writeln!(f, "group.{group}={}", servers.join(":"))?;
            }
            for (server, weight) in weights {
                writeln!(f, "weight.{server}={weight}")?;
            }
        }
        write!(f, "version={:x}", self.version)
    }
}

impl Groups {
    fn complete(&mut self, members: &BTreeMap<ServerId, Member>) -> Result<(), EnsembleError> {
        if let Some(id) = self.participant_without_group(members) {
            return Err(EnsembleError::InNoGroup(id));
        }
        for (id, _) in members.iter().filter(|(_, member)| member.role == Role::Participant) {
            self.weights.entry(*id).or_insert(1);
        }
        if let Some(id) = self.group_of.keys().find(|id| !self.weights.contains_key(id)) {
            return Err(EnsembleError::NoWeight(*id));
        }
        let mut sum: i64 = 0;
        for (id, weight) in &self.weights {
            let added = sum.checked_add(*weight).filter(|_| 0 <= *weight);
            sum = added.ok_or(EnsembleError::Weight(*id))?;
        }
        Ok(())
    }

    /// The first participant that no group contains.
    fn participant_without_group(&self, members: &BTreeMap<ServerId, Member>) -> Option<ServerId> {
        let mut participants = members.iter().filter(|(_, member)| member.role == Role::Participant);
        participants.find(|(id, _)| !self.group_of.contains_key(id)).map(|(id, _)| *id)
    }
}

const VERSION: &str = "version";

/// Whether lines with this key describe servers or groups.
pub fn is_member_key(key: &str) -> bool {
    ["server.", "group", "weight"].iter().any(|start| key.starts_with(start))
}

/// Builds an ensemble from `key=value` lines of a file or text.
#[derive(Clone, Debug)]
pub struct EnsembleBuilder {
    addresses: Addresses,
    version: i64,
    members: BTreeMap<ServerId, Member>,
    groups: Option<Groups>,
}

impl EnsembleBuilder {
    pub fn new(addresses: Addresses) -> Self {
        Self { addresses, version: 0, members: BTreeMap::new(), groups: None }
    }

    /// Adds one line and ignores unrelated keys. Trailing blanks of the value are significant, as in Apache: a blank
    /// after a port is an error.
    pub fn add(&mut self, key: &str, value: &str) -> Result<(), EnsembleError> {
        if let Some(id) = key.strip_prefix("server.") {
            let id = ServerId(number(id)?);
            self.members.insert(id, Member::parse(id, value, self.addresses)?);
        } else if key.starts_with("group") {
            let group_of = &mut self.groups.get_or_insert_default().group_of;
            let group = number(after_dot(key))?;
            for id in text::split(value, ':') {
                let id = ServerId(number(id)?);
                if group_of.insert(id, group).is_some() {
                    return Err(EnsembleError::InSeveralGroups(id));
                }
            }
        } else if key.starts_with("weight") {
            let id = ServerId(number(after_dot(key))?);
            self.groups.get_or_insert_default().weights.insert(id, number(value)?);
        } else if key == VERSION {
            self.version = i64::from_str_radix(value, 16).map_err(|_| not_a_number(value, "a hexadecimal number"))?;
        }
        Ok(())
    }

    /// Sets the version when the lines do not carry it.
    pub fn set_version(&mut self, version: i64) {
        self.version = version;
    }

    /// Servers added so far.
    pub fn members(&self) -> &BTreeMap<ServerId, Member> {
        &self.members
    }

    /// The first participant that no group contains, if there are groups or weights at all.
    pub fn participant_without_group(&self) -> Option<ServerId> {
        self.groups.as_ref()?.participant_without_group(&self.members)
    }

    /// Validates the lines and returns the ensemble.
    pub fn finish(self) -> Result<Ensemble, EnsembleError> {
        let rule = self.groups.map_or(Rule::Majority, Rule::Hierarchical);
        Ensemble::new(self.version, self.members, rule)
    }
}

fn number(text: &str) -> Result<i64, EnsembleError> {
    text.parse().map_err(|_| not_a_number(text, "a whole number of 64 bits"))
}

fn not_a_number(text: &str, expected: &'static str) -> EnsembleError {
    EnsembleError::NotANumber { text: text.to_owned(), expected }
}

/// The part after the first dot, or the whole key if it has none.
fn after_dot(key: &str) -> &str {
    key.split_once('.').map_or(key, |(_, id)| id)
}

#[cfg(test)]
mod tests;
