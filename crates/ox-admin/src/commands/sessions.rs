//! The command `dump`: sessions and ephemeral nodes.

use super::{Outcome, Serving, is_too_long};
use crate::json::JsonWriter;
use ox_server::Visit;

pub(super) fn dump(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    let Some(by_expiry) = serving.server.sessions_by_expiry(serving.mode) else {
        return Outcome::Error(super::NOT_SERVING.to_owned());
    };
    json.key("expiry_time_to_session_ids");
    json.begin_object();
    for (expires_ms, sessions) in by_expiry {
        json.key(&expires_ms.to_string());
        json.begin_array();
        sessions.into_iter().for_each(|session| json.int(session));
        json.end_array();
    }
    json.end_object();
    json.key("session_id_to_ephemeral_paths");
    json.begin_object();
    let mut last = None;
    serving.server.ephemerals(&mut |session, path| {
        put_in_group(&mut last, session, path, json);
        if is_too_long(json) { Visit::Stop } else { Visit::Continue }
    });
    end_groups(last, json);
    json.end_object();
    if is_too_long(json) { Outcome::TooLong } else { Outcome::Done }
}

/// Adds a path to the array of its session; the paths of a session follow each other.
pub(super) fn put_in_group(last: &mut Option<i64>, session: i64, path: &str, json: &mut JsonWriter) {
    if *last != Some(session) {
        end_groups(last.replace(session), json);
        json.key(&session.to_string());
        json.begin_array();
    }
    json.text(path);
}

/// Closes the array of the last session, if there is one.
pub(super) fn end_groups(last: Option<i64>, json: &mut JsonWriter) {
    if last.is_some() {
        json.end_array();
    }
}
