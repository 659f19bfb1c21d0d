//! Settings of authentication, authorisation and the four-letter words.

use std::collections::BTreeSet;
use std::fmt;

use ox_proto::text;

use crate::diagnostic::Notice;
use crate::providers;
use crate::settings::Settings;

/// Who may do what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Skip all ACL checks.
    pub skip_acl: bool,
    /// The `digest` scheme.
    pub digest_scheme_enabled: bool,
    /// The `key` scheme.
    pub key_scheme_enabled: bool,
    /// `super:` and the digest of the super user's password; `None` is no super user.
    pub super_digest: Option<Hidden>,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

/// Four-letter words that are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FourLetterWords {
    /// Every one.
    All,
    /// These.
    Only(BTreeSet<String>),
}

impl Auth {
    pub(crate) fn from_checked(settings: &Settings, notices: &mut Vec<Notice>) -> Auth {
        let skip_acl = settings.flag("skipACL");
        if skip_acl {
            let text = "zookeeper.skipACL==\"yes\", ACL checks will be skipped";
            notices.push(Notice::info(Some(settings.place_of("skipACL")), text));
        }
        let super_digest = settings.text(SUPER_DIGEST);
        if super_digest.as_deref().is_some_and(|text| !is_digest(text)) {
            let text = "this is no digest, so nobody is the super user; expected a name, a colon, and the SHA-1 of \
                        name:password in base64";
            notices.push(Notice::warn(settings.place_of(SUPER_DIGEST), text));
        }
        Auth {
            skip_acl,
            digest_scheme_enabled: settings.flag("DigestAuthenticationProvider.enabled"),
            key_scheme_enabled: providers::schemes(settings).contains(&"key"),
            super_digest: super_digest.map(Hidden),
        }
    }
}

const SUPER_DIGEST: &str = "DigestAuthenticationProvider.superDigest";

/// Whether a client's name and password can ever become this: 20 bytes have 27 digits in base64, and a filler.
fn is_digest(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let hash = text.split_once(':').and_then(|(_, hash)| hash.strip_suffix('='));
    hash.is_some_and(|hash| hash.len() == 27 && hash.bytes().all(is_digit))
}

impl Hidden {
    /// The text, for comparing; not for logs.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden")
    }
}

impl FourLetterWords {
    /// Whether a word is answered.
    pub fn allow(&self, word: &str) -> bool {
        match self {
            FourLetterWords::All => true,
            FourLetterWords::Only(words) => words.contains(word),
        }
    }

    pub(crate) fn from_checked(settings: &Settings) -> FourLetterWords {
        let list = settings.text("4lw.commands.whitelist").unwrap_or_default();
        let listed = list.split(',').map(text::trim).filter(|word| !word.is_empty());
        let mut words: BTreeSet<String> = listed.map(str::to_owned).collect();
        if words.contains("*") {
            return FourLetterWords::All;
        }
        words.insert("srvr".to_owned());
        // Compat: only the exact word counts here, though `True` turns the mode on (`isro_needs_the_exact_word`).
        if settings.property("readonlymode.enabled").is_some_and(|entry| entry.text == "true") {
            words.insert("isro".to_owned());
        }
        FourLetterWords::Only(words)
    }
}
