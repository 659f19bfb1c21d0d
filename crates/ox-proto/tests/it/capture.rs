//! Parses the recorded traffic in `testdata/quorum`.

use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Election,
    Learner,
}

pub(crate) struct Message {
    /// File and line, for failures.
    pub(crate) place: String,
    /// `C>S` (by the dialer) or `S>C`.
    pub(crate) direction: String,
    /// The message as the recorder decoded it.
    pub(crate) text: String,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct Stream {
    pub(crate) port: Port,
    pub(crate) messages: Vec<Message>,
}

impl Stream {
    pub(crate) fn directed(&self, direction: &str) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.direction == direction)
    }
}

/// All recorded streams of `port`.
pub(crate) fn streams(port: Port) -> Vec<Stream> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/quorum");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ext| ext == "txt")).collect();
    files.sort();
    assert_eq!(files.len(), 16);
    let streams = files.iter().flat_map(|path| read(path));
    streams.filter(|stream| stream.port == port).collect()
}

fn read(path: &Path) -> Vec<Stream> {
    let name = path.file_name().unwrap().to_string_lossy();
    let mut streams: Vec<Stream> = Vec::new();
    let mut head = None;
    for (number, line) in std::fs::read_to_string(path).unwrap().lines().enumerate() {
        if let Some(title) = line.strip_prefix("# stream ") {
            let port = if title.contains(" election ") { Port::Election } else { Port::Learner };
            streams.push(Stream { port, messages: Vec::new() });
        } else if let Some(hex) = line.strip_prefix('\t') {
            let (direction, text): (String, String) = head.take().expect("a bytes line follows a description line");
            let message = Message { place: format!("{name}:{}", number + 1), direction, text, bytes: from_hex(hex) };
            streams.last_mut().unwrap().messages.push(message);
        } else if let [_, direction, text] = line.splitn(3, ' ').collect::<Vec<_>>()[..] {
            head = Some((direction.to_owned(), text.to_owned()));
        }
    }
    streams
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Parses a configuration, checks that it prints unchanged, and formats it like the recorder.
pub(crate) fn shown_config(text: &str) -> String {
    use ox_proto::ensemble::{Addresses, Ensemble};
    let ensemble = Ensemble::parse(text, Addresses::Several).unwrap();
    assert_eq!(ensemble.to_string(), text);
    format!("config='{}'", text.replace('\n', "\\n"))
}
