//! A whole run: scenarios, then seeds, then what a restart leaves.

use crate::compare::{Difference, Streams};
use crate::coverage::Tally;
use crate::generate::Generator;
use crate::profile::Profile;
use crate::report::{Report, Verdict};
use crate::runner::{Duel, Pair, Tree, Usage};
use crate::scenarios;
use crate::script::{Batch, Name, Script};
use crate::shrink::{Fresh, shrink};
use anyhow::{Context as _, Result, ensure};
use std::ops::Range;
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The settings that both servers run under.
    pub profile: &'static Profile,
    /// Whether the scenarios are played.
    pub scenarios: bool,
    /// Scripts to play besides.
    pub scripts: Vec<Script>,
    /// Only the scenario of this name.
    pub only: Option<String>,
    /// Seeds of random runs.
    pub seeds: Range<u64>,
    /// Requests per seed.
    pub steps: usize,
    /// Whether every batch and what the reference answered is told.
    pub trace: bool,
    /// How long to look for a shorter script after a difference.
    pub shrink_for: Duration,
}

/// What the caller can do with the servers.
pub struct Servers<'a> {
    /// The servers as they are now.
    pub pair: Pair,
    /// Starts both without data, in place of the running ones. Without it a run ends at its first difference and scripts are
    /// not shortened.
    pub fresh: Option<Box<Fresh<'a>>>,
    /// Stops both and starts them again on their data.
    pub restart: Option<Box<Fresh<'a>>>,
}

/// Runs the plan on two empty servers that nobody else uses. Progress goes to `talk`.
pub fn run(plan: &Plan, servers: &mut Servers<'_>, talk: &mut dyn FnMut(&str)) -> Result<Verdict> {
    Duel::new(&servers.pair)?.ensure_empty()?;
    let mut verdict = Verdict::default();
    let mut scripts = if plan.scenarios { scenarios::for_profile(plan.profile, false)? } else { Vec::new() };
    if let Some(only) = &plan.only {
        scripts.retain(|script| script.title == *only);
        ensure!(!scripts.is_empty(), "no scenario {only} for profile {}", plan.profile.name);
    }
    scripts.extend(plan.scripts.iter().cloned());
    for script in scripts {
        talk(&format!("{}: scenario {}", plan.profile.name, script.title));
        let mut batches = script.batches.clone().into_iter();
        let origin = format!("[{}] scenario {}", plan.profile.name, script.title);
        if !step(plan, servers, &mut verdict, &origin, &mut |_| batches.next(), talk)? {
            return Ok(verdict);
        }
    }
    for seed in plan.seeds.clone() {
        talk(&format!("{}: seed {seed}", plan.profile.name));
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
        if !step(plan, servers, &mut verdict, &origin, &mut source, talk)? {
            return Ok(verdict);
        }
    }
    survive_restart(plan, servers, &mut verdict)?;
    Ok(verdict)
}

/// Plays the scripts that must never reach Apache, on ours alone.
pub fn run_ours_only(address: &str, profile: &Profile, talk: &mut dyn FnMut(&str)) -> Result<Verdict> {
    Duel::alone(address)?.ensure_empty()?;
    let mut verdict = Verdict::default();
    for script in scenarios::for_profile(profile, true)? {
        talk(&format!("{}: scenario {}", profile.name, script.title));
        verdict.scripts += 1;
        let mut duel = Duel::alone(address)?;
        let report = |batch: &Batch, batch_number, difference| Report {
            origin: format!("[{}] scenario {}", profile.name, script.title),
            batch_number,
            batch: batch.clone(),
            difference,
            shortest: None,
        };
        for (index, batch) in script.batches.iter().enumerate() {
            verdict.lines += batch.0.len();
            let difference = duel.play(batch)?.difference;
            verdict.reports.extend(difference.map(|difference| report(batch, index + 1, difference)));
        }
        let finished = duel.finish()?;
        let number = script.batches.len() + 1;
        verdict.reports.extend(finished.difference.map(|difference| report(&finished.last, number, difference)));
    }
    Ok(verdict)
}

