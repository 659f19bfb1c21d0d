//! Finds a shorter script that still shows a difference, on fresh servers each time.

use crate::request::Body;
use crate::runner::{Duel, Pair};
use crate::script::{Action, Batch, Line, Script};
use anyhow::Result;
use std::time::{Duration, Instant};

/// Many tries are worth more than certainty about a slow server.
const PATIENCE: Duration = Duration::from_secs(4);

/// Starts two servers without any data.
pub type Fresh<'a> = dyn FnMut() -> Result<Pair> + 'a;

/// The shortest script found until `deadline` that shows a difference; `None` if not even the whole one does.
pub fn shrink(script: &Script, fresh: &mut Fresh<'_>, deadline: Instant) -> Result<Option<Script>> {
    let mut shows = |batches: &[Batch]| -> Result<bool> { differs(batches, &fresh()?) };
    if !shows(&script.batches)? {
        return Ok(None);
    }
    let mut batches = likely(&script.batches, deadline, &mut shows)?;
    reduce(&mut batches, deadline, &mut shows)?;
    // Then line by line: each batch of many becomes a list of its own.
    let mut index = batches.len();
    while 0 < index && Instant::now() < deadline {
        index -= 1;
        let mut lines: Vec<_> = batches[index].0.clone();
        if lines.len() < 2 {
            continue;
        }
        let mut with = batches.clone();
        reduce(&mut lines, deadline, &mut |lines| {
            with[index] = Batch(lines.to_vec());
            shows(&with)
        })?;
        batches[index] = Batch(lines);
    }
    Ok(Some(Script { batches, ..script.clone() }))
}

/// Most differences need only the sessions, the nodes and the last few batches: tries these before everything else, because
/// fresh servers take their time.
fn likely(batches: &[Batch], deadline: Instant, shows: &mut dyn FnMut(&[Batch]) -> Result<bool>) -> Result<Vec<Batch>> {
    for last in [1, 2, 4, 8, 16, 32] {
        let start = batches.len().saturating_sub(last);
        for keeps in [is_connect as fn(&Line) -> bool, is_ground] {
            let before =
                batches[..start].iter().map(|batch| Batch(batch.0.iter().filter(|l| keeps(l)).cloned().collect()));
            let mut few: Vec<_> = before.filter(|batch| !batch.0.is_empty()).collect();
            few.extend_from_slice(&batches[start..]);
            if few.len() < batches.len() && Instant::now() < deadline && shows(&few)? {
                return Ok(few);
            }
        }
    }
    Ok(batches.to_vec())
}

fn is_connect(line: &Line) -> bool {
    matches!(line.action, Action::Connect(_))
}

/// Sessions, identities and nodes: what later requests stand on.
fn is_ground(line: &Line) -> bool {
    let Action::Request(request) = &line.action else { return is_connect(line) };
    matches!(request.body, Body::Create { .. } | Body::CreateTtl { .. } | Body::Auth { .. })
}

/// Plays batches and the end of a run; true if anything differs.
fn differs(batches: &[Batch], pair: &Pair) -> Result<bool> {
    let mut duel = Duel::new(pair)?;
    duel.set_patience(PATIENCE);
    for batch in batches.iter().filter(|batch| !batch.0.is_empty()) {
        if duel.play(batch)?.difference.is_some() {
            return Ok(true);
        }
    }
    Ok(duel.finish()?.difference.is_some())
}

/// Drops chunks, halving their size each round, as long as what is left still shows the difference.
fn reduce<T: Clone>(items: &mut Vec<T>, deadline: Instant, shows: &mut dyn FnMut(&[T]) -> Result<bool>) -> Result<()> {
    let mut size = items.len().div_ceil(2);
    loop {
        let mut end = items.len();
        while 0 < end && Instant::now() < deadline {
            let start = end.saturating_sub(size);
            let mut without = items.clone();
            without.drain(start..end);
            if shows(&without)? {
                *items = without;
            }
            end = start;
        }
        if size <= 1 || deadline <= Instant::now() {
            return Ok(());
        }
        size = size.div_ceil(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_is_dropped() {
        let mut items: Vec<u32> = (0..100).collect();
        let mut tries = 0;
        reduce(&mut items, Instant::now() + Duration::from_secs(60), &mut |rest| {
            tries += 1;
            Ok(rest.contains(&17) && rest.contains(&83))
        })
        .unwrap();
        assert_eq!(items, [17, 83]);
        assert!(tries < 100, "{tries}");
    }
}
