//! Tab completion of commands, options and node paths.

use crate::commands;
use crate::output::Output;
use crate::{paths, tokenize};
use ox_client::Client;
use parking_lot::Mutex;
use reedline::{Completer, CompletionResult, Span, Suggestion};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Time limit for reading the names of nodes.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Upper bound of candidates shown.
const CANDIDATES_MAX: usize = 1000;

/// Session and current node for completion; updated before each line.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompletionState(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    client: Option<Client>,
    directory: String,
    /// Whether this line has shown why nothing is completed.
    has_explained: bool,
}

impl CompletionState {
    pub(crate) fn update(&self, client: Option<Client>, directory: &str) {
        *self.0.lock() = Inner { client, directory: directory.to_owned(), has_explained: false };
    }
}

/// The completer of the line editor.
pub(crate) struct ShellCompleter {
    pub(crate) completion_state: CompletionState,
    pub(crate) runtime: Handle,
    /// Shows why nothing is completed.
    pub(crate) out: Output,
}

/// A candidate for the word at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    text: String,
    about: Option<&'static str>,
    /// Whether the word is complete; a node path may continue.
    is_whole: bool,
}

impl Completer for ShellCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let before = line.get(..pos).unwrap_or(line);
        let start = tokenize::last(before);
        let word = &before[start..];
        let offers = match kind(&before[..start], word) {
            Expected::Fixed(offers) => offers,
            Expected::Node if !self.is_connected() => {
                self.explain();
                return CompletionResult::Pending; // an empty list would say that no node matches
            }
            Expected::Node => self.nodes(word),
            Expected::Nothing => Vec::new(),
        };
        let suggestions: Vec<_> = offers
            .into_iter()
            .take(CANDIDATES_MAX)
            .map(|offer| Suggestion {
                value: offer.text,
                description: offer.about.map(str::to_owned),
                span: Span::new(start, pos.max(start)),
                append_whitespace: offer.is_whole,
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(suggestions)
    }
}

impl ShellCompleter {
    fn is_connected(&self) -> bool {
        self.completion_state.0.lock().client.as_ref().is_some_and(|client| client.state().is_connected())
    }

    /// Shows once per line why no node is completed.
    fn explain(&self) {
        if !std::mem::replace(&mut self.completion_state.0.lock().has_explained, true) {
            self.out.event("not connected: nodes cannot be completed\n");
        }
    }

    /// Nodes whose path starts with the typed text.
    fn nodes(&self, word: &str) -> Vec<Candidate> {
        let (client, directory) = {
            let inner = self.completion_state.0.lock();
            (inner.client.clone(), inner.directory.clone())
        };
        let Some(client) = client else { return Vec::new() };
        // An open quote may contain blanks; the candidate closes it.
        let word = word.strip_prefix(['"', '\'']).unwrap_or(word);
        let (above, started) = word.rsplit_once('/').map_or(("", word), |(above, started)| (above, started));
        let typed = &word[..word.len() - started.len()];
        let parent = match typed {
            "" => directory,
            "/" => "/".to_owned(),
            _ => paths::resolve(&directory, above),
        };
        let requested = async { tokio::time::timeout(TIMEOUT, client.children(&parent)).await };
        let Ok(Ok(mut names)) = self.runtime.block_on(requested) else { return Vec::new() };
        names.retain(|name| name.starts_with(started));
        names.sort_unstable();
        let offer = |name: &String| {
            let text = tokenize::quote(&format!("{typed}{name}"))?;
            Some(Candidate { text, about: None, is_whole: false })
        };
        names.iter().filter_map(offer).collect()
    }
}

/// The kind of word expected at the cursor.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    Fixed(Vec<Candidate>),
    Node,
    Nothing,
}

/// Determines the kind of word from the words before it.
fn kind(before: &str, word: &str) -> Expected {
    let before = tokenize::split(before);
    let names = || {
        let found = commands::names().filter(|name| name.starts_with(word));
        let offer = |name: &'static str| Candidate {
            text: name.to_owned(),
            about: commands::find(name).map(|command| command.help),
            is_whole: true,
        };
        Expected::Fixed(found.map(offer).collect())
    };
    let Some((name, rest)) = before.split_first() else { return names() };
    if name == "help" {
        return names();
    }
    let Some(command) = commands::find(name) else { return Expected::Nothing };
    if word.starts_with('-') {
        let found = command.options.iter().filter(|opt| opt.name.starts_with(word));
        let offer =
            |opt: &crate::options::Opt| Candidate { text: opt.name.to_owned(), about: Some(opt.help), is_whole: true };
        return Expected::Fixed(found.map(offer).collect());
    }
    // Options and their values do not count as operands.
    let takes_value = |word: &String| command.options.iter().any(|opt| opt.name == word && opt.value.is_some());
    if rest.last().is_some_and(takes_value) {
        return Expected::Nothing;
    }
    let values = rest.iter().filter(|word| takes_value(word)).count();
    let options = rest.iter().filter(|word| word.starts_with('-')).count();
    let at = rest.len().saturating_sub(values + options);
    if command.paths.contains(&at) { Expected::Node } else { Expected::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(before: &str, word: &str) -> Vec<String> {
        match kind(before, word) {
            Expected::Fixed(offers) => offers.into_iter().map(|offer| offer.text).collect(),
            Expected::Node => vec!["node".to_owned()],
            Expected::Nothing => Vec::new(),
        }
    }

    #[test]
    fn completion_offers_commands_options_and_nodes() {
        assert_eq!(candidates("", "setA"), ["setAcl"]);
        assert_eq!(candidates("help ", "setq"), ["setquota"]);
        assert_eq!(candidates("ls ", "-"), ["-?", "-l", "-R", "-s", "-w", "--json"]);
        assert_eq!(candidates("", "rm"), ["rm", "rmr"]);
        assert_eq!(candidates("ls -R ", "/a"), ["node"]);
        assert_eq!(candidates("set -v 5 ", "/a"), ["node"]);
        assert_eq!(candidates("set -v ", "5"), [] as [&str; 0], "a value");
        assert_eq!(candidates("set /a ", "x"), [] as [&str; 0], "data");
        assert_eq!(candidates("nonsense ", "x"), [] as [&str; 0]);
    }
}
