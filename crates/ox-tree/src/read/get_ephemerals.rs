//! getEphemerals: the session's ephemeral nodes.

use super::Requester;
use crate::State;
use ox_proto::jute::{put_count, put_text};
use ox_proto::request::PathRequest;

pub(super) fn put(state: &State, requester: Requester<'_>, request: &PathRequest<'_>, out: &mut Vec<u8>) {
    let prefix = request.path.as_deref().unwrap_or_default();
    let is_blank = |c: char| c <= ' ';
    let everything = matches!(prefix.trim_matches(is_blank), "" | "/");
    let paths = state.ephemerals_of(requester.session).filter(|path| everything || path.starts_with(prefix));
    let paths: Vec<String> = paths.collect();
    put_count(out, paths.len());
    paths.iter().for_each(|path| put_text(out, path));
}
