//! Scripts: what to send, in which order, and what may be concurrent.
//!
//! ```text
//! !profiles default super         only with these server settings
//! !ours-only                      never sent to Apache; every line has an expectation
//! A connect timeout=30000         a new session, named A
//! + A create /a "x" world         `+`: in the same write as the line before
//! A getData /a watch
//! = err=0                         words that the reply to the previous line must contain, or: closed, silent, events=N
//! A reattach password=wrong       a new connection for A's session
//! A drop                          half-closes A's connection and waits for the server to close it
//! A raw 00000003                  raw bytes: on A's connection, or on a new one without a session
//! A wait 12000                    until an event arrives, at most 12000 ms; last in its batch
//! for P in /a "/b c"              repeats the lines up to `end`, with $P replaced
//! A exists $P
//! end
//! ```
//!
//! Lines joined by `+` are a [`Batch`]: all of it is sent before any reply is awaited. The next batch starts when every
//! reply has arrived and a ping on every other connection has shown that it has received its events.

use crate::request::{ScriptRequest, ZxidRef};
use crate::tokenizer::Cursor;
use crate::value::{FieldValue, hex};
use anyhow::{Context as _, Result, bail, ensure};
use std::fmt;

/// Name of a session in a script: an upper-case letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionName(pub char);

impl SessionName {
    /// The runner's own session.
    pub const CONTROL: Self = Self('Z');
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The session that a handshake requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeSession {
    New,
    /// The session of this name, or of another one.
    Of(SessionName),
    Id(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Password {
    /// The correct one; zeros for a new session.
    Right,
    /// The correct one with one bit changed.
    Wrong,
    Bytes(FieldValue),
}

/// The fields of a ConnectRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    pub target: HandshakeSession,
    pub timeout_ms: i32,
    /// The field lastZxidSeen of the record.
    pub seen: ZxidRef,
    pub password: Password,
    /// The readOnly byte; `None` omits it, as old clients do.
    pub read_only: Option<u8>,
    pub version: i32,
    /// Truncates the payload to this many bytes.
    pub cut: Option<usize>,
    /// Bytes appended to the record.
    pub tail: Vec<u8>,
}

impl Handshake {
    /// The usual handshake for `target`.
    pub fn new(target: HandshakeSession) -> Self {
        let seen = if target == HandshakeSession::New { ZxidRef::Exactly(0) } else { ZxidRef::Last(0) };
        Self {
            target,
            timeout_ms: 30_000,
            seen,
            password: Password::Right,
            read_only: Some(0),
            version: 0,
            cut: None,
            tail: Vec::new(),
        }
    }
}

/// The effect of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Opens a connection and sends a ConnectRequest.
    Connect(Handshake),
    Request(ScriptRequest),
    Raw(Vec<u8>),
    /// Half-closes the connection and waits for the server to close it.
    Drop,
    /// Waits for an event, at most this many milliseconds.
    Wait(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub session: SessionName,
    pub action: Action,
    /// Words that the reply must contain.
    pub expect: Option<String>,
}

impl Line {
    /// A line without an expectation.
    pub fn new(session: SessionName, action: Action) -> Self {
        Self { session, action, expect: None }
    }

    /// A line that sends `request`.
    pub fn request(session: SessionName, request: ScriptRequest) -> Self {
        Self::new(session, Action::Request(request))
    }

    /// Whether it can change the tree or the sessions.
    pub fn is_write(&self) -> bool {
        match &self.action {
            Action::Connect(_) | Action::Raw(_) | Action::Drop | Action::Wait(_) => true,
            Action::Request(request) => request.is_write(),
        }
    }

    /// Parses one line without its `+`.
    pub fn parse(text: &str) -> Result<Self> {
        let mut cursor = Cursor::new(text)?;
        let name = cursor.word()?;
        let session = match name.chars().next() {
            Some(letter @ 'A'..='Z') if name.len() == 1 => SessionName(letter),
            _ => bail!("{name:?} is not a session: one upper-case letter"),
        };
        let verb = cursor.word()?;
        let action = match verb.as_str() {
            "connect" => Action::Connect(parse_handshake(HandshakeSession::New, &mut cursor)?),
            "reattach" => Action::Connect(parse_handshake(HandshakeSession::Of(session), &mut cursor)?),
            "raw" => Action::Raw(cursor.hex()?),
            "drop" => Action::Drop,
            "wait" => Action::Wait(cursor.number()?),
            _ => Action::Request(ScriptRequest::parse(&verb, &mut cursor)?),
        };
        ensure!(cursor.at_end(), "more words than {verb} takes");
        Ok(Self::new(session, action))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.session)?;
        match &self.action {
            Action::Connect(handshake) => print_handshake(self.session, handshake, f)?,
            Action::Request(request) => write!(f, "{request}")?,
            Action::Raw(bytes) if bytes.is_empty() => f.write_str("raw empty")?,
            Action::Raw(bytes) => write!(f, "raw {}", hex(bytes))?,
            Action::Drop => f.write_str("drop")?,
            Action::Wait(ms) => write!(f, "wait {ms}")?,
        }
        match &self.expect {
            Some(expect) => write!(f, "\n= {expect}"),
            None => Ok(()),
        }
    }
}

/// Lines that are sent together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch(pub Vec<Line>);

impl Batch {
    /// The sessions that act, in the order of their first lines.
    pub fn actors(&self) -> Vec<SessionName> {
        let mut actors = Vec::new();
        for line in &self.0 {
            if !actors.contains(&line.session) {
                actors.push(line.session);
            }
        }
        actors
    }

