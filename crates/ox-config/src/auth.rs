//! Settings for authentication, authorisation and four-letter commands.

use std::collections::BTreeSet;
use std::fmt;

use ox_proto::text;

use crate::diagnostic::Diagnostic;
use crate::providers;
use crate::settings::Settings;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    pub skip_acl: bool,
    /// Whether the `digest` scheme is available.
    pub digest_scheme_enabled: bool,
    /// Whether the `key` scheme is available.
    pub key_scheme_enabled: bool,
    /// Whether the `x509` scheme is available.
    pub x509_scheme_enabled: bool,
    /// `super:` and the digest of the super user's password; `None` means no super user.
    pub super_digest: Option<Secret>,
}

/// Text that `Debug` does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Four-letter commands that the server executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FourLetterWhitelist {
    All,
    Only(BTreeSet<String>),
}

impl Auth {
    pub(crate) fn from_checked(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> Auth {
        let skip_acl = settings.flag("skipACL");
        if skip_acl {
            let text = "zookeeper.skipACL==\"yes\", ACL checks will be skipped";
            diagnostics.push(Diagnostic::info(Some(settings.place_of("skipACL")), text));
        }
        let super_digest = settings.text(SUPER_DIGEST);
        if super_digest.as_deref().is_some_and(|text| !is_digest(text)) {
            let text = "not a digest, so there is no super user; expected a name, a colon, and the SHA-1 of \
                        name:password in base64";
            diagnostics.push(Diagnostic::warn(settings.place_of(SUPER_DIGEST), text));
        }
        Auth {
            skip_acl,
            digest_scheme_enabled: settings.flag("DigestAuthenticationProvider.enabled"),
            key_scheme_enabled: providers::schemes(settings).contains(&"key"),
            x509_scheme_enabled: providers::schemes(settings).contains(&"x509"),
            super_digest: super_digest.map(Secret),
        }
    }
}

const SUPER_DIGEST: &str = "DigestAuthenticationProvider.superDigest";

/// Whether a client's name and password can ever hash to this: SHA-1 gives 27 base64 digits and one padding character.
fn is_digest(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let hash = text.split_once(':').and_then(|(_, hash)| hash.strip_suffix('='));
    hash.is_some_and(|hash| hash.len() == 27 && hash.bytes().all(is_digit))
}

impl Secret {
    pub(crate) fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The text, for comparison only; never log it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl FourLetterWhitelist {
    /// Whether the server executes this command.
    pub fn allow(&self, word: &str) -> bool {
        match self {
            FourLetterWhitelist::All => true,
            FourLetterWhitelist::Only(words) => words.contains(word),
        }
    }

    pub(crate) fn from_checked(settings: &Settings) -> FourLetterWhitelist {
        let list = settings.text("4lw.commands.whitelist").unwrap_or_default();
        let listed = list.split(',').map(text::trim).filter(|word| !word.is_empty());
        let mut words: BTreeSet<String> = listed.map(str::to_owned).collect();
        if words.contains("*") {
            return FourLetterWhitelist::All;
        }
        words.insert("srvr".to_owned());
        // Compat: only exactly `true` adds isro, although `True` also enables the mode (`isro_requires_exactly_true`).
        if settings.property("readonlymode.enabled").is_some_and(|entry| entry.text == "true") {
            words.insert("isro".to_owned());
        }
        FourLetterWhitelist::Only(words)
    }
}
