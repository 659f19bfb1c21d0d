//! Random requests, in all forms of each operation.

#![expect(clippy::wildcard_enum_match_arm, reason = "each function handles a few operations")]

use super::Generator;
use super::paths::Scope;
use crate::acl::{AclEntry, ScriptAcl};
use crate::request::{RequestBody, ScriptElement, ScriptRequest, ZxidRef};
use crate::value::FieldValue;
use ox_proto::OpCode;

/// Reads, watches and all other requests that take no zxid.
const READS: &[(usize, OpCode)] = &[
    (7, OpCode::Exists),
    (7, OpCode::GetData),
    (4, OpCode::GetAcl),
    (5, OpCode::GetChildren),
    (5, OpCode::GetChildren2),
    (2, OpCode::GetAllChildrenNumber),
    (3, OpCode::GetEphemerals),
    (2, OpCode::WhoAmI),
    (2, OpCode::Sync),
    (2, OpCode::Ping),
    (4, OpCode::MultiRead),
    (5, OpCode::AddWatch),
    (3, OpCode::CheckWatches),
    (4, OpCode::RemoveWatches),
    (3, OpCode::SetWatches),
    (3, OpCode::SetWatches2),
    (1, OpCode::Sasl),
];

/// Operations that take a zxid.
const WRITES: &[(usize, OpCode)] = &[
    (10, OpCode::Create),
    (8, OpCode::Create2),
    (3, OpCode::CreateContainer),
    (3, OpCode::CreateTtl),
    (10, OpCode::Delete),
    (10, OpCode::SetData),
    (4, OpCode::SetAcl),
    (8, OpCode::Multi),
    (1, OpCode::Reconfig),
];

const ELEMENTS: &[(usize, OpCode)] = &[
    (8, OpCode::Create),
    (5, OpCode::Create2),
    (2, OpCode::CreateContainer),
    (2, OpCode::CreateTtl),
    (7, OpCode::Delete),
    (7, OpCode::SetData),
    (6, OpCode::Check),
];

/// Bounds of the TTL, with values on both targets.
const TTLS: [i64; 8] = [0, 1, 1000, 1_099_511_627_775, 1_099_511_627_776, -1, i64::MIN, i64::MAX];

const QUOTAS: [&str; 8] = [
    "count=5,bytes=100",
    "count=3,bytes=-1",
    "count=-1,bytes=-1=;byteHardLimit=60;countHardLimit=8",
    "count=2,bytes=10=;byteHardLimit=200",
    "count=-1,bytes=-1=;countHardLimit=12",
    "count=1000,bytes=1000000",
    "",
    "countHardLimit=6;byteHardLimit=40",
];

impl Generator {
    /// A read, or another request without a zxid.
    pub(super) fn read(&mut self, scope: Scope) -> ScriptRequest {
        let op = self.rng.weighted(READS);
        // Ephemeral nodes belong to the session and may change concurrently elsewhere.
        let op = if scope != Scope::All && op == OpCode::GetEphemerals { OpCode::Exists } else { op };
        let body = self.read_body(op, scope);
        self.mutated(ScriptRequest::new(op, body))
    }

    pub(super) fn write(&mut self, scope: Scope) -> ScriptRequest {
        if scope == Scope::All && self.rng.chance(40) {
            return self.quota_write();
        }
        let op = self.rng.weighted(WRITES);
        let body = match op {
            OpCode::SetAcl => {
                let path = self.path(scope);
                let version = self.aversion(&path);
                RequestBody::SetAcl { acl: self.acl(&path), path, version }
            }
            OpCode::Multi => self.multi(scope),
            OpCode::Reconfig => {
                let texts = ["null", "1", "server.1=h:1:2;3"].map(FieldValue::text);
                let mut field = || if self.rng.chance(500) { FieldValue::NULL } else { self.rng.pick(&texts).clone() };
                let (joining, leaving, members) = (field(), field(), field());
                RequestBody::Reconfig { joining, leaving, members, config: -1 }
            }
            _ => self.change(op, scope),
        };
        let request = self.mutated(ScriptRequest::new(op, body));
        if request.cut.is_none() {
            self.known.assume(request.op, &request.body);
        }
        request
    }

