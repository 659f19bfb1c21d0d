//! Approximate knowledge of which nodes exist, learned from Apache's replies, so that requests hit existing nodes.
//!
//! It has no influence on the comparison: both servers get the same request whether the knowledge is right or not.

#![expect(clippy::wildcard_enum_match_arm, reason = "approximate: most requests and errors carry no information")]

use crate::normalize::ReplyFacts;
use crate::request::{RequestBody, ScriptRequest};
use crate::value::FieldValue;
use ox_proto::{ErrorCode, OpCode};
use std::collections::BTreeMap;

/// Assumed versions of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeVersions {
    pub(super) version: i32,
    pub(super) aversion: i32,
}

/// Assumed nodes by path.
#[derive(Debug, Default)]
pub(super) struct KnownNodes(BTreeMap<String, NodeVersions>);

impl KnownNodes {
    /// Assumed paths at or below `root`.
    pub(super) fn below(&self, root: &str) -> Vec<&str> {
        self.0.keys().filter(|path| is_within(path, root)).map(String::as_str).collect()
    }

    pub(super) fn facts(&self, path: &str) -> NodeVersions {
        self.0.get(path).copied().unwrap_or_default()
    }

    /// Assumes that a request succeeds; its reply corrects that.
    pub(super) fn assume(&mut self, op: i32, body: &RequestBody) {
        match body {
            RequestBody::Create { path, flags: 0 | 1 | 4, .. }
            | RequestBody::CreateTtl { path, flags: 0 | 1 | 4 | 5, .. } => {
                if let Some(path) = path.as_str() {
                    self.0.entry(path.to_owned()).or_default();
                }
            }
            RequestBody::PathVersion { path, .. } if op == OpCode::Delete.code() => {
                if let Some(path) = path.as_str() {
                    self.0.remove(path);
                }
            }
            RequestBody::SetData { path, .. } => {
                if let Some(facts) = path.as_str().and_then(|path| self.0.get_mut(path)) {
                    facts.version = facts.version.wrapping_add(1);
                }
            }
            RequestBody::Multi { elements, .. } => {
                elements.iter().for_each(|element| self.assume(element.op, &element.body))
            }
            _ => (),
        }
    }

    /// Corrects the assumptions by the server's reply.
    pub(super) fn learn(&mut self, request: &ScriptRequest, facts: &ReplyFacts) {
        for path in &facts.created {
            self.0.insert(path.clone(), NodeVersions::default());
        }
        if let RequestBody::Multi { elements, .. } = &request.body {
            for (element, &err) in elements.iter().zip(&facts.results) {
                let failed = facts.results.iter().any(|&err| err != 0);
                let err = if failed && err == 0 { ErrorCode::RuntimeInconsistency.code() } else { err };
                self.correct(element.op, &element.body, err);
            }
            return;
        }
        self.correct(request.op, &request.body, facts.err);
        if let (Some(path), Some(stat)) = (request.body.path().and_then(FieldValue::as_str), facts.stat) {
            let is_node = facts.created.is_empty() && facts.err == 0;
            if is_node && let Some(facts) = self.0.get_mut(path) {
                *facts = NodeVersions { version: stat.version, aversion: stat.aversion };
            }
        }
    }

    fn correct(&mut self, op: i32, body: &RequestBody, err: i32) {
        let Some(path) = body.path().and_then(FieldValue::as_str) else { return };
        let creates = matches!(body, RequestBody::Create { .. } | RequestBody::CreateTtl { .. });
        let deletes = op == OpCode::Delete.code();
        match ErrorCode::try_from(err) {
            Ok(ErrorCode::NoNode) => {
                self.0.retain(|known, _| !is_within(known, path));
            }
            Ok(ErrorCode::NodeExists | ErrorCode::NotEmpty) => {
                self.0.entry(path.to_owned()).or_default();
            }
            Ok(ErrorCode::BadVersion | ErrorCode::NoAuth | ErrorCode::RuntimeInconsistency) if deletes => {
                self.0.entry(path.to_owned()).or_default();
            }
            Ok(_) if creates => {
                self.0.remove(path);
            }
            _ => (),
        }
    }
}

/// Whether `path` is `root` or below it.
fn is_within(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::Cursor;

    fn request(line: &str) -> ScriptRequest {
        let mut cursor = Cursor::new(line).unwrap();
        let verb = cursor.word().unwrap();
        ScriptRequest::parse(&verb, &mut cursor).unwrap()
    }

    #[test]
    fn reply_corrects_assumptions() {
        let mut known = KnownNodes::default();
        let create = request("create /t/a x world");
        known.assume(create.op, &create.body);
        assert_eq!(known.below("/t"), ["/t/a"]);
        known.learn(&create, &ReplyFacts { err: -101, ..ReplyFacts::default() });
        assert!(known.below("/t").is_empty());
        known.learn(
            &request("create /t/s world world flags=2"),
            &ReplyFacts { created: vec!["/t/s0000000001".to_owned()], ..ReplyFacts::default() },
        );
        assert_eq!(known.below("/t"), ["/t/s0000000001"]);
        assert!(known.below("/").is_empty() && known.below("/t/s").is_empty());
    }
}