    /// The sessions that write.
    pub fn writers(&self) -> Vec<SessionName> {
        let mut writers: Vec<_> = self.0.iter().filter(|line| line.is_write()).map(|line| line.session).collect();
        writers.dedup();
        writers
    }

    /// Refuses batches without a determined result.
    pub fn check(&self) -> Result<()> {
        let mut writers = self.writers();
        writers.sort_unstable();
        writers.dedup();
        ensure!(writers.len() < 2, "writes of two sessions in one batch race");
        for actor in self.actors() {
            let lines: Vec<_> = self.0.iter().filter(|line| line.session == actor).collect();
            let alone = |line: &&Line| matches!(line.action, Action::Raw(_) | Action::Drop);
            ensure!(lines.len() == 1 || !lines.iter().any(alone), "raw and drop must be alone in their batch");
            let waits = |line: &&Line| matches!(line.action, Action::Wait(_));
            ensure!(!lines.iter().rev().skip(1).any(waits), "a wait must be the last line");
            let connects = |line: &&Line| matches!(line.action, Action::Connect(_));
            ensure!(!lines.iter().skip(1).any(connects), "a handshake must be the first line");
        }
        Ok(())
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.0.iter().enumerate() {
            writeln!(f, "{}{line}", if index == 0 { "" } else { "+ " })?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Identifies the script in reports.
    pub title: String,
    /// Profiles it runs with; if empty, all general ones.
    pub profiles: Vec<String>,
    /// Must never be sent to Apache.
    pub ours_only: bool,
    pub batches: Vec<Batch>,
}

impl Script {
    /// Parses the text of a scenario.
    pub fn parse(title: &str, text: &str) -> Result<Self> {
        let mut script = Self { title: title.to_owned(), ..Self::default() };
        let lines: Vec<_> = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim().to_owned())).collect();
        for (number, line) in unroll(&lines)? {
            script.parse_line(&line).with_context(|| format!("{title}.txt line {number}: {line}"))?;
        }
        for batch in &script.batches {
            batch.check().with_context(|| format!("{title}.txt:\n{batch}"))?;
        }
        Ok(script)
    }

    fn parse_line(&mut self, line: &str) -> Result<()> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(directive) = line.strip_prefix('!') {
            let mut words = directive.split_whitespace();
            match words.next() {
                Some("profiles") => self.profiles = words.map(str::to_owned).collect(),
                Some("ours-only") => self.ours_only = true,
                _ => bail!("unknown directive"),
            }
            return Ok(());
        }
        if let Some(expect) = line.strip_prefix('=') {
            let last = self
                .batches
                .last_mut()
                .and_then(|batch| batch.0.last_mut())
                .context("no line to attach the expectation to")?;
            last.expect = Some(expect.trim().to_owned());
            return Ok(());
        }
        match line.strip_prefix('+') {
            Some(joined) => {
                let batch = self.batches.last_mut().context("no line to join with +")?;
                batch.0.push(Line::parse(joined)?);
            }
            None => self.batches.push(Batch(vec![Line::parse(line)?])),
        }
        Ok(())
    }

    /// Number of lines in all batches.
    pub fn len(&self) -> usize {
        self.batches.iter().map(|batch| batch.0.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.batches.iter().try_for_each(|batch| batch.fmt(f))
    }
}

type Numbered = (usize, String);

/// Expands each `for` loop.
fn unroll(lines: &[Numbered]) -> Result<Vec<Numbered>> {
    let mut out = Vec::new();
    let mut rest = lines;
    while let Some(((number, line), tail)) = rest.split_first() {
        rest = tail;
        let Some(head) = line.strip_prefix("for ") else {
            ensure!(line != "end", "line {number}: end without for");
            out.push((*number, line.clone()));
            continue;
        };
        let length = body_length(rest).with_context(|| format!("line {number}: for without end"))?;
        let (name, values) = head.split_once(" in ").with_context(|| format!("line {number}: for NAME in ..."))?;
        let variable = format!("${}", name.trim());
        for value in split_words(values) {
            let body: Vec<_> = rest[..length].iter().map(|(at, line)| (*at, line.replace(&variable, &value))).collect();
            out.extend(unroll(&body)?);
        }
        rest = &rest[length + 1..];
    }
    Ok(out)
}

fn body_length(lines: &[Numbered]) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, (_, line)) in lines.iter().enumerate() {
        if line.starts_with("for ") {
            depth += 1;
        } else if line == "end" {
            match depth.checked_sub(1) {
                Some(outer) => depth = outer,
                None => return Some(index),
            }
        }
    }
    None
}

