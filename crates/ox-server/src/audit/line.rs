//! One audit event as a line: Apache's fields, separated by tabs, or JSON. Values are escaped and cut, so that an event is
//! one line whatever a client sends.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ox_config::AuditFormat;
use ox_replica::{AuditEvent, AuditResult};
use ox_tree::auth::user_name;
use serde::Serializer as _;
use std::fmt::Write as _;

/// Longer values are cut.
const VALUE_CHARS_MAX: usize = 1024;

pub(super) struct AuditLine<'a> {
    pub(super) wall_ms: i64,
    pub(super) event: &'a AuditEvent,
    /// The user of events without a client.
    pub(super) user: &'a str,
    pub(super) format: AuditFormat,
}

impl AuditLine<'_> {
    /// The line without its time, for a log that adds one.
    pub(super) fn message(&self) -> String {
        match self.format {
            AuditFormat::Text => self.text(),
            AuditFormat::Json => self.json(false),
        }
    }

    /// The line with its time. Text has the layout of Apache's stock configuration.
    pub(super) fn with_time(&self) -> String {
        match self.format {
            AuditFormat::Text => {
                let time = self.time("%Y-%m-%d %H:%M:%S,%3f");
                format!("{time} {} audit.Slf4jAuditLogger: {}\n", self.level(), self.text())
            }
            AuditFormat::Json => self.json(true) + "\n",
        }
    }

    fn time(&self, format: &str) -> String {
        let time = Timestamp::from_millisecond(self.wall_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        time.to_zoned(TimeZone::system()).strftime(format).to_string()
    }

    fn level(&self) -> &'static str {
        if self.event.result == AuditResult::Failure { "ERROR" } else { "INFO" }
    }

    /// Keys and values in Apache's order; absent ones are left out.
    fn fields(&self) -> impl Iterator<Item = (&'static str, String)> {
        let AuditEvent { session, ids, operation, znode, znode_type, acl, result } = self.event;
        let ids = ids.as_deref();
        let ip = ids.and_then(|ids| ids.iter().find(|identity| identity.scheme == "ip")).map(|ip| ip.id.clone());
        let user = ids.map_or_else(|| self.user.to_owned(), |ids| users(ids, ip.as_deref()));
        let result = match result {
            AuditResult::Success => "success",
            AuditResult::Failure => "failure",
            AuditResult::Invoked => "invoked",
        };
        let fields = [
            ("session", session.map(|session| session.to_string())),
            ("user", Some(user)),
            ("ip", ip),
            ("operation", Some((*operation).to_owned())),
            ("znode", znode.clone()),
            ("znode_type", znode_type.map(str::to_owned)),
            ("acl", acl.clone()),
            ("result", Some(result.to_owned())),
        ];
        fields.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }

    fn text(&self) -> String {
        let fields: Vec<String> = self.fields().map(|(key, value)| format!("{key}={}", escaped(&value))).collect();
        fields.join("\t")
    }

    fn json(&self, has_time: bool) -> String {
        let time = has_time.then(|| ("time", self.time("%Y-%m-%dT%H:%M:%S.%3f%:z")));
        let level = ("level", self.level().to_owned());
        let fields = time.into_iter().chain([level]).chain(self.fields());
        let fields = fields.map(|(key, value)| (key, cut(&value).collect::<String>()));
        let mut text = Vec::new();
        let written = serde_json::Serializer::new(&mut text).collect_map(fields);
        written.expect("texts are serialised to memory");
        escape_lines(&String::from_utf8(text).expect("JSON is UTF-8"))
    }
}

/// The users of all identities: those that were proven, then the address.
fn users(ids: &ox_tree::auth::Identities, ip: Option<&str>) -> String {
    let proven = ids.iter().filter(|identity| !matches!(&*identity.scheme, "ip" | "super"));
    let users: Vec<&str> = proven.map(user_name).chain(ip).filter(|user| !user.is_empty()).collect();
    users.join(",")
}

