//! The interactive shell: a line editor with completion, hints and a persistent history.
//!
//! The editor blocks the main thread while the session runs on a thread of the runtime, so that events are printed
//! above the line being edited. Commands run on the main thread; Ctrl-C drops the command, never the shell.

use crate::command_error;
use crate::completion::{CompletionState, ShellCompleter};
use crate::ctrl_c::CtrlC;
use crate::history_file::HistoryFile;
use crate::invocation::Invocation;
use crate::output::Output;
use crate::script;
use crate::shell::{Shell, ShellMode};

use ox_client::{Client, SessionState};
use reedline::{
    Color, ColumnarMenu, DefaultHinter, Emacs, ExternalPrinter, KeyCode, KeyModifiers, MenuBuilder, Prompt,
    PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal, default_emacs_keybindings,
};
use rustix::process::{Signal as ProcessSignal, kill_process};
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Events queued for the editor to show.
const EVENTS_MAX: usize = 1024;

/// How often the editor looks for events by itself; [`wake`] is what makes it look.
const POLL_INTERVAL: Duration = Duration::from_secs(3600);

/// Attempts to read from a terminal before the shell ends.
const TRIES_MAX: usize = 10;

/// Runs an interactive shell and returns its exit code.
pub(crate) fn run(runtime: &Runtime, invocation: Invocation, out: Output) -> u8 {
    let mut shell = Shell::new(invocation, ShellMode::Terminal, out);
    let mut ctrl_c = runtime.block_on(async { CtrlC::listen() });
    let started = runtime.block_on(async {
        script::begin(&mut shell).await?;
        tokio::select! {
            _ = shell.await_connection() => (),
            () = ctrl_c.next() => (),
        }
        Ok::<(), u8>(())
    });
    if let Err(status) = started {
        return status;
    }
    runtime.block_on(greet(&shell));
    let completion_state = CompletionState::default();
    let printer = ExternalPrinter::new(EVENTS_MAX);
    let events = printer.sender();
    let completer = ShellCompleter {
        completion_state: completion_state.clone(),
        runtime: runtime.handle().clone(),
        out: shell.out.clone(),
    };
    let mut editor = editor(&shell, printer, completer);
    while !shell.should_exit {
        completion_state.update(shell.client().ok(), shell.directory());
        // A Ctrl-C before this was meant for the previous command. The old listener may still have to report it.
        ctrl_c = runtime.block_on(async { CtrlC::listen() });
        match read(&mut editor, &shell, &events) {
            Ok(Signal::Success(line)) => runtime.block_on(run_line(&mut shell, &line, &mut ctrl_c)),
            Ok(Signal::CtrlD) => break,
            Ok(_) => (),
            Err(error) => {
                shell.out.error(&format!("the terminal cannot be used: {error}"));
                return command_error::FAILED;
            }
        }
    }
    shell.set_prints_events(false);
    runtime.block_on(shell.close());
    shell.status()
}

async fn greet(shell: &Shell) {
    if !shell.is_zkcli()
        && let Ok(client) = shell.client()
    {
        match client.session() {
            Some(session) if client.state().is_connected() => {
                shell.info(&format!("Connected to {}, session {}.", shell.invocation.server, session.id));
            }
            _ => shell.out.error(&shell.unreachable(&client).await.native_text()),
        }
    }
    shell.info("`help` lists the commands, Tab completes, Ctrl-R searches history, Ctrl-D exits.");
}

fn editor(shell: &Shell, printer: ExternalPrinter<String>, completer: ShellCompleter) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete =
        ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu("completion".to_owned()), ReedlineEvent::MenuNext]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, complete);
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    let menu = ColumnarMenu::default().with_name("completion").with_marker("");
    let mut editor = Reedline::create()
        .with_external_printer(printer)
        .with_poll_interval(POLL_INTERVAL)
        .with_completer(Box::new(completer))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_ansi_colors(shell.out.has_colours());
    if shell.out.has_colours() {
        editor = editor.with_hinter(Box::new(DefaultHinter::default()));
    }
    match HistoryFile::open() {
        Some(past) => editor.with_history(Box::new(past)),
        None => editor,
    }
}

