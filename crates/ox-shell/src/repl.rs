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
use reedline::{
    ColumnarMenu, DefaultHinter, Emacs, ExternalPrinter, KeyCode, KeyModifiers, MenuBuilder, Prompt, PromptEditMode,
    PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal, default_emacs_keybindings,
};
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use tokio::runtime::Runtime;

/// Events queued for the editor to show.
const EVENTS_MAX: usize = 1024;

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
    shell.info("`help` lists the commands, Tab completes, Ctrl-R searches the history, Ctrl-D exits.");
    let completion_state = CompletionState::default();
    let printer = ExternalPrinter::new(EVENTS_MAX);
    let events = printer.sender();
    let completer = ShellCompleter { completion_state: completion_state.clone(), runtime: runtime.handle().clone() };
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

fn editor(shell: &Shell, printer: ExternalPrinter<String>, completer: ShellCompleter) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete =
        ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu("completion".to_owned()), ReedlineEvent::MenuNext]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, complete);
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    let menu = ColumnarMenu::default().with_name("completion");
    let mut editor = Reedline::create()
        .with_external_printer(printer)
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
    let prompt = ShellPrompt(prompt(shell));
    let events = events.clone();
    shell.out.set_editor(Some(Box::new(move |text| drop(events.try_send(text))))); // events beyond the limit are dropped
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

/// Compat: programs that drive a shell wait for this prompt.
fn prompt(shell: &Shell) -> String {
    let directory = match shell.directory() {
        "/" => String::new(),
        directory => format!("{directory} "),
    };
    format!("[zk: {}({}) {directory}{}] ", shell.invocation.server, shell.state(), shell.history.next())
}

struct ShellPrompt(String);

impl Prompt for ShellPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
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
