//! No input makes the parser panic.

use ox_config::{SystemProperties, ValueReader};
use proptest::prelude::*;

use crate::harness::{FILE, Harness};

/// Keys of the table, keys with a prefix, and arbitrary text.
fn name() -> impl Strategy<Value = String> {
    let known: Vec<String> = ox_config::keys().map(|key| key.name.replace('*', "1")).collect();
    prop_oneof![
        4 => proptest::sample::select(known.clone()),
        1 => proptest::sample::select(known).prop_map(|name| format!("zookeeper.{name}")),
        1 => "[a-zA-Z.]{0,12}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?[0-9]{1,19}",
        "(0x|#|0)[0-9a-f]{0,9}",
        "true|false|TRUE|yes|no|\\*|srvr, mntr|gz|SHA1|participant|truncate",
        "([a-z]{0,3}|\\[::1\\]|127.0.0.1)(:[0-9]{0,6}){0,4}(;[0-9:]{0,8}){0,2}",
        "\\PC{0,12}",
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = ox_proto::properties::parse(&bytes);
        let mut harness = Harness::default();
        harness.files.insert(FILE.to_owned(), bytes);
        let _ = harness.start();
    }

    #[test]
    fn any_settings_are_accepted_or_refused(
        lines in proptest::collection::vec((name(), value()), 0..12),
        flags in proptest::collection::vec((name(), value()), 0..4),
        my_id in "\\PC{0,3}",
    ) {
        let mut text = "dataDir=/d\n".to_owned();
        lines.iter().for_each(|(name, value)| text += &format!("{name}={value}\n"));
        let mut system = SystemProperties::default();
        flags.into_iter().for_each(|(name, value)| system.set(name, value));
        let harness = Harness { system, ..Harness::with_config(&text).and_file("/d/myid", &my_id) };
        if let Ok(config) = harness.start().result {
            prop_assert!(config.min_session_timeout_ms <= config.max_session_timeout_ms);
            prop_assert!(0 < config.tick_ms);
        }
    }

    #[test]
    fn any_text_of_one_key_is_accepted_or_refused(
        key in proptest::sample::select(ox_config::keys().collect::<Vec<_>>()),
        text in value(),
    ) {
        let takes_all = matches!(key.reader, ValueReader::Bool | ValueReader::Word(_) | ValueReader::Text(_));
        prop_assert!(!takes_all || key.reader.read(&text).is_some());
        let text = format!("dataDir=/d\n{}={text}\n", key.name.replace('*', "1"));
        let _ = Harness::with_config(&text).start();
    }
}
