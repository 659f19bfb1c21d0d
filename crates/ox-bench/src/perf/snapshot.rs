//! How writes fare while the server writes a snapshot.
//!
//! A steady load of sets makes the server reach its snapshot count; a probe that sets one key at a time notes when each
//! set began and how long it took; the snapshot directory tells when a snapshot was being written.

use crate::job::{Job, Server};
use crate::limits::ANSWER_TIMEOUT;
use crate::load::Timing;
use crate::notify::WatchMode;
use crate::operation::{Mix, Operation, Workload};
use crate::progress::Progress;
use crate::session::Session;
use crate::statistics::Summary;
use crate::stop_flag::Stop;
use crate::tree_layout::Shape;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Sets per second beside the probe: Apache's usual snapshot count of 100000 is reached within 10 s.
const RATE: f64 = 10_000.0;
/// A server that takes no snapshot within this time under that load is not measured.
const LIMIT: Duration = Duration::from_secs(90);
/// A snapshot is complete when its directory has not changed for so long.
const QUIET: Duration = Duration::from_millis(500);
/// Load before and behind the snapshot, for the latencies without one.
const MARGIN: Duration = Duration::from_secs(3);

/// Latencies of single writes, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotFigures {
    /// 99 of 100 writes outside of the snapshot are faster.
    pub quiet_p99_ms: f64,
    /// 99 of 100 writes during the snapshot are faster.
    pub during_p99_ms: f64,
    /// The slowest write during the snapshot.
    pub during_max_ms: f64,
    /// How long the snapshot took.
    pub seconds: f64,
}

/// Measures one snapshot of a server whose keys are there.
pub fn measure(server: Server, dir: &Path, shape: &Shape, stop: &Stop) -> Result<SnapshotFigures> {
    let end = Stop::default();
    thread::scope(|scope| {
        let load = scope.spawn(|| load(server, shape, &end));
        let probe = scope.spawn(|| probe(server, shape, &end));
        let written = await_snapshot(dir, &|| stop.is_set() || load.is_finished() || probe.is_finished());
        end.set();
        load.join().expect("the load does not panic")?;
        let samples = probe.join().expect("the probe does not panic")?;
        evaluate(&samples, written?)
    })
}

/// A time span.
type Span = (Instant, Instant);
/// When a write began and how long it took.
type Sample = (Instant, Duration);

fn load(server: Server, shape: &Shape, end: &Stop) -> Result<()> {
    let job = Job {
        workload: Workload::Mix(Mix::only(Operation::Set)),
        shape: shape.clone(),
        multi_size: 1,
        connections: 10,
        depth: 100,
        threads: 1,
        rate: Some(RATE),
        watch_mode: WatchMode::Once,
        timing: Timing { warm_up: Duration::ZERO, duration: LIMIT + ANSWER_TIMEOUT },
    };
    job.measure(&[server], 0, end, &Progress::hidden()).map(drop)
}

fn probe(server: Server, shape: &Shape, end: &Stop) -> Result<Vec<Sample>> {
    let mut session = Session::open(server.target)?;
    let (path, data) = (shape.key_path(0), shape.data());
    let mut samples = Vec::new();
    while !end.is_set() {
        let began = Instant::now();
        let err = session.set(&path, &data)?;
        ensure!(err == 0, "cannot set {path}: {}", crate::failure::code_text(err));
        samples.push((began, began.elapsed()));
    }
    session.close()?;
    Ok(samples)
}

/// Waits for a snapshot to begin, to end and to be over for a while.
fn await_snapshot(dir: &Path, ended: &dyn Fn() -> bool) -> Result<Span> {
    let begin = Instant::now();
    let wait = |duration: Duration| {
        let start = Instant::now();
        while start.elapsed() < duration && !ended() {
            thread::sleep(Duration::from_millis(20));
        }
    };
    wait(MARGIN);
    let (mut before, mut span): (_, Option<Span>) = (files(dir)?, None);
    while begin.elapsed() < LIMIT && !ended() {
        thread::sleep(Duration::from_millis(10));
        let (now, after) = (Instant::now(), files(dir)?);
        if after != before {
            before = after;
            span = Some(span.map_or((now, now), |(start, _)| (start, now)));
        } else if let Some((_, last)) = span
            && QUIET < now - last
        {
            wait(MARGIN);
            break;
        }
    }
    span.with_context(|| format!("no snapshot appeared in {} within {} s", dir.display(), LIMIT.as_secs()))
}

/// Names and sizes of all files but the logs.
fn files(dir: &Path) -> Result<BTreeMap<String, u64>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let (false, Ok(metadata)) = (name.starts_with("log."), entry.metadata()) {
            files.insert(name, metadata.len());
        }
    }
    Ok(files)
}

fn evaluate(samples: &[Sample], (start, end): Span) -> Result<SnapshotFigures> {
    let in_span = |(began, took): &Sample| start <= *began + *took && *began <= end;
    let latencies = |during: bool| -> Vec<f64> {
        let chosen = samples.iter().filter(|sample| in_span(sample) == during);
        chosen.map(|(_, took)| took.as_secs_f64() * 1e3).collect()
    };
    let (during, quiet) = (latencies(true), latencies(false));
    Ok(SnapshotFigures {
        quiet_p99_ms: p99(quiet).context("no write outside of the snapshot")?,
        during_max_ms: Summary::of(&during).context("no write during the snapshot")?.high,
        during_p99_ms: p99(during).context("no write during the snapshot")?,
        seconds: (end - start).as_secs_f64(),
    })
}

fn p99(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get((values.len() * 99).div_ceil(100).saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_told_apart_by_when_they_were_under_way() {
        let zero = Instant::now();
        let ms = |count| Duration::from_millis(count);
        let samples: Vec<Sample> =
            (0..100).map(|index| (zero + ms(index * 10), ms(if (50..60).contains(&index) { 9 } else { 1 }))).collect();
        let figures = evaluate(&samples, (zero + ms(500), zero + ms(599))).unwrap();
        assert_eq!((figures.quiet_p99_ms, figures.during_p99_ms, figures.during_max_ms), (1.0, 9.0, 9.0));
        assert!(evaluate(&[], (zero, zero)).is_err());
    }

    #[test]
    fn the_99th_of_a_hundred() {
        assert_eq!(p99((1..=100).map(f64::from).collect()), Some(99.0));
        assert_eq!(p99(vec![7.0]), Some(7.0));
        assert_eq!(p99(vec![]), None);
    }

    #[test]
    fn logs_are_not_snapshots() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("log.1"), "x").unwrap();
        fs::write(dir.path().join("snapshot.1"), "xy").unwrap();
        assert_eq!(files(dir.path()).unwrap(), BTreeMap::from([("snapshot.1".into(), 2)]));
    }
}
