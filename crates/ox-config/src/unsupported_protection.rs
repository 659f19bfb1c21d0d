//! Refuses settings that enable a security feature that is not implemented yet.

use crate::auth::DigestHashSetting;
use crate::error::{Cause, ErrorCollector, Place};
use crate::key::{Key, Status};
use crate::keys;
use crate::providers;
use crate::settings::Settings;

/// Refuses each setting that requires unsupported protection.
pub(crate) fn check(settings: &Settings, errors: &mut ErrorCollector) {
    for key in keys::keys() {
        let Status::Refused(feature) = key.status else {
            continue;
        };
        for place in places_set(settings, key) {
            errors.add(place.error(Cause::ProtectionNotBuilt { feature }));
        }
    }
    for (entry, provider) in providers::configured(settings) {
        let Some(provider) = provider else {
            errors.add(entry.place.error(Cause::ForeignAuthProvider(entry.text.clone())));
            continue;
        };
        if let Some(feature) = provider.missing {
            errors.add(entry.place.error(Cause::ProtectionNotBuilt { feature }));
        }
    }
    errors.check(DigestHashSetting::read(settings));
}

/// Where a key, or a member of its family, is set to something other than its default.
pub(crate) fn places_set<'s>(settings: &'s Settings, key: &'static Key) -> Vec<&'s Place> {
    let differs = |text: &str| !text.is_empty() && key.reader.read(text) != key.reader.read(key.default);
    let Some(prefix) = key.family() else {
        let effective_entry = settings.effective_entry(key).filter(|entry| differs(&entry.text));
        return effective_entry.map(|entry| &entry.place).into_iter().collect();
    };
    let is_own = |name: &str| keys::find(name).is_some_and(|found| found.name == key.name);
    if key.is_passed() {
        let prefixed = key.property().unwrap_or_default();
        let prefixed = prefixed.trim_end_matches('*').to_owned();
        let found = settings.properties_under(&prefixed).filter(|(name, entry)| {
            let bare = &name[prefixed.len() - prefix.len()..];
            is_own(bare) && differs(&entry.text)
        });
        return found.map(|(_, entry)| &entry.place).collect();
    }
    let lines = settings.lines().into_iter().filter(|(name, entry)| is_own(name) && differs(&entry.text));
    lines.map(|(_, entry)| &entry.place).collect()
}
