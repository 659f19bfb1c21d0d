//! From an authenticated name to the id of a connection, and what that id may do.

use super::auth_to_local::AuthToLocal;
use super::{KerberosName, NameError};

/// How the client port shortens authenticated names.
#[derive(Clone, Debug, Default)]
pub struct NameMapping {
    pub rules: AuthToLocal,
    /// `default_realm` of `krb5.conf`; empty without one, as in Apache.
    pub default_realm: String,
    /// Value of `kerberos.removeHostFromPrincipal`, exactly `true`.
    pub remove_host: bool,
    /// Value of `kerberos.removeRealmFromPrincipal`, exactly `true`.
    pub remove_realm: bool,
}

impl NameMapping {
    /// The id that an authenticated client of the client port gets: the short name, to which host and realm are appended
    /// unless the configuration removes them.
    ///
    /// If no rule applies, the id is the authenticated name in full. Apache then uses the id that the client asks for,
    /// which honest clients set to their full name, and others to any name they like; so that id is never used here.
    pub fn client_id(&self, authenticated: &str) -> Result<String, NameError> {
        let name = KerberosName::parse(authenticated)?;
        let Ok(mut id) = self.rules.short_name(&name, &self.default_realm) else { return Ok(name.to_string()) };
        if let Some(host) = name.host.filter(|_| !self.remove_host) {
            id = format!("{id}/{host}");
        }
        if let Some(realm) = name.realm.filter(|_| !self.remove_realm) {
            id = format!("{id}@{realm}");
        }
        Ok(id)
    }
}

/// Whether an id gets the rights of the super user: it equals the value of `superUser` or of a `superUser.<suffix>`.
pub fn is_super_user<'a>(id: &str, super_users: impl IntoIterator<Item = &'a str>) -> bool {
    super_users.into_iter().any(|user| user == id)
}

/// The service principal of a peer: a host part `_HOST` is replaced by the peer's host name in lower case. Compat: only
/// a principal of the form `service/_HOST` is changed, so one that also names a realm is not.
pub fn service_principal(configured: &str, host: &str) -> String {
    match configured.split_once('/') {
        Some((service, "_HOST")) => format!("{service}/{}", host.to_lowercase()),
        _ => configured.to_owned(),
    }
}

/// Whether a Kerberos peer may join the ensemble: it asks for no other id than its own, which has the form
/// `service/host@REALM`, with a host of the configuration. A missing part is a refusal (CVE-2023-44981).
pub fn is_authorized_peer<'a>(
    authentication_id: &str,
    authorization_id: &str,
    hosts: impl IntoIterator<Item = &'a str>,
) -> bool {
    let Ok(KerberosName { service, host: Some(host), realm: Some(realm) }) = KerberosName::parse(authorization_id)
    else {
        return false;
    };
    let is_complete = ![&service, &host, &realm].iter().any(|part| part.is_empty());
    is_complete && authentication_id == authorization_id && hosts.into_iter().any(|known| known == host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_id_has_host_and_realm_unless_removed() {
        let mapping = |remove_host, remove_realm| NameMapping {
            rules: AuthToLocal::default(),
            default_realm: "R".to_owned(),
            remove_host,
            remove_realm,
        };
        for (mapping, name, expected) in [
            (mapping(false, false), "zk/h@R", "zk/h@R"),
            (mapping(true, false), "zk/h@R", "zk@R"),
            (mapping(false, true), "zk/h@R", "zk/h"),
            (mapping(true, true), "zk/h@R", "zk"),
            (mapping(true, true), "bob", "bob"),
            (mapping(true, true), "zk/h@FOREIGN", "zk/h@FOREIGN"),
        ] {
            assert_eq!(mapping.client_id(name).as_deref(), Ok(expected));
        }
        assert!(mapping(false, false).client_id("a@b@c").is_err());
    }

    #[test]
    fn super_users_are_compared_by_equality() {
        assert!(is_super_user("root@R", ["admin", "root@R"]) && !is_super_user("root", ["root@R"]));
    }

    #[test]
    fn host_placeholder_is_replaced_in_two_part_principals() {
        for (configured, expected) in [
            ("zkquorum/_HOST", "zkquorum/zk1.example.com"),
            ("zkquorum/localhost", "zkquorum/localhost"),
            ("zkquorum/_HOST@R", "zkquorum/_HOST@R"),
            ("zkquorum", "zkquorum"),
        ] {
            assert_eq!(service_principal(configured, "ZK1.example.com"), expected);
        }
    }

    #[test]
    fn k154_peer_without_a_configured_host_is_refused() {
        let hosts = ["zk1", "zk2"];
        assert!(is_authorized_peer("zkquorum/zk1@R", "zkquorum/zk1@R", hosts));
        for id in
            ["zkquorum/zk3@R", "zkquorum@R", "zkquorum/zk1", "zkquorum", "", "/zk1@R", "a/zk1@", "a/@R", "a/zk1/b@R"]
        {
            assert!(!is_authorized_peer(id, id, hosts), "{id}");
        }
        assert!(!is_authorized_peer("zkquorum/zk1@R", "zkquorum/zk2@R", hosts));
        assert!(!is_authorized_peer("zkquorum/zk1@R", "zkquorum/zk1@R", [""; 0]));
    }
}
