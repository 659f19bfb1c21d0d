//! Requests and answers in a form of their own, free of the encoding.

use ox_proto::{Acl, OpCode, Stat, Zxid};

/// A create of any type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// create, create2, createContainer or createTTL.
    pub op: OpCode,
    /// Path, or its prefix for sequential modes.
    pub path: String,
    /// Data, possibly null.
    pub data: Option<Vec<u8>>,
    /// Access control list.
    pub acl: Vec<Acl>,
    /// One of the create modes.
    pub flags: i32,
    /// Time to live, for createTTL only.
    pub ttl_ms: i64,
}

impl Create {
    /// A plain create, open to everybody.
    pub fn open(path: &str, data: &[u8], flags: i32) -> Self {
        let acl = vec![Acl::new(31, "world", "anyone")];
        Self { op: OpCode::Create, path: path.to_owned(), data: Some(data.to_vec()), acl, flags, ttl_ms: 0 }
    }

    /// Whether the server appends a number.
    pub fn is_sequential(&self) -> bool {
        matches!(self.flags, 2 | 3 | 6)
    }
}

/// A change of the ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconfig {
    /// Servers that join or change, separated by commas.
    pub joining: Option<String>,
    /// Numbers of those that leave, separated by commas.
    pub leaving: Option<String>,
    /// All servers instead.
    pub members: Option<String>,
    /// The version it is meant for; -1 is any.
    pub from: i64,
}

/// One that asks for nothing.
impl Default for Reconfig {
    fn default() -> Self {
        Self { joining: None, leaving: None, members: None, from: -1 }
    }
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "operations and fields have the names and meanings of the client protocol")]
pub enum Op {
    Create(Create),
    Delete {
        path: String,
        version: i32,
    },
    SetData {
        path: String,
        data: Option<Vec<u8>>,
        version: i32,
    },
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        version: i32,
    },
    /// Only inside a multi.
    Check {
        path: String,
        version: i32,
    },
    Multi(Vec<Op>),
    Reconfig(Reconfig),
    CloseSession,
    Exists {
        path: String,
        watch: bool,
    },
    GetData {
        path: String,
        watch: bool,
    },
    GetChildren {
        path: String,
        watch: bool,
    },
    GetChildren2 {
        path: String,
        watch: bool,
    },
    GetAcl {
        path: String,
    },
    GetAllChildrenNumber {
        path: String,
    },
    GetEphemerals {
        prefix: String,
    },
    Sync {
        path: String,
    },
    MultiRead(Vec<Op>),
    Ping,
    WhoAmI,
    AddWatch {
        path: String,
        mode: i32,
    },
    CheckWatches {
        path: String,
        kind: i32,
    },
    RemoveWatches {
        path: String,
        kind: i32,
    },
    /// The first `lists` of the five lists are sent: 3 for setWatches, 5 for setWatches2.
    SetWatches {
        relative: Zxid,
        lists: Vec<Vec<String>>,
    },
    Auth {
        scheme: String,
        auth: Vec<u8>,
    },
    Sasl {
        token: Vec<u8>,
    },
    /// A known operation whose body ends too early.
    Broken(OpCode),
    /// An operation that does not exist.
    Unknown(i32),
}

