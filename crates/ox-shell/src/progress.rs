//! Progress of long commands on a terminal.

use crate::output::Output;
use std::time::{Duration, Instant};

/// Interval between two updates.
const PAUSE: Duration = Duration::from_millis(200);

/// A counter line on standard error; silent unless that is a terminal.
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
        let shown = out.stderr_is_terminal().then(Instant::now);
        Self { out: out.clone(), verb, shown, nodes: 0, bytes: 0 }
    }

    /// Counts one more node.
    pub(crate) fn step(&mut self, bytes: usize) {
        self.nodes += 1;
        self.bytes += bytes;
        if let Some(shown) = self.shown
            && PAUSE <= shown.elapsed()
        {
            self.shown = Some(Instant::now());
            self.out.write_raw(&format!("\r{} nodes, {} bytes {}\x1b[K", self.nodes, self.bytes, self.verb));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            self.out.write_raw("\r\x1b[K");
        }
    }
}
