//! Syntax of requests: `verb field.. key=value..`, one verb per operation, and `op NUMBER HEX` for any other opcode.
//!
//! Printing and parsing are inverse, so a printed script can be run.

use crate::acl::ScriptAcl;
use crate::request::{RequestBody, ScriptElement, ScriptRequest, ZxidRef};
use crate::tokenizer::Cursor;
use crate::value::{FieldValue, hex, unhex};
use anyhow::{Context as _, Result, bail, ensure};
use ox_proto::OpCode;
use std::collections::BTreeMap;
use std::fmt;

/// Names of the lists of setWatches and setWatches2, in wire order.
const LISTS: [&str; 5] = ["data", "exist", "child", "persistent", "recursive"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Empty,
    Create,
    CreateTtl,
    PathVersion,
    PathWatch,
    SetData,
    Path,
    SetAcl,
    Reconfig,
    PathType,
    PathMode,
    Auth,
    Token,
    SetWatches(usize),
    Multi,
}

fn shape(op: OpCode) -> Shape {
    match op {
        OpCode::CloseSession | OpCode::CreateSession | OpCode::Error | OpCode::Ping | OpCode::WhoAmI => Shape::Empty,
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer => Shape::Create,
        OpCode::CreateTtl => Shape::CreateTtl,
        OpCode::Delete | OpCode::Check => Shape::PathVersion,
        OpCode::Exists | OpCode::GetData | OpCode::GetChildren | OpCode::GetChildren2 => Shape::PathWatch,
        OpCode::SetData => Shape::SetData,
        OpCode::GetAcl
        | OpCode::Sync
        | OpCode::DeleteContainer
        | OpCode::GetEphemerals
        | OpCode::GetAllChildrenNumber => Shape::Path,
        OpCode::SetAcl => Shape::SetAcl,
        OpCode::Reconfig => Shape::Reconfig,
        OpCode::CheckWatches | OpCode::RemoveWatches => Shape::PathType,
        OpCode::AddWatch => Shape::PathMode,
        OpCode::Auth => Shape::Auth,
        OpCode::Sasl => Shape::Token,
        OpCode::SetWatches => Shape::SetWatches(3),
        OpCode::SetWatches2 => Shape::SetWatches(5),
        OpCode::Multi | OpCode::MultiRead => Shape::Multi,
    }
}

impl ZxidRef {
    pub(crate) fn parse(word: &str) -> Result<Self> {
        let parsed = match word.strip_prefix("last") {
            Some("") => Some(Self::Last(0)),
            Some(offset) => offset.parse().ok().map(Self::Last),
            None => word.parse().ok().map(Self::Exactly),
        };
        parsed.with_context(|| format!("{word:?} is neither a zxid nor last, last-N, last+N"))
    }
}

impl fmt::Display for ZxidRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(zxid) => write!(f, "{zxid}"),
            Self::Last(0) => f.write_str("last"),
            Self::Last(offset) => write!(f, "last{offset:+}"),
        }
    }
}

impl ScriptRequest {
    /// Parses a request after its verb.
    pub fn parse(verb: &str, cursor: &mut Cursor) -> Result<Self> {
        let (op, body, mut extra) = parse_operation(verb, cursor)?;
        let request = Self {
            op,
            body,
            xid: extra.take("xid")?,
            cut: extra.take("cut")?,
            tail: match extra.scalar("tail")? {
                Some(tail) => tail.as_str().and_then(unhex).context("tail is hex")?,
                None => Vec::new(),
            },
        };
        extra.finish()?;
        Ok(request)
    }
}

impl fmt::Display for ScriptRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_operation(self.op, &self.body, f)?;
        if let Some(xid) = self.xid {
            write!(f, " xid={xid}")?;
        }
        if let Some(cut) = self.cut {
            write!(f, " cut={cut}")?;
        }
        if !self.tail.is_empty() {
            write!(f, " tail={}", hex(&self.tail))?;
        }
        Ok(())
    }
}

/// The `key=value` fields and flags after the positional fields.
struct Extra(BTreeMap<String, Field>);

enum Field {
    Flag,
    Scalar(FieldValue),
    List(Vec<FieldValue>),
}

impl Extra {
    fn parse(cursor: &mut Cursor) -> Result<Self> {
        let mut fields = BTreeMap::new();
        while let Some(key) = cursor.peek_word().map(str::to_owned) {
            cursor.word()?;
            let field = if !cursor.eat('=') {
                Field::Flag
            } else if cursor.eat('[') {
                let mut list = Vec::new();
                while !cursor.eat(']') {
                    list.push(cursor.value()?);
                    cursor.eat(',');
                }
                Field::List(list)
            } else {
                Field::Scalar(cursor.value()?)
            };
            ensure!(fields.insert(key.clone(), field).is_none(), "{key} occurs twice");
        }
        Ok(Self(fields))
    }

    fn scalar(&mut self, key: &str) -> Result<Option<FieldValue>> {
        match self.0.remove(key) {
            None => Ok(None),
            Some(Field::Scalar(value)) => Ok(Some(value)),
            Some(Field::Flag | Field::List(_)) => bail!("{key} needs one value"),
        }
    }

