//! The simplest tree with the specified behaviour: a map from path to node, one request after another, with everything
//! derived from the map each time. Shares no code with the server.

mod quota;
pub(crate) mod reads;
mod watches;

use crate::request::{Bytes, Entry, Op};
use std::collections::{BTreeMap, BTreeSet};
pub(crate) use watches::Watches;

/// The time for which the server keeps a container that never had a child.
pub(crate) const NEVER_USED_MS: i64 = 50;

/// The entries of a stored ACL: permissions, scheme, id.
pub(crate) type Stored = Vec<(i32, String, String)>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) data: Option<Vec<u8>>,
    /// `None` is the null list of the built-in nodes.
    pub(crate) acl: Option<Stored>,
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) pzxid: i64,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    pub(crate) cversion: i32,
    pub(crate) aversion: i32,
    pub(crate) owner: i64,
}

/// The requesting client: its session and identities.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) session: i64,
    pub(crate) ids: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) extended_types: bool,
    pub(crate) enforce_quota: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) settings: Settings,
    /// By path in the tree's form; the root is `""`.
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) sessions: BTreeMap<i64, i32>,
    pub(crate) zxid: i64,
    pub(crate) watches: Watches,
    /// The applied nodes when the current write was prepared, against which quotas are checked.
    pub(crate) applied: BTreeMap<String, Node>,
}

/// The zxid of a write, if it used one, and the reply frame.
#[derive(Debug, PartialEq)]
pub(crate) struct WriteReply {
    pub(crate) zxid: Option<i64>,
    pub(crate) reply: Vec<u8>,
}

/// The transaction that is being executed.
#[derive(Clone, Copy)]
struct Now<'a> {
    client: &'a Client,
    zxid: i64,
    time: i64,
}

enum Done {
    Created { code: i32, path: String },
    Deleted,
    DataSet { path: String },
    AclSet { path: String },
    Checked,
}

pub(crate) const MARSHALLING: i32 = -5;

fn internal(path: &str) -> &str {
    if path == "/" { "" } else { path }
}

