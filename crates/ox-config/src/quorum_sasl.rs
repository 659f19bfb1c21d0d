//! SASL between servers: which sections of the JAAS file are used, and who has to authenticate.

use std::path::PathBuf;

use ox_sasl::jaas::modules::{AcceptorLogin, InitiatorLogin};

use crate::diagnostic::Diagnostic;
use crate::error::{Cause, ConfigError};
use crate::sasl::{JAAS_FILE, check_digest_md5, jaas_path, read_jaas};
use crate::settings::Settings;
use crate::start_args::Environment;

/// SASL on the election and quorum ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumSaslConfig {
    /// Refuse servers that connect and do not authenticate (`serverRequireSasl`).
    pub is_required: bool,
    /// Authenticate towards servers that this one connects to (`learnerRequireSasl`).
    pub authenticates: bool,
    /// How servers that connect authenticate.
    pub acceptor: AcceptorLogin,
    /// How this server authenticates.
    pub initiator: InitiatorLogin,
    /// The Kerberos principal of the servers, perhaps with the host `_HOST`.
    pub service_principal: String,
    /// Path of `krb5.conf`; `None` means the default of the system.
    pub krb5_conf: Option<PathBuf>,
    pub jaas_file: Option<PathBuf>,
}

const ENABLED: &str = "quorum.auth.enableSasl";

/// Reads both sections; `None` if SASL between servers is off.
pub(crate) fn read(
    settings: &Settings,
    environment: &Environment<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<QuorumSaslConfig>, ConfigError> {
    if !settings.flag(ENABLED) {
        return Ok(None);
    }
    let names = ["quorum.auth.server.saslLoginContext", "quorum.auth.learner.saslLoginContext"];
    let [server, learner] = names.map(|key| settings.text(key).unwrap_or_default());
    let missing = |section: &str| {
        let place = settings.place_of(ENABLED);
        place.error(Cause::QuorumJaasSectionMissing { section: section.to_owned(), property: JAAS_FILE })
    };
    let file = read_jaas(settings, environment, &server)?.ok_or_else(|| missing(&server))?;
    let place = settings.place_of(JAAS_FILE);
    let section = |name: &str| file.section(name).ok_or_else(|| missing(name));
    let unusable = |error: ox_sasl::jaas::JaasError| place.error(Cause::Jaas(error.to_string()));
    let acceptor = section(&server)?.acceptor_login().map_err(unusable)?;
    let initiator = section(&learner)?.initiator_login().map_err(unusable)?;
    if matches!(acceptor, AcceptorLogin::DigestMd5(_)) || matches!(initiator, InitiatorLogin::DigestMd5(_)) {
        check_digest_md5(settings, diagnostics)?;
    }
    Ok(Some(QuorumSaslConfig {
        is_required: settings.flag("quorum.auth.serverRequireSasl"),
        authenticates: settings.flag("quorum.auth.learnerRequireSasl"),
        acceptor,
        initiator,
        service_principal: settings.text("quorum.auth.kerberos.servicePrincipal").unwrap_or_default(),
        krb5_conf: settings.text("java.security.krb5.conf").map(PathBuf::from),
        jaas_file: jaas_path(settings),
    }))
}
