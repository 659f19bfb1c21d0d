//! Counts replies and events of a run, to show what the generator covers.

use crate::compare::Streams;
use crate::script::{Action, Batch};
use crate::stream::ItemKind;
use ox_proto::OpCode;
use std::collections::BTreeMap;
use std::fmt;

/// Replies by operation and error code, and events by text.
#[derive(Clone, Debug, Default)]
pub struct Coverage(BTreeMap<String, BTreeMap<String, usize>>);

impl Coverage {
    /// Counts the replies and events of a batch.
    pub fn count(&mut self, batch: &Batch, streams: &Streams) {
        for item in streams.values().flat_map(|stream| &stream.items) {
            let line = item.line.and_then(|line| batch.0.get(line));
            let (subject, result) = match (item.kind, line.map(|line| &line.action), &item.facts) {
                (ItemKind::Event, _, _) => {
                    let kind = item.text.split(' ').nth(1).unwrap_or_default();
                    ("event".to_owned(), kind.to_owned())
                }
                (ItemKind::Handshake, _, _) => {
                    ("connect".to_owned(), item.text.split(' ').take(2).collect::<Vec<_>>().join(" "))
                }
                (_, Some(Action::Request(request)), Some(facts)) => {
                    let name = request.known().map_or_else(|| "unknown".to_owned(), |op: OpCode| op.name().to_owned());
                    let failed = facts.results.iter().find(|&&err| err != 0);
                    (name, failed.map_or_else(|| facts.err.to_string(), |err| format!("0({err})")))
                }
                _ => continue,
            };
            *self.0.entry(subject).or_default().entry(result).or_default() += 1;
        }
    }

    pub fn merge(&mut self, other: Self) {
        for (subject, results) in other.0 {
            let mine = self.0.entry(subject).or_default();
            results.into_iter().for_each(|(result, count)| *mine.entry(result).or_default() += count);
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (subject, results) in &self.0 {
            write!(f, "{subject:<22}")?;
            results.iter().try_for_each(|(result, count)| write!(f, " {result}:{count}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}
