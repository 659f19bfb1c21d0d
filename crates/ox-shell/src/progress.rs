//! How far a long job is, for somebody who waits at a terminal.

use crate::output::Output;
use std::time::{Duration, Instant};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// A line on standard error that counts. Nothing where that is no terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    out: Output,
    verb: &'static str,
    shown: Option<Instant>,
    nodes: usize,
    bytes: usize,
}

impl Progress {
    pub(crate) fn new(out: &Output, verb: &'static str) -> Self {
        let shown = out.talks_to_terminal().then(Instant::now);
        Self { out: out.clone(), verb, shown, nodes: 0, bytes: 0 }
    }

    /// One more node.
    pub(crate) fn step(&mut self, bytes: usize) {
        self.nodes += 1;
        self.bytes += bytes;
        if let Some(shown) = self.shown
            && PAUSE <= shown.elapsed()
        {
            self.shown = Some(Instant::now());
            self.out.ask(&format!("\r{} nodes, {} bytes {}\x1b[K", self.nodes, self.bytes, self.verb));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            self.out.ask("\r\x1b[K");
        }
    }
}
