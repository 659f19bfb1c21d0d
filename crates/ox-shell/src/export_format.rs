//! Nodes as JSON, as `export` writes and `import` reads them.
//!
//! A file begins with a [`Header`]. Behind it comes a [`Record`] per node, one a line, parents before children; in a document they
//! stand inside of the header, as `nodes`.
//!
//! ```text
//! {"format":"oxkeeper-export","version":1,"root":"/app"}
//! {"path":"/app","data":"text","acl":["world:anyone:cdrwa"],"version":3,"mtime":1794724566123}
//! {"path":"/app/key","base64":"/w==","acl":["digest:bob:hash=:cdrwa"],"version":0,"mtime":1794724566124}
//! ```

use crate::acl_text;
use crate::bulk_create::{Payload, Planned};
use crate::walk::Seen;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ox_client::acl::{self, Acl, perms};
use serde::{Deserialize, Serialize};

/// The name of the format.
pub(crate) const FORMAT: &str = "oxkeeper-export";
/// Its version.
pub(crate) const VERSION: u32 = 1;

/// The beginning of a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) format: String,
    pub(crate) version: u32,
    /// The node that all others are below of.
    pub(crate) root: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<Vec<Record>>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) path: String,
    /// Data that is text. Without this and `base64` the data is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// Data that is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// `scheme:id:perms`; everybody may do everything where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    acl: Option<Vec<String>>,
    /// The session of an ephemeral node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ephemeral: Option<String>,
    /// For readers; it is not imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mtime: Option<i64>,
}

impl Record {
    pub(crate) fn new(seen: Seen) -> Self {
        let ephemeral = seen.owner().map(|owner| format!("{owner:#x}"));
        let Seen { path, node, acl, .. } = seen;
        let (version, mtime) = (Some(node.stat.version), Some(node.stat.mtime));
        let mut record = Self { path, ephemeral, version, mtime, ..Self::default() };
        record.acl = Some(acl.iter().map(text_of).collect());
        if !node.is_null {
            match String::from_utf8(node.data) {
                Ok(text) => record.data = Some(text),
                Err(error) => record.base64 = Some(BASE64_STANDARD.encode(error.as_bytes())),
            }
        }
        record
    }

    /// What it says, at another place; or what is wrong with it.
    pub(crate) fn planned(self, path: String) -> Result<Planned, String> {
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
        Ok(Planned { path, data: Payload(data), acl: list, is_ephemeral: false })
    }
}

fn text_of(acl: &Acl) -> String {
    format!("{}:{}:{}", acl.scheme, acl.id, acl_text::letters(acl.perms))
}

/// An entry of a list, if it is one to the last letter: less must never be protected than was.
fn entry(text: &str) -> Option<Acl> {
    let (scheme, rest) = text.split_once(':')?;
    let (id, letters) = rest.rsplit_once(':')?;
    let bits = letters.chars().try_fold(0, |bits, letter| {
        let bit = match letter {
            'c' => perms::CREATE,
            'd' => perms::DELETE,
            'r' => perms::READ,
            'w' => perms::WRITE,
            'a' => perms::ADMIN,
            _ => return None,
        };
        Some(bits | bit)
    })?;
    Some(Acl::new(bits, scheme, id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_client::Node;

    fn seen(data: Option<&[u8]>) -> Seen {
        let node = Node { data: data.unwrap_or_default().to_vec(), is_null: data.is_none(), ..Node::default() };
        let acl = vec![Acl::new(perms::ALL, "digest", "bob:a:b="), Acl::new(perms::READ, "world", "anyone")];
        Seen { path: "/a".to_owned(), depth: 0, is_last: true, node, acl, acl_is_masked: false, denied: None }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for data in [None, Some(&b""[..]), Some(b"text \"quoted\"\n"), Some(b"\xff\x00\xfe")] {
            let seen = seen(data);
            let text = serde_json::to_string(&Record::new(seen.clone())).unwrap();
            let record: Record = serde_json::from_str(&text).unwrap();
            let planned = record.planned("/b".to_owned()).unwrap();
            let data = Payload(data.map(<[u8]>::to_vec));
            let expected = Planned { path: "/b".to_owned(), data, acl: seen.acl, is_ephemeral: false };
            assert_eq!(planned, expected, "{text}");
        }
    }

    #[test]
    fn what_is_wrong() {
        for (text, reason) in [
            (r#"{"path":"/a","data":"x","base64":"eA=="}"#, "/a: both data and base64"),
            (r#"{"path":"/a","acl":["world:anyone:z"]}"#, "/a: `world:anyone:z` is not scheme:id:perms"),
            (r#"{"path":"/a","acl":["world"]}"#, "/a: `world` is not scheme:id:perms"),
        ] {
            let record: Record = serde_json::from_str(text).unwrap();
            assert_eq!(record.planned("/a".to_owned()).unwrap_err(), reason);
        }
        let record: Record = serde_json::from_str(r#"{"path":"/a"}"#).unwrap();
        let planned = record.planned("/a".to_owned()).unwrap();
        assert_eq!((planned.data.0, planned.acl), (None, acl::open()));
    }
}
