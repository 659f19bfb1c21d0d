//! Snapshots: `snapshot`, `restore`, `last_snapshot`.

use super::{Outcome, Serving, error, in_json, object};
use crate::json::JsonWriter;
use crate::limits::SNAPSHOT_CHUNK_BYTES;
use crate::reply::{self, ChunkStream, Reply};
use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use ox_server::WrittenSnapshot;
use std::fs::File;
use std::io::{self, Read as _};
use std::time::Instant;
use tokio::sync::mpsc::{Sender, channel};

const SNAPSHOT: &str = "snapshot";
const RESTORE: &str = "restore";

pub(super) fn last_snapshot(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    let last = serving.server.last_snapshot();
    json.key("zxid");
    json.text(&format!("{:x}", last.map_or(-1, |last| last.zxid)));
    json.key("timestamp");
    json.unsigned(last.map_or(0, |last| last.timestamp));
    Outcome::Done
}

/// Compat: errors are told by the status alone (`snapshot_and_restore_answer_as_apache`).
fn failed(status: StatusCode, name: &str) -> Reply {
    reply::json(status, object(name, None))
}

pub(super) fn snapshot(serving: &Serving<'_>) -> Reply {
    let context = serving.call.context;
    if !context.admin.snapshot_enabled {
        return failed(StatusCode::SERVICE_UNAVAILABLE, SNAPSHOT);
    }
    if !context.has_last_zxid {
        return failed(StatusCode::INTERNAL_SERVER_ERROR, SNAPSHOT);
    }
    if !context.snapshot_limiter.admit(Instant::now()) {
        serving.server.note_rate_limited_snapshot();
        return failed(StatusCode::TOO_MANY_REQUESTS, SNAPSHOT);
    }
    let WrittenSnapshot { zxid, bytes, file } = match serving.server.take_snapshot() {
        Ok(written) => written,
        Err(error) => {
            tracing::warn!(%error, "snapshot command failed");
            return failed(StatusCode::INTERNAL_SERVER_ERROR, SNAPSHOT);
        }
    };
    let is_streaming = serving.call.parameter("streaming").is_none_or(|text| text.eq_ignore_ascii_case("true"));
    let mut reply =
        if is_streaming { stream(file, bytes) } else { reply::json(StatusCode::OK, object(SNAPSHOT, None)) };
    let headers = [("last_zxid", format!("{zxid:#x}")), ("snapshot_size", bytes.to_string())];
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            reply.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    reply
}

/// A reply with the content of a file. A thread of its own reads it, so that a slow reader holds no thread of the
/// commands.
fn stream(file: File, bytes: u64) -> Reply {
    let (sender, receiver) = channel(1);
    let spawned = std::thread::Builder::new().name("snapshot reply".to_owned()).spawn(move || send(file, &sender));
    if let Err(error) = spawned {
        tracing::warn!(%error, "cannot start a thread that sends the snapshot");
        return failed(StatusCode::INTERNAL_SERVER_ERROR, SNAPSHOT);
    }
    let mut reply = Reply::new(Body::from_stream(ChunkStream(receiver)));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    reply
}

fn send(mut file: File, sender: &Sender<io::Result<Bytes>>) {
    loop {
        let mut chunk = vec![0; SNAPSHOT_CHUNK_BYTES];
        let read = file.read(&mut chunk).map(|count| {
            chunk.truncate(count);
            Bytes::from(chunk)
        });
        let is_last = read.as_ref().map_or(true, Bytes::is_empty);
        if read.as_ref().is_ok_and(Bytes::is_empty) || sender.blocking_send(read).is_err() || is_last {
            return;
        }
    }
}

/// As in Apache, all of it happens on one server only, so it is refused on a member of an ensemble.
pub(super) fn restore(serving: &Serving<'_>) -> Reply {
    let (context, server) = (serving.call.context, serving.server);
    if !context.admin.restore_enabled {
        return failed(StatusCode::SERVICE_UNAVAILABLE, RESTORE);
    }
    if !context.has_last_zxid {
        return failed(StatusCode::INTERNAL_SERVER_ERROR, RESTORE);
    }
    if let Err(refused) = server.check_restore() {
        return error(StatusCode::CONFLICT, RESTORE, &refused.to_string());
    }
    let Some(body) = serving.call.body.take() else { return failed(StatusCode::BAD_REQUEST, RESTORE) };
    let restoring = context.restoring.try_lock();
    if restoring.is_none() || !context.restore_limiter.admit(Instant::now()) {
        server.note_rate_limited_restore();
        return failed(StatusCode::TOO_MANY_REQUESTS, RESTORE);
    }
    match server.restore_snapshot(body) {
        Ok(last) => in_json(RESTORE, |json| {
            json.key("last_zxid");
            json.int(last);
            Outcome::Done
        }),
        Err(error) => {
            tracing::warn!(%error, "restore command failed");
            failed(StatusCode::INTERNAL_SERVER_ERROR, RESTORE)
        }
    }
}
