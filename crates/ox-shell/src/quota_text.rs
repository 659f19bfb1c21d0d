//! Quotas as their nodes hold them: `count=3,bytes=20` and `count=3,bytes=20=;byteHardLimit=30;countHardLimit=3`.

use std::fmt;

/// Limits, or what is used. Of limits, -1 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Nodes.
    pub count: i64,
    /// Bytes.
    pub bytes: i64,
    /// Nodes that the server does not exceed.
    pub hard_count: Option<i64>,
    /// Bytes that the server does not exceed.
    pub hard_bytes: Option<i64>,
}

impl Quota {
    /// No limit at all.
    pub fn unlimited() -> Self {
        Self { count: -1, bytes: -1, hard_count: Some(-1), hard_bytes: Some(-1) }
    }

    /// Reads what a node holds. What cannot be understood is no limit.
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

    /// The limit for nodes that the server only warns about.
    pub fn soft_count(&self) -> Option<i64> {
        Some(self.count).filter(|limit| 0 <= *limit)
    }

    /// The limit for bytes that the server only warns about.
    pub fn soft_bytes(&self) -> Option<i64> {
        Some(self.bytes).filter(|limit| 0 <= *limit)
    }

    /// Sets a limit by the option that stands for it.
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
    fn texts_are_read_and_written() {
        for text in ["count=1,bytes=4", "count=3,bytes=-1=;byteHardLimit=30;countHardLimit=-1"] {
            assert_eq!(Quota::parse(text.as_bytes()).to_string(), text);
        }
        assert_eq!(Quota::unlimited().to_string(), "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=-1");
        assert_eq!(Quota::parse(b"\xff nonsense=").to_string(), "count=-1,bytes=-1");
    }
}
