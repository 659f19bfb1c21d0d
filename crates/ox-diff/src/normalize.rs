//! Normalizes frames to text for comparison: every field is included, except what Apache leaves unspecified (see the
//! crate's list of normalisations).

use crate::request::ScriptRequest;
use crate::script::SessionName;
use crate::value::{canonical, hex};
use ox_proto::jute::{DecodeError, Reader};
use ox_proto::multi::MultiHeader;
use ox_proto::reply::ReplyHeader;
use ox_proto::{OpCode, Stat, Zxid};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maps a server's session ids to names of the script.
#[derive(Clone, Debug, Default)]
pub struct SessionNames {
    /// Ids of all sessions that the server created.
    pub sessions: BTreeMap<i64, SessionName>,
}

impl SessionNames {
    fn owner(&self, session: i64) -> String {
        match self.sessions.get(&session) {
            _ if session == 0 => "none".to_owned(),
            Some(name) => name.to_string(),
            None => format!("{session:#x}"),
        }
    }
}

/// Facts about the tree in a reply, for the generator of further requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyFacts {
    /// Error code of the header.
    pub err: i32,
    /// Created paths, in the order of the elements.
    pub created: Vec<String>,
    /// The last stat of the body.
    pub stat: Option<Stat>,
    pub children: Vec<String>,
    /// Error codes of the elements of a multi.
    pub results: Vec<i32>,
}

/// A normalized reply body.
#[derive(Clone, Debug, Default)]
pub struct Normalized {
    pub text: String,
    pub facts: ReplyFacts,
}

/// Normalizes the reply to `request`.
pub fn reply(request: &ScriptRequest, header: ReplyHeader, body: &[u8], names: &SessionNames) -> Normalized {
    let mut writer = Writer { normalized: Normalized::default(), names, from: Reader::new(body) };
    writer.normalized.facts.err = header.err;
    let decoded = match request.known() {
        Some(op) if !body.is_empty() => writer.body(op),
        _ => Ok(()),
    };
    writer.finish(decoded)
}

/// Normalizes the body of a notification.
pub fn event(body: &[u8], names: &SessionNames) -> Normalized {
    let mut writer = Writer { normalized: Normalized::default(), names, from: Reader::new(body) };
    let decoded = writer.event();
    writer.finish(decoded)
}

struct Writer<'a> {
    normalized: Normalized,
    names: &'a SessionNames,
    from: Reader<'a>,
}

type Decoded = Result<(), DecodeError>;

impl<'a> Writer<'a> {
    fn finish(mut self, decoded: Decoded) -> Normalized {
        let rest = self.from.rest();
        if let Err(error) = decoded {
            self.field("undecodable", format!("({error}) {}", hex(rest)));
        } else if !rest.is_empty() {
            self.field("trailing", hex(rest));
        }
        self.normalized
    }

    fn field(&mut self, name: &str, value: impl std::fmt::Display) {
        let blank = if self.normalized.text.is_empty() { "" } else { " " };
        let _ = write!(self.normalized.text, "{blank}{name}={value}"); // writing to a string cannot fail
    }

