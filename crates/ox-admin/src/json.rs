//! JSON text as Jackson prints it: two blanks per level, `"key" : value`, arrays on one line.
//!
//! Apache's tools and operators' scripts compare and grep this text, so its form is kept to the blank.

/// Writes one JSON value step by step.
#[derive(Debug, Default)]
pub(crate) struct JsonWriter {
    text: String,
    /// The open objects and arrays.
    open: Vec<Level>,
    /// Whether a key was written whose value follows.
    has_key: bool,
}

#[derive(Debug)]
struct Level {
    is_array: bool,
    is_empty: bool,
}

impl JsonWriter {
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn finish(self) -> String {
        debug_assert!(self.open.is_empty(), "every object and array is closed");
        self.text
    }

    pub(crate) fn begin_object(&mut self) {
        self.begin('{', false);
    }

    pub(crate) fn end_object(&mut self) {
        let is_empty = self.open.pop().is_none_or(|level| level.is_empty);
        if is_empty {
            self.text.push(' ');
        } else {
            self.new_line();
        }
        self.text.push('}');
    }

    pub(crate) fn begin_array(&mut self) {
        self.begin('[', true);
    }

    pub(crate) fn end_array(&mut self) {
        self.open.pop();
        self.text.push_str(" ]");
    }

    pub(crate) fn key(&mut self, key: &str) {
        if let Some(level) = self.open.last_mut() {
            if !std::mem::replace(&mut level.is_empty, false) {
                self.text.push(',');
            }
            self.new_line();
        }
        quote(&mut self.text, key);
        self.text.push_str(" : ");
        self.has_key = true;
    }

    pub(crate) fn null(&mut self) {
        self.value("null");
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.value(if value { "true" } else { "false" });
    }

    pub(crate) fn int(&mut self, value: i64) {
        self.value(&value.to_string());
    }

    pub(crate) fn unsigned(&mut self, value: u64) {
        self.value(&value.to_string());
    }

    /// A double in Java's notation; JSON has no infinity and no NaN, so Jackson quotes them.
    pub(crate) fn double(&mut self, value: f64) {
        let text = ox_server::java_double(value);
        if value.is_finite() { self.value(&text) } else { self.text(&text) }
    }

    pub(crate) fn text(&mut self, value: &str) {
        self.separate();
        quote(&mut self.text, value);
    }

    fn value(&mut self, text: &str) {
        self.separate();
        self.text.push_str(text);
    }

    fn begin(&mut self, bracket: char, is_array: bool) {
        self.separate();
        self.text.push(bracket);
        self.open.push(Level { is_array, is_empty: true });
    }

    /// Writes what belongs before a value.
    fn separate(&mut self) {
        if std::mem::take(&mut self.has_key) {
            return;
        }
        if let Some(level) = self.open.last_mut().filter(|level| level.is_array) {
            let is_first = std::mem::replace(&mut level.is_empty, false);
            self.text.push_str(if is_first { " " } else { ", " });
        }
    }

    /// A new line, indented by the number of open objects.
    fn new_line(&mut self) {
        self.text.push('\n');
        let depth = self.open.iter().filter(|level| !level.is_array).count();
        self.text.extend(std::iter::repeat_n("  ", depth));
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04X}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_that_of_jackson() {
        let mut json = JsonWriter::default();
        json.begin_object();
        json.key("list");
        json.begin_array();
        for id in [1, 2] {
            json.begin_object();
            json.key("id");
            json.int(id);
            json.key("ports");
            json.begin_array();
            json.int(7);
            json.int(8);
            json.end_array();
            json.end_object();
        }
        json.end_array();
        json.key("none");
        json.begin_array();
        json.end_array();
        json.key("empty");
        json.begin_object();
        json.end_object();
        json.key("error");
        json.null();
        json.end_object();
        let expected = r#"{
  "list" : [ {
    "id" : 1,
    "ports" : [ 7, 8 ]
  }, {
    "id" : 2,
    "ports" : [ 7, 8 ]
  } ],
  "none" : [ ],
  "empty" : { },
  "error" : null
}"#;
        assert_eq!(json.finish(), expected);
    }

    #[test]
    fn text_and_doubles_are_escaped_as_by_jackson() {
        let mut json = JsonWriter::default();
        json.begin_array();
        json.text("a\"\\\n\u{1}é");
        json.double(0.8333);
        json.double(1e-4);
        json.double(f64::NAN);
        json.end_array();
        assert_eq!(json.finish(), "[ \"a\\\"\\\\\\n\\u0001é\", 0.8333, 1.0E-4, \"NaN\" ]");
    }
}