impl Op {
    /// The type that stands in the request's header.
    pub fn code(&self) -> i32 {
        let code = match self {
            Self::Create(create) => create.op,
            Self::Delete { .. } => OpCode::Delete,
            Self::SetData { .. } => OpCode::SetData,
            Self::SetAcl { .. } => OpCode::SetAcl,
            Self::Check { .. } => OpCode::Check,
            Self::Multi(_) => OpCode::Multi,
            Self::Reconfig(_) => OpCode::Reconfig,
            Self::CloseSession => OpCode::CloseSession,
            Self::Exists { .. } => OpCode::Exists,
            Self::GetData { .. } => OpCode::GetData,
            Self::GetChildren { .. } => OpCode::GetChildren,
            Self::GetChildren2 { .. } => OpCode::GetChildren2,
            Self::GetAcl { .. } => OpCode::GetAcl,
            Self::GetAllChildrenNumber { .. } => OpCode::GetAllChildrenNumber,
            Self::GetEphemerals { .. } => OpCode::GetEphemerals,
            Self::Sync { .. } => OpCode::Sync,
            Self::MultiRead(_) => OpCode::MultiRead,
            Self::Ping => OpCode::Ping,
            Self::WhoAmI => OpCode::WhoAmI,
            Self::AddWatch { .. } => OpCode::AddWatch,
            Self::CheckWatches { .. } => OpCode::CheckWatches,
            Self::RemoveWatches { .. } => OpCode::RemoveWatches,
            Self::SetWatches { lists, .. } if lists.len() == 5 => OpCode::SetWatches2,
            Self::SetWatches { .. } => OpCode::SetWatches,
            Self::Auth { .. } => OpCode::Auth,
            Self::Sasl { .. } => OpCode::Sasl,
            Self::Broken(op) => *op,
            Self::Unknown(code) => return *code,
        };
        code.code()
    }

    /// Whether it goes through the order of writes, whatever becomes of it there.
    pub fn is_write(&self) -> bool {
        match self {
            Self::Create(_)
            | Self::Delete { .. }
            | Self::SetData { .. }
            | Self::SetAcl { .. }
            | Self::Multi(_)
            | Self::Reconfig(_)
            | Self::CloseSession => true,
            // An undecodable multi takes a zxid, any other undecodable write does not.
            Self::Broken(op) => *op == OpCode::Multi,
            _ => false,
        }
    }
}

/// The body of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "bodies and fields have the names and meanings of the client protocol")]
pub enum Body {
    Empty,
    Path(String),
    Created(String, Stat),
    Stat(Stat),
    Data(Option<Vec<u8>>, Stat),
    /// Names in any order.
    Children(Vec<String>),
    ChildrenStat(Vec<String>, Stat),
    Acl(Vec<Acl>, Stat),
    Number(i32),
    /// Paths in any order.
    Paths(Vec<String>),
    /// Scheme and user, in any order.
    Identities(Vec<(String, String)>),
    Multi(Vec<Element>),
    /// Bytes that are no answer to the request.
    Undecodable,
}

impl Body {
    /// The stat it shows, if it shows one.
    pub fn stat(&self) -> Option<&Stat> {
        match self {
            Self::Created(_, stat)
            | Self::Stat(stat)
            | Self::Data(_, stat)
            | Self::ChildrenStat(_, stat)
            | Self::Acl(_, stat) => Some(stat),
            _ => None,
        }
    }

    /// Brings lists whose order means nothing into one order.
    #[must_use]
    pub fn normal(mut self) -> Self {
        match &mut self {
            Self::Children(names) | Self::ChildrenStat(names, _) | Self::Paths(names) => names.sort_unstable(),
            Self::Identities(ids) => ids.sort_unstable(),
            Self::Multi(elements) => {
                for element in elements {
                    element.body = std::mem::replace(&mut element.body, Self::Empty).normal();
                }
            }
            _ => (),
        }
        self
    }
}

/// One result of a multi or multiRead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Type in its header, -1 for an error.
    pub op: i32,
    /// Code in its header.
    pub err: i32,
    /// What follows.
    pub body: Body,
}

impl Element {
    /// An error result.
    pub fn error(err: i32) -> Self {
        Self { op: -1, err, body: Body::Empty }
    }
}

/// Code and body of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 0 or an error code.
    pub err: i32,
    /// The rest.
    pub body: Body,
}

impl Answer {
    /// Success.
    pub fn ok(body: Body) -> Self {
        Self { err: 0, body }
    }

    /// Failure without a body.
    pub fn error(err: i32) -> Self {
        Self { err, body: Body::Empty }
    }
}
