//! A snapshot as text: every node with its metadata, then the sessions.
//!
//! Nodes are printed in the order of the file, parents first, while they are read; memory does not grow with their
//! number.

use super::date::utc;
use super::json::{AclEntry, acl_entries, base64, hex};
use ox_proto::stat::StatPersisted;
use ox_proto::{RawAcls, SessionId, Zxid};
use ox_store::disk::Disk;
use ox_store::names::SnapshotFile;
use ox_store::snapshot::SnapshotContents;
use ox_store::snapshot::read::{SnapshotSink, StoredNode, read_snapshot};
use ox_store::{IoContext, StoreError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// The output format of a snapshot dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotFormat {
    /// The format of Apache's snapshot toolkit, with the length of each node's data.
    Text,
    /// As `Text`, with the data in base64.
    TextWithData,
    /// The format of the disk usage viewer `ncdu`, as Apache's toolkit writes it.
    Ncdu {
        /// The time of the export, in ms since 1970.
        now_ms: i64,
    },
    /// One JSON object per line: sessions, ACLs and nodes as they are stored.
    Json,
}

/// Prints a snapshot. Of a damaged one, prints as much as can be read and returns an error. The checksums are at the
/// end, so the output can be trusted only if this succeeds.
pub fn dump_snapshot(
    disk: &dyn Disk,
    file: &SnapshotFile,
    format: SnapshotFormat,
    out: &mut dyn Write,
) -> Result<SnapshotContents, StoreError> {
    let mut facts = Facts { newest: file.last, ..Facts::default() };
    let found = read_snapshot(disk, file, &mut facts);
    if found.is_err() && facts.is_empty() {
        return found;
    }
    let mut printer = Printer { format, out, pending: None, open: Vec::new(), inode: 1000, failed: None };
    let begun = printer.begin(&facts);
    begun.context("print", &file.path)?;
    let contents = read_snapshot(disk, file, &mut printer);
    let ended = match printer.failed.take() {
        Some(error) => Err(error),
        None => printer.end(&facts),
    };
    ended.context("print", &file.path)?;
    contents
}

/// What must be known before the first line is printed.
#[derive(Default)]
struct Facts {
    nodes: u64,
    newest: Zxid,
    sessions: Vec<(SessionId, i32)>,
    ephemerals: BTreeMap<i64, u64>,
}

impl Facts {
    fn is_empty(&self) -> bool {
        self.nodes == 0 && self.sessions.is_empty()
    }
}

impl SnapshotSink for Facts {
    fn session(&mut self, id: SessionId, timeout_ms: i32) -> Result<(), String> {
        self.sessions.push((id, timeout_ms));
        Ok(())
    }

    fn acl(&mut self, _: i64, _: RawAcls<'_>) -> Result<(), String> {
        Ok(())
    }

    fn node(&mut self, node: &StoredNode<'_>) -> Result<(), String> {
        let stat = &node.stat;
        self.nodes += 1;
        self.newest = self.newest.max(stat.czxid).max(stat.mzxid).max(stat.pzxid);
        if stat.ephemeral_owner != 0 {
            *self.ephemerals.entry(stat.ephemeral_owner).or_default() += 1;
        }
        Ok(())
    }
}

struct Printer<'a> {
    format: SnapshotFormat,
    out: &'a mut dyn Write,
    /// Path and object of the previous node, whose form depends on whether a child follows.
    pending: Option<(String, String)>,
    /// The paths of the nodes whose children are being printed.
    open: Vec<String>,
    inode: u64,
    /// The error that stopped the output.
    failed: Option<io::Error>,
}

impl SnapshotSink for Printer<'_> {
    fn session(&mut self, id: SessionId, timeout_ms: i32) -> Result<(), String> {
        self.json(|| SessionJson { session: hex(id.0), timeout: timeout_ms })
    }

    fn acl(&mut self, id: i64, acls: RawAcls<'_>) -> Result<(), String> {
        self.json(|| AclJson { acl_id: id, acl: acl_entries(acls) })
    }

    fn node(&mut self, node: &StoredNode<'_>) -> Result<(), String> {
        let printed = match self.format {
            SnapshotFormat::Text => self.text(node, None),
            SnapshotFormat::TextWithData => self.text(node, base64(Some(node.data.unwrap_or_default()))),
            SnapshotFormat::Ncdu { .. } => self.ncdu(node),
            SnapshotFormat::Json => return self.json(|| NodeJson::new(node)),
        };
        self.keep_error(printed)
    }
}

