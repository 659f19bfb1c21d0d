//! Random requests, each operation with all its shapes.

#![expect(clippy::wildcard_enum_match_arm, reason = "each function knows the few operations it is asked for")]

use super::Generator;
use super::paths::Reach;
use crate::acl::{AclList, Entry};
use crate::request::{Body, Element, Request, Seen};
use crate::value::Value;
use ox_proto::OpCode;

/// Reads, watches and whatever else takes no zxid.
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

/// Bounds of the time to live, and both sides of each.
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
    /// A read or anything else without a zxid.
    pub(super) fn read(&mut self, reach: Reach) -> Request {
        let op = self.dice.weighted(READS);
        // Identities and ephemeral nodes are the session's own and may change elsewhere meanwhile.
        let op = if reach != Reach::All && op == OpCode::GetEphemerals { OpCode::Exists } else { op };
        let body = self.read_body(op, reach);
        self.mutated(Request::new(op, body))
    }

    /// A write.
    pub(super) fn write(&mut self, reach: Reach) -> Request {
        if reach == Reach::All && self.dice.chance(4) {
            return self.quota_write();
        }
        let op = self.dice.weighted(WRITES);
        let body = match op {
            OpCode::SetAcl => {
                let path = self.path(reach);
                let version = self.aversion(&path);
                Body::SetAcl { acl: self.acl(&path), path, version }
            }
            OpCode::Multi => self.multi(reach),
            OpCode::Reconfig => {
                let texts = ["null", "1", "server.1=h:1:2;3"].map(Value::text);
                let mut field = || if self.dice.chance(50) { Value::NULL } else { self.dice.pick(&texts).clone() };
                let (joining, leaving, members) = (field(), field(), field());
                Body::Reconfig { joining, leaving, members, config: -1 }
            }
            _ => self.change(op, reach),
        };
        let request = self.mutated(Request::new(op, body));
        if request.cut.is_none() {
            self.known.assume(request.op, &request.body);
        }
        request
    }

    fn read_body(&mut self, op: OpCode, reach: Reach) -> Body {
        match op {
            OpCode::GetAcl | OpCode::Sync | OpCode::GetAllChildrenNumber => Body::Path { path: self.path(reach) },
            OpCode::GetEphemerals => {
                let blanks = ["", "/", " ", " / ", "/s", "/zz"];
                let path = if self.dice.chance(50) {
                    Value::text(self.dice.pick(&blanks))
                } else if self.dice.chance(20) {
                    Value::NULL
                } else {
                    self.path(reach)
                };
                Body::Path { path }
            }
            OpCode::WhoAmI | OpCode::Ping => Body::Empty,
            OpCode::MultiRead => self.multi_read(reach),
            OpCode::AddWatch => {
                let path = self.plain_path(reach);
                self.note_watch(&path);
                Body::PathKind { path, kind: self.dice.weighted(&[(10, 0), (10, 1), (1, 2), (1, -1)]) }
            }
            OpCode::CheckWatches | OpCode::RemoveWatches => {
                let kinds = [(6, 1), (6, 2), (6, 3), (6, 4), (6, 5), (1, 0), (1, 6), (1, -1)];
                Body::PathKind { path: self.watched_path(reach), kind: self.dice.weighted(&kinds) }
            }
            OpCode::SetWatches => self.set_watches(3, reach),
            OpCode::SetWatches2 => self.set_watches(5, reach),
            OpCode::Sasl => {
                // A null token closes the connection; that is tried elsewhere.
                let token = self.data();
                Body::Token { token: if token == Value::NULL { Value::text("") } else { token } }
            }
            _ => {
                let (path, watch) = (self.path(reach), self.dice.chance(40));
                if watch {
                    self.note_watch(&path);
                }
                Body::PathWatch { path, watch }
            }
        }
    }

    /// An element that probably succeeds.
    fn tame_change(&mut self, op: OpCode, reach: Reach) -> Body {
        match op {
            OpCode::Delete | OpCode::Check => Body::PathVersion { path: self.tame_path(reach), version: -1 },
            OpCode::SetData => Body::SetData { path: self.tame_path(reach), data: self.data(), version: -1 },
            OpCode::CreateTtl => self.change(op, reach),
            _ => {
                let path = self.tame_new_path(reach);
                let flags = self.dice.weighted(&[(5, 0), (2, 1), (2, 2), (2, 3), (1, 4)]);
                Body::Create { path, data: self.data(), acl: AclList::open(), flags }
            }
        }
    }

    /// The body of a create, delete, setData or check.
    fn change(&mut self, op: OpCode, reach: Reach) -> Body {
        match op {
            OpCode::Delete | OpCode::Check => {
                let path = self.path(reach);
                Body::PathVersion { version: self.version(&path), path }
            }
            OpCode::SetData => {
                let path = self.path(reach);
                Body::SetData { data: self.data(), version: self.version(&path), path }
            }
            OpCode::CreateTtl => {
                let path = self.new_path(reach);
                let flags =
                    self.dice.weighted(&[(10, 5), (6, 6), (2, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 7), (1, -1)]);
                let ttl_ms = *self.dice.pick(&TTLS);
                // A negative ttl with other flags is deadly (see the table of intended differences).
                let ttl_ms = if (0..5).contains(&flags) { ttl_ms.max(0) } else { ttl_ms };
                Body::CreateTtl { data: self.data(), acl: self.acl(&path), path, flags, ttl_ms }
            }
            _ => {
                let path = self.new_path(reach);
                let flags =
                    self.dice.weighted(&[(20, 0), (9, 1), (5, 2), (5, 3), (2, 4), (1, 5), (1, 6), (1, 7), (1, -1)]);
                Body::Create { data: self.data(), acl: self.acl(&path), path, flags }
            }
        }
    }

    fn multi(&mut self, reach: Reach) -> Body {
        let mut elements = Vec::new();
        let tame = self.dice.chance(70);
        for _ in 0..self.dice.weighted(&[(1, 0), (6, 1), (8, 2), (8, 3), (4, 5), (2, 10)]) {
            let op = self.dice.weighted(ELEMENTS);
            let body = if tame { self.tame_change(op, reach) } else { self.change(op, reach) };
            elements.push(Element { op: op.code(), body });
        }
        if self.dice.chance(4) {
            let path = self.path(reach);
            let odd = match self.dice.below(4) {
                0 => Element {
                    op: OpCode::SetAcl.code(),
                    body: Body::SetAcl { path, acl: AclList::open(), version: -1 },
                },
                1 => Element { op: OpCode::GetData.code(), body: Body::PathWatch { path, watch: false } },
                2 => Element { op: OpCode::Error.code(), body: Body::Raw(vec![0; 4]) },
                _ => Element { op: OpCode::DeleteContainer.code(), body: Body::Path { path } },
            };
            elements.insert(self.dice.below(elements.len() + 1), odd);
        }
        Body::Multi { elements, ended: !self.dice.chance(2) }
    }

    fn multi_read(&mut self, reach: Reach) -> Body {
        let mut elements = Vec::new();
        for _ in 0..self.dice.below(6) {
            let op = self.dice.weighted(&[
                (10, OpCode::GetData),
                (8, OpCode::GetChildren),
                (1, OpCode::Check),
                (1, OpCode::Exists),
            ]);
            let body = match op {
                OpCode::Check => self.change(op, reach),
                _ => Body::PathWatch { path: self.path(reach), watch: self.dice.chance(30) },
            };
            elements.push(Element { op: op.code(), body });
        }
        Body::Multi { elements, ended: !self.dice.chance(2) }
    }

    fn set_watches(&mut self, lists: usize, reach: Reach) -> Body {
        let seen = match self.dice.below(10) {
            0 => Seen::Exactly(0),
            1 => Seen::Exactly(-1),
            2 => Seen::Last(100),
            3 | 4 => Seen::Last(0),
            _ => Seen::Last(-i64::try_from(self.dice.below(60)).unwrap_or(0)),
        };
        let lists = (0..lists).map(|_| self.watch_list(reach)).collect();
        Body::SetWatches { seen, lists }
    }

    fn watch_list(&mut self, reach: Reach) -> Option<Vec<Value>> {
        if self.dice.chance(2) {
            return None;
        }
        let mut paths = Vec::new();
        for _ in 0..self.dice.below(4) {
            // Nodes that the session may not read are a place of intended difference.
            let reach = match reach {
                Reach::All => Reach::Tree(self.dice.below(Self::PROTECTED)),
                within => within,
            };
            paths.push(self.plain_path(reach));
        }
        Some(paths)
    }

    /// A change of quota nodes: for the quota subtree or one of its nodes.
    fn quota_write(&mut self) -> Request {
        let node = self.existing(Reach::Tree(Self::QUOTA));
        let base = format!("/zookeeper/quota{node}");
        let (limits, usage) = (format!("{base}/zookeeper_limits"), format!("{base}/zookeeper_stats"));
        let mut text = Value::text(self.dice.pick(&QUOTAS));
        let target = self.dice.below(10);
        if target < 2 && self.dice.chance(10) {
            text = Value::text("count=x");
        }
        let create =
            |path: String, data| Body::Create { path: Value::text(path), data, acl: AclList::open(), flags: 0 };
        let delete = |path: String| Body::PathVersion { path: Value::text(path), version: -1 };
        let set = |path: String, data| Body::SetData { path: Value::text(path), data, version: -1 };
        let (op, body) = match target {
            0 => (OpCode::SetData, set(limits, text)),
            1 => (OpCode::Create, create(limits, text)),
            2 | 3 => (OpCode::Create, create(usage, text)),
            4 => (OpCode::SetData, set(usage, text)),
            5 => (OpCode::Delete, delete(limits)),
            6 => (OpCode::Delete, delete(usage)),
            _ => (OpCode::Create, create(base, Value::NULL)),
        };
        Request::new(op, body)
    }

    /// Data of all sizes, null and empty included.
    fn data(&mut self) -> Value {
        match self.dice.below(40) {
            0..=2 => Value::NULL,
            3..=7 => Value::text(""),
            8 | 9 => Value::fill(65 + self.dice.below(3000)),
            10 if self.dice.chance(20) => Value::fill(100_000),
            _ => {
                let bytes = (0..self.dice.below(30)).map(|_| b' ' + u8::try_from(self.dice.below(90)).unwrap_or(0));
                Value(Some(bytes.collect()))
            }
        }
    }

    fn version(&mut self, path: &Value) -> i32 {
        let known = path.as_str().map_or(0, |path| self.known.facts(path).version);
        self.near(known)
    }

    fn aversion(&mut self, path: &Value) -> i32 {
        let known = path.as_str().map_or(0, |path| self.known.facts(path).aversion);
        self.near(known)
    }

    fn near(&mut self, known: i32) -> i32 {
        self.dice.weighted(&[(8, -1), (7, known), (1, known.wrapping_add(1)), (1, known.wrapping_sub(1)), (1, -2)])
    }

    /// A list for a node at `path`: anything goes below the protected subtree, elsewhere everybody keeps all rights.
    fn acl(&mut self, path: &Value) -> AclList {
        if self.dice.chance(6) {
            return self.bad_acl();
        }
        let protected = &self.trees[Self::PROTECTED];
        let inside = path.as_str().and_then(|path| path.strip_prefix(protected.as_str()));
        if inside.is_some_and(|rest| !rest.trim_end_matches('/').is_empty()) && self.dice.chance(70) {
            let count = 1 + self.dice.below(3);
            return AclList(Some((0..count).map(|_| self.entry()).collect()));
        }
        let mut list = AclList::open();
        if self.dice.chance(15) {
            let entry = Entry::user(*self.dice.pick(&[1, 2, 16, 31]), "bob");
            list.0.as_mut().expect("open lists have entries").push(entry);
        }
        list
    }

    fn entry(&mut self) -> Entry {
        let perms = self.dice.weighted(&[
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
        let user = *self.dice.pick(&["bob", "alice", "eve"]);
        match self.dice.below(12) {
            0..=3 => Entry::new(perms, "world", "anyone"),
            4..=6 => Entry::user(perms, user),
            7 | 8 => Entry {
                perms,
                scheme: Value::text("auth"),
                id: self.dice.pick(&[Value::NULL, Value::text("")]).clone(),
            },
            9 => Entry::new(perms, "ip", "127.0.0.1"),
            10 => Entry::new(
                perms,
                "ip",
                self.dice.pick::<&str>(&["127.0.0.0/8", "10.0.0.1", "0.0.0.0/0", "+127.000.0.1/32"]),
            ),
            _ => Entry::new(perms, "digest", self.dice.pick::<&str>(&[":b", "a:b", "bob:x"])),
        }
    }

    fn bad_acl(&mut self) -> AclList {
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
        let (scheme, id) = *self.dice.pick(&bad);
        let one = |scheme, id| AclList(Some(vec![Entry { perms: 31, scheme, id }]));
        match self.dice.below(9) {
            0 => AclList(None),
            1 => AclList(Some(Vec::new())),
            2 => one(Value::NULL, Value::text("x")),
            3 => one(Value::text("world"), Value::NULL),
            4 => one(Value::text("digest"), Value::NULL),
            _ => one(Value::text(scheme), Value::text(id)),
        }
    }

    /// Now and then something about a request is unusual or broken.
    fn mutated(&mut self, mut request: Request) -> Request {
        if request.is_out_of_band() {
            return request;
        }
        match self.dice.below(100) {
            0 | 1 => {
                let length = request.body_bytes();
                if length != 0 {
                    request.cut = Some(self.dice.below(length));
                }
            }
            2 => request.tail = vec![0xab; 1 + self.dice.below(9)],
            3 => request.xid = Some(*self.dice.pick(&[0, -2, -3, -8, -9, 1, 7, i32::MAX, i32::MIN])),
            4 => null_path(&mut request.body),
            _ => (),
        }
        request
    }
}

/// Makes the path null, in a multi that of the last element.
fn null_path(body: &mut Body) {
    if let Body::Multi { elements, .. } = body {
        if let Some(element) = elements.last_mut() {
            null_path(&mut element.body);
        }
    } else if let Some(path) = body.path_mut() {
        *path = Value::NULL;
    }
}
