//! Requests of tests, and their encoding. Shares no code with the server.

/// An ACL entry; scheme and id may be null.
pub(crate) type Entry = (i32, Option<String>, Option<String>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    /// create (1), create2 (15), createContainer (19) and createTTL (21).
    Create {
        code: i32,
        path: Option<String>,
        data: Option<Vec<u8>>,
        acl: Option<Vec<Entry>>,
        flags: i32,
        ttl: i64,
    },
    Delete {
        path: Option<String>,
        version: i32,
    },
    SetData {
        path: Option<String>,
        data: Option<Vec<u8>>,
        version: i32,
    },
    SetAcl {
        path: Option<String>,
        acl: Option<Vec<Entry>>,
        version: i32,
    },
    Check {
        path: Option<String>,
        version: i32,
    },
    Multi(Vec<Op>),
    /// A request with a body that ends early.
    Garbage(i32),
}

#[derive(Default)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Bytes {
    pub(crate) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn bool(mut self, value: bool) -> Self {
        self.0.push(u8::from(value));
        self
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    pub(crate) fn buffer(self, bytes: Option<&[u8]>) -> Self {
        match bytes {
            None => self.int(-1),
            Some(bytes) => self.int(i32::try_from(bytes.len()).unwrap()).raw(bytes),
        }
    }

    pub(crate) fn text(self, text: Option<&str>) -> Self {
        self.buffer(text.map(str::as_bytes))
    }

    pub(crate) fn texts<'a>(self, texts: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let out = self.int(i32::try_from(texts.len()).unwrap());
        texts.fold(out, |out, text| out.text(Some(text)))
    }

    pub(crate) fn acl(self, acl: Option<&[Entry]>) -> Self {
        let Some(acl) = acl else { return self.int(-1) };
        let out = self.int(i32::try_from(acl.len()).unwrap());
        acl.iter().fold(out, |out, (perms, scheme, id)| out.int(*perms).text(scheme.as_deref()).text(id.as_deref()))
    }

    /// The header of an element in a multi.
    pub(crate) fn element(self, code: i32, err: i32) -> Self {
        self.int(code).bool(false).int(err)
    }

    pub(crate) fn end(self) -> Self {
        self.int(-1).bool(true).int(-1)
    }
}

impl Op {
    pub(crate) fn code(&self) -> i32 {
        match self {
            Op::Create { code, .. } | Op::Garbage(code) => *code,
            Op::Delete { .. } => 2,
            Op::SetData { .. } => 5,
            Op::SetAcl { .. } => 7,
            Op::Check { .. } => 13,
            Op::Multi(_) => 14,
        }
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let out = Bytes::default();
        match self {
            Op::Create { code, path, data, acl, flags, ttl } => {
                let out = out.text(path.as_deref()).buffer(data.as_deref()).acl(acl.as_deref()).int(*flags);
                if *code == 21 { out.long(*ttl) } else { out }
            }
            Op::Delete { path, version } | Op::Check { path, version } => out.text(path.as_deref()).int(*version),
            Op::SetData { path, data, version } => out.text(path.as_deref()).buffer(data.as_deref()).int(*version),
            Op::SetAcl { path, acl, version } => out.text(path.as_deref()).acl(acl.as_deref()).int(*version),
            Op::Multi(elements) => {
                elements.iter().fold(out, |out, element| out.element(element.code(), -1).raw(&element.body())).end()
            }
            Op::Garbage(_) => out.raw(&[0, 0]),
        }
        .0
    }
}

/// `world:anyone` with all permissions.
pub(crate) fn open() -> Option<Vec<Entry>> {
    Some(vec![entry(31, "world", "anyone")])
}

pub(crate) fn entry(perms: i32, scheme: &str, id: &str) -> Entry {
    (perms, Some(scheme.to_owned()), Some(id.to_owned()))
}

pub(crate) fn create(path: &str, flags: i32) -> Op {
    Op::Create { code: 1, path: Some(path.into()), data: Some(b"data".to_vec()), acl: open(), flags, ttl: 0 }
}

pub(crate) fn create2(path: &str, flags: i32) -> Op {
    create(path, flags).with_code(15)
}

pub(crate) fn container(path: &str, flags: i32) -> Op {
    create(path, flags).with_code(19)
}

pub(crate) fn create_ttl(path: &str, flags: i32, ttl: i64) -> Op {
    let mut op = create(path, flags).with_code(21);
    if let Op::Create { ttl: field, .. } = &mut op {
        *field = ttl;
    }
    op
}

pub(crate) fn set_acl(path: &str, acl: &[Entry]) -> Op {
    Op::SetAcl { path: Some(path.into()), acl: Some(acl.to_vec()), version: -1 }
}

pub(crate) fn check(path: &str, version: i32) -> Op {
    Op::Check { path: Some(path.into()), version }
}

// Builders that change one field.
impl Op {
    fn with_code(mut self, new: i32) -> Self {
        if let Op::Create { code, .. } = &mut self {
            *code = new;
        }
        self
    }

    pub(crate) fn with_acl(mut self, new: Option<Vec<Entry>>) -> Self {
        if let Op::Create { acl, .. } | Op::SetAcl { acl, .. } = &mut self {
            *acl = new;
        }
        self
    }

    pub(crate) fn with_data(mut self, new: Option<&[u8]>) -> Self {
        if let Op::Create { data, .. } | Op::SetData { data, .. } = &mut self {
            *data = new.map(<[u8]>::to_vec);
        }
        self
    }

    pub(crate) fn at_version(mut self, new: i32) -> Self {
        if let Op::Delete { version, .. }
        | Op::SetData { version, .. }
        | Op::SetAcl { version, .. }
        | Op::Check { version, .. } = &mut self
        {
            *version = new;
        }
        self
    }

    pub(crate) fn with_path(mut self, new: Option<&str>) -> Self {
        if let Op::Create { path, .. }
        | Op::Delete { path, .. }
        | Op::SetData { path, .. }
        | Op::SetAcl { path, .. }
        | Op::Check { path, .. } = &mut self
        {
            *path = new.map(str::to_owned);
        }
        self
    }
}

pub(crate) fn delete(path: &str) -> Op {
    Op::Delete { path: Some(path.into()), version: -1 }
}

pub(crate) fn set_data(path: &str, data: &str) -> Op {
    Op::SetData { path: Some(path.into()), data: Some(data.into()), version: -1 }
}