    fn take<T: std::str::FromStr>(&mut self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.scalar(key)? else { return Ok(None) };
        let number = value.as_str().and_then(|text| text.parse().ok());
        number.map(Some).with_context(|| format!("{key}={value} is not a number of the right size"))
    }

    fn flag(&mut self, key: &str) -> bool {
        matches!(self.0.remove(key), Some(Field::Flag))
    }

    fn list(&mut self, key: &str) -> Result<Option<Vec<FieldValue>>> {
        match self.0.remove(key) {
            None => Ok(Some(Vec::new())),
            Some(Field::List(list)) => Ok(Some(list)),
            Some(Field::Scalar(FieldValue::NULL)) => Ok(None),
            Some(Field::Flag | Field::Scalar(_)) => bail!("{key} needs a list"),
        }
    }

    fn finish(self) -> Result<()> {
        ensure!(self.0.is_empty(), "unknown fields {:?}", self.0.keys().collect::<Vec<_>>());
        Ok(())
    }
}

fn parse_operation(verb: &str, cursor: &mut Cursor) -> Result<(i32, RequestBody, Extra)> {
    if verb == "op" {
        let (op, bytes) = (cursor.number()?, cursor.hex()?);
        return Ok((op, RequestBody::Raw(bytes), Extra::parse(cursor)?));
    }
    let op = OpCode::ALL.iter().copied().find(|op| op.name() == verb);
    let op = op.with_context(|| format!("unknown verb {verb:?}"))?;
    let shape = shape(op);
    if shape == Shape::Multi {
        let elements = parse_elements(cursor)?;
        let mut extra = Extra::parse(cursor)?;
        let ended = !extra.flag("unended");
        return Ok((op.code(), RequestBody::Multi { elements, ended }, extra));
    }
    let (body, extra) = parse_fields(shape, cursor)?;
    Ok((op.code(), body, extra))
}

fn parse_elements(cursor: &mut Cursor) -> Result<Vec<ScriptElement>> {
    cursor.mark('[')?;
    let mut elements = Vec::new();
    while !cursor.eat(']') {
        let verb = cursor.word()?;
        let (op, body, extra) = parse_operation(&verb, cursor)?;
        extra.finish()?;
        elements.push(ScriptElement { op, body });
        cursor.eat(';');
    }
    Ok(elements)
}

fn parse_fields(shape: Shape, cursor: &mut Cursor) -> Result<(RequestBody, Extra)> {
    const ANY: i32 = -1;
    let mut value = || cursor.value();
    Ok(match shape {
        Shape::Empty | Shape::Multi => (RequestBody::Empty, Extra::parse(cursor)?),
        Shape::Create | Shape::CreateTtl => {
            let (path, data) = (value()?, value()?);
            let acl = ScriptAcl::parse(cursor)?;
            let mut extra = Extra::parse(cursor)?;
            let flags = extra.take("flags")?.unwrap_or_default();
            let body = if shape == Shape::CreateTtl {
                RequestBody::CreateTtl { path, data, acl, flags, ttl_ms: extra.take("ttl")?.context("ttl")? }
            } else {
                RequestBody::Create { path, data, acl, flags }
            };
            (body, extra)
        }
        Shape::PathVersion => {
            let (path, mut extra) = (value()?, Extra::parse(cursor)?);
            (RequestBody::PathVersion { path, version: extra.take("version")?.unwrap_or(ANY) }, extra)
        }
        Shape::PathWatch => {
            let (path, mut extra) = (value()?, Extra::parse(cursor)?);
            (RequestBody::PathWatch { path, watch: extra.flag("watch") }, extra)
        }
        Shape::SetData => {
            let (path, data) = (value()?, value()?);
            let mut extra = Extra::parse(cursor)?;
            (RequestBody::SetData { path, data, version: extra.take("version")?.unwrap_or(ANY) }, extra)
        }
        Shape::Path => (RequestBody::Path { path: value()? }, Extra::parse(cursor)?),
        Shape::SetAcl => {
            let (path, acl) = (value()?, ScriptAcl::parse(cursor)?);
            let mut extra = Extra::parse(cursor)?;
            (RequestBody::SetAcl { path, acl, version: extra.take("version")?.unwrap_or(ANY) }, extra)
        }
        Shape::Reconfig => {
            let (joining, leaving, members) = (value()?, value()?, value()?);
            let mut extra = Extra::parse(cursor)?;
            (RequestBody::Reconfig { joining, leaving, members, config: extra.take("config")?.unwrap_or(-1) }, extra)
        }
        Shape::PathType | Shape::PathMode => {
            let (path, mut extra) = (value()?, Extra::parse(cursor)?);
            let key = if shape == Shape::PathType { "type" } else { "mode" };
            (RequestBody::PathKind { path, kind: extra.take(key)?.context(key)? }, extra)
        }
        Shape::Auth => (RequestBody::Auth { scheme: value()?, auth: value()? }, Extra::parse(cursor)?),
        Shape::Token => (RequestBody::Token { token: value()? }, Extra::parse(cursor)?),
        Shape::SetWatches(count) => {
            let seen = ZxidRef::parse(&cursor.word()?)?;
            let mut extra = Extra::parse(cursor)?;
            let lists = LISTS[..count].iter().map(|name| extra.list(name)).collect::<Result<_>>()?;
            (RequestBody::SetWatches { seen, lists }, extra)
        }
    })
}

