//! The state that commands share, and how a line is run.

use crate::command_error::{self, Failure};
use crate::command_history::History;
use crate::commands::{self, Command};
use crate::ctrl_c::Interrupts;
use crate::events::{Events, Standing};
use crate::invocation::Invocation;
use crate::options::Args;
use crate::output::Output;
use crate::{paths, prompt, tokenize};
use ox_client::{AddWatchMode, Client, RetryPolicy, SessionState, Watch, WatchStream, WatcherType};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Where the shell is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// By a program: everything is as `zkCli` does it.
    Script,
    /// By somebody at a terminal, who is asked before much is destroyed.
    Terminal,
}

/// A shell.
#[derive(Debug)]
pub struct Shell {
    /// Where commands write.
    pub out: Output,
    /// What the program was started with.
    pub invocation: Invocation,
    /// Where the shell is used.
    pub place: Place,
    /// What was typed, by number.
    pub history: History,
    /// The mode of the last `addWatch` that named one.
    pub watch_mode: AddWatchMode,
    /// Watches that this session waits for.
    pub watches: Vec<Held>,
    /// Whether the shell is to end.
    pub is_done: bool,
    session: Option<Session>,
    directory: String,
    /// Somebody has used `cd`: paths may be relative from then on.
    has_moved: bool,
    prints_events: Arc<AtomicBool>,
    status: u8,
    /// A command runs that has no other end than Ctrl-C.
    is_endless: bool,
    was_for_editor: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Session {
    client: Client,
    events: Arc<Events>,
}

/// A watch that is kept until it has told its event.
#[derive(Debug)]
pub struct Held {
    /// The node.
    pub path: String,
    /// The watch.
    pub watch: HeldWatch,
}

impl Held {
    /// How the event is called that tells of its removal.
    pub fn removal(&self) -> &'static str {
        match self.watch {
            HeldWatch::Data(_) => "DataWatchRemoved",
            HeldWatch::Children(_) => "ChildWatchRemoved",
            HeldWatch::Stays(..) => "PersistentWatchRemoved",
        }
    }

    fn is(&self, kind: WatcherType) -> bool {
        match kind {
            WatcherType::Any => true,
            WatcherType::Data => matches!(self.watch, HeldWatch::Data(_)),
            WatcherType::Children => matches!(self.watch, HeldWatch::Children(_)),
            WatcherType::Persistent => matches!(self.watch, HeldWatch::Stays(AddWatchMode::Persistent, _)),
            WatcherType::PersistentRecursive => {
                matches!(self.watch, HeldWatch::Stays(AddWatchMode::PersistentRecursive, _))
            }
        }
    }

    /// Whether nothing will follow. Events are printed as the session learns of them, not from here.
    fn is_over(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        match &mut self.watch {
            HeldWatch::Data(watch) | HeldWatch::Children(watch) => Pin::new(watch).poll(&mut cx).is_ready(),
            HeldWatch::Stays(_, stream) => loop {
                match pin!(stream.next()).poll(&mut cx) {
                    Poll::Ready(Some(_)) => (),
                    Poll::Ready(None) => return true,
                    Poll::Pending => return false,
                }
            },
        }
    }
}

/// The kinds of watches, as they are removed.
#[derive(Debug)]
pub enum HeldWatch {
    /// Left by `get -w`, `stat -w` and `config -w`.
    Data(Watch),
    /// Left by `ls -w`.
    Children(Watch),
    /// Left by `addWatch`.
    Stays(AddWatchMode, WatchStream),
}

impl Shell {
    /// A shell without a session.
    pub fn new(invocation: Invocation, place: Place, out: Output) -> Self {
        let prints_events = Arc::new(AtomicBool::new(!invocation.json));
        Self {
            out,
            invocation,
            place,
            history: History::default(),
            watch_mode: AddWatchMode::PersistentRecursive,
            watches: Vec::new(),
            is_done: false,
            session: None,
            directory: "/".to_owned(),
            has_moved: false,
            prints_events,
            status: command_error::OK,
            is_endless: false,
            was_for_editor: Arc::default(),
        }
    }

    /// Begins a session with the servers of the invocation.
    pub async fn connect(&mut self) -> Result<(), Failure> {
        self.close().await;
        let Invocation { server, timeout, read_only, .. } = &self.invocation;
        // A shell tells at once that a connection is lost, and leaves it to its user to try again.
        let builder = Client::builder().servers(server).map_err(|error| Failure::told(error.to_string()))?;
        let builder = builder.session_timeout(*timeout).read_only(*read_only).retry(RetryPolicy::None);
        let client = builder.start().map_err(|error| Failure::told(error.to_string()))?;
        let events = Events::follow(&client, self.out.clone(), Arc::clone(&self.prints_events));
        self.session = Some(Session { client, events });
        Ok(())
    }

