//! Scripts: what to send, in which order, and what may overlap.
//!
//! ```text
//! !profiles default super         only under these server settings
//! !ours-only                      never sent to Apache; every line says what it expects
//! A connect timeout=30000         a new session, called A from here on
//! + A create /a "x" world         `+`: in the same write as the line before
//! A getData /a watch
//! = err=0                         words that the reply to the line before must contain, or: closed, silent, events=N
//! A reattach password=wrong       a new connection for A's session
//! A drop                          half-closes A's connection and waits for the server to close it
//! A raw 00000003                  bytes as they are: on A's connection, or on a bare new one
//! A wait 12000                    until an event arrives, at most so many ms; last in its batch
//! for P in /a "/b c"              repeats the lines up to `end`, with $P replaced
//! A exists $P
//! end
//! ```
//!
//! Lines joined by `+` are a [`Batch`]: all of it is sent before any reply is awaited. The next batch starts when
//! every reply is there and every other connection has proven, by a ping, that it has received its events.

use crate::request::{Request, Seen};
use crate::tokenizer::Cursor;
use crate::value::{Value, hex};
use anyhow::{Context as _, Result, bail, ensure};
use std::fmt;

/// A session of the script: an upper-case letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub char);

impl Name {
    /// The session of the runner itself.
    pub const CONTROL: Self = Self('Z');
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Which session a handshake asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A new one.
    New,
    /// The one that the name stands for already, or another name's.
    Of(Name),
    /// This id.
    Id(i64),
}

/// The password of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Password {
    /// The right one; zeros for a new session.
    Right,
    /// The right one with one bit changed.
    Wrong,
    /// These bytes.
    Bytes(Value),
}

/// A ConnectRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The session asked for.
    pub target: Target,
    /// Wanted timeout.
    pub timeout_ms: i32,
    /// Last zxid seen.
    pub seen: Seen,
    /// Password.
    pub password: Password,
    /// The readOnly byte; `None` leaves it out, as old clients do.
    pub read_only: Option<u8>,
    /// Protocol version.
    pub version: i32,
    /// Cuts the payload to so many bytes.
    pub cut: Option<usize>,
    /// Bytes behind the record.
    pub tail: Vec<u8>,
}

impl Handshake {
    /// The usual handshake for `target`.
    pub fn new(target: Target) -> Self {
        let seen = if target == Target::New { Seen::Exactly(0) } else { Seen::Last(0) };
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

/// What one line does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Opens a connection and sends a ConnectRequest.
    Connect(Handshake),
    /// Sends a request.
    Request(Request),
    /// Sends bytes as they are.
    Raw(Vec<u8>),
    /// Gives the connection up.
    Drop,
    /// Waits for an event, at most so many milliseconds.
    Wait(u64),
}

/// One line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Whose connection.
    pub session: Name,
    /// What to do.
    pub action: Action,
    /// Words that the reply must contain.
    pub expect: Option<String>,
}

impl Line {
    /// A line that expects nothing in particular.
    pub fn new(session: Name, action: Action) -> Self {
        Self { session, action, expect: None }
    }

    /// A request of `session`.
    pub fn request(session: Name, request: Request) -> Self {
        Self::new(session, Action::Request(request))
    }

    /// True for what can change the tree or the sessions.
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
            Some(letter @ 'A'..='Z') if name.len() == 1 => Name(letter),
            _ => bail!("{name:?} is not a session: one upper-case letter"),
        };
        let verb = cursor.word()?;
        let action = match verb.as_str() {
            "connect" => Action::Connect(parse_handshake(Target::New, &mut cursor)?),
            "reattach" => Action::Connect(parse_handshake(Target::Of(session), &mut cursor)?),
            "raw" => Action::Raw(cursor.hex()?),
            "drop" => Action::Drop,
            "wait" => Action::Wait(cursor.number()?),
            _ => Action::Request(Request::parse(&verb, &mut cursor)?),
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
    /// The sessions that act, in order of their first line.
    pub fn actors(&self) -> Vec<Name> {
        let mut actors = Vec::new();
        for line in &self.0 {
            if !actors.contains(&line.session) {
                actors.push(line.session);
            }
        }
        actors
    }

    /// The sessions that write.
    pub fn writers(&self) -> Vec<Name> {
        let mut writers: Vec<_> = self.0.iter().filter(|line| line.is_write()).map(|line| line.session).collect();
        writers.dedup();
        writers
    }

    /// Refuses what has no determined outcome.
    pub fn check(&self) -> Result<()> {
        let mut writers = self.writers();
        writers.sort_unstable();
        writers.dedup();
        ensure!(writers.len() < 2, "writes of two sessions in one batch race");
        for actor in self.actors() {
            let lines: Vec<_> = self.0.iter().filter(|line| line.session == actor).collect();
            let alone = |line: &&Line| matches!(line.action, Action::Raw(_) | Action::Drop);
            ensure!(lines.len() == 1 || !lines.iter().any(alone), "raw and drop stand alone");
            let waits = |line: &&Line| matches!(line.action, Action::Wait(_));
            ensure!(!lines.iter().rev().skip(1).any(waits), "a wait comes last");
            let connects = |line: &&Line| matches!(line.action, Action::Connect(_));
            ensure!(!lines.iter().skip(1).any(connects), "a handshake comes first");
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

/// A whole script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Name for reports.
    pub title: String,
    /// Profiles it is meant for; empty for all without timers.
    pub profiles: Vec<String>,
    /// Never sent to Apache.
    pub ours_only: bool,
    /// What to send.
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
            let last = self.batches.last_mut().and_then(|batch| batch.0.last_mut()).context("nothing to expect of")?;
            last.expect = Some(expect.trim().to_owned());
            return Ok(());
        }
        match line.strip_prefix('+') {
            Some(joined) => {
                let batch = self.batches.last_mut().context("nothing to join")?;
                batch.0.push(Line::parse(joined)?);
            }
            None => self.batches.push(Batch(vec![Line::parse(line)?])),
        }
        Ok(())
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.batches.iter().map(|batch| batch.0.len()).sum()
    }

    /// True without any line.
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

/// Replaces each `for` with its repetitions.
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

/// Splits at blanks outside quotes; quotes stay.
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

fn parse_handshake(default: Target, cursor: &mut Cursor) -> Result<Handshake> {
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
                    (Ok(id), _) => Target::Id(id),
                    (Err(_), Some(letter @ 'A'..='Z')) => Target::Of(Name(letter)),
                    _ => bail!("session {word:?}"),
                };
            }
            "timeout" => handshake.timeout_ms = cursor.number()?,
            "seen" => handshake.seen = Seen::parse(&cursor.word()?)?,
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

fn print_handshake(own: Name, handshake: &Handshake, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let usual = Handshake::new(if handshake.target == Target::New { Target::New } else { Target::Of(own) });
    match handshake.target {
        Target::New => f.write_str("connect")?,
        Target::Of(name) if name == own => f.write_str("reattach")?,
        Target::Of(name) => write!(f, "reattach session={name}")?,
        Target::Id(id) => write!(f, "reattach session={id}")?,
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
    fn scripts_round_trip() {
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
    fn loops_unroll() {
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
    fn races_are_refused() {
        assert!(Script::parse("t", "A delete /a\n+ B delete /b").is_err());
        assert!(Script::parse("t", "A delete /a\n+ B exists /b").is_ok());
        assert!(Script::parse("t", "A ping\n+ A drop").is_err());
        assert!(Script::parse("t", "A ping\n+ A connect").is_err());
    }
}