    fn read_body(&mut self, op: OpCode, scope: Scope) -> RequestBody {
        match op {
            OpCode::GetAcl | OpCode::Sync | OpCode::GetAllChildrenNumber => {
                RequestBody::Path { path: self.path(scope) }
            }
            OpCode::GetEphemerals => {
                let blanks = ["", "/", " ", " / ", "/s", "/zz"];
                let path = if self.rng.chance(500) {
                    FieldValue::text(self.rng.pick(&blanks))
                } else if self.rng.chance(200) {
                    FieldValue::NULL
                } else {
                    self.path(scope)
                };
                RequestBody::Path { path }
            }
            OpCode::WhoAmI | OpCode::Ping => RequestBody::Empty,
            OpCode::MultiRead => self.multi_read(scope),
            OpCode::AddWatch => {
                let path = self.plain_path(scope);
                self.note_watch(&path);
                RequestBody::PathKind { path, kind: self.rng.weighted(&[(10, 0), (10, 1), (1, 2), (1, -1)]) }
            }
            OpCode::CheckWatches | OpCode::RemoveWatches => {
                let kinds = [(6, 1), (6, 2), (6, 3), (6, 4), (6, 5), (1, 0), (1, 6), (1, -1)];
                RequestBody::PathKind { path: self.watched_path(scope), kind: self.rng.weighted(&kinds) }
            }
            OpCode::SetWatches => self.set_watches(3, scope),
            OpCode::SetWatches2 => self.set_watches(5, scope),
            OpCode::Sasl => {
                // A null token closes the connection; sessions.rs covers that.
                let token = self.data();
                RequestBody::Token { token: if token == FieldValue::NULL { FieldValue::text("") } else { token } }
            }
            _ => {
                let (path, watch) = (self.path(scope), self.rng.chance(400));
                if watch {
                    self.note_watch(&path);
                }
                RequestBody::PathWatch { path, watch }
            }
        }
    }

    /// An element that probably succeeds.
    fn probable_change(&mut self, op: OpCode, scope: Scope) -> RequestBody {
        match op {
            OpCode::Delete | OpCode::Check => RequestBody::PathVersion { path: self.probable_path(scope), version: -1 },
            OpCode::SetData => RequestBody::SetData { path: self.probable_path(scope), data: self.data(), version: -1 },
            OpCode::CreateTtl => self.change(op, scope),
            _ => {
                let path = self.probable_new_path(scope);
                let flags = self.rng.weighted(&[(5, 0), (2, 1), (2, 2), (2, 3), (1, 4)]);
                RequestBody::Create { path, data: self.data(), acl: ScriptAcl::open(), flags }
            }
        }
    }

    /// The body of a create, delete, setData or check.
    fn change(&mut self, op: OpCode, scope: Scope) -> RequestBody {
        match op {
            OpCode::Delete | OpCode::Check => {
                let path = self.path(scope);
                RequestBody::PathVersion { version: self.version(&path), path }
            }
            OpCode::SetData => {
                let path = self.path(scope);
                RequestBody::SetData { data: self.data(), version: self.version(&path), path }
            }
            OpCode::CreateTtl => {
                let path = self.new_path(scope);
                let flags =
                    self.rng.weighted(&[(10, 5), (6, 6), (2, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 7), (1, -1)]);
                let ttl_ms = *self.rng.pick(&TTLS);
                // A negative TTL with other flags kills Apache (see the intended differences).
                let ttl_ms = if (0..5).contains(&flags) { ttl_ms.max(0) } else { ttl_ms };
                RequestBody::CreateTtl { data: self.data(), acl: self.acl(&path), path, flags, ttl_ms }
            }
            _ => {
                let path = self.new_path(scope);
                let flags =
                    self.rng.weighted(&[(20, 0), (9, 1), (5, 2), (5, 3), (2, 4), (1, 5), (1, 6), (1, 7), (1, -1)]);
                RequestBody::Create { data: self.data(), acl: self.acl(&path), path, flags }
            }
        }
    }

    fn multi(&mut self, scope: Scope) -> RequestBody {
        let mut elements = Vec::new();
        let tame = self.rng.chance(700);
        for _ in 0..self.rng.weighted(&[(1, 0), (6, 1), (8, 2), (8, 3), (4, 5), (2, 10)]) {
            let op = self.rng.weighted(ELEMENTS);
            let body = if tame { self.probable_change(op, scope) } else { self.change(op, scope) };
            elements.push(ScriptElement { op: op.code(), body });
        }
        if self.rng.chance(40) {
            let path = self.path(scope);
            let odd = match self.rng.index(4) {
                0 => ScriptElement {
                    op: OpCode::SetAcl.code(),
                    body: RequestBody::SetAcl { path, acl: ScriptAcl::open(), version: -1 },
                },
                1 => ScriptElement { op: OpCode::GetData.code(), body: RequestBody::PathWatch { path, watch: false } },
                2 => ScriptElement { op: OpCode::Error.code(), body: RequestBody::Raw(vec![0; 4]) },
                _ => ScriptElement { op: OpCode::DeleteContainer.code(), body: RequestBody::Path { path } },
            };
            elements.insert(self.rng.index(elements.len() + 1), odd);
        }
        RequestBody::Multi { elements, ended: !self.rng.chance(20) }
    }