    /// Waits for the connection until every server was tried, or for the session timeout.
    pub async fn await_connection(&self) -> Standing {
        self.await_standing(|standing| *standing != Standing::Unknown).await
    }

    /// Waits for the connection for the session timeout, whatever the servers say.
    pub async fn await_session(&self) -> Standing {
        self.await_standing(|standing| matches!(standing, Standing::Connected | Standing::Over)).await
    }

    /// Waits until it was told that the session is over.
    pub async fn await_end(&self) -> Standing {
        self.await_standing(|standing| *standing == Standing::Over).await
    }

    async fn await_standing(&self, is_enough: impl FnMut(&Standing) -> bool) -> Standing {
        let Some(Session { events, .. }) = &self.session else { return Standing::Over };
        let mut standing = events.standing();
        match tokio::time::timeout(self.invocation.timeout, standing.wait_for(is_enough)).await {
            Ok(Ok(standing)) => *standing,
            Ok(Err(_)) => Standing::Over,
            Err(_) => Standing::NoServer,
        }
    }

    /// Ends the session, if there is one.
    pub async fn close(&mut self) {
        if let Some(Session { client, events }) = self.session.take() {
            let _ = client.close().await; // a session that cannot be closed expires
            events.catch_up();
        }
        self.watches.clear();
    }

    /// The session's client.
    pub fn client(&self) -> Result<Client, Failure> {
        match &self.session {
            Some(Session { client, .. }) if !client.state().is_final() => Ok(client.clone()),
            _ => Err(Failure::NotConnected),
        }
    }

