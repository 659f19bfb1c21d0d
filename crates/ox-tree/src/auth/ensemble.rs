//! The ensemble scheme: a client names the ensemble that it expects, and gives no identity.

use super::{AuthOutcome, EnsembleName};
use crate::State;

pub(super) fn authenticate(state: &State, auth: Option<&[u8]>) -> AuthOutcome {
    let names = state.options().schemes.ensemble_names.as_ref();
    AuthOutcome::Ensemble(match (auth.unwrap_or_default(), names) {
        ([], _) | (_, None) => EnsembleName::Unnamed,
        (name, Some(names)) if names.iter().any(|known| known.as_bytes() == name) => EnsembleName::Matches,
        (_, Some(_)) => EnsembleName::Differs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TreeOptions;
    use crate::auth::SchemeSettings;

    #[test]
    fn ensemble_names_are_compared_where_both_sides_have_one() {
        let state = |names: Option<&[&str]>| {
            let ensemble_names = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            let schemes = SchemeSettings { ensemble: true, ensemble_names, ..SchemeSettings::default() };
            State::new(TreeOptions { schemes, ..TreeOptions::default() })
        };
        let named = state(Some(&["a", "b"]));
        for (state, auth, expected) in [
            (&named, Some(&b"b"[..]), EnsembleName::Matches),
            (&named, Some(b"c"), EnsembleName::Differs),
            (&named, Some(b""), EnsembleName::Unnamed),
            (&named, None, EnsembleName::Unnamed),
            (&state(None), Some(b"c"), EnsembleName::Unnamed),
        ] {
            assert_eq!(authenticate(state, auth), AuthOutcome::Ensemble(expected));
        }
    }
}
