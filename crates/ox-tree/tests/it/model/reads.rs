//! Reads of the model. Names of children are sorted; their order in the tree is arbitrary.

use super::watches::Mode;
use super::{Client, MARSHALLING, Model, internal, reply};
use crate::request::{Bytes, Entry};

/// A read, or a change of watches.
#[derive(Clone, Debug)]
pub(crate) enum ReadOp {
    Exists { path: Option<String>, watch: bool },
    GetData { path: Option<String>, watch: bool },
    GetChildren { path: Option<String>, watch: bool, with_stat: bool },
    GetAcl { path: Option<String> },
    AllChildrenNumber { path: Option<String> },
    Ephemerals { prefix: Option<String> },
    MultiRead(Vec<(bool, Option<String>)>),
    AddWatch { path: Option<String>, mode: i32 },
    CheckWatches { path: Option<String>, kind: i32 },
    RemoveWatches { path: Option<String>, kind: i32 },
    SetWatches { all_five: bool, relative: i64, lists: [Vec<String>; 5] },
    Sync { path: Option<String> },
    Ping,
}

/// The key of a null path, which no node has.
const NULL: &str = "\0";

impl ReadOp {
    pub(crate) fn code(&self) -> i32 {
        match self {
            ReadOp::Exists { .. } => 3,
            ReadOp::GetData { .. } => 4,
            ReadOp::GetChildren { with_stat: false, .. } => 8,
            ReadOp::GetChildren { with_stat: true, .. } => 12,
            ReadOp::GetAcl { .. } => 6,
            ReadOp::AllChildrenNumber { .. } => 104,
            ReadOp::Ephemerals { .. } => 103,
            ReadOp::MultiRead(_) => 22,
            ReadOp::AddWatch { .. } => 106,
            ReadOp::CheckWatches { .. } => 17,
            ReadOp::RemoveWatches { .. } => 18,
            ReadOp::SetWatches { all_five: false, .. } => 101,
            ReadOp::SetWatches { all_five: true, .. } => 105,
            ReadOp::Sync { .. } => 9,
            ReadOp::Ping => 11,
        }
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let out = Bytes::default();
        match self {
            ReadOp::Exists { path, watch }
            | ReadOp::GetData { path, watch }
            | ReadOp::GetChildren { path, watch, .. } => out.text(path.as_deref()).bool(*watch),
            ReadOp::GetAcl { path } | ReadOp::AllChildrenNumber { path } | ReadOp::Sync { path } => {
                out.text(path.as_deref())
            }
            ReadOp::Ephemerals { prefix } => out.text(prefix.as_deref()),
            ReadOp::MultiRead(elements) => {
                let code = |is_data: bool| if is_data { 4 } else { 8 };
                let put = |out: Bytes, (is_data, path): &(bool, Option<String>)| {
                    out.element(code(*is_data), -1).text(path.as_deref()).bool(true)
                };
                elements.iter().fold(out, put).end()
            }
            ReadOp::AddWatch { path, mode: kind }
            | ReadOp::CheckWatches { path, kind }
            | ReadOp::RemoveWatches { path, kind } => out.text(path.as_deref()).int(*kind),
            ReadOp::SetWatches { all_five, relative, lists } => {
                let lists = &lists[..if *all_five { 5 } else { 3 }];
                lists.iter().fold(out.long(*relative), |out, list| out.texts(list.iter().map(String::as_str)))
            }
            ReadOp::Ping => out,
        }
        .0
    }
}

impl Model {
    /// The complete reply, preceded by the events of re-armed watches.
    pub(crate) fn read(&mut self, client: &Client, conn: usize, xid: i32, read: &ReadOp) -> Vec<u8> {
        if let ReadOp::SetWatches { all_five, relative, lists } = read {
            let events = self.rearm(client, conn, *relative, &lists[..if *all_five { 5 } else { 3 }]);
            return [events, reply(xid, self.zxid, 0, &[])].concat();
        }
        let (err, body) = match self.read_body(client, conn, read) {
            Ok(body) => (0, body),
            Err((err, body)) => (err, body),
        };
        let xid = if matches!(read, ReadOp::Ping) { -2 } else { xid };
        reply(xid, self.zxid, err, &body)
    }

