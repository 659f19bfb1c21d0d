//! A complete run: scenarios, then random seeds, then a restart.

use crate::compare::{StreamDifference, Streams};
use crate::coverage::Coverage;
use crate::generate::Generator;
use crate::profile::Profile;
use crate::report::{DifferenceReport, RunReport};
use crate::runner::{QuotaUsage, Runner, ServerPair, TreeDump};
use crate::scenarios;
use crate::script::{Batch, Script, SessionName};
use crate::shrink::{Fresh, shrink};
use anyhow::{Context as _, Result, ensure};
use std::ops::Range;
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
pub struct SuitePlan {
    /// The settings that both servers run with.
    pub profile: &'static Profile,
    pub scenarios: bool,
    /// Scripts to run in addition.
    pub scripts: Vec<Script>,
    /// Run only the scenario of this name.
    pub only: Option<String>,
    /// Seeds of random runs.
    pub seeds: Range<u64>,
    /// Requests to send per seed.
    pub steps: usize,
    /// Whether to report every batch with the replies of the reference.
    pub trace: bool,
    /// Time to search for a shorter script after a difference.
    pub shrink_for: Duration,
}

/// The servers under test, and how to restart them.
pub struct ServerControl<'a> {
    /// Addresses of the running servers.
    pub pair: ServerPair,
    /// Replaces both servers by empty ones. Without it, a run ends at its first difference and scripts are not
    /// shortened.
    pub fresh: Option<Box<Fresh<'a>>>,
    /// Restarts both servers on their data.
    pub restart: Option<Box<Fresh<'a>>>,
}

/// Runs the plan on two empty servers without other clients. Reports progress to `log`.
pub fn run(plan: &SuitePlan, servers: &mut ServerControl<'_>, log: &mut dyn FnMut(&str)) -> Result<RunReport> {
    Runner::new(&servers.pair)?.ensure_empty()?;
    let mut verdict = RunReport::default();
    let mut scripts = if plan.scenarios { scenarios::for_profile(plan.profile, false)? } else { Vec::new() };
    if let Some(only) = &plan.only {
        scripts.retain(|script| script.title == *only);
        ensure!(!scripts.is_empty(), "no scenario {only} for profile {}", plan.profile.name);
    }
    scripts.extend(plan.scripts.iter().cloned());
    for script in scripts {
        log(&format!("{}: scenario {}", plan.profile.name, script.title));
        let mut batches = script.batches.clone().into_iter();
        let origin = format!("[{}] scenario {}", plan.profile.name, script.title);
        if !step(plan, servers, &mut verdict, &origin, &mut |_| batches.next(), log)? {
            return Ok(verdict);
        }
    }
    for seed in plan.seeds.clone() {
        log(&format!("{}: seed {seed}", plan.profile.name));
        let mut generator = Generator::new(seed, plan.profile);
        let mut sent = 0;
        let origin = format!("[{}] seed {seed}", plan.profile.name);
        let mut source = |played: Option<(&Batch, &Streams)>| {
            if let Some((batch, streams)) = played {
                generator.learn(batch, streams);
            }
            (sent < plan.steps).then(|| {
                let batch = generator.next_batch();
                sent += batch.0.len();
                batch
            })
        };
        if !step(plan, servers, &mut verdict, &origin, &mut source, log)? {
            return Ok(verdict);
        }
    }
    check_restart(plan, servers, &mut verdict)?;
    Ok(verdict)
}

/// Runs the scripts that must never reach Apache, on our server only.
pub fn run_ours_only(address: &str, profile: &Profile, log: &mut dyn FnMut(&str)) -> Result<RunReport> {
    Runner::single(address)?.ensure_empty()?;
    let mut verdict = RunReport::default();
    for script in scenarios::for_profile(profile, true)? {
        log(&format!("{}: scenario {}", profile.name, script.title));
        verdict.scripts += 1;
        let mut runner = Runner::single(address)?;
        let report = |batch: &Batch, batch_number, difference| DifferenceReport {
            origin: format!("[{}] scenario {}", profile.name, script.title),
            batch_number,
            batch: batch.clone(),
            difference,
            shortest: None,
        };
        for (index, batch) in script.batches.iter().enumerate() {
            verdict.lines += batch.0.len();
            let difference = runner.run_batch(batch)?.difference;
            verdict.reports.extend(difference.map(|difference| report(batch, index + 1, difference)));
        }
        let finished = runner.finish()?;
        let number = script.batches.len() + 1;
        verdict.reports.extend(finished.difference.map(|difference| report(&finished.last, number, difference)));
    }
    Ok(verdict)
}

