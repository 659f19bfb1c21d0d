//! The configuration as the AdminServer shows it: the file and the system properties, without secrets.

use ox_proto::properties;

use crate::key::{PREFIX, ValueReader};
use crate::keys;
use crate::settings::Settings;

/// What operators may read of the configuration over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedSettings {
    /// The text of the configuration file, where there is one.
    pub file: Option<String>,
    /// The system properties after the file was read, sorted by name.
    pub properties: Vec<(String, String)>,
}

/// Replaces the text of a secret.
const REDACTED: &str = "(hidden)";

/// Words in names of secrets, in lower case.
const SECRET_WORDS: [&str; 5] = ["password", "secret", "token", "credential", "superdigest"];

impl PublishedSettings {
    pub(crate) fn of(settings: &Settings) -> PublishedSettings {
        let properties = settings.properties_under("").map(|(name, entry)| {
            let text = if is_secret(name) { REDACTED } else { &entry.text };
            (name.to_owned(), text.to_owned())
        });
        PublishedSettings { file: settings.file_text().map(redact), properties: properties.collect() }
    }
}

/// Whether the text of a key, or of a system property, must not be shown.
pub(crate) fn is_secret(name: &str) -> bool {
    let bare = name.strip_prefix(PREFIX).unwrap_or(name);
    let is_known_secret = [keys::find(bare), keys::find_property(name)]
        .into_iter()
        .flatten()
        .any(|key| key.family().is_none() && key.reader == ValueReader::Secret);
    let lower = name.to_lowercase();
    let sounds_secret = SECRET_WORDS.iter().any(|word| lower.contains(word)) && !lower.ends_with("path");
    is_known_secret || sounds_secret
}

/// The text of a file with the values of secrets replaced. Lines that continue a secret are left out.
fn redact(text: &str) -> String {
    let pairs = properties::parse_text(text).unwrap_or_default();
    let mut secret_lines = pairs.iter().filter(|pair| is_secret(pair.key.trim())).map(|pair| pair.line).peekable();
    let (mut shown, mut is_in_secret) = (String::with_capacity(text.len()), false);
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let begins = secret_lines.next_if_eq(&number).is_some();
        let key = pairs.iter().find(|pair| begins && pair.line == number).map(|pair| pair.key.trim());
        if let Some(key) = key {
            shown.push_str(&format!("{key}={REDACTED}\n"));
        } else if !is_in_secret {
            shown.push_str(line);
        }
        let backslashes = line.trim_end_matches(['\n', '\r']).bytes().rev().take_while(|byte| *byte == b'\\').count();
        is_in_secret = (begins || is_in_secret) && backslashes % 2 == 1;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_file_are_replaced_with_all_their_lines() {
        let text = "# a comment\nssl.keyStore.password = ab\\\n  cd\\\n ef\nssl.keyStore.passwordPath=/p\r\nclientPort=1\n\
                    DigestAuthenticationProvider.superDigest=super:x";
        let expected = "# a comment\nssl.keyStore.password=(hidden)\nssl.keyStore.passwordPath=/p\r\nclientPort=1\n\
                        DigestAuthenticationProvider.superDigest=(hidden)\n";
        assert_eq!(redact(text), expected);
    }

    #[test]
    fn names_of_secrets_are_recognised() {
        let secret = [
            "zookeeper.ssl.quorum.trustStore.password",
            "javax.net.ssl.keyStorePassword",
            "zookeeper.DigestAuthenticationProvider.superDigest",
            "metricsProvider.ssl.keyStore.password",
            "aws.secretKey",
        ];
        assert!(secret.iter().all(|name| is_secret(name)));
        let public = ["zookeeper.ssl.quorum.keyStore.passwordPath", "zookeeper.admin.serverPort", "user.dir"];
        assert!(!public.iter().any(|name| is_secret(name)));
    }
}
