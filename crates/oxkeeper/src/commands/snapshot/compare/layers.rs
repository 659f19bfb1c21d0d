//! The output of Apache's comparer: level by level, subtrees whose sizes differ by more than a threshold.

use super::read;
use anyhow::Result;
use ox_inspect::compare::{SubtreeSize, TreeLevels};
use std::cmp::Ordering;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::Instant;

/// How much is printed, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Every level, differences only.
    Differences,
    /// Every level and every step.
    Steps,
    /// What the user asks for.
    Interactive,
}

impl Detail {
    pub(super) fn of(is_debug: bool, is_interactive: bool) -> Self {
        match (is_interactive, is_debug) {
            (true, _) => Self::Interactive,
            (_, true) => Self::Steps,
            _ => Self::Differences,
        }
    }
}

pub(super) fn compare(
    sides: [(&Path, Option<&Path>); 2],
    least: (i64, i64),
    detail: Detail,
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
    let mut comparison = Comparison { both: &both, least, detail, out };
    if detail == Detail::Interactive {
        comparison.interactive(&mut io::stdin().lock())?;
    } else {
        comparison.announce()?;
        for depth in 0..comparison.depth() {
            comparison.level(depth)?;
        }
    }
    writeln!(out, "All layers compared.")?;
    Ok(())
}

struct Comparison<'a> {
    both: &'a [TreeLevels],
    least: (i64, i64),
    detail: Detail,
    out: &'a mut dyn Write,
}

impl Comparison<'_> {
    /// The number of levels.
    fn depth(&self) -> usize {
        self.both.iter().map(|layers| layers.0.len()).max().unwrap_or(0)
    }

    fn announce(&mut self) -> Result<()> {
        let (bytes, nodes) = self.least;
        writeln!(
            self.out,
            "Printing analysis for nodes difference larger than {bytes} bytes or node count difference larger than {nodes}."
        )?;
        Ok(())
    }

    fn level(&mut self, depth: usize) -> Result<()> {
        writeln!(self.out, "Analysis for depth {depth}")?;
        self.compare(depth, |_| true)
    }

    /// Compares the nodes of a level that are selected by their path.
    fn compare(&mut self, depth: usize, is_selected: impl Fn(&str) -> bool) -> Result<()> {
        let selected = |side: usize| -> Vec<&SubtreeSize> {
            let layer = self.both.get(side).and_then(|layers| layers.0.get(depth)).map_or(&[][..], Vec::as_slice);
            layer.iter().filter(|node| is_selected(&node.path)).collect()
        };
        let (left, right) = (selected(0), selected(1));
        Level { least: self.least, detail: self.detail, out: self.out }.compare(&left, &right)
    }

    /// Compares what the user asks for, level by level. Ends after the last level, or with the input.
    fn interactive(&mut self, input: &mut dyn BufRead) -> Result<()> {
        let (mut current, depth) = (0, self.depth());
        while current < depth {
            writeln!(
                self.out,
                "Current depth is {current}\n- Press enter to move to print current depth layer;\n\
                 - Type a number to jump to and print all nodes at a given depth;\n\
                 - Enter an ABSOLUTE path to print the immediate subtree of a node. Path must start with '/'."
            )?;
            self.out.flush()?;
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                return Ok(());
            }
            self.announce()?;
            let last = depth - 1;
            match line.trim() {
                "" => {
                    self.level(current)?;
                    current += 1;
                    writeln!(self.out)?;
                }
                path if path.starts_with('/') => {
                    self.subtree(path)?;
                    writeln!(self.out)?;
                }
                text => match text.parse::<usize>() {
                    Ok(wanted) if wanted <= last => {
                        current = wanted;
                        self.level(current)?;
                        writeln!(self.out)?;
                    }
                    Ok(_) => writeln!(self.out, "Depth must be in range [0, {last}]")?,
                    Err(_) => writeln!(
                        self.out,
                        "Input {text} is not valid. Depth must be in range [0, {last}]. Path must be an absolute path which \
                         starts with '/'.\n"
                    )?,
                },
            }
        }
        Ok(())
    }

    /// Compares the children of a node.
    fn subtree(&mut self, path: &str) -> Result<()> {
        writeln!(self.out, "Analysis for node {path}")?;
        let path = path.trim_end_matches('/');
        let depth = path.matches('/').count();
        let has =
            |layers: &TreeLevels| layers.0.get(depth).is_some_and(|layer| layer.iter().any(|node| node.path == path));
        if !self.both.iter().any(has) {
            writeln!(self.out, "Path {path} is neither found in left tree nor right tree.")?;
            return Ok(());
        }
        let is_child = |node: &str| node.rsplit_once('/').is_some_and(|(parent, _)| parent == path);
        self.compare(depth + 1, is_child)
    }
}

struct Level<'a> {
    least: (i64, i64),
    detail: Detail,
    out: &'a mut dyn Write,
}

impl Level<'_> {
    fn compare(&mut self, mut left: &[&SubtreeSize], mut right: &[&SubtreeSize]) -> Result<()> {
        loop {
            match (left, right) {
                ([a, left_rest @ ..], [b, right_rest @ ..]) => {
                    let order = a.path.cmp(&b.path);
                    if self.detail == Detail::Steps {
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
        } else if self.detail != Detail::Differences {
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
        } else if self.detail != Detail::Differences {
            writeln!(self.out, "Filtered {side} node {path} of size {bytes}")?;
        }
        Ok(())
    }
}
