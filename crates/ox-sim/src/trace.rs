//! The trace of a simulation: always as a hash, on request also as text.

use std::fmt;

/// Every step enters the hash, so that two runs of one seed can be compared.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    /// Print each step when it happens.
    is_verbose: bool,
    steps: u64,
    buffer: String,
}

impl Trace {
    pub(crate) fn new(is_verbose: bool) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, is_verbose, steps: 0, buffer: String::new() }
    }

    pub(crate) fn note(&mut self, now_us: i64, what: fmt::Arguments<'_>) {
        self.steps += 1;
        self.buffer.clear();
        _ = fmt::Write::write_fmt(&mut self.buffer, what);
        let text = std::mem::take(&mut self.buffer);
        self.bytes(&now_us.to_be_bytes());
        self.bytes(text.as_bytes());
        if self.is_verbose {
            println!("{:>5}.{:06} {text}", now_us / 1_000_000, now_us % 1_000_000);
        }
        self.buffer = text;
    }

    /// Adds content to the hash that is too long for a line of text.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // FNV-1a, eight bytes at a time.
        for word in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.hash = (self.hash ^ u64::from_le_bytes(padded)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }
}
