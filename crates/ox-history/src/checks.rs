//! The checks, one file per group of properties, in the order in which they can rely on each other.

pub(crate) mod ephemerals;
pub(crate) mod fifo;
pub(crate) mod log;
pub(crate) mod matching;
pub(crate) mod multis;
pub(crate) mod read_only;
pub(crate) mod real_time;
pub(crate) mod results;
pub(crate) mod session_view;
pub(crate) mod sessions;
pub(crate) mod streams;
pub(crate) mod watches;

use crate::check_summary::Summary;
use crate::history::{History, Received};
use crate::replay::Replay;
use crate::violation::Checked;

pub(crate) fn run(history: &History) -> Checked<Summary> {
    let streams = streams::check(history)?;
    log::check(history)?;
    read_only::check(history, &streams)?;
    let matching = matching::check(history, &streams)?;
    sessions::check(history, &matching)?;
    fifo::check(history, &streams, &matching)?;
    real_time::check(history, &streams, &matching)?;
    session_view::check(history, &streams, &matching)?;
    let model = Replay::new(history, &streams, &matching).run()?;
    let frames = history.connections.iter().flat_map(|connection| &connection.received);
    let events = frames.clone().filter(|frame| matches!(frame, Received::Event { .. })).count();
    Ok(Summary {
        connections: history.connections.len(),
        requests: history.connections.iter().map(|connection| connection.requests.len()).sum(),
        answers: frames.count() - events,
        events,
        transactions: history.log.len(),
        unanswered_but_done: matching.unanswered_but_done,
        model,
    })
}
