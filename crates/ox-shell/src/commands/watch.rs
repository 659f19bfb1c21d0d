//! `watch`: prints changes as they happen.

use super::{CommandSpec, EXTENSION, JSON};
use crate::command_error::CommandError;
use crate::options::{CommandArgs, Opt};
use crate::output::{Output, Paint};
use crate::shell::Shell;
use crate::subtree_output;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::{Timestamp, Zoned};
use ox_client::{AddWatchMode, Client, Event, EventKind, Node, SessionEvent, SessionState};
use serde::Serialize;

pub(super) const COMMAND: CommandSpec = CommandSpec {
    name: "watch",
    syntax: "[-r] [--data] [--count number] [--json] [path]",
    help: "Print every change of a node, or of a subtree, until Ctrl-C",
    options: &[
        Opt::switch("-r", "Include the whole subtree"),
        Opt::switch("--data", "Print the new data"),
        Opt::with("--count", "number", "Stop after this many changes"),
        JSON,
    ],
    runs_until_ctrl_c: true,
    run: |shell, args| Box::pin(run(shell, args)),
    ..EXTENSION
};

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zxid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// Turns off the session's own printing of events while this command prints them.
struct Quiet<'a> {
    shell: &'a mut Shell,
    printed: bool,
}

impl<'a> Quiet<'a> {
    fn new(shell: &'a mut Shell) -> Self {
        shell.catch_up();
        let printed = shell.prints_events();
        shell.set_prints_events(false);
        Self { shell, printed }
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        self.shell.catch_up();
        self.shell.set_prints_events(self.printed);
    }
}

async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let path = subtree_output::start(shell, args, 0)?;
    let count_max = subtree_output::number(args, "--count")?.unwrap_or(usize::MAX);
    let json = shell.is_json(args);
    let client = shell.connected_client().await?;
    let quiet = Quiet::new(shell);
    let mode = if args.has("-r") { AddWatchMode::PersistentRecursive } else { AddWatchMode::Persistent };
    let mut events = client.watch(&path, mode).await?;
    if !json {
        quiet.shell.out.info(&format!("Watching {path}"));
    }
    let (mut count, mut states) = (0, client.session_events());
    while count < count_max {
        let event = tokio::select! {
            biased;
            event = events.next() => event,
            Some(notice) = states.next() => {
                report_connection(&quiet.shell.out, &notice);
                continue;
            }
        };
        let Some(event) = event else { break };
        let node = match args.has("--data") {
            true => data_of(&client, &event).await?,
            false => None,
        };
        print(quiet.shell, json, &event, node.as_ref())?;
        quiet.shell.out.flush()?;
        if event.kind == EventKind::SessionEnded {
            return Err(CommandError::message("Session expired"));
        }
        count += usize::from(!event.path.is_empty());
    }
    Ok(())
}

/// Silence would look like a node that does not change. The return of the connection is a line of the output.
fn report_connection(out: &Output, notice: &SessionEvent) {
    if matches!(notice, SessionEvent::State(SessionState::Suspended { .. })) {
        out.info("Connection lost; changes are shown again when a server serves this session");
    }
}

/// The data after an event, if the node still exists and is readable.
async fn data_of(client: &Client, event: &Event) -> Result<Option<Node>, CommandError> {
    if !matches!(event.kind, EventKind::NodeCreated | EventKind::NodeDataChanged) {
        return Ok(None);
    }
    match client.get(&event.path).await {
        Ok(node) => Ok(Some(node)),
        Err(error) if error.is_final() => Err(error.into()),
        Err(_) => Ok(None),
    }
}

fn print(shell: &Shell, json: bool, event: &Event, node: Option<&Node>) -> Result<(), CommandError> {
    let word = match event.kind {
        EventKind::NodeCreated => "created",
        EventKind::NodeDeleted => "deleted",
        EventKind::NodeDataChanged => "changed",
        EventKind::NodeChildrenChanged => "children",
        EventKind::Missed => "missed",
        EventKind::WatchRemoved => "removed",
        EventKind::SessionEnded | _ => "ended",
    };
    if json {
        let text = node.filter(|node| !node.is_null).map(|node| String::from_utf8(node.data.clone()));
        let (data, base64) = match text {
            Some(Ok(text)) => (Some(text), None),
            Some(Err(error)) => (None, Some(BASE64_STANDARD.encode(error.as_bytes()))),
            None => (None, None),
        };
        let zxid = event.zxid.map(|zxid| format!("{:#x}", zxid.0));
        let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
        let path = Some(event.path.as_str()).filter(|path| !path.is_empty());
        return subtree_output::json_line(&shell.out, &Line { time, event: word, path, zxid, data, base64 });
    }
    let time = Zoned::now().strftime("%Y-%m-%d %H:%M:%S.%3f").to_string();
    let rest = match event.kind {
        EventKind::Missed => {
            " changes may be missing here: the connection was lost, or too many changes were pending".to_owned()
        }
        EventKind::SessionEnded => " the session has ended".to_owned(),
        EventKind::WatchRemoved => " the watch was removed".to_owned(),
        EventKind::NodeCreated
        | EventKind::NodeDeleted
        | EventKind::NodeDataChanged
        | EventKind::NodeChildrenChanged
        | _ => format!(" {}", shell.out.paint(Paint::Name, &event.path)),
    };
    let data = match node {
        Some(node) if node.is_null => " null".to_owned(),
        Some(node) => format!(" {}", shown(&node.data)),
        None => String::new(),
    };
    let time = shell.out.paint(Paint::Faint, &time);
    shell.out.line(&format!("{time} {}{rest}{data}", shell.out.paint(Paint::Event, &format!("{word:8}"))))
}

/// Data on one line: as quoted text, or as base64.
fn shown(data: &[u8]) -> String {
    match std::str::from_utf8(data) {
        Ok(text) => format!("{text:?}"),
        Err(_) => format!("base64:{}", BASE64_STANDARD.encode(data)),
    }
}
