//! Settings for authentication, authorisation and four-letter commands.

use std::collections::BTreeSet;
use std::fmt;

use ox_proto::text;

use crate::diagnostic::Diagnostic;
use crate::error::{Cause, ConfigError};
use crate::providers;
use crate::settings::Settings;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    pub skip_acl: bool,
    /// Whether the `digest` scheme is available.
    pub digest_scheme_enabled: bool,
    pub digest_hash: DigestHashSetting,
    /// Whether the `key` scheme is available.
    pub key_scheme_enabled: bool,
    /// Whether ACLs may use the `sasl` scheme. SASL logins work without it.
    pub sasl_scheme_enabled: bool,
    /// Whether the `ensemble` scheme is available.
    pub ensemble_scheme_enabled: bool,
    /// Names of this ensemble; `None` accepts every name.
    pub ensemble_names: Option<Vec<String>>,
    /// Schemes, one of which every client must have authenticated with; empty if none is enforced.
    pub enforced_schemes: Vec<String>,
    /// Whether the `x509` scheme is available.
    pub x509_scheme_enabled: bool,
    /// `super:` and the digest of the super user's password; `None` means no super user.
    pub super_digest: Option<Secret>,
}

/// The hash of passwords in the `digest` scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestHashSetting {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
    Sha3_256,
    Sha3_512,
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
        let digest_hash = DigestHashSetting::read(settings).unwrap_or(DigestHashSetting::Sha1);
        if super_digest.as_deref().is_some_and(|text| !digest_hash.is_digest(text)) {
            let text = format!(
                "not a digest, so there is no super user; expected a name, a colon, and the {} of name:password in \
                 base64",
                digest_hash.name()
            );
            diagnostics.push(Diagnostic::warn(settings.place_of(SUPER_DIGEST), text));
        }
        let schemes = providers::schemes(settings);
        Auth {
            skip_acl,
            digest_scheme_enabled: settings.flag("DigestAuthenticationProvider.enabled"),
            digest_hash,
            key_scheme_enabled: schemes.contains(&"key"),
            sasl_scheme_enabled: schemes.contains(&"sasl"),
            ensemble_scheme_enabled: schemes.contains(&"ensemble"),
            ensemble_names: settings.text("ensembleAuthName").map(|names| listed(&names)),
            enforced_schemes: enforced_schemes(settings),
            x509_scheme_enabled: schemes.contains(&"x509"),
            super_digest: super_digest.map(Secret),
        }
    }
}

const SUPER_DIGEST: &str = "DigestAuthenticationProvider.superDigest";

/// The parts of a comma list, without blanks around them.
fn listed(text: &str) -> Vec<String> {
    text.split(',').map(|part| text::trim(part).to_owned()).collect()
}

/// The schemes that are enforced. Checked before: they are available.
fn enforced_schemes(settings: &Settings) -> Vec<String> {
    if settings.flag("sessionRequireClientSASLAuth") {
        return vec!["sasl".to_owned()];
    }
    let list = settings.text("enforce.auth.schemes").filter(|_| settings.flag("enforce.auth.enabled"));
    list.map(|list| listed(&list)).unwrap_or_default()
}

impl DigestHashSetting {
    /// Java's names, and the bytes of the hash.
    const NAMES: [(&'static str, Self, usize); 8] = [
        ("SHA1", Self::Sha1, 20),
        ("SHA-1", Self::Sha1, 20),
        ("SHA", Self::Sha1, 20),
        ("SHA-256", Self::Sha256, 32),
        ("SHA-384", Self::Sha384, 48),
        ("SHA-512", Self::Sha512, 64),
        ("SHA3-256", Self::Sha3_256, 32),
        ("SHA3-512", Self::Sha3_512, 64),
    ];
    const KEY: &'static str = "DigestAuthenticationProvider.digestAlg";

    /// The configured hash. With one that the server does not have, no client could authenticate.
    pub(crate) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let text = settings.text(Self::KEY).unwrap_or_default();
        let found = Self::NAMES.iter().find(|(name, ..)| text.eq_ignore_ascii_case(name));
        found.map(|(_, hash, _)| *hash).ok_or_else(|| {
            let expected = "SHA1, SHA-256, SHA-384, SHA-512, SHA3-256 or SHA3-512".to_owned();
            settings.place_of(Self::KEY).error(Cause::BadValue { key: Self::KEY, text, expected })
        })
    }

    fn row(self) -> &'static (&'static str, Self, usize) {
        Self::NAMES.iter().find(|(_, hash, _)| *hash == self).expect("every hash has a row")
    }

    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Whether a client's name and password can ever hash to this.
    fn is_digest(self, text: &str) -> bool {
        let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
        let digits = (self.row().2 * 8).div_ceil(6);
        text.split_once(':').is_some_and(|(_, hash)| {
            let bare = hash.trim_end_matches('=');
            bare.len() == digits && hash.len().is_multiple_of(4) && bare.bytes().all(is_digit)
        })
    }
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
