//! The state shared by commands, and how a line is executed.

use crate::command_error::{self, CommandError};
use crate::command_history::CommandHistory;
use crate::commands::{self, CommandSpec};
use crate::ctrl_c::CtrlC;
use crate::events::{ConnectionStatus, EventStyle, Events};
use crate::invocation::{self, Invocation};
use crate::options::CommandArgs;
use crate::output::Output;
use crate::{paths, prompt, suggest, tokenize, unreachable};
use ox_client::{AddWatchMode, Client, Error, ErrorCode, RetryPolicy, SessionState, Watch, WatchStream, WatcherType};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How long a user at a terminal waits for a connection without a notice.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// How long the end of the shell waits for a connection that was lost, to close the session.
const RECONNECT_PATIENCE: Duration = Duration::from_millis(500);
/// How long the end of the shell waits for a server before it tells the user so.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// For options of the program that follow the command.
const OPTIONS_FIRST_HINT: &str =
    "hint: options of the program stand before the command: oxkeeper cli --server zk1 ls /";

/// How the shell is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellMode {
    /// By a script: behaves exactly like `zkCli`.
    Script,
    /// By a person at a terminal, with confirmations before destructive commands.
    Terminal,
}

/// The state of a shell.
#[derive(Debug)]
pub struct Shell {
    /// Output streams of commands.
    pub out: Output,
    /// The command line of the program.
    pub invocation: Invocation,
    /// Whether a script or a person uses the shell.
    pub mode: ShellMode,
    /// Command lines of this shell, by number.
    pub history: CommandHistory,
    /// The mode of the last `addWatch` with `-m`.
    pub watch_mode: AddWatchMode,
    /// Watches that have not fired or ended yet.
    pub watches: Vec<ActiveWatch>,
    /// Whether the shell exits after this command.
    pub should_exit: bool,
    /// The number of the current line of a script.
    pub script_line: Option<usize>,
    /// Whether the command line of the program has the only command.
    pub is_single_command: bool,
    session: Option<Session>,
    directory: String,
    /// Whether `cd` was used; paths may be relative from then on.
    has_used_cd: bool,
    prints_events: Arc<AtomicBool>,
    status: u8,
    /// Whether the running command ends by Ctrl-C only.
    runs_until_ctrl_c: bool,
    was_for_editor: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Session {
    client: Client,
    events: Arc<Events>,
}

/// A watch that is kept until its event is received.
#[derive(Debug)]
pub struct ActiveWatch {
    /// Path of the watched node.
    pub path: String,
    /// The handle that keeps the watch alive.
    pub watch: WatchHandle,
}

impl ActiveWatch {
    /// The event type that is printed when the watch is removed.
    pub fn removal(&self) -> &'static str {
        match self.watch {
            WatchHandle::Data(_) => "DataWatchRemoved",
            WatchHandle::Children(_) => "ChildWatchRemoved",
            WatchHandle::Persistent(..) => "PersistentWatchRemoved",
        }
    }

    fn is(&self, kind: WatcherType) -> bool {
        match kind {
            WatcherType::Any => true,
            WatcherType::Data => matches!(self.watch, WatchHandle::Data(_)),
            WatcherType::Children => matches!(self.watch, WatchHandle::Children(_)),
            WatcherType::Persistent => matches!(self.watch, WatchHandle::Persistent(AddWatchMode::Persistent, _)),
            WatcherType::PersistentRecursive => {
                matches!(self.watch, WatchHandle::Persistent(AddWatchMode::PersistentRecursive, _))
            }
        }
    }

    /// Whether no further event follows. The events themselves are printed by [`Events`].
    fn has_ended(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        match &mut self.watch {
            WatchHandle::Data(watch) | WatchHandle::Children(watch) => Pin::new(watch).poll(&mut cx).is_ready(),
            WatchHandle::Persistent(_, stream) => loop {
                match pin!(stream.next()).poll(&mut cx) {
                    Poll::Ready(Some(_)) => (),
                    Poll::Ready(None) => return true,
                    Poll::Pending => return false,
                }
            },
        }
    }
}

/// Watches by the type that `removewatches` distinguishes.
#[derive(Debug)]
pub enum WatchHandle {
    /// Set by `get -w`, `stat -w` and `config -w`.
    Data(Watch),
    /// Set by `ls -w`.
    Children(Watch),
    /// Set by the command `addWatch`.
    Persistent(AddWatchMode, WatchStream),
}