    fn bytes(&mut self, name: &str) -> Result<Option<&'a [u8]>, DecodeError> {
        let bytes = self.from.get::<Option<&[u8]>>()?;
        self.field(name, canonical(bytes));
        Ok(bytes)
    }

    fn number(&mut self, name: &str) -> Decoded {
        let number = self.from.get::<i32>()?;
        self.field(name, number);
        Ok(())
    }

    fn body(&mut self, op: OpCode) -> Decoded {
        match op {
            OpCode::Create => self.created(),
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                self.created()?;
                self.stat()
            }
            OpCode::Exists | OpCode::SetData | OpCode::SetAcl => self.stat(),
            OpCode::GetData | OpCode::Reconfig => {
                self.bytes("data")?;
                self.stat()
            }
            OpCode::GetAcl => {
                self.acls()?;
                self.stat()
            }
            OpCode::GetChildren => self.children(),
            OpCode::GetChildren2 => {
                self.children()?;
                self.stat()
            }
            OpCode::GetEphemerals => {
                let paths = self.sorted()?;
                self.field("paths", paths.join(","));
                Ok(())
            }
            OpCode::Sync => self.bytes("path").map(|_| ()),
            OpCode::Sasl => self.bytes("token").map(|_| ()),
            OpCode::GetAllChildrenNumber => self.number("total"),
            OpCode::AddWatch => self.number("code"),
            OpCode::WhoAmI => self.identities(),
            OpCode::Multi | OpCode::MultiRead => self.results(),
            OpCode::CloseSession
            | OpCode::CreateSession
            | OpCode::Error
            | OpCode::Delete
            | OpCode::Ping
            | OpCode::Check
            | OpCode::CheckWatches
            | OpCode::RemoveWatches
            | OpCode::DeleteContainer
            | OpCode::Auth
            | OpCode::SetWatches
            | OpCode::SetWatches2 => Ok(()),
        }
    }

    fn created(&mut self) -> Decoded {
        let path = self.bytes("path")?;
        let path = path.map(|path| String::from_utf8_lossy(path).into_owned());
        self.normalized.facts.created.extend(path);
        Ok(())
    }

    fn stat(&mut self) -> Decoded {
        let stat = self.from.get::<Stat>()?;
        for (name, Zxid(zxid)) in [("czxid", stat.czxid), ("mzxid", stat.mzxid), ("pzxid", stat.pzxid)] {
            self.field(name, zxid);
        }
        self.field("version", stat.version);
        self.field("cversion", stat.cversion);
        self.field("aversion", stat.aversion);
        self.field("owner", self.names.owner(stat.ephemeral_owner));
        self.field("length", stat.data_length);
        self.field("children", stat.num_children);
        self.field("times", times(&stat));
        self.normalized.facts.stat = Some(stat);
        Ok(())
    }

    fn acls(&mut self) -> Decoded {
        let mut entries = Vec::new();
        let count = self.from.count()?;
        for _ in 0..count.unwrap_or(0) {
            let perms = self.from.get::<i32>()?;
            let (scheme, id) = (self.from.get::<Option<&[u8]>>()?, self.from.get::<Option<&[u8]>>()?);
            entries.push((perms, canonical(scheme), canonical(id)));
        }
        // An `auth` entry expands to the connection's identities in any order: sort runs of equal permissions.
        entries.chunk_by_mut(|a, b| a.0 == b.0 && a.1 == "\"digest\"" && b.1 == a.1).for_each(<[_]>::sort);
        let entries: Vec<_> = entries.iter().map(|(perms, scheme, id)| format!("{perms}:{scheme}:{id}")).collect();
        self.field("acl", if count.is_none() { "null".to_owned() } else { format!("[{}]", entries.join(",")) });
        Ok(())
    }

    fn sorted(&mut self) -> Result<Vec<String>, DecodeError> {
        let Some(count) = self.from.count()? else { return Ok(vec!["null-list".to_owned()]) };
        let mut texts = Vec::new();
        for _ in 0..count {
            texts.push(canonical(self.from.get::<Option<&[u8]>>()?));
        }
        texts.sort_unstable();
        Ok(texts)
    }

    fn children(&mut self) -> Decoded {
        let from = self.from.clone();
        let names = self.sorted()?;
        self.field("names", format!("[{}]", names.join(",")));
        let mut from = from;
        if let Some(names) = from.get::<Option<Vec<Option<&[u8]>>>>()? {
            let names = names.into_iter().flatten().map(|name| String::from_utf8_lossy(name).into_owned());
            self.normalized.facts.children = names.collect();
            self.normalized.facts.children.sort_unstable();
        }
        Ok(())
    }

    fn identities(&mut self) -> Decoded {
        let mut identities = Vec::new();
        for _ in 0..self.from.count()?.unwrap_or(0) {
            let (scheme, user) = (self.from.get::<Option<&[u8]>>()?, self.from.get::<Option<&[u8]>>()?);
            identities.push(format!("{}:{}", canonical(scheme), canonical(user)));
        }
        identities.sort_unstable();
        self.field("identities", identities.join(","));
        Ok(())
    }

    fn results(&mut self) -> Decoded {
        loop {
            let header = self.from.get::<MultiHeader>()?;
            if header.done {
                self.field("end", format!("{}/{}", header.op, header.err));
                return Ok(());
            }
            self.field("result", format!("{}/{}", header.op, header.err));
            self.normalized.facts.results.push(header.err);
            match OpCode::try_from(header.op) {
                Ok(OpCode::Error) => self.number("code")?,
                Ok(op) => self.body(op)?,
                Err(unknown) => return Err(DecodeError::UnknownType(unknown)),
            }
        }
    }

    fn event(&mut self) -> Decoded {
        self.number("type")?;
        self.number("state")?;
        self.bytes("path").map(|_| ())
    }
}