pub(crate) fn external(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

fn parent(path: &str) -> &str {
    internal(&path[..path.rfind('/').unwrap()])
}

impl Model {
    pub(crate) fn new(settings: Settings) -> Self {
        let node = |acl, aversion| Node {
            data: Some(vec![]),
            acl,
            czxid: 0,
            mzxid: 0,
            pzxid: 0,
            ctime: 0,
            mtime: 0,
            version: 0,
            cversion: 0,
            aversion,
            owner: 0,
        };
        let mut nodes = BTreeMap::new();
        for path in ["", "/zookeeper", "/zookeeper/quota"] {
            nodes.insert(path.to_owned(), node(None, 0));
        }
        let readable = vec![(1, "world".to_owned(), "anyone".to_owned())];
        nodes.insert("/zookeeper/config".to_owned(), node(Some(readable), -1));
        Self {
            settings,
            nodes,
            sessions: BTreeMap::new(),
            zxid: 0,
            watches: Watches::default(),
            applied: BTreeMap::new(),
        }
    }

    pub(crate) fn children(&self, path: &str) -> Vec<String> {
        let is_child = |other: &&String| !other.is_empty() && parent(other) == path;
        self.nodes.keys().filter(is_child).map(|child| child[path.len() + 1..].to_owned()).collect()
    }

    fn child_count(&self, path: &str) -> i32 {
        i32::try_from(self.children(path).len()).unwrap()
    }

    pub(crate) fn is_ephemeral(owner: i64) -> bool {
        owner != 0 && owner != i64::MIN && (owner >> 40) != -0x1_0000
    }

    pub(crate) fn ttl(owner: i64) -> Option<i64> {
        ((owner >> 40) == -0x1_0000).then_some(owner & 0xff_ffff_ffff)
    }

    pub(crate) fn ephemerals(&self, session: i64) -> Vec<String> {
        self.nodes.iter().filter(|(_, node)| node.owner == session).map(|(path, _)| path.clone()).collect()
    }

    /// Containers and TTL nodes that the server may delete.
    pub(crate) fn expired(&self, now: i64, never_used_ms: i64) -> BTreeSet<String> {
        let gone = |path: &str, node: &Node| {
            let idle = now - node.mtime;
            let container =
                node.owner == i64::MIN && (node.cversion > 0 || (never_used_ms != 0 && idle > never_used_ms));
            self.children(path).is_empty() && (container || Self::ttl(node.owner).is_some_and(|ttl| idle > ttl))
        };
        self.nodes.iter().filter(|(path, node)| gone(path, node)).map(|(path, _)| path.clone()).collect()
    }

    /// The encoded Stat of a node.
    pub(crate) fn stat(&self, path: &str) -> Vec<u8> {
        let node = &self.nodes[path];
        let children = self.child_count(path);
        let length = node.data.as_ref().map_or(0, Vec::len);
        Bytes::default()
            .long(node.czxid)
            .long(node.mzxid)
            .long(node.ctime)
            .long(node.mtime)
            .int(node.version)
            .int(2 * node.cversion - children)
            .int(node.aversion)
            .long(if Self::is_ephemeral(node.owner) { node.owner } else { 0 })
            .int(i32::try_from(length).unwrap())
            .int(children)
            .long(node.pzxid)
            .0
    }

    /// The digest of the whole tree, computed from scratch.
    pub(crate) fn digest(&self) -> i64 {
        let counted = self.nodes.iter().filter(|(path, _)| !path.starts_with("/zookeeper/"));
        let digests = counted.map(|(path, node)| {
            let stat = Bytes::default()
                .long(node.czxid)
                .long(node.mzxid)
                .long(node.pzxid)
                .long(node.ctime)
                .long(node.mtime)
                .int(node.version)
                .int(node.cversion)
                .int(node.aversion)
                .long(node.owner);
            let data = node.data.clone().unwrap_or_default();
            i64::from(crc32fast::hash(&[path.as_bytes(), &data, &stat.0].concat()))
        });
        digests.sum()
    }

    pub(crate) fn allows(acl: &Option<Stored>, client: &Client, perm: i32) -> bool {
        let Some(acl) = acl else { return true };
        let is_super = client.ids.iter().any(|(scheme, _)| scheme == "super");
        acl.is_empty()
            || is_super
            || acl.iter().any(|(perms, scheme, id)| {
                let is_meant = |(mine, proven): &(String, String)| {
                    mine == scheme && (if mine == "ip" { ip_matches(proven, id) } else { proven == id })
                };
                perms & perm != 0 && ((scheme == "world" && id == "anyone") || client.ids.iter().any(is_meant))
            })
    }

    fn check_acl(&self, path: &str, client: &Client, perm: i32) -> Result<(), i32> {
        if Self::allows(&self.nodes[path].acl, client, perm) { Ok(()) } else { Err(-102) }
    }

    fn exists(&self, path: &str) -> Result<(), i32> {
        if self.nodes.contains_key(path) { Ok(()) } else { Err(-101) }
    }

    fn check_session(&self, client: &Client) -> Result<(), i32> {
        if self.sessions.contains_key(&client.session) { Ok(()) } else { Err(-112) }
    }

    /// Executes one write of a client.
    pub(crate) fn write(&mut self, client: &Client, xid: i32, time: i64, op: &Op) -> WriteReply {
        let zxid = self.zxid + 1;
        let now = Now { client, zxid, time };
        let before = self.clone();
        if let Op::Multi(elements) = op {
            if let Some(reply) = self.refuse_multi(elements, xid) {
                return reply;
            }
            let mut results = Vec::new();
            for element in elements {
                match self.execute(element, now, true) {
                    Ok(done) => results.push(self.put_done(&done, true)),
                    // An error that Apache reports by an exception fails the whole request.
                    Err(MARSHALLING) => {
                        *self = before;
                        self.zxid = zxid;
                        return WriteReply { zxid: Some(zxid), reply: reply(xid, zxid, MARSHALLING, &[]) };
                    }
                    Err(code) => {
                        *self = before;
                        self.zxid = zxid;
                        return failed_multi(xid, zxid, elements.len(), results.len(), code);
                    }
                }
            }
            self.zxid = zxid;
            let body = results.into_iter().fold(Bytes::default(), |out, result| out.raw(&result)).end();
            return WriteReply { zxid: Some(zxid), reply: reply(xid, zxid, 0, &body.0) };
        }
        if let Op::Garbage(_) = op {
            return WriteReply { zxid: None, reply: reply(xid, self.zxid, MARSHALLING, &[]) };
        }
        let result = self.execute(op, now, false);
        if result.is_err() {
            *self = before;
        }
        self.zxid = zxid;
        match result {
            Ok(done) => WriteReply { zxid: Some(zxid), reply: reply(xid, zxid, 0, &self.put_done(&done, false)) },
            Err(code) => WriteReply { zxid: Some(zxid), reply: reply(xid, zxid, code, &[]) },
        }
    }

    /// Errors that fail the whole multi: first those found element by element, then those found in the complete list.
    fn refuse_multi(&mut self, elements: &[Op], xid: i32) -> Option<WriteReply> {
        let takes_zxid = elements.iter().find_map(|element| match element {
            Op::Create { code: 21, .. } | Op::Delete { .. } | Op::SetData { .. } | Op::Check { .. } => None,
            Op::Create { flags, .. } if !(0..=6).contains(flags) => Some(true),
            Op::Create { acl: None, .. } => Some(false),
            Op::Create { flags, .. } => (4 < *flags).then_some(true),
            Op::SetAcl { .. } | Op::Multi(_) | Op::Garbage(_) => Some(true),
        });
        let has_null_path = elements.iter().any(|element| match element {
            Op::Create { path, .. } | Op::Delete { path, .. } | Op::SetData { path, .. } | Op::Check { path, .. } => {
                path.is_none()
            }
            Op::SetAcl { .. } | Op::Multi(_) | Op::Garbage(_) => false,
        });
        let takes_zxid = takes_zxid.or(has_null_path.then_some(true))?;
        self.zxid += i64::from(takes_zxid);
        let zxid = takes_zxid.then_some(self.zxid);
        Some(WriteReply { zxid, reply: reply(xid, self.zxid, MARSHALLING, &[]) })
    }

    fn put_done(&self, done: &Done, in_multi: bool) -> Vec<u8> {
        let out = Bytes::default();
        let head = |out: Bytes, code| if in_multi { out.element(code, 0) } else { out };
        match done {
            Done::Created { code: 1, path } => head(out, 1).text(Some(path)),
            Done::Created { path, .. } => head(out, 15).text(Some(path)).raw(&self.stat(path)),
            Done::Deleted => head(out, 2),
            Done::DataSet { path } => head(out, 5).raw(&self.stat(path)),
            Done::AclSet { path } => head(out, 7).raw(&self.stat(path)),
            Done::Checked => head(out, 13),
        }
        .0
    }

    fn execute(&mut self, op: &Op, now: Now<'_>, in_multi: bool) -> Result<Done, i32> {
        match op {
            Op::Create { .. } => self.create(op, now, in_multi),
            Op::Delete { path, version } => {
                self.check_session(now.client)?;
                let path = path.as_deref().ok_or(MARSHALLING)?;
                check_deletable(path)?;
                self.exists(parent(path))?;
                self.check_acl(parent(path), now.client, 8)?;
                self.exists(path)?;
                check_version(*version, self.nodes[path].version)?;
                if self.child_count(path) > 0 {
                    return Err(-111);
                }
                if quota::is_deadly_to_remove(path) {
                    return Err(-8);
                }
                self.remove(path, now.zxid);
                Ok(Done::Deleted)
            }
            Op::SetData { path, data, version } => {
                self.check_session(now.client)?;
                let path = path.as_deref().ok_or(-8)?;
                check_path(path)?;
                let path = internal(path);
                self.exists(path)?;
                self.check_acl(path, now.client, 2)?;
                let difference = length(data) - length(&self.nodes[path].data);
                self.check_quota(path, 0, difference)?;
                check_version(*version, self.nodes[path].version)?;
                if quota::is_deadly_usage(path, data) {
                    return Err(-8);
                }
                let node = self.nodes.get_mut(path).unwrap();
                node.data = data.clone();
                node.version = next_version(node.version);
                node.mzxid = now.zxid;
                node.mtime = now.time;
                self.adjust_quota(path, 0, difference);
                self.watches.trigger_data(3, external(path), now.zxid, &self.nodes[path].acl);
                Ok(Done::DataSet { path: path.to_owned() })
            }
            Op::SetAcl { path, acl, version } => {
                self.check_session(now.client)?;
                let path = path.as_deref().ok_or(-8)?;
                check_path(path)?;
                let path = internal(path);
                let acl = fix_acl(acl, now.client)?;
                self.exists(path)?;
                self.check_acl(path, now.client, 16)?;
                check_version(*version, self.nodes[path].aversion)?;
                let node = self.nodes.get_mut(path).unwrap();
                node.acl = Some(acl);
                node.aversion = next_version(node.aversion);
                Ok(Done::AclSet { path: path.to_owned() })
            }
            Op::Check { path, version } => {
                self.check_session(now.client)?;
                let path = path.as_deref().ok_or(-8)?;
                check_path(path)?;
                let path = internal(path);
                self.exists(path)?;
                self.check_acl(path, now.client, 1)?;
                check_version(*version, self.nodes[path].version)?;
                Ok(Done::Checked)
            }
            Op::Multi(_) | Op::Garbage(_) => unreachable!("handled before"),
        }
    }

    fn create(&mut self, op: &Op, now: Now<'_>, in_multi: bool) -> Result<Done, i32> {
        let Op::Create { code, path, data, acl, flags, ttl } = op else { unreachable!("called for creates") };
        let code = self.create_code(*code, *flags, *ttl, in_multi)?;
        self.check_session(now.client)?;
        let path = path.as_deref().ok_or(MARSHALLING)?;
        if !path.contains('/') || path.contains('\0') {
            return Err(-8);
        }
        let acl = fix_acl(acl, now.client)?;
        let above = parent(path).to_owned();
        self.exists(&above)?;
        self.check_acl(&above, now.client, 4)?;
        let is_sequential = matches!(flags, 2 | 3 | 6);
        let path =
            if is_sequential { format!("{path}{}", ten_digits(self.nodes[&above].cversion)) } else { path.into() };
        check_path(&path)?;
        let path = internal(&path).to_owned();
        if self.nodes.contains_key(&path) {
            return Err(-110);
        }
        if Self::is_ephemeral(self.nodes[&above].owner) {
            return Err(-108);
        }
        let goes_by_itself = matches!((code, flags), (19 | 21, _) | (_, 1 | 3));
        if (goes_by_itself || above == "/zookeeper/quota") && quota::is_deadly_to_remove(&path) {
            return Err(-8);
        }
        self.check_quota(&path, 1, length(data))?;
        let owner = match (code, flags) {
            (19, _) => i64::MIN,
            (21, _) => (0xff << 56) | ttl,
            (_, 1 | 3) => now.client.session,
            _ => 0,
        };
        let (zxid, time) = (now.zxid, now.time);
        let node = Node {
            data: data.clone(),
            acl: Some(acl),
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: time,
            mtime: time,
            version: 0,
            cversion: 0,
            aversion: 0,
            owner,
        };
        self.nodes.insert(path.clone(), node);
        let above_node = self.nodes.get_mut(&above).unwrap();
        above_node.cversion += 1;
        above_node.pzxid = zxid;
        self.quota_created(&path);
        self.adjust_quota(&path, 1, length(data));
        self.watches.trigger_data(1, &path, zxid, &self.nodes[&path].acl);
        self.watches.trigger_child(4, external(&above), zxid, &self.nodes[&above].acl);
        Ok(Done::Created { code, path })
    }

    /// Checks flags and ttl, and returns the opcode that determines the kind of node.
    fn create_code(&self, code: i32, flags: i32, ttl: i64, in_multi: bool) -> Result<i32, i32> {
        if !(0..=6).contains(&flags) {
            return Err(-8);
        }
        let is_ttl = flags >= 5;
        if in_multi && !is_ttl {
            return Ok(match (code, flags) {
                (_, 4) => 19,
                (21, _) => 1,
                _ => code,
            });
        }
        match (is_ttl, code) {
            (true, _) if !self.settings.extended_types => Err(-6),
            (true, 21) if (1..=0xff_ffff_ffff).contains(&ttl) => Ok(21),
            (true, _) | (false, 21) => Err(-8),
            (false, _) => Ok(code),
        }
    }

    /// Deletes an existing node and updates everything that depends on it.
    fn remove(&mut self, path: &str, zxid: i64) {
        let node = self.nodes.remove(path).unwrap();
        let above = parent(path);
        let above_node = self.nodes.get_mut(above).unwrap();
        above_node.pzxid = above_node.pzxid.max(zxid);
        self.adjust_quota(path, -1, -length(&node.data));
        self.watches.trigger_deleted(path, zxid, &node.acl);
        self.watches.trigger_child(4, external(above), zxid, &self.nodes[above].acl);
    }

    pub(crate) fn open_session(&mut self, session: i64, timeout_ms: i32) {
        self.zxid += 1;
        self.sessions.insert(session, timeout_ms);
    }

    pub(crate) fn close_session(&mut self, client: &Client, xid: i32) -> WriteReply {
        self.zxid += 1;
        for path in self.ephemerals(client.session) {
            self.remove(&path, self.zxid);
        }
        self.sessions.remove(&client.session);
        WriteReply { zxid: Some(self.zxid), reply: reply(xid, self.zxid, 0, &[]) }
    }

    /// Writes a new configuration into its node.
    pub(crate) fn reconfig(&mut self, text: &str, time: i64) {
        self.zxid += 1;
        let Some(node) = self.nodes.get_mut("/zookeeper/config") else { return };
        (node.data, node.version, node.mzxid, node.mtime) = (Some(text.into()), -1, self.zxid, time);
        self.watches.trigger_data(3, "/zookeeper/config", self.zxid, &node.acl);
    }

    /// Deletes a container or TTL node on behalf of the server.
    pub(crate) fn delete_container(&mut self, path: &str, time: i64) -> Result<i64, i32> {
        check_deletable(path)?;
        self.exists(path)?;
        if self.child_count(path) > 0 {
            return Err(-111);
        }
        let node = &self.nodes[path];
        let idle = time - node.mtime;
        let is_unused = node.owner == i64::MIN && node.cversion == 0;
        let is_fresh = Self::ttl(node.owner).is_some_and(|ttl| idle <= ttl) || (is_unused && idle <= NEVER_USED_MS);
        if node.owner == 0 || Self::is_ephemeral(node.owner) || is_fresh {
            return Err(-103);
        }
        self.zxid += 1;
        self.remove(path, self.zxid);
        Ok(self.zxid)
    }
}

fn length(data: &Option<Vec<u8>>) -> i64 {
    data.as_ref().map_or(0, |data| i64::try_from(data.len()).unwrap())
}

pub(crate) fn reply(xid: i32, zxid: i64, err: i32, body: &[u8]) -> Vec<u8> {
    let frame = Bytes::default().int(xid).long(zxid).int(err).raw(body);
    Bytes::default().buffer(Some(&frame.0)).0
}

fn failed_multi(xid: i32, zxid: i64, elements: usize, good: usize, code: i32) -> WriteReply {
    let code_of = |at: usize| match at.cmp(&good) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => code,
        std::cmp::Ordering::Greater => -2,
    };
    let out = (0..elements).fold(Bytes::default(), |out, at| out.element(-1, code_of(at)).int(code_of(at)));
    WriteReply { zxid: Some(zxid), reply: reply(xid, zxid, 0, &out.end().0) }
}