impl Shell {
    /// Creates a shell without a session.
    pub fn new(invocation: Invocation, mode: ShellMode, out: Output) -> Self {
        let prints_events = Arc::new(AtomicBool::new(!invocation.json));
        Self {
            out,
            invocation,
            mode,
            history: CommandHistory::default(),
            watch_mode: AddWatchMode::PersistentRecursive,
            watches: Vec::new(),
            should_exit: false,
            script_line: None,
            is_single_command: false,
            session: None,
            directory: "/".to_owned(),
            has_used_cd: false,
            prints_events,
            status: command_error::OK,
            runs_until_ctrl_c: false,
            was_for_editor: Arc::default(),
        }
    }

    /// Opens a session with the servers of the invocation.
    pub async fn connect(&mut self) -> Result<(), CommandError> {
        self.close().await;
        let Invocation { server, timeout, read_only, auth, properties, .. } = &self.invocation;
        // A shell reports a connection loss immediately and leaves retries to the user.
        let builder = Client::builder().servers(server).map_err(|error| CommandError::message(error.to_string()))?;
        let mut builder = builder.session_timeout(*timeout).read_only(*read_only).retry(RetryPolicy::None);
        if let Some((scheme, secret)) = auth {
            builder = builder.auth(scheme, secret);
        }
        let builder = properties.apply(builder).map_err(|error| CommandError::message(error.to_string()))?;
        let client = builder.start().map_err(|error| CommandError::message(error.to_string()))?;
        let style = match (self.invocation.zkcli, self.mode) {
            (true, _) => EventStyle::ZkCli,
            (false, ShellMode::Terminal) => EventStyle::Terminal,
            (false, ShellMode::Script) => EventStyle::Script,
        };
        let events = Events::follow(&client, self.out.clone(), Arc::clone(&self.prints_events), style);
        self.session = Some(Session { client, events });
        Ok(())
    }

    /// Waits like [`Shell::await_connection`]; a user at a terminal is told after a moment what the shell waits for.
    async fn await_connection_with_notice(&self) -> ConnectionStatus {
        let mut connecting = pin!(self.await_connection());
        if self.is_zkcli() || !self.out.stderr_is_terminal() {
            return connecting.await;
        }
        if let Ok(status) = tokio::time::timeout(SILENCE_MAX, &mut connecting).await {
            return status;
        }
        let Invocation { server, timeout, .. } = &self.invocation;
        self.out.info(&format!("Waiting for {server}, at most {} s; --timeout changes that", timeout.as_secs()));
        connecting.await
    }

    /// Waits for the connection until every server was tried, at most the session timeout.
    pub async fn await_connection(&self) -> ConnectionStatus {
        self.await_status(|status| *status != ConnectionStatus::Unknown).await
    }

    /// Waits for the connection, at most the session timeout, even if every server was tried.
    pub async fn await_session(&self) -> ConnectionStatus {
        self.await_status(|status| matches!(status, ConnectionStatus::Connected | ConnectionStatus::Ended)).await
    }

    /// Waits until the end of the session is reported.
    pub async fn await_end(&self) -> ConnectionStatus {
        self.await_status(|status| *status == ConnectionStatus::Ended).await
    }

    async fn await_status(&self, is_enough: impl FnMut(&ConnectionStatus) -> bool) -> ConnectionStatus {
        let Some(Session { events, .. }) = &self.session else { return ConnectionStatus::Ended };
        let mut status = events.status();
        match tokio::time::timeout(self.invocation.timeout, status.wait_for(is_enough)).await {
            Ok(Ok(status)) => *status,
            Ok(Err(_)) => ConnectionStatus::Ended,
            Err(_) => ConnectionStatus::NoServer,
        }
    }

    /// Closes the session, if one is open. It expires if it cannot be closed.
    pub async fn close(&mut self) {
        if let Some(Session { client, events }) = self.session.take() {
            let has_failed = *events.status().borrow() == ConnectionStatus::NoServer;
            match client.state().is_connected() {
                _ if self.is_zkcli() => drop(client.close().await),
                true if self.mode == ShellMode::Terminal => self.close_unless_interrupted(&client).await,
                true => drop(client.close().await),
                false if has_failed => drop(client.detach()),
                false => drop(tokio::time::timeout(RECONNECT_PATIENCE, client.close()).await),
            }
            events.catch_up();
        }
        self.watches.clear();
    }

