//! Requests and replies, independent of their encoding.

use ox_proto::acl::RawAcl;
use ox_proto::{Acl, OpCode, Stat, Zxid};

/// An ACL as a client sends it: the list, schemes and ids may be null.
pub type RequestedAcl = Option<Vec<RawAcl<'static>>>;

/// The request for exactly this list.
pub fn requested(acl: &[Acl]) -> RequestedAcl {
    let text = |text: &str| Some(text.to_owned().into());
    Some(acl.iter().map(|acl| RawAcl { perms: acl.perms, scheme: text(&acl.scheme), id: text(&acl.id) }).collect())
}

/// A create of any type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// create, create2, createContainer or createTTL.
    pub op: OpCode,
    /// Full path, or its prefix for sequential modes.
    pub path: String,
    pub data: Option<Vec<u8>>,
    pub acl: RequestedAcl,
    /// Create mode as a number.
    pub flags: i32,
    /// Only used by createTTL.
    pub ttl_ms: i64,
}

impl Create {
    /// A plain create with an open ACL.
    pub fn open(path: &str, data: &[u8], flags: i32) -> Self {
        let acl = requested(&[Acl::new(31, "world", "anyone")]);
        Self { op: OpCode::Create, path: path.to_owned(), data: Some(data.to_vec()), acl, flags, ttl_ms: 0 }
    }

    /// Whether the server appends a sequence number.
    pub fn is_sequential(&self) -> bool {
        matches!(self.flags, 2 | 3 | 6)
    }
}

/// The arguments of a reconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconfigOp {
    /// Servers to add or change, comma separated.
    pub joining: Option<String>,
    /// Ids of servers to remove, comma separated.
    pub leaving: Option<String>,
    /// The complete new membership instead.
    pub members: Option<String>,
    /// Expected configuration version; -1 means any.
    pub from: i64,
}

/// A reconfig without changes.
impl Default for ReconfigOp {
    fn default() -> Self {
        Self { joining: None, leaving: None, members: None, from: -1 }
    }
}

/// Operations and fields have the names and meanings of the client protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        acl: RequestedAcl,
        version: i32,
    },
    /// Only within a multi.
    Check {
        path: String,
        version: i32,
    },
    Multi(Vec<Op>),
    Reconfig(ReconfigOp),
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
    /// This request with a null path.
    NullPath(Box<Op>),
    /// A known operation with a truncated body.
    Broken(OpCode),
    Unknown(i32),
}

impl Op {
    /// The opcode in the request's header.
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
            Self::NullPath(op) => return op.code(),
            Self::Broken(op) => *op,
            Self::Unknown(code) => return *code,
        };
        code.code()
    }

    /// Whether it is ordered with the writes, even if it fails.
    pub fn is_write(&self) -> bool {
        match self {
            Self::Create(_)
            | Self::Delete { .. }
            | Self::SetData { .. }
            | Self::SetAcl { .. }
            | Self::Reconfig(_)
            | Self::CloseSession => true,
            Self::NullPath(op) => op.is_write(),
            Self::Multi(elements) => !ends_at_null_acl(elements),
            // An undecodable multi takes a zxid, any other undecodable write does not.
            Self::Broken(op) => *op == OpCode::Multi,
            _ => false,
        }
    }

    #[must_use]
    pub fn with_acl(mut self, new: RequestedAcl) -> Self {
        if let Self::Create(Create { acl, .. }) | Self::SetAcl { acl, .. } = &mut self {
            *acl = new;
        }
        self
    }

    #[must_use]
    pub fn with_data(mut self, new: Option<&[u8]>) -> Self {
        if let Self::Create(Create { data, .. }) | Self::SetData { data, .. } = &mut self {
            *data = new.map(<[u8]>::to_vec);
        }
        self
    }

    /// With this expected version.
    #[must_use]
    pub fn at_version(mut self, new: i32) -> Self {
        if let Self::Delete { version, .. }
        | Self::SetData { version, .. }
        | Self::SetAcl { version, .. }
        | Self::Check { version, .. } = &mut self
        {
            *version = new;
        }
        self
    }

    /// With another path, or with a null one. Operations without a path do not change.
    #[must_use]
    pub fn with_path(mut self, new: Option<&str>) -> Self {
        match (self.path_mut(), new) {
            (None, _) => self,
            (Some(path), Some(new)) => {
                new.clone_into(path);
                self
            }
            (Some(_), None) => Self::NullPath(Box::new(self)),
        }
    }

    /// The path, if the operation has exactly one.
    pub fn path_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Create(Create { path, .. })
            | Self::Delete { path, .. }
            | Self::SetData { path, .. }
            | Self::SetAcl { path, .. }
            | Self::Check { path, .. }
            | Self::Exists { path, .. }
            | Self::GetData { path, .. }
            | Self::GetChildren { path, .. }
            | Self::GetChildren2 { path, .. }
            | Self::GetAcl { path }
            | Self::GetAllChildrenNumber { path }
            | Self::GetEphemerals { prefix: path }
            | Self::Sync { path }
            | Self::AddWatch { path, .. }
            | Self::CheckWatches { path, .. }
            | Self::RemoveWatches { path, .. } => Some(path),
            _ => None,
        }
    }
}

/// Whether a server gives up reading these elements of a multi at a create without a list. Such a multi takes no zxid,
/// unlike one that is given up for another reason.
fn ends_at_null_acl(elements: &[Op]) -> bool {
    for element in elements {
        let element = if let Op::NullPath(element) = element { element } else { element };
        match element {
            Op::Create(create) if create.op == OpCode::CreateTtl => (),
            Op::Create(create) if (0..=6).contains(&create.flags) && create.acl.is_none() => return true,
            Op::Create(create) if (0..=4).contains(&create.flags) => (),
            Op::Delete { .. } | Op::SetData { .. } | Op::Check { .. } => (),
            _ => return false,
        }
    }
    false
}

/// Bodies and fields have the names and meanings of the client protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyBody {
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
    Multi(Vec<ElementResult>),
    /// Bytes that are not a valid reply to the request.
    Undecodable,
}

impl ReplyBody {
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

    /// Sorts lists whose order has no meaning.
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
pub struct ElementResult {
    /// Type in its header, -1 for an error.
    pub op: i32,
    /// Error code in its header.
    pub err: i32,
    pub body: ReplyBody,
}

impl ElementResult {
    pub fn error(err: i32) -> Self {
        Self { op: -1, err, body: ReplyBody::Empty }
    }
}

/// Error code and body of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpResult {
    /// 0 or an error code.
    pub err: i32,
    pub body: ReplyBody,
}

impl OpResult {
    pub fn ok(body: ReplyBody) -> Self {
        Self { err: 0, body }
    }

    pub fn error(err: i32) -> Self {
        Self { err, body: ReplyBody::Empty }
    }
}
