//! The output of Apache's comparer: level by level, subtrees whose sizes differ by more than a threshold.

use super::read;
use anyhow::Result;
use ox_inspect::compare::{SubtreeSize, TreeLevels};
use std::cmp::Ordering;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

pub(super) fn compare(
    sides: [(&Path, Option<&Path>); 2],
    least: (i64, i64),
    debug: bool,
    out: &mut dyn Write,
) -> Result<()> {
    writeln!(out, "Successfully parsed options!")?;
    let mut both = Vec::new();
    for side in sides {
        let (frozen, seconds) = read(side)?;
        writeln!(out, "Deserialized snapshot in {} in {seconds:.6} seconds", side.0.display())?;
        let started = Instant::now();
        let layers = TreeLevels::new(&frozen);
        writeln!(out, "Processed data tree in {:.6} seconds", started.elapsed().as_secs_f64())?;
        both.push(layers);
    }
    for layers in &both {
        let (count, bytes, depth) = (layers.count(), layers.bytes(), layers.0.len());
        writeln!(out, "Node count: {count}\nTotal size: {bytes}\nMax depth: {depth}")?;
        for (depth, layer) in layers.0.iter().enumerate() {
            writeln!(out, "Count of nodes at depth {depth}: {}", layer.len())?;
        }
        writeln!(out)?;
    }
    let (bytes, nodes) = least;
    writeln!(
        out,
        "Printing analysis for nodes difference larger than {bytes} bytes or node count difference larger than {nodes}."
    )?;
    let depth = both.iter().map(|layers| layers.0.len()).max().unwrap_or(0);
    for level in 0..depth {
        writeln!(out, "Analysis for depth {level}")?;
        let layer = |side: usize| both.get(side).and_then(|layers| layers.0.get(level)).map_or(&[][..], Vec::as_slice);
        Level { least, debug, out }.compare(layer(0), layer(1))?;
    }
    writeln!(out, "All layers compared.")?;
    Ok(())
}

struct Level<'a> {
    least: (i64, i64),
    debug: bool,
    out: &'a mut dyn Write,
}

impl Level<'_> {
    fn compare(&mut self, mut left: &[SubtreeSize], mut right: &[SubtreeSize]) -> Result<()> {
        loop {
            match (left, right) {
                ([a, left_rest @ ..], [b, right_rest @ ..]) => {
                    let order = a.path.cmp(&b.path);
                    if self.debug {
                        let verdict = match order {
                            Ordering::Equal => "same",
                            Ordering::Less => "left is less",
                            Ordering::Greater => "right is less",
                        };
                        writeln!(self.out, "Comparing {} to {}\n{verdict}", a.path, b.path)?;
                    }
                    match order {
                        Ordering::Equal => self.both(a, b)?,
                        Ordering::Less => self.one(a, "left")?,
                        Ordering::Greater => self.one(b, "right")?,
                    }
                    if order != Ordering::Greater {
                        left = left_rest;
                    }
                    if order != Ordering::Less {
                        right = right_rest;
                    }
                }
                ([a, rest @ ..], []) => {
                    self.one(a, "left")?;
                    left = rest;
                }
                ([], [b, rest @ ..]) => {
                    self.one(b, "right")?;
                    right = rest;
                }
                ([], []) => return Ok(()),
            }
        }
    }

    fn is_much(&self, bytes: i64, nodes: i64) -> bool {
        self.least.0 < bytes.abs() || self.least.1 < nodes.abs()
    }

    fn both(&mut self, a: &SubtreeSize, b: &SubtreeSize) -> Result<()> {
        let (bytes, nodes) = (b.bytes - a.bytes, b.descendants - a.descendants);
        let path = &a.path;
        if self.is_much(bytes, nodes) {
            writeln!(self.out, "Node {path} found in both trees. Delta: {bytes} bytes, {nodes} descendants")?;
        } else if self.debug {
            writeln!(self.out, "Filtered node {path} of left size {}, right size {}", a.bytes, b.bytes)?;
        }
        Ok(())
    }

    fn one(&mut self, node: &SubtreeSize, side: &str) -> Result<()> {
        let SubtreeSize { path, bytes, descendants } = node;
        if self.is_much(*bytes, *descendants) {
            writeln!(
                self.out,
                "Node {path} found only in {side} tree. Descendant size: {bytes}. Descendant count: {descendants}"
            )?;
        } else if self.debug {
            writeln!(self.out, "Filtered {side} node {path} of size {bytes}")?;
        }
        Ok(())
    }
}
