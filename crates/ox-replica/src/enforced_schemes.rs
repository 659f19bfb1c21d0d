//! Enforced authentication: which schemes a connection must have an identity of before it may send requests.

use ox_tree::auth::Identities;

/// Schemes that can be enforced. No connection has an identity of `ensemble`, so enforcing it alone admits none.
const NAMES: [&str; 6] = ["ip", "digest", "key", "sasl", "x509", "ensemble"];

/// A set of schemes, one of which is required; the empty set requires none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnforcedSchemes(u8);

impl EnforcedSchemes {
    pub const NONE: Self = Self(0);

    /// `None` if a scheme is unknown.
    pub fn of<'a>(schemes: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let bits = schemes.into_iter().map(|scheme| Some(1_u8 << NAMES.iter().position(|name| *name == scheme)?));
        bits.collect::<Option<Vec<u8>>>().map(|bits| Self(bits.into_iter().fold(0, |all, bit| all | bit)))
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        (0..).zip(NAMES).filter_map(move |(bit, name)| (self.0 >> bit & 1 == 1).then_some(name))
    }

    pub(crate) fn requires_sasl(self) -> bool {
        self.names().any(|name| name == "sasl")
    }

    pub(crate) fn admit(self, ids: &Identities) -> bool {
        self.0 == 0 || self.names().any(|name| ids.has_scheme(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_tree::auth::Identity;

    #[test]
    fn one_of_the_enforced_schemes_is_enough() {
        let mut ids = Identities::of_address("127.0.0.1".parse().unwrap());
        let enforced = EnforcedSchemes::of(["digest", "sasl"]).unwrap();
        assert!(enforced.requires_sasl() && !enforced.admit(&ids));
        assert!(EnforcedSchemes::NONE.admit(&ids) && EnforcedSchemes::of(["ip"]).unwrap().admit(&ids));
        ids.add(vec![Identity { scheme: "super".into(), id: String::new() }]);
        assert!(!enforced.admit(&ids), "super is no scheme");
        ids.add(vec![Identity { scheme: "digest".into(), id: "a:b".to_owned() }]);
        assert!(enforced.admit(&ids));
        assert_eq!(enforced.names().collect::<Vec<_>>(), ["digest", "sasl"]);
        assert_eq!(EnforcedSchemes::of(["digest", "world"]), None);
    }
}
