//! The body of a snapshot, identical in a file and in a stream to a learner: sessions, ACLs, nodes, end of nodes.
//!
//! Both directions are incremental. The encoder fills a buffer up to a given size at a time; the decoder takes one item
//! at a time from the available bytes.

use super::END_MARK;
use super::read::{SnapshotSink, StoredNode};
use ox_proto::acl::put_acls;
use ox_proto::jute::{Jute, put_buffer, put_count, put_text};
use ox_proto::{DecodeError, RawAcls, Reader};
use ox_tree::{FrozenNode, FrozenView, Walk};

/// An incremental encoder of a snapshot's body.
pub(crate) struct BodyEncoder {
    at: Encode,
    /// The number of encoded nodes so far.
    pub(crate) nodes: u64,
}

enum Encode {
    SessionCount,
    Session(usize),
    List(usize),
    Node(Walk),
    Nothing,
}

impl BodyEncoder {
    pub(crate) fn new() -> Self {
        Self { at: Encode::SessionCount, nodes: 0 }
    }

    /// Appends more of `frozen` until `out` has at least `bytes`; returns false once everything was appended. Every
    /// call must pass the same view.
    pub(crate) fn fill(&mut self, frozen: &FrozenView, out: &mut Vec<u8>, bytes: usize) -> bool {
        while out.len() < bytes {
            match &mut self.at {
                Encode::SessionCount => {
                    put_count(out, frozen.sessions().len());
                    self.at = Encode::Session(0);
                }
                Encode::Session(next) => match frozen.sessions().get(*next) {
                    Some((id, timeout_ms)) => {
                        id.put(out);
                        timeout_ms.put(out);
                        *next += 1;
                    }
                    None => {
                        put_count(out, frozen.acl_count());
                        self.at = Encode::List(0);
                    }
                },
                Encode::List(next) => match frozen.acls().nth(*next) {
                    Some((id, acls)) => {
                        id.put(out);
                        put_acls(out, acls);
                        *next += 1;
                    }
                    None => self.at = Encode::Node(Walk::default()),
                },
                Encode::Node(walk) => match walk.step(frozen) {
                    Some(node) => {
                        put_node(out, &node);
                        self.nodes += 1;
                    }
                    None => {
                        put_text(out, END_MARK);
                        self.at = Encode::Nothing;
                    }
                },
                Encode::Nothing => return false,
            }
        }
        true
    }
}

fn put_node(out: &mut Vec<u8>, node: &FrozenNode<'_>) {
    put_text(out, node.path);
    put_buffer(out, node.data);
    node.acl.put(out);
    node.stat.put(out);
}

/// An incremental decoder of a snapshot's body.
#[derive(Default)]
pub(crate) struct BodyDecoder {
    at: Decode,
    /// The number of decoded sessions so far.
    pub(crate) sessions: u64,
    /// The number of decoded nodes so far.
    pub(crate) nodes: u64,
}

/// The next item, with the number of announced items that are still missing.
#[derive(Clone, Copy, Default)]
enum Decode {
    #[default]
    SessionCount,
    Session(usize),
    ListCount,
    List(usize),
    Node,
    Nothing,
}

/// Why an item could not be decoded.
pub(crate) enum BodyError {
    /// `Truncated` if it may succeed with more bytes.
    Decode(DecodeError),
    /// The sink rejects the item.
    Content(String),
}

impl From<DecodeError> for BodyError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl BodyDecoder {
    /// Decodes one item from the start of `from` and passes it to `sink`; returns false at the end of the body. After
    /// an error nothing was consumed, and `from` must be discarded.
    pub(crate) fn take(&mut self, from: &mut Reader<'_>, sink: &mut impl SnapshotSink) -> Result<bool, BodyError> {
        match self.at {
            Decode::SessionCount => self.at = Decode::Session(from.count()?.unwrap_or(0)),
            Decode::Session(0) => self.at = Decode::ListCount,
            Decode::Session(left) => {
                let (id, timeout_ms) = (from.get()?, from.get()?);
                sink.session(id, timeout_ms).map_err(BodyError::Content)?;
                self.sessions += 1;
                self.at = Decode::Session(left - 1);
            }
            Decode::ListCount => self.at = Decode::List(from.count()?.unwrap_or(0)),
            Decode::List(0) => self.at = Decode::Node,
            Decode::List(left) => {
                let (id, acls) = get_list(from)?;
                sink.acl(id, acls).map_err(BodyError::Content)?;
                self.at = Decode::List(left - 1);
            }
            Decode::Node => match get_node(from)? {
                Some(node) => {
                    sink.node(&node).map_err(BodyError::Content)?;
                    self.nodes += 1;
                }
                None => self.at = Decode::Nothing,
            },
            Decode::Nothing => return Ok(false),
        }
        Ok(true)
    }
}

fn get_list<'a>(from: &mut Reader<'a>) -> Result<(i64, RawAcls<'a>), DecodeError> {
    let (id, acls) = (from.get()?, from.get::<RawAcls<'_>>()?);
    if acls.is_null() { Err(DecodeError::Null) } else { Ok((id, acls)) }
}

/// The next node, or `None` at the end of the nodes.
fn get_node<'a>(from: &mut Reader<'a>) -> Result<Option<StoredNode<'a>>, DecodeError> {
    let path = from.text()?;
    if path == END_MARK {
        return Ok(None);
    }
    Ok(Some(StoredNode { path, data: from.get()?, acl: from.get()?, stat: from.get()? }))
}