type Source<'a> = dyn FnMut(Option<(&Batch, &Streams)>) -> Option<Batch> + 'a;

/// Plays one script; false when the run cannot go on.
fn step(
    plan: &Plan,
    servers: &mut Servers<'_>,
    verdict: &mut Verdict,
    origin: &str,
    source: &mut Source<'_>,
    talk: &mut dyn FnMut(&str),
) -> Result<bool> {
    verdict.scripts += 1;
    let mut script = Script { title: origin.to_owned(), ..Script::default() };
    let trace: Option<&mut dyn FnMut(&str)> = if plan.trace { Some(talk) } else { None };
    let report = play(servers, &mut script, &mut verdict.tally, source, trace)?;
    verdict.lines += script.len();
    let Some(mut report) = report else { return Ok(true) };
    talk(&format!("{origin}, batch {}: {}", report.batch_number, report.difference.what));
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
    servers: &mut Servers<'_>,
    script: &mut Script,
    tally: &mut Tally,
    source: &mut Source<'_>,
    mut trace: Option<&mut dyn FnMut(&str)>,
) -> Result<Option<Report>> {
    let origin = script.title.clone();
    let mut duel = Duel::new(&servers.pair)?;
    let report = |batch: &Batch, number, difference| Report {
        origin: origin.clone(),
        batch_number: number,
        batch: batch.clone(),
        difference,
        shortest: None,
    };
    let mut next = source(None);
    while let Some(batch) = next {
        script.batches.push(batch.clone());
        let played = duel.play(&batch)?;
        tally.count(&batch, played.reference());
        if let Some(talk) = &mut trace {
            talk(&transcript(&batch, played.reference()));
        }
        if let Some(difference) = played.difference {
            return Ok(Some(report(&batch, script.batches.len(), difference)));
        }
        next = source(Some((&batch, played.reference())));
    }
    let finished = duel.finish()?;
    if let Some(difference) = finished.difference {
        return Ok(Some(report(&finished.last, script.batches.len() + 1, difference)));
    }
    Ok(None)
}

/// Restarts both servers and walks their trees again: equal to each other, and each to what it was before.
fn survive_restart(plan: &Plan, servers: &mut Servers<'_>, verdict: &mut Verdict) -> Result<()> {
    let Some(restart) = &mut servers.restart else { return Ok(()) };
    let before = Duel::new(&servers.pair)?.finish()?;
    servers.pair = restart().context("restart the servers")?;
    let mut duel = Duel::new(&servers.pair)?;
    let after = duel.walk(Usage::Skipped)?;
    let mut trees = before.trees.iter().zip(&after.trees);
    let difference = before.difference.or(after.difference).or_else(|| {
        trees.find_map(|(before, after)| changed(before, after)).map(|what| Difference::plain(Name::CONTROL, what))
    });
    if let Some(difference) = difference {
        verdict.reports.push(Report {
            origin: format!("[{}] restart", plan.profile.name),
            batch_number: 0,
            batch: after.last,
            difference,
            shortest: None,
        });
    }
    duel.finish()?;
    Ok(())
}

/// What a restart changed in a tree; it may change nothing but quota usage.
fn changed(before: &Tree, after: &Tree) -> Option<String> {
    let nothing = Vec::new();
    let mut paths: Vec<_> = before.keys().chain(after.keys()).collect();
    paths.retain(|path| !path.ends_with("/zookeeper_stats"));
    paths.into_iter().find_map(|path| {
        let (old, new) = (before.get(path).unwrap_or(&nothing), after.get(path).unwrap_or(&nothing));
        (old != new).then(|| format!("a restart changed {path}\n    from {old:?}\n    to   {new:?}"))
    })
}

/// A batch and everything it made the server say.
fn transcript(batch: &Batch, streams: &Streams) -> String {
    let mut text = batch.to_string();
    for (name, stream) in streams {
        stream.describe().iter().for_each(|heard| text.push_str(&format!("    {name} < {heard}\n")));
    }
    text
}
