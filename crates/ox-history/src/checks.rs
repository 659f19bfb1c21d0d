//! The checks, one file per group of properties. Later checks rely on the results of earlier ones.

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

use crate::check_summary::CheckSummary;
use crate::history::{History, ReceivedFrame};
use crate::replay::Replay;
use crate::violation::Checked;

pub(crate) fn run(history: &History) -> Checked<CheckSummary> {
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
    let events = frames.clone().filter(|frame| matches!(frame, ReceivedFrame::Event { .. })).count();
    Ok(CheckSummary {
        connections: history.connections.len(),
        requests: history.connections.iter().map(|connection| connection.requests.len()).sum(),
        replies: frames.count() - events,
        events,
        transactions: history.log.len(),
        effective_without_reply: matching.effective_without_reply,
        model,
    })
}
