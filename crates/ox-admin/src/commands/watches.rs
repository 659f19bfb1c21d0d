//! Data watches: `watches`, `watches_by_path`, `watch_summary`.

use super::sessions::{end_groups, put_in_group};
use super::{Outcome, Serving, is_too_long};
use crate::json::JsonWriter;
use ox_server::Visit;

pub(super) fn summary(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    let (connections, paths, watches) = serving.server.watch_summary();
    for (name, value) in [("num_connections", connections), ("num_paths", paths), ("num_total_watches", watches)] {
        json.key(name);
        json.unsigned(value as u64);
    }
    Outcome::Done
}

pub(super) fn by_session(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    json.key("session_id_to_watched_paths");
    json.begin_object();
    let mut last = None;
    serving.server.watches_by_session(&mut |session, path| {
        put_in_group(&mut last, session, path, json);
        if is_too_long(json) { Visit::Stop } else { Visit::Continue }
    });
    end_groups(last, json);
    json.end_object();
    if is_too_long(json) { Outcome::TooLong } else { Outcome::Done }
}

pub(super) fn by_path(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    json.key("path_to_session_ids");
    json.begin_object();
    serving.server.watches_by_path(&mut |path, sessions| {
        json.key(path);
        json.begin_array();
        sessions.iter().for_each(|session| json.int(*session));
        json.end_array();
        if is_too_long(json) { Visit::Stop } else { Visit::Continue }
    });
    json.end_object();
    if is_too_long(json) { Outcome::TooLong } else { Outcome::Done }
}