/// Reads a line. Events are shown through the editor meanwhile.
fn read(editor: &mut Reedline, shell: &Shell, events: &SyncSender<String>) -> std::io::Result<Signal> {
    let prompt = match shell.is_zkcli() {
        true => ShellPrompt::ZkCli(zkcli_prompt(shell)),
        false => ShellPrompt::native(shell),
    };
    let events = events.clone();
    shell.out.set_editor(Some(Box::new(move |text| {
        let _ = events.try_send(text); // events beyond the limit are dropped
        wake();
    })));
    // The editor queries the cursor position from the terminal, with a timeout of two seconds.
    let mut tries = 1;
    let signal = loop {
        match editor.read_line(&prompt) {
            Err(_) if tries < TRIES_MAX => tries += 1,
            done => break done,
        }
    };
    shell.out.set_editor(None);
    signal
}

async fn run_line(shell: &mut Shell, line: &str, ctrl_c: &mut CtrlC) {
    let was_for_editor = shell.was_for_editor();
    let meant_for_us = async {
        loop {
            ctrl_c.next().await;
            if !was_for_editor.swap(false, Ordering::Relaxed) {
                return;
            }
        }
    };
    let is_interrupted = tokio::select! {
        biased;
        _ = shell.run_line(line) => false, // the error is reported already
        () = meant_for_us => true,
    };
    was_for_editor.store(false, Ordering::Relaxed);
    if is_interrupted {
        shell.interrupted();
    }
}

/// Makes the editor show pending events. It waits for keys and for changes of the window size only, so that an idle
/// shell uses no CPU time; this pretends such a change.
fn wake() {
    let _ = kill_process(rustix::process::getpid(), ProcessSignal::WINCH); // an event is shown with the next key then
}

/// Compat: programs that drive a shell wait for this prompt.
fn zkcli_prompt(shell: &Shell) -> String {
    let directory = match shell.directory() {
        "/" => String::new(),
        directory => format!("{directory} "),
    };
    format!("[zk: {}({}) {directory}{}] ", shell.invocation.server, shell.state(), shell.history.next())
}

enum ShellPrompt {
    ZkCli(String),
    /// Shows the state of the connection whenever it is painted.
    Native {
        ensemble: String,
        directory: String,
        client: Option<Client>,
    },
}

impl ShellPrompt {
    fn native(shell: &Shell) -> Self {
        let ensemble = shell.invocation.profile.clone().unwrap_or_else(|| short_name(&shell.invocation.server));
        Self::Native { ensemble, directory: shell.directory().to_owned(), client: shell.session_client() }
    }

    fn state(&self) -> SessionState {
        match self {
            Self::ZkCli(_) => SessionState::Connected,
            Self::Native { client, .. } => client.as_ref().map_or(SessionState::Closed, Client::state),
        }
    }
}

/// The first server and the number of the others: `zk1:2181+2/app`.
fn short_name(servers: &str) -> String {
    let (servers, chroot) = servers.find('/').map_or((servers, ""), |at| servers.split_at(at));
    match servers.split_once(',') {
        Some((first, others)) => format!("{first}+{}{chroot}", others.split(',').count()),
        None => format!("{servers}{chroot}"),
    }
}

impl Prompt for ShellPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        let Self::Native { ensemble, directory, .. } = self else {
            let Self::ZkCli(text) = self else { return Cow::Borrowed("") };
            return Cow::Borrowed(text);
        };
        let state = match self.state() {
            SessionState::Connected => "",
            SessionState::ConnectedReadOnly => " (read-only)",
            SessionState::Closed => " (closed)",
            SessionState::Expired => " (expired)",
            SessionState::AuthFailed => " (not authenticated)",
            SessionState::Connecting | SessionState::Suspended { .. } | _ => " (connecting)",
        };
        Cow::Owned(format!("{ensemble}{state} {directory}> "))
    }

    fn get_prompt_color(&self) -> Color {
        match self.state() {
            SessionState::Connected => Color::Green,
            SessionState::Closed | SessionState::Expired | SessionState::AuthFailed => Color::Red,
            SessionState::ConnectedReadOnly | SessionState::Connecting | SessionState::Suspended { .. } | _ => {
                Color::Yellow
            }
        }
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("... ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search: {}) ", search.term))
    }
}