fn check_version(expected: i32, actual: i32) -> Result<(), i32> {
    if expected == -1 || expected == actual { Ok(()) } else { Err(-103) }
}

fn next_version(version: i32) -> i32 {
    if version == -2 { 0 } else { version.wrapping_add(1) }
}

fn ten_digits(number: i32) -> String {
    let digits = number.unsigned_abs().to_string();
    let sign = if number < 0 { "-" } else { "" };
    let zeros = "0".repeat(10_usize.saturating_sub(sign.len() + digits.len()));
    format!("{sign}{zeros}{digits}")
}

fn check_deletable(path: &str) -> Result<(), i32> {
    let fixed = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];
    if !path.contains('/') || path.contains('\0') || fixed.contains(&path) { Err(-8) } else { Ok(()) }
}

/// The complete validation, UTF-16 unit by unit.
pub(crate) fn check_path(path: &str) -> Result<(), i32> {
    let units: Vec<u16> = path.encode_utf16().collect();
    if units.is_empty() || units[0] != u16::from(b'/') {
        return Err(-8);
    }
    if units.len() == 1 {
        return Ok(());
    }
    let slash = u16::from(b'/');
    let is_bad = |unit: &u16| matches!(unit, 0..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=0xffff);
    let dot = u16::from(b'.');
    let mut elements = units[1..].split(|unit| *unit == slash);
    let bad_element = |element: &[u16]| element.is_empty() || element == [dot] || element == [dot, dot];
    if elements.any(bad_element) || units[1..].iter().any(is_bad) { Err(-8) } else { Ok(()) }
}

