//! The words of a command, and packets written in words.

use crate::reconfig_txn::record_of;
use bytes::Bytes;
use ox_proto::ensemble::Ensemble;
use ox_proto::{SessionId, Zxid};
use ox_zab::{
    EncodedTxn, Epoch, LearnerKind, Message, PeerState, Request, ServerId, Vote, VoteNotification, ZxidRange,
};
use std::str::FromStr;

/// The words after the name of a command: plain words, and `key=value`. Each is taken once, and none may remain.
pub(super) struct Args<'a>(Vec<&'a str>);

impl<'a> Args<'a> {
    pub(super) fn new(words: &'a str) -> Self {
        Self(words.split_whitespace().collect())
    }

    /// The next word without a `=`.
    pub(super) fn word(&mut self) -> Result<&'a str, String> {
        let at = self.0.iter().position(|word| !word.contains('=')).ok_or("a word is missing")?;
        Ok(self.0.remove(at))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    pub(super) fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|word| *word != name);
        self.0.len() < before
    }

    fn text(&mut self, key: &str) -> Option<&'a str> {
        let value = |word: &&'a str| word.strip_prefix(key)?.strip_prefix('=');
        let at = self.0.iter().position(|word| value(word).is_some())?;
        value(&self.0.remove(at))
    }

    /// The value of a key, if there is one.
    pub(super) fn get<T: Word>(&mut self, key: &str) -> Result<Option<T>, String> {
        self.text(key).map(|text| T::parse(text).map_err(|error| format!("{key}={text}: {error}"))).transpose()
    }

    pub(super) fn millis(&mut self, key: &str) -> Result<Option<i64>, String> {
        Ok(self.get::<Millis>(key)?.map(|Millis(ms)| ms))
    }

    /// The value of a key that must be there.
    pub(super) fn need<T: Word>(&mut self, key: &str) -> Result<T, String> {
        self.get(key)?.ok_or_else(|| format!("{key}= is missing"))
    }

    pub(super) fn next<T: Word>(&mut self) -> Result<T, String> {
        let word = self.word()?;
        T::parse(word).map_err(|error| format!("{word}: {error}"))
    }

    pub(super) fn end(self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(format!("unknown: {}", self.0.join(" "))) }
    }

    /// The configuration of `voters=`, `observers=` and `version=`.
    pub(super) fn ensemble(&mut self) -> Result<Ensemble, String> {
        let voters: Vec<ServerId> = self.need("voters")?;
        let observers: Option<Vec<ServerId>> = self.get("observers")?;
        let version: Option<Zxid> = self.get("version")?;
        Ensemble::of_numbers(version.unwrap_or(Zxid::ZERO).0, voters, observers.unwrap_or_default())
            .map_err(|error| error.to_string())
    }

    /// A notification: `LOOKING leader=2 zxid=1:5 epoch=1 round=1`.
    pub(super) fn notification(&mut self) -> Result<VoteNotification, String> {
        let state = match self.word()? {
            "LOOKING" => PeerState::Looking,
            "FOLLOWING" => PeerState::Following,
            "LEADING" => PeerState::Leading,
            "OBSERVING" => PeerState::Observing,
            other => return Err(format!("{other} is no state of a peer")),
        };
        let vote = Vote { leader: self.need("leader")?, zxid: self.need("zxid")?, epoch: self.need("epoch")? };
        Ok(VoteNotification { state, vote, round: self.need("round")?, has_version: true })
    }

    /// A packet of `server`: `ACKEPOCH zxid=1:5 epoch=1`.
    pub(super) fn message(&mut self, server: ServerId) -> Result<Message, String> {
        let name = self.word()?;
        Ok(match name {
            "FOLLOWERINFO" | "OBSERVERINFO" => {
                let kind = if name == "FOLLOWERINFO" { LearnerKind::Follower } else { LearnerKind::Observer };
                let config: Option<Zxid> = self.get("config")?;
                let accepted = self.need("accepted")?;
                Message::Hello { server, kind, accepted, config_version: config.unwrap_or(Zxid::ZERO).0 }
            }
            "LEADERINFO" => Message::LeaderInfo(self.need("epoch")?),
            "ACKEPOCH" => Message::AckEpoch { last: self.need("zxid")?, current: self.get("epoch")? },
            "DIFF" => Message::Diff(self.next()?),
            "TRUNC" => Message::Trunc(self.next()?),
            "SNAP" => Message::Snap(self.next()?),
            "PROPOSAL" => Message::Proposal(self.txn()?),
            "COMMIT" => Message::commits(self.next()?),
            "INFORM" => Message::Inform(self.txn()?),
            "COMMITANDACTIVATE" => Message::CommitAndActivate(self.next()?, self.need("leader")?),
            "NEWLEADER" => Message::NewLeader { epoch: self.need("epoch")?, config: Bytes::new() },
            "UPTODATE" => Message::UpToDate,
            "ACK" => Message::Ack(self.next()?),
            "PING" => Message::Ping(self.next()?),
            "PONG" => Message::Pong(self.next()?, Bytes::new()),
            "REQUEST" => {
                let body = Bytes::from(vec![0; self.get("bytes")?.unwrap_or(0)]);
                Message::Request(Request { session: SessionId(1), cxid: 1, op: 1, body, ids: Bytes::new() })
            }
            "REVALIDATE" => Message::Revalidate(SessionId(1), 1_000),
            "REVALIDATED" => Message::Revalidated(SessionId(1), true),
            "SYNC" => Message::Sync,
            other => return Err(format!("{other} is no packet")),
        })
    }

    /// A transaction: its zxid, and the size of its record or the members that it proposes.
    fn txn(&mut self) -> Result<EncodedTxn, String> {
        let zxid = self.next()?;
        self.txn_at(zxid)
    }

    pub(super) fn txn_at(&mut self, zxid: Zxid) -> Result<EncodedTxn, String> {
        let record = if self.flag("reconfig") {
            let is_damaged = self.flag("damaged");
            let config = self.ensemble()?.with_version(zxid.0).map_err(|error| error.to_string())?;
            let record = record_of(&config, zxid);
            let at = record.windows(7).position(|part| part == b"server.").filter(|_| is_damaged);
            record.iter().enumerate().map(|(i, byte)| if at == Some(i) { b'x' } else { *byte }).collect()
        } else {
            Bytes::from(vec![0; self.get("bytes")?.unwrap_or(0)])
        };
        Ok(EncodedTxn { zxid, record })
    }
}

