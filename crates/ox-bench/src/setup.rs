//! Set-up and clean-up: creates the nodes of a [`TreeLayout`] and deletes them.
//!
//! The root's data marks it as created by this tool and, once all nodes exist, describes them. So the next run
//! recognises the nodes of an interrupted one, an equal run can reuse them, and nodes of other clients are never
//! deleted.

use crate::failure::{self, ClosedConnection};
use crate::limits::{CLEAN_ATTEMPTS, CLEAN_PAUSE};
use crate::progress::ProgressLine;
use crate::session::{BenchTarget, Session};
use crate::stop_flag::StopFlag;
use crate::tree_layout::{MARK, TreeLayout};
use anyhow::{Result, bail};
use ox_proto::request::SetDataRequest;
use ox_proto::{ErrorCode, OpCode};

/// Which nodes a run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Root,
    Keys,
    /// Parents and keys, and parents for nodes that the load creates.
    KeysAndCreateParents,
}

/// Creates the nodes, unless all of them exist from an earlier run.
pub fn prepare(
    target: BenchTarget,
    layout: &TreeLayout,
    needs: Needs,
    stop: &StopFlag,
    progress: &ProgressLine,
) -> Result<()> {
    Claim::of(target, layout)?.create(layout, needs, stop, progress)
}

/// The root node, which is this tool's from now on: an end of the run must delete it.
#[derive(Debug)]
pub struct Claim {
    session: Session,
    /// The data of the root, if it exists from an earlier run.
    found: Option<Vec<u8>>,
}

impl Claim {
    /// Creates the root, or takes over that of an earlier run.
    pub fn of(target: BenchTarget, layout: &TreeLayout) -> Result<Self> {
        let mut session = Session::open(target)?;
        let found = claim_root(&mut session, &layout.root)?;
        Ok(Self { session, found })
    }

    /// Creates the nodes below the root, unless all of them exist.
    pub fn create(self, layout: &TreeLayout, needs: Needs, stop: &StopFlag, progress: &ProgressLine) -> Result<()> {
        create(self.session, self.found, layout, needs, stop, progress)
    }
}

fn create(
    mut session: Session,
    found: Option<Vec<u8>>,
    layout: &TreeLayout,
    needs: Needs,
    stop: &StopFlag,
    progress: &ProgressLine,
) -> Result<()> {
    let finished = finished_mark(layout);
    match found {
        Some(found) if found == finished && needs != Needs::Root => {
            for parent in list(&mut session, &layout.root)?.iter().filter(|name| name.starts_with('c')) {
                delete_tree(&mut session, &format!("{}/{parent}", layout.root), progress)?;
            }
            if needs == Needs::KeysAndCreateParents {
                create_all(
                    &mut session,
                    layout.parents,
                    &|parent| layout.create_parent_path(parent),
                    &[],
                    stop,
                    progress,
                )?;
            }
            return session.close();
        }
        Some(_) => {
            delete_tree(&mut session, &layout.root, progress)?;
            claim_root(&mut session, &layout.root)?;
        }
        None => (),
    }
    if needs != Needs::Root {
        create_all(&mut session, layout.parents, &|parent| layout.parent_path(parent), &[], stop, progress)?;
        create_all(&mut session, layout.keys, &|key| layout.key_path(key), &layout.data(), stop, progress)?;
    }
    if needs == Needs::KeysAndCreateParents {
        create_all(&mut session, layout.parents, &|parent| layout.create_parent_path(parent), &[], stop, progress)?;
    }
    let mark = SetDataRequest { path: Some(layout.root.as_str().into()), data: Some(&finished), version: -1 };
    session.call(OpCode::SetData, &mark)?;
    progress.clear();
    session.close()
}

/// Deletes everything that a run created. Returns false if there was nothing.
pub fn clean(target: BenchTarget, root: &str, progress: &ProgressLine) -> Result<bool> {
    let mut session = open_patiently(target)?;
    let exists = match session.data(root)? {
        Ok(data) if data.starts_with(MARK) => true,
        Ok(_) => return Err(foreign(root)),
        Err(code) if code == ErrorCode::NoNode.code() => false,
        Err(code) => return Err(failure::refused(&format!("read {root}"), code)),
    };
    if exists {
        delete_tree(&mut session, root, progress)?;
    }
    progress.clear();
    session.close()?;
    Ok(exists)
}

