//! Confirmation prompts on the terminal.

use crate::output::Output;
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal;

/// Asks a yes/no question. Everything but yes, including Ctrl-C, means no.
pub(crate) fn confirm(out: &Output, question: &str) -> bool {
    let answer = match terminal::enable_raw_mode() {
        Ok(()) => {
            out.write_raw(&format!("{question} [y/N] ")); // after the switch to raw mode, which reads the keys
            let answer = read(out);
            let _ = terminal::disable_raw_mode(); // restores the terminal
            answer
        }
        Err(_) => None, // no terminal to ask on
    };
    out.write_raw("\n");
    matches!(answer.as_deref(), Some("y" | "Y" | "yes" | "Yes" | "YES"))
}

/// Reads keys until the end of the line; `None` if the user cancels.
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
                out.write_raw(&letter.to_string());
            }
            KeyCode::Backspace if answer.pop().is_some() => out.write_raw("\x08 \x08"),
            _ => (),
        }
    }
}
