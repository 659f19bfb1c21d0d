//! A question to somebody at the terminal.

use crate::output::Output;
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal;

/// Whether the answer is yes. Whatever else is typed, Ctrl-C among it, is no.
pub(crate) fn ask(out: &Output, question: &str) -> bool {
    let answer = match terminal::enable_raw_mode() {
        Ok(()) => {
            out.ask(&format!("{question} [y/N] ")); // behind the switch: what is typed now is read here
            let answer = read(out);
            let _ = terminal::disable_raw_mode(); // what was possible before is so again
            answer
        }
        Err(_) => None, // no terminal, so nobody to ask
    };
    out.ask("\n");
    matches!(answer.as_deref(), Some("y" | "Y" | "yes" | "Yes" | "YES"))
}

/// What is typed until the line ends; `None` when it is taken back.
#[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing here")]
fn read(out: &Output) -> Option<String> {
    let mut answer = String::new();
    loop {
        let Event::Key(key) = event::read().ok()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match key.code {
            KeyCode::Enter => return Some(answer),
            KeyCode::Char('j') if key.modifiers == KeyModifiers::CONTROL => return Some(answer), // a line feed
            KeyCode::Esc => return None,
            KeyCode::Char(_) if key.modifiers.contains(KeyModifiers::CONTROL) => return None,
            KeyCode::Char(letter) => {
                answer.push(letter);
                out.ask(&letter.to_string());
            }
            KeyCode::Backspace if answer.pop().is_some() => out.ask("\x08 \x08"),
            _ => (),
        }
    }
}
