//! Latency of writes while the server takes a snapshot.
//!
//! A steady load of sets makes the server reach its snapshot count; a probe that sets one key at a time records when
//! each set began and how long it took; changes of the snapshot directory show when a snapshot was being written.

use anyhow::{Context, Result, ensure};
use ox_bench::job::{Job, MeasuredServer};
use ox_bench::limits::REPLY_TIMEOUT;
use ox_bench::load::RunTiming;
use ox_bench::notify::WatcherKind;
use ox_bench::operation::{Mix, Operation, Workload};
use ox_bench::progress::ProgressLine;
use ox_bench::session::Session;
use ox_bench::statistics::Statistics;
use ox_bench::stop_flag::StopFlag;
use ox_bench::tree_layout::TreeLayout;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Sets per second in addition to the probe: Apache's usual snapshot count of 100000 is reached within 10 s.
const RATE: f64 = 10_000.0;
/// Time limit for the server to take a snapshot under that load.
const LIMIT: Duration = Duration::from_secs(90);
/// A snapshot is complete when its directory has not changed for this time.
const QUIET: Duration = Duration::from_millis(500);
/// Load before and after the snapshot, for the latencies without one.
const MARGIN: Duration = Duration::from_secs(3);

/// Latencies of single writes, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotResults {
    /// 99th percentile of writes outside of the snapshot.
    pub(crate) quiet_p99_ms: f64,
    /// 99th percentile of writes during the snapshot.
    pub(crate) during_p99_ms: f64,
    /// The slowest write during the snapshot.
    pub(crate) during_max_ms: f64,
    pub(crate) seconds: f64,
}

/// Measures one snapshot of a server whose keys exist.
pub(crate) fn measure(
    server: MeasuredServer,
    dir: &Path,
    layout: &TreeLayout,
    stop: &StopFlag,
) -> Result<SnapshotResults> {
    let end = StopFlag::default();
    thread::scope(|scope| {
        let load = scope.spawn(|| load(server, layout, &end));
        let probe = scope.spawn(|| probe(server, layout, &end));
        let written = await_snapshot(dir, &|| stop.is_set() || load.is_finished() || probe.is_finished());
        end.set();
        load.join().expect("the load does not panic")?;
        let samples = probe.join().expect("the probe does not panic")?;
        evaluate(&samples, written?)
    })
}

/// Start and end of a time span.
type Span = (Instant, Instant);
/// When a write began and how long it took.
type Sample = (Instant, Duration);

fn load(server: MeasuredServer, layout: &TreeLayout, end: &StopFlag) -> Result<()> {
    let job = Job {
        workload: Workload::Mix(Mix::only(Operation::Set)),
        layout: layout.clone(),
        multi_size: 1,
        connections: 10,
        depth: 100,
        threads: 1,
        rate: Some(RATE),
        watch_mode: WatcherKind::Once,
        timing: RunTiming { warm_up: Duration::ZERO, duration: LIMIT + REPLY_TIMEOUT },
    };
    job.measure(&[server], 0, end, &ProgressLine::hidden()).map(drop)
}

fn probe(server: MeasuredServer, layout: &TreeLayout, end: &StopFlag) -> Result<Vec<Sample>> {
    let mut session = Session::open(server.target)?;
    let (path, data) = (layout.key_path(0), layout.data());
    let mut samples = Vec::new();
    while !end.is_set() {
        let began = Instant::now();
        let err = session.set(&path, &data)?;
        ensure!(err == 0, "cannot set {path}: {}", ox_bench::failure::code_text(err));
        samples.push((began, began.elapsed()));
    }
    session.close()?;
    Ok(samples)
}

/// Waits for a snapshot to begin and to be complete.
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

/// Names and sizes of all files except the logs.
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

fn evaluate(samples: &[Sample], (start, end): Span) -> Result<SnapshotResults> {
    let in_span = |(began, took): &Sample| start <= *began + *took && *began <= end;
    let latencies = |during: bool| -> Vec<f64> {
        let chosen = samples.iter().filter(|sample| in_span(sample) == during);
        chosen.map(|(_, took)| took.as_secs_f64() * 1e3).collect()
    };
    let (during, quiet) = (latencies(true), latencies(false));
    Ok(SnapshotResults {
        quiet_p99_ms: p99(quiet).context("no write outside of the snapshot")?,
        during_max_ms: Statistics::of(&during).context("no write during the snapshot")?.high,
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
    fn writes_are_classified_by_overlap_with_snapshot() {
        let zero = Instant::now();
        let ms = |count| Duration::from_millis(count);
        let samples: Vec<Sample> =
            (0..100).map(|index| (zero + ms(index * 10), ms(if (50..60).contains(&index) { 9 } else { 1 }))).collect();
        let results = evaluate(&samples, (zero + ms(500), zero + ms(599))).unwrap();
        assert_eq!((results.quiet_p99_ms, results.during_p99_ms, results.during_max_ms), (1.0, 9.0, 9.0));
        assert!(evaluate(&[], (zero, zero)).is_err());
    }

    #[test]
    fn p99_is_the_99th_of_100() {
        assert_eq!(p99((1..=100).map(f64::from).collect()), Some(99.0));
        assert_eq!(p99(vec![7.0]), Some(7.0));
        assert_eq!(p99(vec![]), None);
    }

    #[test]
    fn log_files_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("log.1"), "x").unwrap();
        fs::write(dir.path().join("snapshot.1"), "xy").unwrap();
        assert_eq!(files(dir.path()).unwrap(), BTreeMap::from([("snapshot.1".into(), 2)]));
    }
}
