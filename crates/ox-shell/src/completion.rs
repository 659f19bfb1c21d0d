//! What Tab offers: commands, their options, and nodes.

use crate::commands::{self, COMMANDS};
use crate::{paths, tokenize};
use ox_client::Client;
use parking_lot::Mutex;
use reedline::{Completer, CompletionResult, Span, Suggestion};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// How long the user waits for the names of nodes.
const PATIENCE: Duration = Duration::from_secs(2);
/// More are of no use to anybody.
const OFFERED_MAX: usize = 1000;

/// What completion knows about the shell; it changes between two lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    client: Option<Client>,
    directory: String,
}

impl Knowledge {
    pub(crate) fn learn(&self, client: Option<Client>, directory: &str) {
        *self.0.lock() = Inner { client, directory: directory.to_owned() };
    }
}

/// Completes a line.
pub(crate) struct ShellCompleter {
    pub(crate) knowledge: Knowledge,
    pub(crate) runtime: Handle,
}

/// Something to offer for the word at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Offer {
    text: String,
    about: Option<&'static str>,
    /// Whether the word is whole; a node's name may go on.
    is_whole: bool,
}

impl Completer for ShellCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let before = line.get(..pos).unwrap_or(line);
        let start = tokenize::last(before);
        let word = &before[start..];
        let offers = match kind(&before[..start], word) {
            Wanted::Fixed(offers) => offers,
            Wanted::Node => self.nodes(word),
            Wanted::Nothing => Vec::new(),
        };
        let suggestions: Vec<_> = offers
            .into_iter()
            .take(OFFERED_MAX)
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
    /// Nodes whose path begins with what was typed.
    fn nodes(&self, word: &str) -> Vec<Offer> {
        let (client, directory) = {
            let inner = self.knowledge.0.lock();
            (inner.client.clone(), inner.directory.clone())
        };
        let Some(client) = client else { return Vec::new() };
        // An open quote holds blanks, and whatever is offered closes it.
        let word = word.strip_prefix(['"', '\'']).unwrap_or(word);
        let (above, begun) = word.rsplit_once('/').map_or(("", word), |(above, begun)| (above, begun));
        let typed = &word[..word.len() - begun.len()];
        let parent = match typed {
            "" => directory,
            "/" => "/".to_owned(),
            _ => paths::resolve(&directory, above),
        };
        let asked = async { tokio::time::timeout(PATIENCE, client.children(&parent)).await };
        let Ok(Ok(mut names)) = self.runtime.block_on(asked) else { return Vec::new() };
        names.retain(|name| name.starts_with(begun));
        names.sort_unstable();
        let offer = |name: &String| {
            let text = tokenize::quote(&format!("{typed}{name}"))?;
            Some(Offer { text, about: None, is_whole: false })
        };
        names.iter().filter_map(offer).collect()
    }
}

/// What stands at the cursor.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Fixed(Vec<Offer>),
    Node,
    Nothing,
}

/// What stands behind some words.
fn kind(before: &str, word: &str) -> Wanted {
    let before = tokenize::split(before);
    let names = || {
        let found = COMMANDS.iter().filter(|command| command.name.starts_with(word));
        let offer = |command: &commands::Command| Offer {
            text: command.name.to_owned(),
            about: Some(command.help),
            is_whole: true,
        };
        Wanted::Fixed(found.map(offer).collect())
    };
    let Some((name, rest)) = before.split_first() else { return names() };
    if name == "help" {
        return names();
    }
    let Some(command) = commands::find(name) else { return Wanted::Nothing };
    if word.starts_with('-') {
        let found = command.options.iter().filter(|opt| opt.name.starts_with(word));
        let offer =
            |opt: &crate::options::Opt| Offer { text: opt.name.to_owned(), about: Some(opt.help), is_whole: true };
        return Wanted::Fixed(found.map(offer).collect());
    }
    // Options do not count as operands, nor do their values.
    let takes_value = |word: &String| command.options.iter().any(|opt| opt.name == word && opt.value.is_some());
    if rest.last().is_some_and(takes_value) {
        return Wanted::Nothing;
    }
    let values = rest.iter().filter(|word| takes_value(word)).count();
    let options = rest.iter().filter(|word| word.starts_with('-')).count();
    let at = rest.len().saturating_sub(values + options);
    if command.paths.contains(&at) { Wanted::Node } else { Wanted::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(before: &str, word: &str) -> Vec<String> {
        match kind(before, word) {
            Wanted::Fixed(offers) => offers.into_iter().map(|offer| offer.text).collect(),
            Wanted::Node => vec!["node".to_owned()],
            Wanted::Nothing => Vec::new(),
        }
    }

    #[test]
    fn commands_options_and_nodes() {
        assert_eq!(offered("", "setA"), ["setAcl"]);
        assert_eq!(offered("help ", "setq"), ["setquota"]);
        assert_eq!(offered("ls ", "-"), ["-?", "-R", "-s", "-w", "--json"]);
        assert_eq!(offered("ls -R ", "/a"), ["node"]);
        assert_eq!(offered("set -v 5 ", "/a"), ["node"]);
        assert_eq!(offered("set -v ", "5"), [] as [&str; 0], "a value");
        assert_eq!(offered("set /a ", "x"), [] as [&str; 0], "data");
        assert_eq!(offered("nonsense ", "x"), [] as [&str; 0]);
    }
}
