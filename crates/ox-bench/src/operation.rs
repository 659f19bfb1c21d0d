//! The requests of a load, and the syntax of a mix: `get=90,set=10`.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// getData of a random key.
    Get,
    /// exists of a random key.
    Exists,
    /// setData of a random key.
    Set,
    /// create of a new node.
    Create,
    /// A create, followed by the delete of the node as the connection's next request.
    Delete,
    /// getChildren of a random parent.
    Children,
    /// A multi of setData of random keys.
    Multi,
    Ping,
    Sync,
}

impl Operation {
    /// All operations, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Get,
        Self::Exists,
        Self::Set,
        Self::Create,
        Self::Delete,
        Self::Children,
        Self::Multi,
        Self::Ping,
        Self::Sync,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Exists => "exists",
            Self::Set => "set",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Children => "children",
            Self::Multi => "multi",
            Self::Ping => "ping",
            Self::Sync => "sync",
        }
    }
}

/// Operations with their weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix(Vec<(Operation, u32)>);

impl Mix {
    pub fn only(operation: Operation) -> Self {
        Self(vec![(operation, 1)])
    }

    /// The operations in the order written; no weight is 0 and no operation occurs twice.
    pub fn parts(&self) -> &[(Operation, u32)] {
        &self.0
    }

    /// Whether the mix adds nodes.
    pub fn creates(&self) -> bool {
        self.0.iter().any(|(operation, _)| matches!(operation, Operation::Create | Operation::Delete))
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [(only, _)] => f.write_str(only.name()),
            parts => {
                let parts: Vec<String> = parts.iter().map(|(op, weight)| format!("{}={weight}", op.name())).collect();
                f.write_str(&parts.join(","))
            }
        }
    }
}

/// The workload of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Requests on lasting connections.
    Mix(Mix),
    /// Each connection opens a session, closes it and starts again.
    Session,
    /// Every connection watches one node that a writer changes; counts the notifications.
    Notify,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mix(mix) => mix.fmt(f),
            Self::Session => f.write_str("session"),
            Self::Notify => f.write_str("notify"),
        }
    }
}

impl FromStr for Workload {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "session" => Ok(Self::Session),
            "notify" => Ok(Self::Notify),
            mix => mix.parse().map(Self::Mix),
        }
    }
}

impl FromStr for Mix {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts: Vec<(Operation, u32)> = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let operation = Operation::ALL.into_iter().find(|operation| operation.name() == name).ok_or_else(|| {
                let names: Vec<&str> = Operation::ALL.iter().map(|operation| operation.name()).collect();
                match name {
                    "session" | "notify" => format!("'{name}' is a separate workload and cannot be mixed"),
                    _ => format!("unknown operation '{name}'; known: {}, session, notify", names.join(", ")),
                }
            })?;
            let weight = weight.parse().map_err(|_| format!("'{weight}' is not a weight of '{name}'"))?;
            if parts.iter().any(|(seen, _)| *seen == operation) {
                return Err(format!("'{name}' appears twice"));
            }
            if 0 < weight {
                parts.push((operation, weight));
            }
        }
        if parts.is_empty() || parts.iter().try_fold(0_u32, |sum, (_, weight)| sum.checked_add(*weight)).is_none() {
            return Err("the weights must add up to a positive number".into());
        }
        Ok(Self(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let parsed = text.parse::<Workload>().map(|workload| workload.to_string());
        assert_eq!(parsed.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn mix_round_trips() {
        check("get", Ok("get"));
        check("get=90,set=10", Ok("get=90,set=10"));
        check(" children , exists=3", Ok("children=1,exists=3"));
        check("get=1,set=0", Ok("get"));
        check("session", Ok("session"));
        check("notify", Ok("notify"));
    }

    #[test]
    fn invalid_mix_is_explained() {
        let known = "known: get, exists, set, create, delete, children, multi, ping, sync, session, notify";
        check("", Err(&format!("unknown operation ''; {known}")));
        check("got=1", Err(&format!("unknown operation 'got'; {known}")));
        check("get=x", Err("'x' is not a weight of 'get'"));
        check("get=-1", Err("'-1' is not a weight of 'get'"));
        check("get=1,get=2", Err("'get' appears twice"));
        check("get=0", Err("the weights must add up to a positive number"));
        check("get=4294967295,set=1", Err("the weights must add up to a positive number"));
        check("get,session", Err("'session' is a separate workload and cannot be mixed"));
    }
}