/// Validates a list and expands `auth`.
fn fix_acl(acl: &Option<Vec<Entry>>, client: &Client) -> Result<Stored, i32> {
    let acl = acl.as_deref().unwrap_or_default();
    let mut distinct: Vec<&Entry> = Vec::new();
    for entry in acl {
        for other in &distinct {
            // Apache calls `equals` on the later entry, which throws on its null fields.
            let (same_perms, same_scheme) = (other.0 == entry.0, other.1 == entry.1);
            if same_perms && (entry.1.is_none() || (same_scheme && entry.2.is_none())) {
                return Err(MARSHALLING);
            }
        }
        if !distinct.contains(&entry) {
            distinct.push(entry);
        }
    }
    let mut stored = Vec::new();
    for (perms, scheme, id) in distinct {
        let scheme = scheme.as_deref().ok_or(-114)?;
        match scheme {
            "auth" => {
                let mine = client.ids.iter().filter(|(scheme, _)| scheme == "digest");
                let before = stored.len();
                stored.extend(mine.map(|(scheme, id)| (*perms, scheme.clone(), id.clone())));
                if stored.len() == before {
                    return Err(-114);
                }
                continue;
            }
            "world" if id.as_deref().ok_or(MARSHALLING)? == "anyone" => (),
            "digest" => {
                let parts: Vec<&str> = id.as_deref().ok_or(MARSHALLING)?.trim_end_matches(':').split(':').collect();
                if parts.len() != 2 {
                    return Err(-114);
                }
            }
            "ip" => {
                let id = id.as_deref().ok_or(MARSHALLING)?;
                if !KNOWN_IPS.contains(&id) {
                    return Err(-114);
                }
            }
            _ => return Err(-114),
        }
        stored.push((*perms, scheme.to_owned(), id.clone().unwrap()));
    }
    if stored.is_empty() { Err(-114) } else { Ok(stored) }
}

/// The ip ids that the generators use; all are valid.
pub(crate) const KNOWN_IPS: [&str; 3] = ["10.0.0.1", "10.0.0.0/24", "99.0.0.0/8"];

fn ip_matches(proven: &str, id: &str) -> bool {
    match id {
        "10.0.0.0/24" => proven.starts_with("10.0.0."),
        "99.0.0.0/8" => proven.starts_with("99."),
        exact => exact == proven,
    }
}
