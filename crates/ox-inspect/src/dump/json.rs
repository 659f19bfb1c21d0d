//! A minimal JSON encoder for dumps.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;

/// A JSON object, written field by field.
pub(super) struct Object(String);

impl Object {
    pub(super) fn new() -> Self {
        Self("{".into())
    }

    pub(super) fn text(mut self, key: &str, value: &str) -> Self {
        self.key(key);
        put_text(&mut self.0, value);
        self
    }

    pub(super) fn number(mut self, key: &str, value: i64) -> Self {
        self.key(key);
        _ = write!(self.0, "{value}");
        self
    }

    pub(super) fn hex(mut self, key: &str, value: i64) -> Self {
        self.key(key);
        _ = write!(self.0, "\"{value:#x}\"");
        self
    }

    pub(super) fn boolean(mut self, key: &str, value: bool) -> Self {
        self.key(key);
        _ = write!(self.0, "{value}");
        self
    }

    /// Bytes in base64; `None` as null.
    pub(super) fn bytes(mut self, key: &str, value: Option<&[u8]>) -> Self {
        self.key(key);
        match value {
            None => self.0.push_str("null"),
            Some(bytes) => _ = write!(self.0, "\"{}\"", STANDARD.encode(bytes)),
        }
        self
    }

    /// A list of values that are JSON already.
    pub(super) fn list(mut self, key: &str, values: impl Iterator<Item = String>) -> Self {
        self.key(key);
        self.0.push('[');
        for (index, value) in values.enumerate() {
            if 0 < index {
                self.0.push(',');
            }
            self.0.push_str(&value);
        }
        self.0.push(']');
        self
    }

    pub(super) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn key(&mut self, key: &str) {
        if 1 < self.0.len() {
            self.0.push(',');
        }
        put_text(&mut self.0, key);
        self.0.push(':');
    }
}

/// The text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    put_text(&mut out, text);
    out
}

fn put_text(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\0'..='\x1f' | '\x7f' => _ = write!(out, "\\u{:04x}", u32::from(letter)),
            _ => out.push(letter),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_valid_json() {
        let text = "a\"b\\c\n\u{1}\u{1f600}";
        let object = Object::new()
            .text("text", text)
            .number("number", -5)
            .hex("hex", i64::MIN)
            .boolean("yes", true)
            .bytes("null", None)
            .bytes("bytes", Some(b"ab"))
            .list("list", [quoted("x"), Object::new().end()].into_iter())
            .end();
        let value: serde_json::Value = serde_json::from_str(&object).unwrap();
        assert_eq!(value["text"], text);
        assert_eq!(value["number"], -5);
        assert_eq!(value["hex"], "0x8000000000000000");
        assert_eq!(value["null"], serde_json::Value::Null);
        assert_eq!(value["bytes"], "YWI=");
        assert_eq!(value["list"], serde_json::json!(["x", {}]));
    }
}
