//! The JSON format of `export` and `import`.
//!
//! A file begins with a [`Header`]. A [`NodeRecord`] per node follows, one per line, parents before children; in a
//! document they are inside the header, as `nodes`.
//!
//! ```text
//! {"format":"oxkeeper-export","version":1,"root":"/app"}
//! {"path":"/app","data":"text","acl":["world:anyone:cdrwa"],"version":3,"mtime":1794724566123}
//! {"path":"/app/key","base64":"/w==","acl":["digest:bob:hash=:cdrwa"],"version":0,"mtime":1794724566124}
//! ```

use crate::bulk_create::{NewNode, Payload};
use crate::walk::VisitedNode;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ox_client::acl::{self, Acl, perms};
use serde::{Deserialize, Serialize};

/// Name of the format in the header.
pub(crate) const FORMAT: &str = "oxkeeper-export";
/// Version of the format in the header.
pub(crate) const VERSION: u32 = 1;

/// The header of an export.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) format: String,
    pub(crate) version: u32,
    /// The root of the exported subtree.
    pub(crate) root: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<Vec<NodeRecord>>,
}

/// One node of an export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeRecord {
    pub(crate) path: String,
    /// Data as text. Without `data` and `base64`, the data is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// Binary data as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// ACL entries as `scheme:id:perms`; the open ACL if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    acl: Option<Vec<String>>,
    /// The owner session of an ephemeral node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ephemeral: Option<String>,
    /// Informational only; not imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mtime: Option<i64>,
}

impl NodeRecord {
    pub(crate) fn new(visited: VisitedNode) -> Self {
        let ephemeral = visited.owner().map(|owner| format!("{owner:#x}"));
        let VisitedNode { path, node, acl, .. } = visited;
        let (version, mtime) = (Some(node.stat.version), Some(node.stat.mtime));
        let mut record = Self { path, ephemeral, version, mtime, ..Self::default() };
        record.acl = Some(acl.iter().map(Acl::to_string).collect());
        if !node.is_null {
            match String::from_utf8(node.data) {
                Ok(text) => record.data = Some(text),
                Err(error) => record.base64 = Some(BASE64_STANDARD.encode(error.as_bytes())),
            }
        }
        record
    }

    /// Converts the record into a node to create at `path`, or reports why it is malformed.
    pub(crate) fn new_node(self, path: String) -> Result<NewNode, String> {
        let wrong = |what: String| format!("{}: {what}", self.path);
        let data = match (self.data, self.base64) {
            (Some(_), Some(_)) => return Err(wrong("both data and base64".to_owned())),
            (Some(text), None) => Some(text.into_bytes()),
            (None, Some(text)) => {
                Some(BASE64_STANDARD.decode(text).map_err(|error| wrong(format!("not base64: {error}")))?)
            }
            (None, None) => None,
        };
        let list = match self.acl {
            None => acl::open(),
            Some(list) => list
                .iter()
                .map(|text| entry(text).ok_or_else(|| wrong(format!("`{text}` is not scheme:id:perms"))))
                .collect::<Result<_, _>>()?,
        };
        Ok(NewNode { path, data: Payload(data), acl: list, is_ephemeral: false })
    }
}

/// Parses an ACL entry strictly: an import must never weaken the protection of a node.
fn entry(text: &str) -> Option<Acl> {
    let (scheme, rest) = text.split_once(':')?;
    let (id, letters) = rest.rsplit_once(':')?;
    let bits = letters.chars().try_fold(0, |bits, letter| Some(bits | perms::from_letter(letter)?))?;
    Some(Acl::new(bits, scheme, id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_client::Node;

    fn visited(data: Option<&[u8]>) -> VisitedNode {
        let node = Node { data: data.unwrap_or_default().to_vec(), is_null: data.is_none(), ..Node::default() };
        let acl = vec![Acl::new(perms::ALL, "digest", "bob:a:b="), Acl::new(perms::READ, "world", "anyone")];
        VisitedNode { path: "/a".to_owned(), depth: 0, is_last: true, node, acl, acl_is_masked: false, denied: None }
    }

    #[test]
    fn node_record_round_trips() {
        for data in [None, Some(&b""[..]), Some(b"text \"quoted\"\n"), Some(b"\xff\x00\xfe")] {
            let visited = visited(data);
            let text = serde_json::to_string(&NodeRecord::new(visited.clone())).unwrap();
            let record: NodeRecord = serde_json::from_str(&text).unwrap();
            let new_node = record.new_node("/b".to_owned()).unwrap();
            let data = Payload(data.map(<[u8]>::to_vec));
            let expected = NewNode { path: "/b".to_owned(), data, acl: visited.acl, is_ephemeral: false };
            assert_eq!(new_node, expected, "{text}");
        }
    }

    #[test]
    fn malformed_node_records_are_rejected() {
        for (text, reason) in [
            (r#"{"path":"/a","data":"x","base64":"eA=="}"#, "/a: both data and base64"),
            (r#"{"path":"/a","acl":["world:anyone:z"]}"#, "/a: `world:anyone:z` is not scheme:id:perms"),
            (r#"{"path":"/a","acl":["world"]}"#, "/a: `world` is not scheme:id:perms"),
        ] {
            let record: NodeRecord = serde_json::from_str(text).unwrap();
            assert_eq!(record.new_node("/a".to_owned()).unwrap_err(), reason);
        }
        let record: NodeRecord = serde_json::from_str(r#"{"path":"/a"}"#).unwrap();
        let new_node = record.new_node("/a".to_owned()).unwrap();
        assert_eq!((new_node.data.0, new_node.acl), (None, acl::open()));
    }
}