/// Splits at blanks outside quotes; keeps the quotes.
fn split_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut quoted, mut escaped) = (false, false);
    for char in text.chars() {
        match char {
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().expect("never empty").push(char),
        }
        quoted ^= char == '"' && !escaped;
        escaped = char == '\\' && !escaped;
    }
    words.retain(|word| !word.is_empty());
    words
}

fn parse_handshake(default: HandshakeSession, cursor: &mut Cursor) -> Result<Handshake> {
    let mut handshake = Handshake::new(default);
    while !cursor.at_end() {
        let key = cursor.word()?;
        if key == "old" {
            handshake.read_only = None;
            continue;
        }
        cursor.mark('=')?;
        match key.as_str() {
            "session" => {
                let word = cursor.word()?;
                handshake.target = match (word.parse(), word.chars().next()) {
                    (Ok(id), _) => HandshakeSession::Id(id),
                    (Err(_), Some(letter @ 'A'..='Z')) => HandshakeSession::Of(SessionName(letter)),
                    _ => bail!("session {word:?}"),
                };
            }
            "timeout" => handshake.timeout_ms = cursor.number()?,
            "seen" => handshake.seen = ZxidRef::parse(&cursor.word()?)?,
            "password" if cursor.peek_word() == Some("wrong") => {
                cursor.word()?;
                handshake.password = Password::Wrong;
            }
            "password" => handshake.password = Password::Bytes(cursor.value()?),
            "readonly" => handshake.read_only = Some(cursor.number()?),
            "version" => handshake.version = cursor.number()?,
            "cut" => handshake.cut = Some(cursor.number()?),
            "tail" => handshake.tail = cursor.hex()?,
            _ => bail!("unknown field {key:?}"),
        }
    }
    Ok(handshake)
}

fn print_handshake(own: SessionName, handshake: &Handshake, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let usual = Handshake::new(if handshake.target == HandshakeSession::New {
        HandshakeSession::New
    } else {
        HandshakeSession::Of(own)
    });
    match handshake.target {
        HandshakeSession::New => f.write_str("connect")?,
        HandshakeSession::Of(name) if name == own => f.write_str("reattach")?,
        HandshakeSession::Of(name) => write!(f, "reattach session={name}")?,
        HandshakeSession::Id(id) => write!(f, "reattach session={id}")?,
    }
    write!(f, " timeout={}", handshake.timeout_ms)?;
    if handshake.seen != usual.seen {
        write!(f, " seen={}", handshake.seen)?;
    }
    match &handshake.password {
        Password::Right => (),
        Password::Wrong => f.write_str(" password=wrong")?,
        Password::Bytes(bytes) => write!(f, " password={bytes}")?,
    }
    match handshake.read_only {
        None => f.write_str(" old")?,
        Some(0) => (),
        Some(byte) => write!(f, " readonly={byte}")?,
    }
    if handshake.version != 0 {
        write!(f, " version={}", handshake.version)?;
    }
    if let Some(cut) = handshake.cut {
        write!(f, " cut={cut}")?;
    }
    if !handshake.tail.is_empty() {
        write!(f, " tail={}", hex(&handshake.tail))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_round_trips() {
        let text = "A connect timeout=30000\n\
                    + A create /a x world flags=0\n\
                    A exists /a watch\n\
                    = err=0\n\
                    + B getData /b\n\
                    A reattach timeout=40000 seen=last+5 password=wrong old\n\
                    B reattach session=A timeout=30000 seen=0 readonly=1 version=3 cut=4 tail=00\n\
                    A raw 00ff\n\
                    A drop\n\
                    A wait 100\n";
        let script = Script::parse("t", text).unwrap();
        assert_eq!(script.to_string(), text);
        assert_eq!((script.batches.len(), script.len()), (7, 9));
    }

    #[test]
    fn loops_are_expanded() {
        let script =
            Script::parse("t", "for P in /a \"/b c\"\nfor V in 1 2\nA delete $P version=$V\nend\nend").unwrap();
        assert_eq!(
            script.to_string(),
            "A delete /a version=1\nA delete /a version=2\nA delete \"/b c\" version=1\nA delete \"/b c\" version=2\n"
        );
        assert!(Script::parse("t", "for P in a\nA ping").is_err());
        assert!(Script::parse("t", "end").is_err());
    }

    #[test]
    fn racing_writes_are_refused() {
        assert!(Script::parse("t", "A delete /a\n+ B delete /b").is_err());
        assert!(Script::parse("t", "A delete /a\n+ B exists /b").is_ok());
        assert!(Script::parse("t", "A ping\n+ A drop").is_err());
        assert!(Script::parse("t", "A ping\n+ A connect").is_err());
    }
}