/// Times are compared by kind only: unset, recent, or the number itself if it is neither. A node that never changed
/// must have equal ctime and mtime.
fn times(stat: &Stat) -> String {
    let unchanged = stat.czxid == stat.mzxid && stat.version == 0;
    let relation = if unchanged && stat.ctime != stat.mtime { " but unequal" } else { "" };
    format!("{}/{}{relation}", time_kind(stat.ctime), time_kind(stat.mtime))
}

fn time_kind(time_ms: i64) -> String {
    const DAY_MS: u64 = 86_400_000;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs()) * 1000;
    match time_ms {
        0 => "unset".to_owned(),
        _ if time_ms.cast_unsigned().abs_diff(now_ms) < DAY_MS => "recent".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::Cursor;
    use ox_proto::jute::{Jute as _, put_count, put_text};

    fn describe(request: &str, body: &[u8], names: &SessionNames) -> String {
        let mut cursor = Cursor::new(request).unwrap();
        let verb = cursor.word().unwrap();
        let request = ScriptRequest::parse(&verb, &mut cursor).unwrap();
        reply(&request, ReplyHeader { xid: 1, zxid: Zxid(1), err: 0 }, body, names).text
    }

    #[test]
    fn children_are_sorted_and_trailing_bytes_are_kept() {
        let mut body = Vec::new();
        put_count(&mut body, 2);
        put_text(&mut body, "b");
        put_text(&mut body, "a");
        assert_eq!(describe("getChildren /", &body, &SessionNames::default()), "names=[\"a\",\"b\"]");
        body.push(7);
        assert_eq!(describe("getChildren /", &body, &SessionNames::default()), "names=[\"a\",\"b\"] trailing=07");
        assert!(describe("getChildren /", &body[..9], &SessionNames::default()).starts_with("undecodable="));
    }

    #[test]
    fn ephemeral_owner_is_named() {
        let mut body = Vec::new();
        Stat { ephemeral_owner: 77, ..Stat::default() }.put(&mut body);
        let mut names = SessionNames { sessions: BTreeMap::from([(77, SessionName('A'))]) };
        assert!(describe("exists /", &body, &names).contains("owner=A"));
        names.sessions.clear();
        assert!(describe("exists /", &body, &names).contains("owner=0x4d"));
    }

    #[test]
    fn expanded_identities_are_sorted() {
        let list = |ids: [&str; 3]| {
            let mut body = Vec::new();
            put_count(&mut body, 3);
            for (perms, id) in [31, 31, 1].into_iter().zip(ids) {
                perms.put(&mut body);
                put_text(&mut body, "digest");
                put_text(&mut body, id);
            }
            Stat::default().put(&mut body);
            describe("getACL /", &body, &SessionNames::default())
        };
        assert_eq!(list(["a:x", "b:x", "c:x"]), list(["b:x", "a:x", "c:x"]));
        assert_ne!(list(["a:x", "b:x", "c:x"]), list(["a:x", "c:x", "b:x"]));
    }
}