fn print_operation(op: i32, body: &RequestBody, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let RequestBody::Raw(bytes) = body {
        let bytes = if bytes.is_empty() { "empty".to_owned() } else { hex(bytes) };
        return write!(f, "op {op} {bytes}");
    }
    match OpCode::try_from(op) {
        Ok(known) => f.write_str(known.name())?,
        Err(unknown) => write!(f, "?{unknown}")?,
    }
    match body {
        RequestBody::Empty | RequestBody::Raw(_) => Ok(()),
        RequestBody::Create { path, data, acl, flags } => write!(f, " {path} {data} {acl} flags={flags}"),
        RequestBody::CreateTtl { path, data, acl, flags, ttl_ms } => {
            write!(f, " {path} {data} {acl} flags={flags} ttl={ttl_ms}")
        }
        RequestBody::PathVersion { path, version } => write!(f, " {path} version={version}"),
        RequestBody::PathWatch { path, watch } => write!(f, " {path}{}", if *watch { " watch" } else { "" }),
        RequestBody::SetData { path, data, version } => write!(f, " {path} {data} version={version}"),
        RequestBody::Path { path } => write!(f, " {path}"),
        RequestBody::SetAcl { path, acl, version } => write!(f, " {path} {acl} version={version}"),
        RequestBody::Reconfig { joining, leaving, members, config } => {
            write!(f, " {joining} {leaving} {members} config={config}")
        }
        RequestBody::PathKind { path, kind } => {
            let key = if op == OpCode::AddWatch.code() { "mode" } else { "type" };
            write!(f, " {path} {key}={kind}")
        }
        RequestBody::Auth { scheme, auth } => write!(f, " {scheme} {auth}"),
        RequestBody::Token { token } => write!(f, " {token}"),
        RequestBody::SetWatches { seen, lists } => {
            write!(f, " {seen}")?;
            LISTS.iter().zip(lists).try_for_each(|(name, list)| print_list(name, list.as_deref(), f))
        }
        RequestBody::Multi { elements, ended } => {
            f.write_str(" [")?;
            for (index, element) in elements.iter().enumerate() {
                f.write_str(if index == 0 { " " } else { " ; " })?;
                print_operation(element.op, &element.body, f)?;
            }
            f.write_str(if *ended { " ]" } else { " ] unended" })
        }
    }
}

fn print_list(name: &str, list: Option<&[FieldValue]>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(paths) = list else { return write!(f, " {name}=null") };
    if paths.is_empty() {
        return Ok(());
    }
    let paths: Vec<_> = paths.iter().map(FieldValue::to_string).collect();
    write!(f, " {name}=[{}]", paths.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> ScriptRequest {
        let mut cursor = Cursor::new(line).unwrap();
        let verb = cursor.word().unwrap();
        let request = ScriptRequest::parse(&verb, &mut cursor).unwrap();
        assert!(cursor.at_end(), "{line}");
        request
    }

    #[test]
    fn every_verb_round_trips() {
        for line in [
            "create /a x world flags=0",
            "create2 null null none flags=3 xid=7",
            "createTTL /a *100 31:auth:null flags=5 ttl=1000",
            "delete /a version=-1 cut=3",
            "exists \"\" watch",
            "getData /a",
            "setData /a \"\" version=2 tail=00ff",
            "getACL /a",
            "setACL /a world version=-1",
            "ping",
            "closeSession",
            "reconfig null \"1,2\" null config=-1",
            "removeWatches /a type=3",
            "addWatch /a mode=1",
            "auth digest \"bob:bob\"",
            "sasl null",
            "setWatches last-1 data=[/a,/b] child=null",
            "setWatches2 0 recursive=[/]",
            "multi [ create /m x world flags=0 ; check /a version=0 ; op 7 00ff ]",
            "multiRead [ getData /a ; getChildren /b ] unended",
            "op 99 empty",
            "op 20 000000022f61",
        ] {
            let request = parse(line);
            assert_eq!(request.to_string(), line);
        }
    }

    #[test]
    fn requests_match_reference_bytes() {
        let mut out = Vec::new();
        parse("create /a x world").put_frame(&mut out, 1, 0);
        assert_eq!(
            hex(&out),
            "000000320000000100000001000000022f61000000017800000001\
             0000001f00000005776f726c6400000006616e796f6e6500000000"
        );
        out.clear();
        parse("setWatches last data=[/a]").put_frame(&mut out, -8, 0x10);
        assert_eq!(hex(&out), "00000022fffffff800000065000000000000001000000001000000022f610000000000000000");
        out.clear();
        parse("delete /a cut=2").put_frame(&mut out, 1, 0);
        assert_eq!(hex(&out), "0000000a00000001000000020000");
    }
}
