//! Rough knowledge of which nodes exist, learned from Apache's replies, so that requests hit something.
//!
//! It decides nothing about right and wrong: both servers get the same request whether the knowledge is true or not.

#![expect(clippy::wildcard_enum_match_arm, reason = "knowledge is rough: most requests and errors say nothing")]

use crate::normalize::Outcome;
use crate::request::{Body, Request};
use crate::value::Value;
use ox_proto::{ErrorCode, OpCode};
use std::collections::BTreeMap;

/// What is believed about a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    /// Data version.
    pub(super) version: i32,
    /// ACL version.
    pub(super) aversion: i32,
}

/// Believed nodes by path.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<String, Facts>);

impl Known {
    /// Believed paths at or below `root`.
    pub(super) fn below(&self, root: &str) -> Vec<&str> {
        self.0.keys().filter(|path| is_within(path, root)).map(String::as_str).collect()
    }

    /// What is believed about `path`.
    pub(super) fn facts(&self, path: &str) -> Facts {
        self.0.get(path).copied().unwrap_or_default()
    }

    /// Believes at once what a request will do; the reply corrects it.
    pub(super) fn assume(&mut self, op: i32, body: &Body) {
        match body {
            Body::Create { path, flags: 0 | 1 | 4, .. } | Body::CreateTtl { path, flags: 0 | 1 | 4 | 5, .. } => {
                if let Some(path) = path.as_str() {
                    self.0.entry(path.to_owned()).or_default();
                }
            }
            Body::PathVersion { path, .. } if op == OpCode::Delete.code() => {
                if let Some(path) = path.as_str() {
                    self.0.remove(path);
                }
            }
            Body::SetData { path, .. } => {
                if let Some(facts) = path.as_str().and_then(|path| self.0.get_mut(path)) {
                    facts.version = facts.version.wrapping_add(1);
                }
            }
            Body::Multi { elements, .. } => elements.iter().for_each(|element| self.assume(element.op, &element.body)),
            _ => (),
        }
    }

    /// Corrects the beliefs by what the server said.
    pub(super) fn learn(&mut self, request: &Request, outcome: &Outcome) {
        for path in &outcome.created {
            self.0.insert(path.clone(), Facts::default());
        }
        if let Body::Multi { elements, .. } = &request.body {
            for (element, &err) in elements.iter().zip(&outcome.results) {
                let failed = outcome.results.iter().any(|&err| err != 0);
                let err = if failed && err == 0 { ErrorCode::RuntimeInconsistency.code() } else { err };
                self.correct(element.op, &element.body, err);
            }
            return;
        }
        self.correct(request.op, &request.body, outcome.err);
        if let (Some(path), Some(stat)) = (request.body.path().and_then(Value::as_str), outcome.stat) {
            let is_node = outcome.created.is_empty() && outcome.err == 0;
            if is_node && let Some(facts) = self.0.get_mut(path) {
                *facts = Facts { version: stat.version, aversion: stat.aversion };
            }
        }
    }

    fn correct(&mut self, op: i32, body: &Body, err: i32) {
        let Some(path) = body.path().and_then(Value::as_str) else { return };
        let creates = matches!(body, Body::Create { .. } | Body::CreateTtl { .. });
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

/// True for `root` itself and everything below it.
fn is_within(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::Cursor;

    fn request(line: &str) -> Request {
        let mut cursor = Cursor::new(line).unwrap();
        let verb = cursor.word().unwrap();
        Request::parse(&verb, &mut cursor).unwrap()
    }

    #[test]
    fn replies_correct_assumptions() {
        let mut known = Known::default();
        let create = request("create /t/a x world");
        known.assume(create.op, &create.body);
        assert_eq!(known.below("/t"), ["/t/a"]);
        known.learn(&create, &Outcome { err: -101, ..Outcome::default() });
        assert!(known.below("/t").is_empty());
        known.learn(
            &request("create /t/s world world flags=2"),
            &Outcome { created: vec!["/t/s0000000001".to_owned()], ..Outcome::default() },
        );
        assert_eq!(known.below("/t"), ["/t/s0000000001"]);
        assert!(known.below("/").is_empty() && known.below("/t/s").is_empty());
    }
}