    /// A server that hangs does not keep the user.
    async fn close_unless_interrupted(&self, client: &Client) {
        let mut ctrl_c = CtrlC::listen();
        let mut closing = pin!(client.close());
        if tokio::time::timeout(CLOSE_PATIENCE, &mut closing).await.is_err() {
            self.out.info("Closing the session; Ctrl-C leaves it to its timeout");
            tokio::select! {
                _ = closing => (),
                () = ctrl_c.next() => (),
            }
        }
    }

    /// Returns the client of the session.
    pub fn client(&self) -> Result<Client, CommandError> {
        match &self.session {
            Some(Session { client, .. }) if !client.state().is_final() => Ok(client.clone()),
            _ => Err(CommandError::NotConnected),
        }
    }

    /// The client of the session, even if the session has ended.
    pub(crate) fn session_client(&self) -> Option<Client> {
        self.session.as_ref().map(|session| session.client.clone())
    }

    /// The session state as the prompt of `zkCli` shows it.
    pub fn state(&self) -> &'static str {
        match self.session.as_ref().map_or(SessionState::Closed, |session| session.client.state()) {
            SessionState::Connected => "CONNECTED",
            SessionState::ConnectedReadOnly => "CONNECTEDREADONLY",
            SessionState::AuthFailed => "AUTH_FAILED",
            SessionState::Closed | SessionState::Expired => "CLOSED",
            SessionState::Connecting | SessionState::Suspended { .. } | _ => "CONNECTING",
        }
    }

    /// Whether output and errors are those of `zkCli`.
    pub fn is_zkcli(&self) -> bool {
        self.invocation.zkcli
    }

    /// Prints what a command did: to standard error, and not for scripts, which see the exit code.
    pub fn done(&self, text: &str) {
        if self.mode == ShellMode::Terminal || self.is_zkcli() {
            self.info(text);
        }
    }

    /// Prints a line to standard output, after all pending events.
    pub fn print(&self, text: &str) -> Result<(), CommandError> {
        self.catch_up();
        self.out.line(text)
    }

    /// Prints a message to standard error, after all pending events.
    pub fn info(&self, text: &str) {
        self.catch_up();
        self.out.info(text);
    }

    /// Prints all pending events.
    pub fn catch_up(&self) {
        if let Some(Session { events, .. }) = &self.session {
            events.catch_up();
        }
    }

    /// Prints the event for a removed watch.
    pub fn watch_removed(&self, kind: &str, path: &str) {
        if let Some(Session { events, .. }) = &self.session {
            events.removed(kind, path);
        }
    }

    /// Removes and returns the watches of a node.
    pub fn take_watches(&mut self, path: &str, kind: WatcherType) -> Vec<ActiveWatch> {
        self.watches.extract_if(.., |held| held.path == path && held.is(kind)).collect()
    }

    /// Whether events are printed.
    pub fn prints_events(&self) -> bool {
        self.prints_events.load(Ordering::Relaxed)
    }

    /// Turns the printing of events on and off.
    pub fn set_prints_events(&mut self, prints: bool) {
        self.prints_events.store(prints, Ordering::Relaxed);
    }

    /// Whether a listing is printed as JSON.
    pub fn is_json(&self, args: &CommandArgs) -> bool {
        self.invocation.json || args.has("--json")
    }

    /// Whether paths may be omitted or relative. Compat: scripts for `zkCli` need `cd` first.
    pub fn allows_relative_paths(&self) -> bool {
        !self.is_zkcli() || self.mode == ShellMode::Terminal || self.has_used_cd
    }

    /// The current node, to which relative paths refer.
    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// Changes the current node.
    pub fn set_directory(&mut self, path: String) {
        self.directory = path;
        self.has_used_cd = true;
    }

    /// Resolves a typed path. Compat: scripts without `cd` get an error for a relative path.
    pub fn path(&self, typed: &str) -> Result<String, CommandError> {
        let path = if self.allows_relative_paths() {
            match typed.is_empty() || (typed.starts_with('/') && typed.trim_end_matches('/').is_empty()) {
                true => typed.to_owned(),
                false if typed.starts_with('/') => typed.trim_end_matches('/').to_owned(),
                false => paths::resolve(&self.directory, typed),
            }
        } else {
            typed.to_owned()
        };
        paths::validate(&path)?;
        Ok(path)
    }

    /// Asks for confirmation before a destructive command. Scripts are not asked.
    pub fn confirm(&self, args: &CommandArgs, question: &str) -> Result<(), CommandError> {
        if self.mode == ShellMode::Script || self.invocation.yes || args.has("--yes") {
            return Ok(());
        }
        self.catch_up();
        match prompt::confirm(&self.out, question) {
            true => Ok(()),
            false => Err(CommandError::message("Cancelled.")),
        }
    }

    /// The exit code if the program ended now.
    pub fn status(&self) -> u8 {
        self.status
    }

    /// Runs a command line.
    pub async fn run_line(&mut self, line: &str) -> Result<(), CommandError> {
        let words = tokenize::split(line);
        if words.is_empty() || !self.is_zkcli() && line.trim_start().starts_with('#') {
            return Ok(());
        }
        self.history.push(line.trim_end());
        if !self.is_zkcli()
            && let Some(refusal) = tokenize::refusal(line)
        {
            let failure = CommandError::message(refusal);
            self.report(&failure, None);
            self.status = failure.status(false);
            return Err(failure);
        }
        self.run_words(&words).await
    }

    /// Runs a command, reports its error, and keeps its exit code.
    pub async fn run_words(&mut self, words: &[String]) -> Result<(), CommandError> {
        let Some((name, rest)) = words.split_first() else { return Ok(()) };
        // Compat: zkCli knows no other alias.
        let found = commands::find(name).filter(|found| !self.is_zkcli() || found.name == *name || name == "exit");
        let implied = commands::expand(name).iter().skip(1).map(|word| (*word).to_owned());
        let rest: Vec<_> = implied.chain(rest.iter().cloned()).collect();
        let result = match found {
            Some(command) => self.run(command, &rest).await,
            None => Err(CommandError::NotFound(name.clone())),
        };
        self.watches.retain_mut(|held| !held.has_ended());
        self.catch_up();
        if self.is_single_command && !self.is_zkcli() && !self.watches.is_empty() {
            self.info("warning: the session ends with this command, and the watch with it; `watch` waits for changes");
        }
        if self.is_single_command && !self.is_zkcli() && result.is_ok() {
            self.warn_of_lost_effect(found, &rest);
        }
        let result = match result.and(self.out.flush()) {
            Err(failure) if self.is_root_missing(&failure).await => Err(CommandError::MissingRoot),
            result => result,
        };
        if let Err(failure) = &result {
            self.report(failure, found);
        }
        if !found.is_some_and(|command| command.keeps_status) {
            let is_zkcli = self.is_zkcli();
            self.status = result.as_ref().err().map_or(command_error::OK, |failure| failure.status(is_zkcli));
        }
        result
    }

    /// Some commands change the shell only, which ends with a single command.
    fn warn_of_lost_effect(&self, command: Option<&CommandSpec>, words: &[String]) {
        if words.is_empty() || command.is_some_and(|command| command.is_help_wanted(words)) {
            return; // the command only prints
        }
        let remedy = match command.map(|command| command.name) {
            Some("addauth") => "credentials of single commands are in a profile",
            Some("connect") => "give the server to each command: oxkeeper cli --server zk1 ls /",
            Some("cd" | "printwatches") => "it is of use in the shell and in scripts",
            _ => return,
        };
        self.info(&format!("warning: this has no effect on later commands; {remedy}"));
    }

    /// Like [`Shell::run_words`] for a command that runs another one, whose exit code counts.
    pub async fn run(&mut self, command: &'static CommandSpec, words: &[String]) -> Result<(), CommandError> {
        if !self.is_zkcli() && command.is_help_wanted(words) {
            return commands::describe(self, command);
        }
        if self.is_single_command && !self.is_zkcli() {
            refuse_server_after_command(command, words)?;
        }
        if command.needs_session {
            self.client()?;
        }
        let args = match command.ignores_options {
            true => CommandArgs::plain(words),
            false => {
                let known = command.options.iter().filter(|opt| !opt.is_native || !self.is_zkcli());
                CommandArgs::parse(&known.copied().collect::<Vec<_>>(), words)?
            }
        };
        if !self.is_zkcli() {
            command.check_operands(args.operands())?;
        }
        if !command.operands.contains(&args.operands().len()) {
            return Err(CommandError::Usage);
        }
        if !command.runs_until_ctrl_c {
            return (command.run)(self, &args).await;
        }
        self.runs_until_ctrl_c = true;
        let mut ctrl_c = CtrlC::listen();
        let done = tokio::select! {
            biased;
            done = (command.run)(self, &args) => done,
            () = ctrl_c.next() => {
                self.end_line();
                Ok(())
            }
        };
        self.runs_until_ctrl_c = false;
        done
    }

    /// Handles Ctrl-C after the future of the running command was dropped.
    pub fn interrupted(&mut self) {
        let _ = self.out.flush(); // an error recurs in the next command
        self.end_line();
        if std::mem::take(&mut self.runs_until_ctrl_c) {
            self.status = command_error::OK;
            return;
        }
        self.out.error(&CommandError::Interrupted.to_string());
        self.status = CommandError::Interrupted.status(self.is_zkcli());
    }

    /// Set when a Ctrl-C was meant for an editor that the shell ran.
    pub fn was_for_editor(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.was_for_editor)
    }

    /// Terminals echo Ctrl-C at the cursor.
    fn end_line(&self) {
        if self.out.stderr_is_terminal() {
            self.out.write_raw("\n");
        }
    }

    fn report(&self, failure: &CommandError, command: Option<&CommandSpec>) {
        if !self.is_zkcli() {
            self.report_native(failure, command);
            let _ = self.out.flush(); // an error is reported already
            return;
        }
        match (failure, command) {
            (CommandError::Silent(_), _) => (),
            (CommandError::NotConnected, _) => drop(self.print(&failure.to_string())),
            (CommandError::Usage, Some(command)) => self.out.info(&command.usage()),
            (CommandError::NotFound(name), _) => {
                if self.mode == ShellMode::Script {
                    self.out.info(&commands::usage());
                }
                self.out.error(&failure.to_string());
                if self.mode == ShellMode::Terminal {
                    self.out.info(&unknown_command_hint(name));
                }
            }
            _ => self.out.error(&failure.to_string()),
        }
        let _ = self.out.flush(); // an error is reported already
    }

    /// The place of the current command in a script, before an error message.
    pub(crate) fn place(&self) -> String {
        self.script_line.map(|number| format!("line {number}: ")).unwrap_or_default()
    }

    fn report_native(&self, failure: &CommandError, command: Option<&CommandSpec>) {
        let place = self.place();
        let text = self.missing_chroot(failure).unwrap_or_else(|| failure.native_text());
        match (failure, command) {
            (CommandError::Silent(_), _) => (),
            (CommandError::Usage, Some(command)) => {
                self.out.error(&format!("{place}Wrong arguments\nusage: {}", command.native_usage()));
            }
            (CommandError::NotFound(name), _) => {
                self.out.error(&format!("{place}{text}"));
                let hint = self.is_single_command.then(|| single_command_hint(name)).flatten();
                self.out.info(&hint.unwrap_or_else(|| unknown_command_hint(name)));
            }
            (CommandError::Options(kind, _), Some(command)) => {
                self.out.error(&format!("{place}{text}"));
                let typed = text.rsplit(' ').next().filter(|_| *kind == "UnrecognizedOption");
                let options = command.options.iter().map(|opt| opt.name);
                match typed.and_then(|typed| suggest::similar(typed, options)) {
                    _ if self.is_single_command && typed.is_some_and(invocation::is_option) => {
                        self.out.info(OPTIONS_FIRST_HINT);
                    }
                    Some(known) => self.out.info(&format!("hint: did you mean {known}?")),
                    None if typed.is_some() && command.takes_data => {
                        self.out.info("hint: after `--`, data may begin with a dash: create /a -- -5");
                    }
                    None => self.out.info(&format!("usage: {}", command.native_usage())),
                }
            }
            _ => self.out.error(&format!("{place}{text}")),
        }
    }

    /// The root of all paths does not exist only if it is a chroot.
    fn missing_chroot(&self, failure: &CommandError) -> Option<String> {
        let is_missing_root = |error: &Error| error.code() == Some(ErrorCode::NoNode) && error.path() == Some("/");
        let is_missing = matches!(failure, CommandError::MissingRoot)
            || matches!(failure, CommandError::Client(error) if is_missing_root(error));
        if !is_missing {
            return None;
        }
        let (servers, chroot) = self.invocation.server.trim_end_matches('/').split_once('/')?;
        Some(format!(
            "The chroot /{chroot} does not exist\nhint: `oxkeeper cli -server {servers} create -p /{chroot}` creates it"
        ))
    }

    /// Whether a node does not exist because the chroot does not.
    async fn is_root_missing(&self, failure: &CommandError) -> bool {
        let is_missing = matches!(failure, CommandError::Client(error) if error.code() == Some(ErrorCode::NoNode))
            || matches!(failure, CommandError::MissingParent(_));
        if !is_missing || self.is_zkcli() || !self.invocation.server.contains('/') {
            return false;
        }
        let Ok(client) = self.client() else { return false };
        matches!(client.exists("/").await, Ok(None))
    }

    /// Waits for the connection and returns the client. Commands that need a server call this first.
    pub async fn connected_client(&self) -> Result<Client, CommandError> {
        let client = self.client()?;
        if client.state().is_connected() {
            return Ok(client);
        }
        match self.await_connection_with_notice().await {
            // Compat: the command itself reports the connection loss.
            _ if self.is_zkcli() => Ok(client),
            ConnectionStatus::Connected => Ok(client),
            ConnectionStatus::Ended if client.state() == SessionState::AuthFailed => {
                let reason = client.sasl_failure().map(|reason| format!(": {reason}")).unwrap_or_default();
                Err(CommandError::message(format!("Authentication failed{reason}")))
            }
            ConnectionStatus::Ended => Err(CommandError::NotConnected),
            ConnectionStatus::Unknown | ConnectionStatus::NoServer => Err(self.unreachable(&client).await),
        }
    }

    /// Why no server serves this shell, one cause per server.
    pub(crate) async fn unreachable(&self, client: &Client) -> CommandError {
        CommandError::message(unreachable::text(client).await)
    }

    /// How long a command may wait for the connection.
    pub fn timeout(&self) -> Duration {
        self.invocation.timeout
    }
}