impl Printer<'_> {
    fn begin(&mut self, facts: &Facts) -> io::Result<()> {
        match self.format {
            // Compat: Apache stores the root under two names and counts both.
            SnapshotFormat::Text | SnapshotFormat::TextWithData => {
                writeln!(self.out, "ZNode Details (count={}):", facts.nodes + 1)
            }
            SnapshotFormat::Ncdu { now_ms } => {
                let about = r#""progname":"SnapshotFormatter.java","progver":"0.01""#;
                write!(self.out, r#"[1,0,{{{about},"timestamp":{now_ms}}}"#)
            }
            SnapshotFormat::Json => Ok(()),
        }
    }

    fn end(&mut self, facts: &Facts) -> io::Result<()> {
        match self.format {
            SnapshotFormat::Text | SnapshotFormat::TextWithData => self.end_text(facts),
            SnapshotFormat::Ncdu { .. } => {
                self.close_up_to(None)?;
                write!(self.out, "]")
            }
            SnapshotFormat::Json => Ok(()),
        }
    }

    fn end_text(&mut self, facts: &Facts) -> io::Result<()> {
        writeln!(self.out, "----\nSession Details (sid, timeout, ephemeralCount):")?;
        for (id, timeout_ms) in &facts.sessions {
            let ephemerals = facts.ephemerals.get(&id.0).copied().unwrap_or(0);
            writeln!(self.out, "{:#016x}, {timeout_ms}, {ephemerals}", id.0)?;
        }
        writeln!(self.out, "----\nLast zxid: {}", facts.newest)
    }

    fn text(&mut self, node: &StoredNode<'_>, data: Option<String>) -> io::Result<()> {
        let stat = &node.stat;
        let path = if node.path.is_empty() { "/" } else { &node.path };
        let last = match data {
            Some(data) => format!("data = {data}"),
            None => format!("dataLength = {}", node.data.map_or(0, <[u8]>::len)),
        };
        let mut lines = format!("----\n{path}\n");
        let (ctime, mtime) = (utc(stat.ctime), utc(stat.mtime));
        _ = writeln!(lines, "  cZxid = {:#016x}\n  ctime = {ctime}", stat.czxid.0);
        _ = writeln!(lines, "  mZxid = {:#016x}\n  mtime = {mtime}", stat.mzxid.0);
        _ = writeln!(lines, "  pZxid = {:#016x}\n  cversion = {}", stat.pzxid.0, stat.cversion);
        _ = writeln!(lines, "  dataVersion = {}\n  aclVersion = {}", stat.version, stat.aversion);
        _ = writeln!(lines, "  ephemeralOwner = {:#016x}\n  {last}", stat.ephemeral_owner);
        self.out.write_all(lines.as_bytes())
    }

    fn json<T: Serialize>(&mut self, object: impl FnOnce() -> T) -> Result<(), String> {
        if self.format != SnapshotFormat::Json {
            return Ok(());
        }
        let printed = serde_json::to_writer(&mut *self.out, &object()).map_err(io::Error::from);
        let printed = printed.and_then(|()| writeln!(self.out));
        self.keep_error(printed)
    }

    fn keep_error(&mut self, printed: io::Result<()>) -> Result<(), String> {
        printed.map_err(|error| {
            let text = error.to_string();
            self.failed = Some(error);
            text
        })
    }

    /// A node with children is an array that starts with the node itself; one without is just the object.
    fn ncdu(&mut self, node: &StoredNode<'_>) -> io::Result<()> {
        let parent = node.path.rfind('/').map(|cut| &node.path[..cut]);
        self.close_up_to(parent)?;
        let name = node.path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("/");
        self.inode += 1;
        let (size, inode) = (node.data.map_or(0, <[u8]>::len), self.inode);
        let object = NcduEntry { name, asize: size, dsize: size, dev: 0, ino: inode };
        self.pending = Some((node.path.clone().into_owned(), serde_json::to_string(&object)?));
        Ok(())
    }

    /// Prints the pending node, now that it is known whether it has children, and closes the arrays of nodes that are
    /// not ancestors of the next one.
    fn close_up_to(&mut self, parent: Option<&str>) -> io::Result<()> {
        if let Some((path, object)) = self.pending.take() {
            if parent == Some(path.as_str()) {
                write!(self.out, ",[{object}")?;
                self.open.push(path);
                return Ok(());
            }
            write!(self.out, ",{object}")?;
        }
        while self.open.pop_if(|path| parent != Some(path.as_str())).is_some() {
            write!(self.out, "]")?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct SessionJson {
    session: String,
    timeout: i32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AclJson {
    acl_id: i64,
    acl: Vec<AclEntry>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeJson<'a> {
    path: &'a str,
    data: Option<String>,
    acl_id: i64,
    czxid: String,
    mzxid: String,
    pzxid: String,
    ctime: i64,
    mtime: i64,
    version: i32,
    cversion: i32,
    aversion: i32,
    ephemeral_owner: String,
}

impl<'a> NodeJson<'a> {
    fn new(node: &'a StoredNode<'_>) -> Self {
        let StatPersisted { czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeral_owner, pzxid } =
            node.stat;
        Self {
            path: if node.path.is_empty() { "/" } else { &node.path },
            data: base64(node.data),
            acl_id: node.acl,
            czxid: hex(czxid.0),
            mzxid: hex(mzxid.0),
            pzxid: hex(pzxid.0),
            ctime,
            mtime,
            version,
            cversion,
            aversion,
            ephemeral_owner: hex(ephemeral_owner),
        }
    }
}

#[derive(Serialize)]
struct NcduEntry<'a> {
    name: &'a str,
    asize: usize,
    dsize: usize,
    dev: u32,
    ino: u64,
}
