//! The sasl scheme: ids are names of DIGEST-MD5 users or Kerberos principals, as `service[/host][@REALM]`.

use super::SchemeSettings;

/// Whether an id is well-formed. Compat: text without `@` always is, even if it contains `/`.
pub(super) fn is_valid(id: &str) -> bool {
    let Some((name, realm)) = id.split_once('@') else { return true };
    !realm.contains(['/', '@']) && name.matches('/').count() <= 1
}

/// Compat: the id `super` matches every entry of this scheme, but no entry of another one.
pub(super) fn matches(settings: &SchemeSettings, proven: &str, entry: &str) -> bool {
    proven == "super" || proven == entry || settings.any_sasl_user.as_deref() == Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_ids_are_kerberos_names() {
        for id in ["", "bob", "bob@R", "zk/h@R", "@R", "a/b/c"] {
            assert!(is_valid(id), "{id}");
        }
        for id in ["a@b@c", "a/b/c@d", "a@b/c"] {
            assert!(!is_valid(id), "{id}");
        }
    }

    #[test]
    fn ids_match_by_equality_super_or_any_user() {
        let none = SchemeSettings::default();
        let any = SchemeSettings { any_sasl_user: Some("anyone".to_owned()), ..SchemeSettings::default() };
        assert!(matches(&none, "bob", "bob") && matches(&none, "super", "bob"));
        assert!(!matches(&none, "bob", "alice") && !matches(&none, "bob", "super"));
        assert!(matches(&any, "bob", "anyone") && !matches(&any, "bob", "alice"));
    }
}