    fn multi_read(&mut self, scope: Scope) -> RequestBody {
        let mut elements = Vec::new();
        for _ in 0..self.rng.index(6) {
            let op = self.rng.weighted(&[
                (10, OpCode::GetData),
                (8, OpCode::GetChildren),
                (1, OpCode::Check),
                (1, OpCode::Exists),
            ]);
            let body = match op {
                OpCode::Check => self.change(op, scope),
                _ => RequestBody::PathWatch { path: self.path(scope), watch: self.rng.chance(300) },
            };
            elements.push(ScriptElement { op: op.code(), body });
        }
        RequestBody::Multi { elements, ended: !self.rng.chance(20) }
    }

    fn set_watches(&mut self, lists: usize, scope: Scope) -> RequestBody {
        let seen = match self.rng.index(10) {
            0 => ZxidRef::Exactly(0),
            1 => ZxidRef::Exactly(-1),
            2 => ZxidRef::Last(100),
            3 | 4 => ZxidRef::Last(0),
            _ => ZxidRef::Last(-i64::try_from(self.rng.index(60)).unwrap_or(0)),
        };
        let lists = (0..lists).map(|_| self.watch_list(scope)).collect();
        RequestBody::SetWatches { seen, lists }
    }

    fn watch_list(&mut self, scope: Scope) -> Option<Vec<FieldValue>> {
        if self.rng.chance(20) {
            return None;
        }
        let mut paths = Vec::new();
        for _ in 0..self.rng.index(4) {
            // setWatches for nodes that the session may not read is an intended difference.
            let scope = match scope {
                Scope::All => Scope::Tree(self.rng.index(Self::PROTECTED)),
                within => within,
            };
            paths.push(self.plain_path(scope));
        }
        Some(paths)
    }

    /// A change of quota nodes: for the quota subtree or one of its nodes.
    fn quota_write(&mut self) -> ScriptRequest {
        let node = self.existing(Scope::Tree(Self::QUOTA));
        let base = format!("/zookeeper/quota{node}");
        let (limits, usage) = (format!("{base}/zookeeper_limits"), format!("{base}/zookeeper_stats"));
        let mut text = FieldValue::text(self.rng.pick(&QUOTAS));
        let target = self.rng.index(10);
        if target < 2 && self.rng.chance(100) {
            text = FieldValue::text("count=x");
        }
        let create = |path: String, data| RequestBody::Create {
            path: FieldValue::text(path),
            data,
            acl: ScriptAcl::open(),
            flags: 0,
        };
        let delete = |path: String| RequestBody::PathVersion { path: FieldValue::text(path), version: -1 };
        let set = |path: String, data| RequestBody::SetData { path: FieldValue::text(path), data, version: -1 };
        let (op, body) = match target {
            0 => (OpCode::SetData, set(limits, text)),
            1 => (OpCode::Create, create(limits, text)),
            2 | 3 => (OpCode::Create, create(usage, text)),
            4 => (OpCode::SetData, set(usage, text)),
            5 => (OpCode::Delete, delete(limits)),
            6 => (OpCode::Delete, delete(usage)),
            _ => (OpCode::Create, create(base, FieldValue::NULL)),
        };
        ScriptRequest::new(op, body)
    }

    /// Data of all sizes, including null and empty.
    fn data(&mut self) -> FieldValue {
        match self.rng.index(40) {
            0..=2 => FieldValue::NULL,
            3..=7 => FieldValue::text(""),
            8 | 9 => FieldValue::fill(65 + self.rng.index(3000)),
            10 if self.rng.chance(200) => FieldValue::fill(100_000),
            _ => {
                let bytes = (0..self.rng.index(30)).map(|_| b' ' + u8::try_from(self.rng.index(90)).unwrap_or(0));
                FieldValue(Some(bytes.collect()))
            }
        }
    }

    fn version(&mut self, path: &FieldValue) -> i32 {
        let known = path.as_str().map_or(0, |path| self.known.facts(path).version);
        self.near(known)
    }

    fn aversion(&mut self, path: &FieldValue) -> i32 {
        let known = path.as_str().map_or(0, |path| self.known.facts(path).aversion);
        self.near(known)
    }