fn cut(value: &str) -> impl Iterator<Item = char> {
    let is_long = VALUE_CHARS_MAX < value.chars().count();
    value.chars().take(VALUE_CHARS_MAX).chain(is_long.then_some('…'))
}

/// Escapes control characters and the backslash.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for letter in cut(value) {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            letter if is_unprintable(letter) => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out
}

/// Escapes characters that JSON permits in texts, but that some readers take for the end of a line.
fn escape_lines(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        if is_unprintable(letter) {
            let _ = write!(out, "\\u{:04x}", u32::from(letter));
        } else {
            out.push(letter);
        }
    }
    out
}

fn is_unprintable(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_proto::SessionId;
    use ox_tree::auth::{Identities, Identity};
    use std::sync::Arc;

    fn event() -> AuditEvent {
        let mut ids = Identities::of_address("127.0.0.1".parse().unwrap());
        let proven = [("super", ""), ("digest", "bob:hash"), ("sasl", "bob@R")];
        ids.add(proven.map(|(scheme, id)| Identity { scheme: scheme.to_owned().into(), id: id.to_owned() }).into());
        AuditEvent {
            session: Some(SessionId(0x100_0014_295c_0013)),
            ids: Some(Arc::new(ids)),
            operation: "create",
            znode: Some("/a".to_owned()),
            znode_type: Some("persistent"),
            acl: None,
            result: AuditResult::Success,
        }
    }

    fn line(event: &AuditEvent, format: AuditFormat) -> AuditLine<'_> {
        AuditLine { wall_ms: 0, event, user: "root", format }
    }

    #[test]
    fn fields_are_those_of_apache() {
        assert_eq!(
            line(&event(), AuditFormat::Text).message(),
            "session=0x1000014295c0013\tuser=bob,bob@R,127.0.0.1\tip=127.0.0.1\toperation=create\tznode=/a\t\
             znode_type=persistent\tresult=success"
        );
        let stop = AuditEvent::of_server("serverStop", AuditResult::Invoked);
        assert_eq!(line(&stop, AuditFormat::Text).message(), "user=root\toperation=serverStop\tresult=invoked");
    }

    #[test]
    fn level_of_a_failure_is_error() {
        let failed = AuditEvent { result: AuditResult::Failure, ..event() };
        let text = line(&failed, AuditFormat::Text).with_time();
        assert!(text.contains(" ERROR audit.Slf4jAuditLogger: session=0x"), "{text}");
        assert!(text.ends_with("\tresult=failure\n"), "{text}");
    }

    #[test]
    fn k164_event_is_one_line_whatever_a_client_sends() {
        let hostile = "/a\n2026 INFO\tresult=success\r\u{85}\u{2028}\"\\\u{0}";
        let event = AuditEvent { znode: Some(hostile.to_owned()), acl: Some("x".repeat(5000)), ..event() };
        for format in [AuditFormat::Text, AuditFormat::Json] {
            let text = line(&event, format).with_time();
            assert_eq!(text.matches('\n').count(), 1, "{text}");
            assert!(text.len() < 3000 && !text.contains('\r') && !text.contains('\u{2028}'), "{text}");
        }
        let text = line(&event, AuditFormat::Text).message();
        assert_eq!(text.matches('\t').count(), 7, "{text}");
    }

    #[test]
    fn json_lines_have_the_same_fields() {
        let event = AuditEvent { znode: Some("/a\"\n".to_owned()), ..event() };
        assert_eq!(
            line(&event, AuditFormat::Json).message(),
            "{\"level\":\"INFO\",\"session\":\"0x1000014295c0013\",\"user\":\"bob,bob@R,127.0.0.1\",\"ip\":\"127.0.0.1\",\
             \"operation\":\"create\",\"znode\":\"/a\\\"\\n\",\"znode_type\":\"persistent\",\"result\":\"success\"}"
        );
    }
}
