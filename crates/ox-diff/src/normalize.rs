//! The form in which two servers' frames are compared: text with every field in it, and with exactly that removed which
//! Apache leaves open (see the crate's list of normalisations).

use crate::request::Request;
use crate::script::Name;
use crate::value::{canonical, hex};
use ox_proto::jute::{DecodeError, Reader};
use ox_proto::multi::MultiHeader;
use ox_proto::reply::ReplyHeader;
use ox_proto::{OpCode, Stat, Zxid};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is needed to name a server's own numbers.
#[derive(Clone, Debug, Default)]
pub struct Naming {
    /// Session ids that the server has handed out.
    pub sessions: BTreeMap<i64, Name>,
}

impl Naming {
    fn owner(&self, session: i64) -> String {
        match self.sessions.get(&session) {
            _ if session == 0 => "none".to_owned(),
            Some(name) => name.to_string(),
            None => format!("{session:#x}"),
        }
    }
}

/// What a reply says about the tree, for whoever plans the next requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Error code of the header.
    pub err: i32,
    /// Paths that were created, in order of the elements.
    pub created: Vec<String>,
    /// The last stat of the body.
    pub stat: Option<Stat>,
    /// Names of children.
    pub children: Vec<String>,
    /// Codes of the elements of a multi.
    pub results: Vec<i32>,
}

/// A reply body in canonical form.
#[derive(Clone, Debug, Default)]
pub struct Canon {
    /// The text to compare.
    pub text: String,
    /// What it says.
    pub outcome: Outcome,
}

/// Describes the reply to `request`.
pub fn reply(request: &Request, header: ReplyHeader, body: &[u8], naming: &Naming) -> Canon {
    let mut writer = Writer { canon: Canon::default(), naming, from: Reader::new(body) };
    writer.canon.outcome.err = header.err;
    let decoded = match request.known() {
        Some(op) if !body.is_empty() => writer.body(op),
        _ => Ok(()),
    };
    writer.finish(decoded)
}

/// Describes the body of a notification.
pub fn event(body: &[u8], naming: &Naming) -> Canon {
    let mut writer = Writer { canon: Canon::default(), naming, from: Reader::new(body) };
    let decoded = writer.event();
    writer.finish(decoded)
}

struct Writer<'a> {
    canon: Canon,
    naming: &'a Naming,
    from: Reader<'a>,
}

type Decoded = Result<(), DecodeError>;

impl<'a> Writer<'a> {
    fn finish(mut self, decoded: Decoded) -> Canon {
        let rest = self.from.rest();
        if let Err(error) = decoded {
            self.field("undecodable", format!("({error}) {}", hex(rest)));
        } else if !rest.is_empty() {
            self.field("behind", hex(rest));
        }
        self.canon
    }

    fn field(&mut self, name: &str, value: impl std::fmt::Display) {
        let blank = if self.canon.text.is_empty() { "" } else { " " };
        let _ = write!(self.canon.text, "{blank}{name}={value}"); // writing to a string cannot fail
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
        self.canon.outcome.created.extend(path);
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
        self.field("owner", self.naming.owner(stat.ephemeral_owner));
        self.field("length", stat.data_length);
        self.field("children", stat.num_children);
        self.field("times", times(&stat));
        self.canon.outcome.stat = Some(stat);
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
        // An `auth` entry expands to the connection's identities in any order: one run of equal permissions.
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
            self.canon.outcome.children = names.collect();
            self.canon.outcome.children.sort_unstable();
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
            self.canon.outcome.results.push(header.err);
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

/// Times are compared by kind only: unset, recent, or the number itself when it is neither. A node that was never
/// changed must have been modified when it was created.
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

    fn describe(request: &str, body: &[u8], naming: &Naming) -> String {
        let mut cursor = Cursor::new(request).unwrap();
        let verb = cursor.word().unwrap();
        let request = Request::parse(&verb, &mut cursor).unwrap();
        reply(&request, ReplyHeader { xid: 1, zxid: Zxid(1), err: 0 }, body, naming).text
    }

    #[test]
    fn children_are_sorted_and_the_rest_is_shown() {
        let mut body = Vec::new();
        put_count(&mut body, 2);
        put_text(&mut body, "b");
        put_text(&mut body, "a");
        assert_eq!(describe("getChildren /", &body, &Naming::default()), "names=[\"a\",\"b\"]");
        body.push(7);
        assert_eq!(describe("getChildren /", &body, &Naming::default()), "names=[\"a\",\"b\"] behind=07");
        assert!(describe("getChildren /", &body[..9], &Naming::default()).starts_with("undecodable="));
    }

    #[test]
    fn owners_are_named() {
        let mut body = Vec::new();
        Stat { ephemeral_owner: 77, ..Stat::default() }.put(&mut body);
        let mut naming = Naming { sessions: BTreeMap::from([(77, Name('A'))]) };
        assert!(describe("exists /", &body, &naming).contains("owner=A"));
        naming.sessions.clear();
        assert!(describe("exists /", &body, &naming).contains("owner=0x4d"));
    }

    #[test]
    fn expanded_identities_have_no_order() {
        let list = |ids: [&str; 3]| {
            let mut body = Vec::new();
            put_count(&mut body, 3);
            for (perms, id) in [31, 31, 1].into_iter().zip(ids) {
                perms.put(&mut body);
                put_text(&mut body, "digest");
                put_text(&mut body, id);
            }
            Stat::default().put(&mut body);
            describe("getACL /", &body, &Naming::default())
        };
        assert_eq!(list(["a:x", "b:x", "c:x"]), list(["b:x", "a:x", "c:x"]));
        assert_ne!(list(["a:x", "b:x", "c:x"]), list(["a:x", "c:x", "b:x"]));
    }
}