    /// The state in words of the prompt.
    pub fn state(&self) -> &'static str {
        match self.session.as_ref().map_or(SessionState::Closed, |session| session.client.state()) {
            SessionState::Connected => "CONNECTED",
            SessionState::ConnectedReadOnly => "CONNECTEDREADONLY",
            SessionState::AuthFailed => "AUTH_FAILED",
            SessionState::Closed | SessionState::Expired => "CLOSED",
            SessionState::Connecting | SessionState::Suspended { .. } | _ => "CONNECTING",
        }
    }

    /// A line of data, behind the events that came before it.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        self.catch_up();
        self.out.line(text)
    }

    /// A line of talk, behind the events that came before it.
    pub fn say(&self, text: &str) {
        self.catch_up();
        self.out.say(text);
    }

    /// Prints the events that came until now.
    pub fn catch_up(&self) {
        if let Some(Session { events, .. }) = &self.session {
            events.catch_up();
        }
    }

    /// Prints that a watch is gone.
    pub fn watch_removed(&self, kind: &str, path: &str) {
        if let Some(Session { events, .. }) = &self.session {
            events.removed(kind, path);
        }
    }

    /// Forgets watches of a node, and gives them.
    pub fn take_watches(&mut self, path: &str, kind: WatcherType) -> Vec<Held> {
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

    /// Whether a listing is wanted as JSON.
    pub fn is_json(&self, args: &Args) -> bool {
        self.invocation.json || args.has("--json")
    }

    /// Whether paths may be left out or be relative: somebody sits there, or has used `cd`.
    pub fn is_at_ease(&self) -> bool {
        self.place == Place::Terminal || self.has_moved
    }

    /// Where relative paths begin.
    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// Goes to another directory.
    pub fn set_directory(&mut self, path: String) {
        self.directory = path;
        self.has_moved = true;
    }

    /// The path that a user means. Compat: scripts that never use `cd` learn that a path must be absolute.
    pub fn path(&self, typed: &str) -> Result<String, Failure> {
        let path = if self.is_at_ease() {
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

    /// Asks before something that cannot be undone. Scripts are not asked.
    pub fn confirm(&self, args: &Args, question: &str) -> Result<(), Failure> {
        if self.place == Place::Script || self.invocation.yes || args.has("--yes") {
            return Ok(());
        }
        self.catch_up();
        match prompt::ask(&self.out, question) {
            true => Ok(()),
            false => Err(Failure::told("Not done.")),
        }
    }

    /// What the program exits with, were this its end.
    pub fn status(&self) -> u8 {
        self.status
    }

    /// Runs a line as it was typed.
    pub async fn run_line(&mut self, line: &str) -> Result<(), Failure> {
        let words = tokenize::split(line);
        if words.is_empty() {
            return Ok(());
        }
        self.history.push(line.trim_end());
        self.run_words(&words).await
    }

    /// Runs a command, tells how it failed, and keeps its status.
    pub async fn run_words(&mut self, words: &[String]) -> Result<(), Failure> {
        let Some((name, rest)) = words.split_first() else { return Ok(()) };
        let found = commands::find(name);
        let result = match found {
            Some(command) => self.run(command, rest).await,
            None => Err(Failure::NotFound(name.clone())),
        };
        self.watches.retain_mut(|held| !held.is_over());
        self.catch_up();
        let result = result.and(self.out.flush());
        if let Err(failure) = &result {
            self.tell(failure, found);
        }
        if !found.is_some_and(|command| command.keeps_status) {
            self.status = result.as_ref().err().map_or(command_error::OK, Failure::status);
        }
        result
    }

    /// Like [`Shell::run_words`] for a command that runs another one, whose status counts.
    pub async fn run(&mut self, command: &'static Command, words: &[String]) -> Result<(), Failure> {
        if command.needs_session {
            self.client()?;
        }
        let args = match command.is_plain {
            true => Args::plain(words),
            false => Args::parse(command.options, words)?,
        };
        if !command.takes.contains(&args.operands().len()) {
            return Err(Failure::Usage);
        }
        if !command.is_endless {
            return (command.run)(self, &args).await;
        }
        self.is_endless = true;
        let mut interrupts = Interrupts::listen();
        let done = tokio::select! {
            biased;
            done = (command.run)(self, &args) => done,
            () = interrupts.next() => {
                self.end_line();
                Ok(())
            }
        };
        self.is_endless = false;
        done
    }

    /// The user has stopped the command that runs, whose future is gone.
    pub fn interrupted(&mut self) {
        let _ = self.out.flush(); // the next command learns of it
        self.end_line();
        if std::mem::take(&mut self.is_endless) {
            self.status = command_error::OK;
            return;
        }
        self.out.complain(&Failure::Interrupted.to_string());
        self.status = Failure::Interrupted.status();
    }

    /// Set when a Ctrl-C that was heard was not meant for the shell but for an editor that it ran.
    pub fn was_for_editor(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.was_for_editor)
    }

    /// Terminals show a Ctrl-C where the cursor is.
    fn end_line(&self) {
        if self.out.talks_to_terminal() {
            self.out.ask("\n");
        }
    }

    fn tell(&self, failure: &Failure, command: Option<&Command>) {
        match (failure, command) {
            (Failure::Silent(_), _) => (),
            (Failure::NotConnected, _) => drop(self.print(&failure.to_string())),
            (Failure::Usage, Some(command)) => self.out.say(&command.usage()),
            (Failure::NotFound(_), _) => {
                if self.place == Place::Script {
                    self.out.say(&commands::usage());
                }
                self.out.complain(&failure.to_string());
                if let (Place::Terminal, Failure::NotFound(name)) = (self.place, failure) {
                    self.out.say(&hint(name));
                }
            }
            (Failure::Told(_) | Failure::Fatal(_) | Failure::Interrupted | Failure::Usage, _) => {
                self.out.complain(&failure.to_string());
            }
        }
        let _ = self.out.flush(); // it is told already
    }

    /// The session's client, connected. A command that needs a server begins with this.
    pub async fn server(&self) -> Result<Client, Failure> {
        let client = self.client()?;
        if !client.state().is_connected() {
            self.await_connection().await;
        }
        Ok(client)
    }

    /// How long one command may wait.
    pub fn patience(&self) -> Duration {
        self.invocation.timeout
    }
}

/// What somebody may have meant.
fn hint(name: &str) -> String {
    let name = name.to_lowercase();
    let known = |is: &dyn Fn(&str) -> bool| -> Vec<_> {
        commands::COMMANDS.iter().map(|command| command.name).filter(|known| is(&known.to_lowercase())).collect()
    };
    let mut similar = known(&|known| known == name);
    if similar.is_empty() {
        similar = known(&|known| known.starts_with(&name) || name.starts_with(known));
    }
    match similar.as_slice() {
        [] => "hint: `help` lists the commands".to_owned(),
        names => format!("hint: did you mean {}?", names.join(" or ")),
    }
}