/// What a user of a single command probably meant: a quoted line, a server, or a file with commands.
fn single_command_hint(name: &str) -> Option<String> {
    let first = name.split_whitespace().next()?;
    if first != name && commands::find(first).is_some() {
        return Some(format!("hint: omit the quotes: oxkeeper cli {name}"));
    }
    if is_server(name) {
        return Some(format!("hint: name the server by an option: oxkeeper cli -s {name}"));
    }
    Path::new(name).is_file().then(|| format!("hint: commands from a file: oxkeeper cli -e < {name}"))
}

/// Refuses `-s` before a word that looks like a server: the other tools take their server there, but commands have a
/// `-s` of their own, after which the server would be a path or even the data of a node.
fn refuse_server_after_command(command: &CommandSpec, words: &[String]) -> Result<(), CommandError> {
    if command.ignores_options || command.options.iter().all(|opt| opt.name != "-s") {
        return Ok(()); // an option that the command does not have gets the same hint
    }
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let follows = words[..end].windows(2).find(|pair| pair[0] == "-s" && is_server(&pair[1]));
    let Some([_, server]) = follows else { return Ok(()) };
    let name = command.name;
    let data_hint = match command.takes_data {
        true => format!("\nhint: data that looks like a server follows `--`: {name} /a -s -- {server}"),
        false => String::new(),
    };
    Err(CommandError::message(format!("-s of {name} takes no server: {server}\n{OPTIONS_FIRST_HINT}{data_hint}")))
}

/// Whether a word has the form of a connection string with a port, as `:2181` and `zk1:2181,zk2:2181/app`.
fn is_server(word: &str) -> bool {
    let first = word.split(['/', ',']).next().and_then(|server| server.rsplit_once(':'));
    first.is_some_and(|(host, port)| port.parse::<u16>().is_ok() && !host.contains(char::is_whitespace))
}

/// Suggests a command with a similar name.
fn unknown_command_hint(name: &str) -> String {
    if name == "oxkeeper" {
        return "hint: this is the shell of `oxkeeper cli`: type the command alone, or Ctrl-D to exit first".to_owned();
    }
    match suggest::similar(name, commands::names()) {
        Some(known) => format!("hint: did you mean {known}?"),
        None => "hint: `help` lists the commands".to_owned(),
    }
}
