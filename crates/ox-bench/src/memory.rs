//! Memory of a server's process.

use crate::process;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::process::Command;

/// What to read of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    Rss,
    /// Resident memory, and the live objects of a Java heap after a full collection.
    RssAndJavaHeap,
}

/// Memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub rss_bytes: u64,
    /// Live objects of a Java heap.
    pub heap_bytes: Option<u64>,
}

/// Growth of memory per item that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Growth {
    pub rss_bytes: f64,
    /// Of live objects of a Java heap.
    pub heap_bytes: Option<f64>,
}

pub fn read(pid: u32, gauge: Gauge) -> Result<Memory> {
    // Resident memory first: it is what an operator sees, and a collection may release some.
    let rss_bytes = process::usage(pid)?.rss_bytes;
    let heap_bytes = if gauge == Gauge::RssAndJavaHeap { Some(java_heap(pid)?) } else { None };
    Ok(Memory { rss_bytes, heap_bytes })
}

impl Memory {
    /// Growth since `before`, divided by `count`.
    pub fn growth_per(&self, count: usize, before: &Self) -> Growth {
        let per = |after: u64, before: u64| (after as f64 - before as f64) / count as f64;
        Growth {
            rss_bytes: per(self.rss_bytes, before.rss_bytes),
            heap_bytes: self.heap_bytes.zip(before.heap_bytes).map(|(after, before)| per(after, before)),
        }
    }
}

fn java_heap(pid: u32) -> Result<u64> {
    let output = Command::new("jcmd")
        .args([&pid.to_string(), "GC.class_histogram"])
        .output()
        .context("run jcmd\nhint: it is part of the JDK; without it, omit the heap")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("jcmd failed for process {pid}: {text}");
    }
    histogram_total(&text).with_context(|| format!("no total in jcmd's histogram of process {pid}"))
}

/// The last line is `Total  OBJECTS  BYTES`.
fn histogram_total(text: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| line.trim().strip_prefix("Total")?.split_ascii_whitespace().nth(1)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_total_is_parsed() {
        let text = " num     #instances         #bytes  class name\n   1:   5    100  [B\nTotal         30000        2345678\n";
        assert_eq!(histogram_total(text), Some(2_345_678));
        assert_eq!(histogram_total("nothing"), None);
    }

    #[test]
    fn growth_is_per_item_and_may_be_negative() {
        let (before, after) =
            (Memory { rss_bytes: 1000, heap_bytes: Some(10) }, Memory { rss_bytes: 800, heap_bytes: Some(30) });
        assert_eq!(after.growth_per(10, &before), Growth { rss_bytes: -20.0, heap_bytes: Some(2.0) });
    }
}
