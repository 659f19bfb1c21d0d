//! Finds a shorter script that still shows a difference, on fresh servers for each attempt.

use crate::request::RequestBody;
use crate::runner::{Runner, ServerPair};
use crate::script::{Action, Batch, Line, Script};
use anyhow::Result;
use std::time::{Duration, Instant};

/// Short, because many attempts are worth more than certainty about a slow server.
const REPLY_TIMEOUT: Duration = Duration::from_secs(4);

/// Starts two servers without data.
pub type Fresh<'a> = dyn FnMut() -> Result<ServerPair> + 'a;

/// The shortest script found before `deadline` that shows a difference; `None` if not even the complete one does.
pub fn shrink(script: &Script, fresh: &mut Fresh<'_>, deadline: Instant) -> Result<Option<Script>> {
    let mut shows = |batches: &[Batch]| -> Result<bool> { differs(batches, &fresh()?) };
    if !shows(&script.batches)? {
        return Ok(None);
    }
    let mut batches = likely(&script.batches, deadline, &mut shows)?;
    reduce(&mut batches, deadline, &mut shows)?;
    // Then line by line: each batch of several lines is reduced by itself.
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

/// Most differences need only the sessions, the nodes and the last few batches: tries these first, because starting
/// fresh servers takes time.
fn likely(batches: &[Batch], deadline: Instant, shows: &mut dyn FnMut(&[Batch]) -> Result<bool>) -> Result<Vec<Batch>> {
    for last in [1, 2, 4, 8, 16, 32] {
        let start = batches.len().saturating_sub(last);
        for keeps in [is_connect as fn(&Line) -> bool, is_setup] {
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

/// Lines that create sessions, identities and nodes, which later requests need.
fn is_setup(line: &Line) -> bool {
    let Action::Request(request) = &line.action else { return is_connect(line) };
    matches!(request.body, RequestBody::Create { .. } | RequestBody::CreateTtl { .. } | RequestBody::Auth { .. })
}

/// Runs the batches and the final comparison; true if anything differs.
fn differs(batches: &[Batch], pair: &ServerPair) -> Result<bool> {
    let mut runner = Runner::new(pair)?;
    runner.set_reply_timeout(REPLY_TIMEOUT);
    for batch in batches.iter().filter(|batch| !batch.0.is_empty()) {
        if runner.run_batch(batch)?.difference.is_some() {
            return Ok(true);
        }
    }
    Ok(runner.finish()?.difference.is_some())
}

/// Removes chunks, halving their size each round, while the rest still shows the difference.
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
    fn irrelevant_items_are_removed() {
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