    fn readable<'a>(&self, client: &Client, path: &'a Option<String>) -> Result<&'a str, i32> {
        let path = internal(path.as_deref().ok_or(MARSHALLING)?);
        self.exists(path)?;
        self.check_acl(path, client, 1)?;
        Ok(path)
    }

    fn read_body(&mut self, client: &Client, conn: usize, read: &ReadOp) -> Result<Vec<u8>, (i32, Vec<u8>)> {
        let refused = |code: i32| (code, Vec::new());
        match read {
            ReadOp::Exists { path: Some(path), .. } if path.contains('\0') => Err(refused(-8)),
            ReadOp::Exists { path, watch } => {
                let found = self.readable(client, path);
                if let (true, Some(path), true) = (*watch, path, !matches!(found, Err(-102))) {
                    self.watches.add(conn, path, false, Mode::Standard);
                }
                found.map(|path| self.stat(path)).map_err(refused)
            }
            ReadOp::GetData { path, watch } => {
                let found = self.readable(client, path).map_err(refused)?;
                if *watch {
                    self.watches.add(conn, path.as_ref().unwrap(), false, Mode::Standard);
                }
                Ok(self.put_data(found))
            }
            ReadOp::GetChildren { path, watch, with_stat } => {
                let found = self.readable(client, path).map_err(refused)?;
                if *watch {
                    self.watches.add(conn, path.as_ref().unwrap(), true, Mode::Standard);
                }
                let stat = if *with_stat { self.stat(found) } else { Vec::new() };
                Ok([self.put_children(found), stat].concat())
            }
            ReadOp::GetAcl { path } => self.get_acl(client, path).map_err(refused),
            ReadOp::AllChildrenNumber { path } => {
                let found = self.readable(client, path).map_err(refused)?;
                let below = self.nodes.keys().filter(|path| path.starts_with(&format!("{found}/"))).count();
                let alias = usize::from(path.as_deref() == Some(""));
                Ok(Bytes::default().int(i32::try_from(below + alias).unwrap()).0)
            }
            ReadOp::Ephemerals { prefix } => {
                let prefix = prefix.as_deref().unwrap_or_default();
                let all = matches!(prefix.trim(), "" | "/");
                let mut paths = self.ephemerals(client.session);
                paths.retain(|path| all || path.starts_with(prefix));
                Ok(Bytes::default().texts(paths.iter().map(String::as_str)).0)
            }
            ReadOp::MultiRead(elements) => self.multi_read(client, elements),
            ReadOp::AddWatch { path, mode } => {
                let mode = match mode {
                    0 => Mode::Persistent,
                    1 => Mode::Recursive,
                    _ => return Err(refused(MARSHALLING)),
                };
                self.add_persistent(conn, path.as_deref().unwrap_or(NULL), mode);
                Ok(vec![0; 4])
            }
            ReadOp::CheckWatches { path, kind } => self.find_watches(conn, path, *kind, false).map_err(refused),
            ReadOp::RemoveWatches { path, kind } => self.find_watches(conn, path, *kind, true).map_err(refused),
            ReadOp::Sync { path } => Ok(Bytes::default().text(path.as_deref()).0),
            ReadOp::Ping => Ok(Vec::new()),
            ReadOp::SetWatches { .. } => unreachable!("handled by the caller"),
        }
    }

    fn put_data(&self, path: &str) -> Vec<u8> {
        Bytes::default().buffer(self.nodes[path].data.as_deref()).raw(&self.stat(path)).0
    }

    fn put_children(&self, path: &str) -> Vec<u8> {
        Bytes::default().texts(self.children(path).iter().map(String::as_str)).0
    }

    fn multi_read(&self, client: &Client, elements: &[(bool, Option<String>)]) -> Result<Vec<u8>, (i32, Vec<u8>)> {
        let mut out = Bytes::default();
        for (is_data, path) in elements {
            out = match self.readable(client, path) {
                Ok(path) if *is_data => out.element(4, 0).raw(&self.put_data(path)),
                Ok(path) => out.element(8, 0).raw(&self.put_children(path)),
                Err(MARSHALLING) => return Err((MARSHALLING, out.end().0)),
                Err(code) => out.element(-1, code).int(code),
            };
        }
        Ok(out.end().0)
    }

    fn get_acl(&self, client: &Client, path: &Option<String>) -> Result<Vec<u8>, i32> {
        let path = internal(path.as_deref().ok_or(MARSHALLING)?);
        self.exists(path)?;
        self.check_acl(path, client, 1 | 16)?;
        let sees_all = self.check_acl(path, client, 16).is_ok();
        let shown = |(perms, scheme, id): &(i32, String, String)| -> Entry {
            let is_hidden = scheme == "digest" && !sees_all;
            let id = if is_hidden { format!("{}:x", id.split(':').next().unwrap()) } else { id.clone() };
            (*perms, Some(scheme.clone()), Some(id))
        };
        let open = vec![(31, "world".to_owned(), "anyone".to_owned())];
        let acl: Vec<Entry> = self.nodes[path].acl.as_ref().unwrap_or(&open).iter().map(shown).collect();
        Ok(Bytes::default().acl(Some(&acl)).raw(&self.stat(path)).0)
    }

    fn add_persistent(&mut self, conn: usize, path: &str, mode: Mode) {
        self.watches.add(conn, path, false, mode);
        if mode == Mode::Persistent {
            self.watches.add(conn, path, true, mode);
        }
    }

    fn find_watches(&mut self, conn: usize, path: &Option<String>, kind: i32, remove: bool) -> Result<Vec<u8>, i32> {
        use Mode::{Persistent, Recursive, Standard};
        let all: &[Mode] = &[Standard, Persistent, Recursive];
        let (data, child): (&[Mode], &[Mode]) = match kind {
            1 => (&[], &[Standard]),
            2 => (&[Standard], &[]),
            3 => (all, all),
            4 => (&[Persistent], &[Persistent]),
            5 => (&[Recursive], &[]),
            _ => return Err(MARSHALLING),
        };
        let key = (path.clone().unwrap_or(NULL.to_owned()), conn);
        let mut found = false;
        for (table, modes) in [(&mut self.watches.data, data), (&mut self.watches.child, child)] {
            let Some(mine) = table.get_mut(&key) else { continue };
            found |= modes.iter().any(|mode| mine.contains(mode));
            if remove {
                mine.retain(|mode| !modes.contains(mode));
            }
            table.retain(|_, modes| !modes.is_empty());
        }
        if found { Ok(Vec::new()) } else { Err(-121) }
    }

    fn rearm(&mut self, client: &Client, conn: usize, relative: i64, lists: &[Vec<String>]) -> Vec<u8> {
        let mut events = Vec::new();
        for (list, paths) in lists.iter().enumerate() {
            for path in paths {
                let node = self.nodes.get(internal(path));
                let may_read = node.is_none_or(|node| Self::allows(&node.acl, client, 1));
                let event = match (list, node) {
                    _ if !may_read => None,
                    (0 | 2, None) => Some(2),
                    (0, Some(node)) if node.mzxid > relative => Some(3),
                    (1, Some(_)) => Some(1),
                    (2, Some(node)) if node.pzxid > relative => Some(4),
                    _ => None,
                };
                match event {
                    Some(kind) => {
                        let body = Bytes::default().int(kind).int(3).text(Some(path)).0;
                        events.extend(reply(-1, -1, 0, &body));
                    }
                    None if list < 2 => self.watches.add(conn, path, false, Mode::Standard),
                    None if list == 2 => self.watches.add(conn, path, true, Mode::Standard),
                    None if list == 3 => self.add_persistent(conn, path, Mode::Persistent),
                    None => self.add_persistent(conn, path, Mode::Recursive),
                }
            }
        }
        events
    }
}