type Source<'a> = dyn FnMut(Option<(&Batch, &Streams)>) -> Option<Batch> + 'a;

/// Runs one script; false if the run cannot continue.
fn step(
    plan: &SuitePlan,
    servers: &mut ServerControl<'_>,
    verdict: &mut RunReport,
    origin: &str,
    source: &mut Source<'_>,
    log: &mut dyn FnMut(&str),
) -> Result<bool> {
    verdict.scripts += 1;
    let mut script = Script { title: origin.to_owned(), ..Script::default() };
    let trace: Option<&mut dyn FnMut(&str)> = if plan.trace { Some(log) } else { None };
    let report = play(servers, &mut script, &mut verdict.tally, source, trace)?;
    verdict.lines += script.len();
    let Some(mut report) = report else { return Ok(true) };
    log(&format!("{origin}, batch {}: {}", report.batch_number, report.difference.what));
    let Some(fresh) = &mut servers.fresh else {
        verdict.reports.push(report);
        return Ok(false);
    };
    report.shortest = shrink(&script, fresh, Instant::now() + plan.shrink_for)?;
    verdict.reports.push(report);
    servers.pair = fresh().context("start fresh servers")?;
    Ok(true)
}

fn play(
    servers: &mut ServerControl<'_>,
    script: &mut Script,
    tally: &mut Coverage,
    source: &mut Source<'_>,
    mut trace: Option<&mut dyn FnMut(&str)>,
) -> Result<Option<DifferenceReport>> {
    let origin = script.title.clone();
    let mut runner = Runner::new(&servers.pair)?;
    let report = |batch: &Batch, number, difference| DifferenceReport {
        origin: origin.clone(),
        batch_number: number,
        batch: batch.clone(),
        difference,
        shortest: None,
    };
    let mut next = source(None);
    while let Some(batch) = next {
        script.batches.push(batch.clone());
        let result = runner.run_batch(&batch)?;
        tally.count(&batch, result.reference());
        if let Some(log) = &mut trace {
            log(&transcript(&batch, result.reference()));
        }
        if let Some(difference) = result.difference {
            return Ok(Some(report(&batch, script.batches.len(), difference)));
        }
        next = source(Some((&batch, result.reference())));
    }
    let finished = runner.finish()?;
    if let Some(difference) = finished.difference {
        return Ok(Some(report(&finished.last, script.batches.len() + 1, difference)));
    }
    Ok(None)
}

/// Restarts both servers and compares their trees again: with each other, and each with its state before the restart.
fn check_restart(plan: &SuitePlan, servers: &mut ServerControl<'_>, verdict: &mut RunReport) -> Result<()> {
    let Some(restart) = &mut servers.restart else { return Ok(()) };
    let before = Runner::new(&servers.pair)?.finish()?;
    servers.pair = restart().context("restart the servers")?;
    let mut runner = Runner::new(&servers.pair)?;
    let after = runner.walk(QuotaUsage::Skipped)?;
    let mut trees = before.trees.iter().zip(&after.trees);
    let difference = before.difference.or(after.difference).or_else(|| {
        trees
            .find_map(|(before, after)| changed(before, after))
            .map(|what| StreamDifference::plain(SessionName::CONTROL, what))
    });
    if let Some(difference) = difference {
        verdict.reports.push(DifferenceReport {
            origin: format!("[{}] restart", plan.profile.name),
            batch_number: 0,
            batch: after.last,
            difference,
            shortest: None,
        });
    }
    runner.finish()?;
    Ok(())
}

/// The first change of a tree by a restart; only quota usage may change.
fn changed(before: &TreeDump, after: &TreeDump) -> Option<String> {
    let nothing = Vec::new();
    let mut paths: Vec<_> = before.keys().chain(after.keys()).collect();
    paths.retain(|path| !path.ends_with("/zookeeper_stats"));
    paths.into_iter().find_map(|path| {
        let (old, new) = (before.get(path).unwrap_or(&nothing), after.get(path).unwrap_or(&nothing));
        (old != new).then(|| format!("a restart changed {path}\n    from {old:?}\n    to   {new:?}"))
    })
}

/// A batch and everything that the server sent because of it.
fn transcript(batch: &Batch, streams: &Streams) -> String {
    let mut text = batch.to_string();
    for (name, stream) in streams {
        stream.describe().iter().for_each(|received| text.push_str(&format!("    {name} < {received}\n")));
    }
    text
}