/// A value that is written as one word.
pub(super) trait Word: Sized {
    fn parse(text: &str) -> Result<Self, String>;
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "is no number".to_owned())
}

/// `none` is Apache's mark for the fields of a vote without a candidate.
impl Word for i64 {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Self::MIN) } else { number(text) }
    }
}

impl Word for usize {
    fn parse(text: &str) -> Result<Self, String> {
        number(text)
    }
}

impl Word for Epoch {
    fn parse(text: &str) -> Result<Self, String> {
        number(text).map(Self)
    }
}

impl Word for ServerId {
    fn parse(text: &str) -> Result<Self, String> {
        i64::parse(text).map(Self)
    }
}

/// `EPOCH:COUNTER`, or a plain number.
impl Word for Zxid {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((epoch, counter)) => Ok(Self::new(number(epoch)?, number(counter)?)),
            None => i64::parse(text).map(Self),
        }
    }
}

impl Word for ZxidRange {
    fn parse(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        Ok(Self { first: Zxid::parse(first)?, last: Zxid::parse(last)? })
    }
}

/// Values with commas between them.
impl<T: Word> Word for Vec<T> {
    fn parse(text: &str) -> Result<Self, String> {
        text.split(',').map(T::parse).collect()
    }
}

/// From one server to another: `2->1`.
#[derive(Clone, Copy)]
pub(super) struct Direction(pub(super) ServerId, pub(super) ServerId);

impl Word for Direction {
    fn parse(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("->").ok_or("is no direction such as 2->1")?;
        Ok(Self(ServerId::parse(from)?, ServerId::parse(to)?))
    }
}

/// A time in milliseconds: `200ms` or `5s`.
pub(super) struct Millis(pub(super) i64);

impl Word for Millis {
    fn parse(text: &str) -> Result<Self, String> {
        match (text.strip_suffix("ms"), text.strip_suffix('s')) {
            (Some(ms), _) => number(ms).map(Self),
            (None, Some(seconds)) => number::<i64>(seconds).map(|seconds| Self(seconds * 1_000)),
            (None, None) => Err("has no unit: ms or s".to_owned()),
        }
    }
}