    fn near(&mut self, known: i32) -> i32 {
        self.rng.weighted(&[(8, -1), (7, known), (1, known.wrapping_add(1)), (1, known.wrapping_sub(1)), (1, -2)])
    }

    /// A list for a node at `path`: arbitrary below the protected subtree; elsewhere everyone keeps all permissions.
    fn acl(&mut self, path: &FieldValue) -> ScriptAcl {
        if self.rng.chance(60) {
            return self.bad_acl();
        }
        let protected = &self.trees[Self::PROTECTED];
        let inside = path.as_str().and_then(|path| path.strip_prefix(protected.as_str()));
        if inside.is_some_and(|rest| !rest.trim_end_matches('/').is_empty()) && self.rng.chance(700) {
            let count = 1 + self.rng.index(3);
            return ScriptAcl(Some((0..count).map(|_| self.entry()).collect()));
        }
        let mut list = ScriptAcl::open();
        if self.rng.chance(150) {
            let entry = AclEntry::user(*self.rng.pick(&[1, 2, 16, 31]), "bob");
            list.0.as_mut().expect("open lists have entries").push(entry);
        }
        list
    }

    fn entry(&mut self) -> AclEntry {
        let perms = self.rng.weighted(&[
            (10, 31),
            (3, 1),
            (2, 2),
            (2, 4),
            (2, 8),
            (2, 16),
            (2, 17),
            (3, 15),
            (1, 0),
            (1, -1),
            (1, 32),
        ]);
        let user = *self.rng.pick(&["bob", "alice", "eve"]);
        match self.rng.index(12) {
            0..=3 => AclEntry::new(perms, "world", "anyone"),
            4..=6 => AclEntry::user(perms, user),
            7 | 8 => AclEntry {
                perms,
                scheme: FieldValue::text("auth"),
                id: self.rng.pick(&[FieldValue::NULL, FieldValue::text("")]).clone(),
            },
            9 => AclEntry::new(perms, "ip", "127.0.0.1"),
            10 => AclEntry::new(
                perms,
                "ip",
                self.rng.pick::<&str>(&["127.0.0.0/8", "10.0.0.1", "0.0.0.0/0", "+127.000.0.1/32"]),
            ),
            _ => AclEntry::new(perms, "digest", self.rng.pick::<&str>(&[":b", "a:b", "bob:x"])),
        }
    }

    fn bad_acl(&mut self) -> ScriptAcl {
        let bad = [
            ("digest", "nocolon"),
            ("digest", "a:b:c"),
            ("digest", "a:"),
            ("digest", ""),
            ("ip", "1.2.3"),
            ("ip", "1.2.3.4/33"),
            ("ip", "1.2.3.4/"),
            ("ip", "256.1.1.1"),
            ("world", "other"),
            ("world", ""),
            ("super", "x"),
            ("sasl", "x"),
            ("x509", "CN=x"),
            ("bogus", "x"),
            ("", "x"),
        ];
        let (scheme, id) = *self.rng.pick(&bad);
        let one = |scheme, id| ScriptAcl(Some(vec![AclEntry { perms: 31, scheme, id }]));
        match self.rng.index(9) {
            0 => ScriptAcl(None),
            1 => ScriptAcl(Some(Vec::new())),
            2 => one(FieldValue::NULL, FieldValue::text("x")),
            3 => one(FieldValue::text("world"), FieldValue::NULL),
            4 => one(FieldValue::text("digest"), FieldValue::NULL),
            _ => one(FieldValue::text(scheme), FieldValue::text(id)),
        }
    }

    /// Sometimes makes a request unusual or malformed.
    fn mutated(&mut self, mut request: ScriptRequest) -> ScriptRequest {
        if request.is_out_of_band() {
            return request;
        }
        match self.rng.index(100) {
            0 | 1 => {
                let length = request.body_bytes();
                if length != 0 {
                    request.cut = Some(self.rng.index(length));
                }
            }
            2 => request.tail = vec![0xab; 1 + self.rng.index(9)],
            3 => request.xid = Some(*self.rng.pick(&[0, -2, -3, -8, -9, 1, 7, i32::MAX, i32::MIN])),
            4 => null_path(&mut request.body),
            _ => (),
        }
        request
    }
}

/// Makes the path null; in a multi, that of the last element.
fn null_path(body: &mut RequestBody) {
    if let RequestBody::Multi { elements, .. } = body {
        if let Some(element) = elements.last_mut() {
            null_path(&mut element.body);
        }
    } else if let Some(path) = body.path_mut() {
        *path = FieldValue::NULL;
    }
}
