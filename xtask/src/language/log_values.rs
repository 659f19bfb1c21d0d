//! Values in log messages: they belong into fields, where a program that reads the log finds them by name.

/// Beginnings of Apache's sentences, which contain values: operators and their tools search for them.
const SENTENCES_OF_APACHE: &[&str] = &[
    "******* GOODBYE ",
    "Authenticated Id ",
    "Cannot open channel to ",
    "Client authentication scheme(s) ",
    "Client {address} failed to SASL authenticate",
    "Created server with tickTime ",
    "Creating new log file: ",
    "Expiring session ",
    "Follower sid: ",
    "Getting a diff from the leader ",
    "Getting a snapshot from leader ",
    "Have quorum of supporters, ",
    "New election. ",
    "Observing new leader ",
    "Peer state changed: ",
    "PrepRequestProcessor (sid:",
    "Processing {name} command from ",
    "Read-only server ",
    "Reading configuration from: ",
    "Reading snapshot ",
    "Received NEWLEADER-ACK message from ",
    "Sending DIFF ",
    "Sending TRUNC ",
    "Sending snapshot ",
    "Session {session}: adding SASL authorization ",
    "Shutdown called. For the reason ",
    "Snapshot loaded in ",
    "Snapshot taken in ",
    "Snapshotting: ",
    "Starting quorum peer, myid=",
    "Successfully authenticated client: ",
    "Successfully connected to leader, ",
    "Synchronizing with Learner ",
    "The digest in the snapshot ",
    "Too many connections from ",
    "Truncating log to get in sync ",
    "Unable to read additional data from client, ",
    "Using {}ms as the quorum cnxn socket timeout",
    "binding to port ",
    "fsync-ing the write ahead log ",
    "{server} is accepting connections now, ",
    "{upper_name} - LEADER ELECTION TOOK - ",
    "{} txns loaded in ",
];

const LOG_MACROS: [&str; 5] = ["error!(", "warn!(", "info!(", "debug!(", "trace!("];

/// Line number and text of each log message with a value that is neither a cause nor a part of Apache's sentences.
pub(crate) fn messages_with_values(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for start in LOG_MACROS {
        for (at, _) in source.match_indices(start) {
            let is_name_end = |letter: char| letter.is_alphanumeric() || letter == '_';
            if source[..at].chars().next_back().is_some_and(is_name_end) {
                continue;
            }
            let message = message(&source[at + start.len()..]).filter(|message| has_value(message));
            found.extend(message.map(|message| (source[..at].matches('\n').count() + 1, message)));
        }
    }
    found
}

/// The message of a log macro, from the text of its arguments: the first literal that is an argument by itself.
fn message(arguments: &str) -> Option<String> {
    let (mut depth, mut previous) = (0_usize, '(');
    let mut letters = arguments.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                let text = literal(&mut letters);
                if depth == 0 && ['(', ','].contains(&previous) {
                    return Some(text);
                }
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => (),
        }
        if !letter.is_whitespace() {
            previous = letter;
        }
    }
    None
}

/// The rest of a literal. A backslash at the end of a line continues it on the next.
fn literal(letters: &mut std::str::Chars<'_>) -> String {
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                Some('\n') => *letters = letters.as_str().trim_start().chars(),
                Some(escaped) => text.extend(['\\', escaped]),
                None => break,
            },
            letter => text.push(letter),
        }
    }
    text
}

fn has_value(message: &str) -> bool {
    let values = message.replace("{{", "").matches('{').count();
    let causes = message.matches("{reason}").count() + message.matches("{cause}").count();
    let is_composed_elsewhere = values == 1 && message.starts_with('{') && message.ends_with('}');
    let is_apaches = SENTENCES_OF_APACHE.iter().any(|sentence| message.starts_with(sentence));
    causes < values && !is_composed_elsewhere && !is_apaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_belong_into_fields() {
        let found = |source: &str| messages_with_values(source).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
        for good in [
            "info!(%address, \"connection closed\");",
            "tracing::warn!(suppressed, \"connection closed: {reason}\", reason = close_text(x, \"{y}\"));",
            "info!(file = \"{x}\", path = name(\"{x}\"), \"opened\");",
            "info!(\"{line}\");",
            "info!(sid, \"binding to port {address}\");",
            "my_info!(\"{a} of {b}\");",
        ] {
            assert_eq!(found(good), [] as [usize; 0], "{good}");
        }
        for bad in [
            "\n\ninfo!(\"connection to {address} closed\");",
            "\n\ntracing::error!(\n    %error,\n    \"a long \\\n        text with {value}\"\n);",
            "\n\nwarn!(target: \"x\", \"{} of {}\", a, b);",
        ] {
            assert_eq!(found(bad), [3], "{bad}");
        }
    }
}