/// Opens a session. A server that refuses it may still count connections that this program has just closed, so the
/// attempt is repeated for some time.
fn open_patiently(target: BenchTarget) -> Result<Session> {
    for _ in 0..CLEAN_ATTEMPTS {
        match Session::open(target) {
            Err(error) if error.downcast_ref().is_some_and(ClosedConnection::is_before_session) => {
                std::thread::sleep(CLEAN_PAUSE);
            }
            opened => return opened,
        }
    }
    Session::open(target)
}

fn finished_mark(layout: &TreeLayout) -> Vec<u8> {
    let TreeLayout { parents, keys, data_bytes, .. } = layout;
    [MARK, format!(": {keys} keys of {data_bytes} bytes below {parents} parents").as_bytes()].concat()
}

/// Creates the root, or returns the data of an existing root of this tool.
fn claim_root(session: &mut Session, root: &str) -> Result<Option<Vec<u8>>> {
    let err = session.create(root, MARK)?;
    match ErrorCode::try_from(err) {
        _ if err == 0 => Ok(None),
        Ok(ErrorCode::NodeExists) => match session.data(root)? {
            Ok(data) if data.starts_with(MARK) => Ok(Some(data)),
            _ => Err(foreign(root)),
        },
        Ok(ErrorCode::NoNode) => {
            bail!("cannot create {root}: its parent does not exist\nhint: create it, or use another --root")
        }
        _ => Err(failure::refused(&format!("create {root}"), err)),
    }
}

fn foreign(root: &str) -> anyhow::Error {
    anyhow::anyhow!("{root} exists and was not made by this tool, so it is left alone\nhint: use another --root")
}

fn list(session: &mut Session, path: &str) -> Result<Vec<String>> {
    session.children(path)?.map_err(|code| failure::refused(&format!("list {path}"), code))
}

fn create_all(
    session: &mut Session,
    count: u32,
    path: &dyn Fn(u32) -> String,
    data: &[u8],
    stop: &StopFlag,
    progress: &ProgressLine,
) -> Result<()> {
    let number = |index: usize| u32::try_from(index).expect("indices stay below the count");
    session.bulk(
        count as usize,
        |index, xid, out| Session::put_create(&path(number(index)), data, xid, out),
        |index, err| {
            if err != 0 {
                return Err(failure::refused(&format!("create {}", path(number(index))), err));
            }
            if stop.is_set() {
                bail!("interrupted during set-up");
            }
            progress.show(|| format!("created {index} of {count} nodes"));
            Ok(())
        },
    )
}

/// Deletes `root` and everything below. Nodes that turn out to have children are deleted after them.
fn delete_tree(session: &mut Session, root: &str, progress: &ProgressLine) -> Result<()> {
    let names = match session.children(root)? {
        Ok(names) => names,
        Err(code) if code == ErrorCode::NoNode.code() => return Ok(()),
        Err(code) => return Err(failure::refused(&format!("list {root}"), code)),
    };
    let path = |index: usize| format!("{root}/{}", names[index]);
    let mut parents = Vec::new();
    session.bulk(
        names.len(),
        |index, xid, out| Session::put_delete(&path(index), xid, out),
        |index, err| {
            progress.show(|| format!("deleted {index} of {} nodes below {root}", names.len()));
            match ErrorCode::try_from(err) {
                Ok(ErrorCode::NotEmpty) => parents.push(index),
                Ok(ErrorCode::NoNode) => (),
                _ if err == 0 => (),
                _ => return Err(failure::refused(&format!("delete {}", path(index)), err)),
            }
            Ok(())
        },
    )?;
    for parent in parents {
        delete_tree(session, &path(parent), progress)?;
    }
    session.bulk(1, |_, xid, out| Session::put_delete(root, xid, out), |_, _| Ok(()))
}
