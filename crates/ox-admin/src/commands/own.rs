//! Commands that Apache 3.9 does not have. Those that change something need the super user: an address, or an open ACL of
//! `/`, is not enough.

use super::{Call, CommandContext, CommandSpec, Handler, Outcome, Serving, command, error, in_json};
use crate::authorization_header;
use crate::body_reader::BodyReader;
use crate::control::AdminControl;
use crate::json::JsonWriter;
use crate::limits::SHED_BODY_BYTES_MAX;
use crate::reply::Reply;
use axum::http::StatusCode;
use ox_server::CloseSessionOutcome;
use serde_json::Value;
use std::io::Read as _;

/// They are not on the page that lists the commands, because tools compare it with Apache's.
pub(crate) const OWN_COMMANDS: &[CommandSpec] = &[
    command(
        &["close_session"],
        Handler::SuperPost(close_session),
        "Closes the session `sessionId` (hexadecimal with `0x`, or decimal) and its connection.",
    ),
    command(
        &["log_level"],
        Handler::LogLevel,
        "GET: the log levels. POST by the super user: sets `level` for `module`, or without `module` for all others; \
         without `level` back to the configuration.",
    ),
    command(
        &["reload"],
        Handler::Reload,
        "Reads the configuration and the certificates again, applies what can change, and reports what needs a restart.",
    ),
    command(
        &["shed_connections", "shed"],
        Handler::SuperPost(shed_connections),
        "Closes each client connection of this server with a probability of `percentage` (0 to 100), a parameter or, as \
         in Apache 3.10, the field of a JSON body. Sessions stay open.",
    ),
];

fn close_session(serving: &Serving<'_>) -> Reply {
    const NAME: &str = "close_session";
    let text = serving.call.parameter("sessionId").unwrap_or_default();
    let Some(session) = parse_session(&text) else {
        let text = format!("close_session needs sessionId, such as sessionId=0x1000012ab340000; got \"{text}\"");
        return error(StatusCode::BAD_REQUEST, NAME, &text);
    };
    match serving.server.close_session(session) {
        CloseSessionOutcome::Closed => {
            tracing::warn!(session = format!("{session:#x}"), "session closed by an operator");
            in_json(NAME, |json| {
                json.key("session_id");
                json.text(&format!("{session:#x}"));
                Outcome::Done
            })
        }
        CloseSessionOutcome::Unknown => {
            let text =
                format!("session {session:#x} does not exist, or its client uses another server: ask the leader");
            error(StatusCode::NOT_FOUND, NAME, &text)
        }
        CloseSessionOutcome::Pending => {
            let text = format!("session {session:#x} is not closed yet: there is no quorum, or its client has moved");
            error(StatusCode::GATEWAY_TIMEOUT, NAME, &text)
        }
    }
}

fn shed_connections(serving: &Serving<'_>) -> Reply {
    const NAME: &str = "shed_connections";
    let given = serving.call.parameter("percentage").map(Value::from);
    let given = given.map_or_else(|| percentage_in(serving.call.body.take()), Ok);
    let percentage = match given.and_then(|value| parse_percentage(&value)) {
        Ok(percentage) => percentage,
        Err(text) => return error(StatusCode::BAD_REQUEST, NAME, &text),
    };
    let count = serving.server.shed_connections(percentage);
    tracing::warn!(connections = count, percentage, "connections shed by an operator");
    in_json(NAME, |json| {
        json.key("connections_shed");
        json.unsigned(count as u64);
        json.key("percentage_requested");
        json.unsigned(percentage.into());
        Outcome::Done
    })
}

/// The field of a body such as `{"percentage": 25}`. The errors are Apache's.
fn percentage_in(body: Option<BodyReader>) -> Result<Value, String> {
    let body = body.ok_or("Request body is required")?;
    let request: Value = serde_json::from_reader(body.take(SHED_BODY_BYTES_MAX))
        .map_err(|error| format!("Invalid JSON or failed to read request body: {error}"))?;
    Ok(request.get("percentage").ok_or("Missing required field: percentage")?.clone())
}

fn parse_percentage(value: &Value) -> Result<u8, String> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let percentage = number.and_then(|number| u8::try_from(number).ok()).filter(|percentage| *percentage <= 100);
    percentage.ok_or_else(|| "Percentage must be between 0 and 100".to_owned())
}

/// An id as Apache prints it, in hexadecimal or in decimal.
fn parse_session(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
        None => text.parse().ok(),
    }
}

/// Why a request is refused, and with which status.
type Refusal = (StatusCode, String);

/// Checks that the super user asks, in any state of the server.
fn check_super(call: &Call<'_>) -> Result<(), Refusal> {
    let starting = || (StatusCode::SERVICE_UNAVAILABLE, "the server is starting; try again".to_owned());
    let server = call.server.as_ref().ok_or_else(starting)?;
    authorization_header::check_super(server, call.requester).map_err(|(status, text)| (status, text.to_owned()))
}

fn control(context: &CommandContext) -> Result<&AdminControl, Refusal> {
    let text = "the program that runs this server does not offer this command";
    context.control.as_deref().ok_or_else(|| (StatusCode::NOT_IMPLEMENTED, text.to_owned()))
}

fn reply<T>(name: &str, outcome: Result<T, Refusal>, put: impl FnOnce(T, &mut JsonWriter) -> Outcome) -> Reply {
    match outcome {
        Ok(value) => in_json(name, |json| put(value, json)),
        Err((status, text)) => error(status, name, &text),
    }
}

pub(super) fn log_level(call: &Call<'_>) -> Reply {
    reply("log_level", levels(call), |levels, json| {
        json.key("levels");
        json.text(&levels);
        Outcome::Done
    })
}

/// The log levels, which a POST request changes.
fn levels(call: &Call<'_>) -> Result<String, Refusal> {
    let control = control(call.context)?;
    if !call.is_post {
        return Ok((control.log_levels)());
    }
    check_super(call)?;
    let (module, level) = (call.parameter("module"), call.parameter("level"));
    (control.change_log_level)(module.as_deref(), level.as_deref()).map_err(|text| (StatusCode::BAD_REQUEST, text))
}

pub(super) fn reload(call: &Call<'_>) -> Reply {
    let report = control(call.context).and_then(|control| check_super(call).map(|()| (control.reload)()));
    reply("reload", report, |report, json| {
        let lists = [
            ("applied", &report.applied),
            ("needs_restart", &report.needs_restart),
            ("certificates", &report.certificates),
            ("errors", &report.errors),
        ];
        lists.iter().for_each(|(key, texts)| put_texts(key, texts, json));
        match report.errors.first() {
            None => Outcome::Done,
            Some(first) => Outcome::Error(first.clone()),
        }
    })
}

fn put_texts(key: &str, texts: &[String], json: &mut JsonWriter) {
    json.key(key);
    json.begin_array();
    texts.iter().for_each(|text| json.text(text));
    json.end_array();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_are_read_as_they_are_printed() {
        assert_eq!(parse_session("0x1000012ab340000"), Some(0x0100_0012_ab34_0000));
        assert_eq!(parse_session("0xff00000000000001"), Some(-0x00ff_ffff_ffff_ffff));
        assert_eq!(parse_session("-5"), Some(-5));
        assert_eq!(parse_session("abc"), None);
        assert_eq!(parse_session(""), None);
    }
}
