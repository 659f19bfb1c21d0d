//! Hints for command lines that a user of another program, or of another command, would try.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words that mean `oxkeeper server` elsewhere.
const SERVER_WORDS: &[&str] = &["start", "start-foreground", "run", "serve", "daemon", "standalone", "zkServer.sh"];
/// Words that mean `oxkeeper cli` elsewhere.
const CLI_WORDS: &[&str] = &["shell", "client", "console", "connect", "zkcli", "zkCli", "zkCli.sh"];
/// Options that other servers have for their port.
const PORT_OPTIONS: &[&str] = &["--port", "-p", "--client-port", "--clientPort"];

/// The data directory of a server that is started without arguments.
pub(crate) const DEFAULT_DATA: &str = "./oxkeeper-data";

/// The command that starts a server on another port.
pub(crate) fn server_on(port: u16, directory: &str) -> String {
    format!("oxkeeper server {port} {directory}")
}

/// Replaces a misleading suggestion of the parser by a better one, which is returned.
pub(crate) fn improve(error: &mut clap::Error, words: &[String]) -> Option<String> {
    // No user who mistypes an option wants to pass it as a file.
    if let Some(ContextValue::StyledStrs(tips)) = error.get(ContextKind::Suggested)
        && tips.iter().any(|tip| tip.to_string().starts_with("to pass "))
    {
        error.remove(ContextKind::Suggested);
    }
    let hint = hint(error, words)?;
    error.remove(ContextKind::SuggestedSubcommand);
    error.remove(ContextKind::Suggested);
    Some(hint)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the parser explains all other errors")]
fn hint(error: &clap::Error, words: &[String]) -> Option<String> {
    let command = words.first().map(String::as_str);
    let wrong = wrong_word(error)?;
    match error.kind() {
        ErrorKind::UnknownArgument if command == Some("server") && PORT_OPTIONS.contains(&wrong) => {
            let port = words.iter().find_map(|word| word.split('=').next_back()?.parse().ok()).unwrap_or(2182);
            Some(format!("a port is given with the data directory: {}", server_on(port, DEFAULT_DATA)))
        }
        ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument if command == Some("bench") && is_server(wrong) => {
            Some(format!("name the server by an option: oxkeeper bench -s {wrong}"))
        }
        ErrorKind::InvalidSubcommand if command == Some(wrong) => match wrong {
            _ if SERVER_WORDS.contains(&wrong) => Some("`oxkeeper server` runs a server".to_owned()),
            _ if CLI_WORDS.contains(&wrong) => Some("`oxkeeper cli` opens a shell".to_owned()),
            _ if ox_shell::commands::find(wrong).is_some() => {
                Some(format!("`oxkeeper cli {}` runs a command of the shell", words.join(" ")))
            }
            _ if wrong.ends_with(".cfg") => Some(format!("`oxkeeper server {wrong}` runs a server")),
            _ if is_server(wrong) => Some(format!("`oxkeeper cli -s {wrong}` opens a shell")),
            _ => None,
        },
        _ => None,
    }
}

/// The word that the parser does not know.
fn wrong_word(error: &clap::Error) -> Option<&str> {
    let words = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg];
    words.into_iter().find_map(|kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    })
}

/// Whether a word is `host:port`.
fn is_server(word: &str) -> bool {
    word.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn hint_for(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let all = std::iter::once("oxkeeper".to_owned()).chain(words.iter().cloned());
        let mut error = crate::Cli::try_parse_from(all).unwrap_err();
        let hint = improve(&mut error, &words);
        assert!(hint.is_none() || !error.to_string().contains("tip:"), "{line}: {error}");
        assert!(!error.to_string().contains("as a value"), "{line}: {error}");
        hint
    }

    #[test]
    fn words_of_other_programs_get_a_hint() {
        for (line, expected) in [
            ("start", Some("`oxkeeper server` runs a server")),
            ("shell", Some("`oxkeeper cli` opens a shell")),
            ("ls /", Some("`oxkeeper cli ls /` runs a command of the shell")),
            ("zoo.cfg", Some("`oxkeeper server zoo.cfg` runs a server")),
            ("localhost:2182", Some("`oxkeeper cli -s localhost:2182` opens a shell")),
            ("bench :2182", Some("name the server by an option: oxkeeper bench -s :2182")),
            (
                "server --port 2190",
                Some("a port is given with the data directory: oxkeeper server 2190 ./oxkeeper-data"),
            ),
            (
                "server --port=2190",
                Some("a port is given with the data directory: oxkeeper server 2190 ./oxkeeper-data"),
            ),
            ("stauts", None),
            ("server --prot 1", None),
            ("server --data-dir x", None),
        ] {
            assert_eq!(hint_for(line).as_deref(), expected, "{line}");
        }
    }
}
