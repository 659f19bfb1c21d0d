//! The configuration fields that the server, the AdminServer, the log and the reload of the binary read.

use ox_config::Config;
use std::path::Path;

/// Names of all fields, including those of nested structs.
fn fields(config: &Config) -> Vec<String> {
    let shown = format!("{config:#?}");
    let name = |line: &str| Some(line.trim_start().split_once(": ")?.0.to_owned());
    let is_name = |name: &String| name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    shown.lines().filter_map(name).filter(is_name).collect()
}

fn sources(directory: &Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

/// A setting that the server does not read must not be accepted as supported: there is no field for it.
#[test]
fn every_field_of_the_configuration_is_read() {
    let mut config = Config::default_standalone();
    config.connection_throttle.weights = Some(ox_config::SessionWeights { global: 1, renew: 1, local: 1 });
    let mut text = String::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    sources(&crates.join("ox-server/src"), &mut text);
    sources(&crates.join("ox-admin/src"), &mut text);
    sources(&crates.join("oxkeeper/src/logging"), &mut text);
    sources(&crates.join("oxkeeper/src/commands/server"), &mut text);
    let fields = fields(&config);
    assert!(60 < fields.len(), "{fields:?}");
    for field in fields {
        let read = format!(".{field}");
        let is_read = text.match_indices(&read).any(|(at, _)| {
            let after = text[at + read.len()..].chars().next();
            after.is_some_and(|letter| !letter.is_ascii_alphanumeric() && letter != '_')
        });
        assert!(is_read, "no code reads {field}");
    }
}
