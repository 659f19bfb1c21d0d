//! The text format of quota nodes: `count=3,bytes=20` and `count=3,bytes=20=;byteHardLimit=30;countHardLimit=3`.

use std::fmt;

/// Limits or usage of a subtree; a limit of -1 means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Number of nodes; as a limit, the soft limit.
    pub count: i64,
    /// Bytes of data; as a limit, the soft limit.
    pub bytes: i64,
    /// Hard limit of nodes, which the server enforces.
    pub hard_count: Option<i64>,
    /// Hard limit of bytes, which the server enforces.
    pub hard_bytes: Option<i64>,
}

impl Quota {
    /// A quota without any limit.
    pub fn unlimited() -> Self {
        Self { count: -1, bytes: -1, hard_count: Some(-1), hard_bytes: Some(-1) }
    }

    /// Parses the data of a quota node. Malformed parts count as unlimited.
    pub fn parse(data: &[u8]) -> Self {
        let mut quota = Self { count: -1, bytes: -1, hard_count: None, hard_bytes: None };
        for part in String::from_utf8_lossy(data).split([',', ';']) {
            let mut words = part.split('=');
            let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
            let Ok(value) = value.parse() else { continue };
            match name {
                "count" => quota.count = value,
                "bytes" => quota.bytes = value,
                "countHardLimit" => quota.hard_count = Some(value),
                "byteHardLimit" => quota.hard_bytes = Some(value),
                _ => (),
            }
        }
        quota
    }

    /// The soft limit of nodes, beyond which the server only warns.
    pub fn soft_count(&self) -> Option<i64> {
        Some(self.count).filter(|limit| 0 <= *limit)
    }

    /// The soft limit of bytes, beyond which the server only warns.
    pub fn soft_bytes(&self) -> Option<i64> {
        Some(self.bytes).filter(|limit| 0 <= *limit)
    }

    /// Sets the limit that an option such as `-n` selects.
    pub fn set(&mut self, kind: &str, value: i64) {
        match kind {
            "-n" => self.count = value,
            "-b" => self.bytes = value,
            "-N" => self.hard_count = Some(value),
            _ => self.hard_bytes = Some(value),
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count={},bytes={}", self.count, self.bytes)?;
        if self.hard_bytes.is_some() || self.hard_count.is_some() {
            f.write_str("=")?;
        }
        if let Some(limit) = self.hard_bytes {
            write!(f, ";byteHardLimit={limit}")?;
        }
        if let Some(limit) = self.hard_count {
            write!(f, ";countHardLimit={limit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_text_round_trips() {
        for text in ["count=1,bytes=4", "count=3,bytes=-1=;byteHardLimit=30;countHardLimit=-1"] {
            assert_eq!(Quota::parse(text.as_bytes()).to_string(), text);
        }
        assert_eq!(Quota::unlimited().to_string(), "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=-1");
        assert_eq!(Quota::parse(b"\xff nonsense=").to_string(), "count=-1,bytes=-1");
    }
}
