//! Reload of changed files.

use crate::harness::{EXPIRED, Fixture, VALID, client, connect, localhost};
use ox_tls::{ClientTls, PeerTls, ReloadOutcome, Reloader, ServerTls, SettingsGroup};

#[test]
fn changed_key_store_is_used_and_bad_one_is_reported_once() {
    let fixture = Fixture::new();
    let settings = fixture.settings(SettingsGroup::Client, "localhost");
    let endpoint = client(&settings).unwrap().endpoint(localhost());
    let mut reloader = Reloader::new(settings, ServerTls::build).unwrap();
    let first = reloader.current().certificates()[0].serial.clone();
    assert_eq!(reloader.poll().unwrap(), ReloadOutcome::Unchanged);

    fixture.write("localhost.pem", "-----BEGIN PRIVATE KEY-----\n");
    let error = reloader.poll().unwrap_err().to_string();
    assert!(error.contains("localhost.pem") && error.contains("a PEM section has no end"), "{error}");
    assert_eq!(reloader.poll().unwrap(), ReloadOutcome::Unchanged);
    assert_eq!(reloader.current().certificates()[0].serial, first);
    assert!(connect(&endpoint, reloader.current()).is_ok());

    fixture.write("localhost.pem", &fixture.issue("localhost", VALID).key_store());
    assert_eq!(reloader.poll().unwrap(), ReloadOutcome::Replaced);
    assert_ne!(reloader.current().certificates()[0].serial, first);
    assert!(connect(&endpoint, reloader.current()).is_ok());

    std::fs::remove_file(fixture.directory.path().join("localhost.pem")).unwrap();
    assert!(reloader.poll().unwrap_err().to_string().contains("cannot be read"));
    assert_eq!(reloader.poll().unwrap(), ReloadOutcome::Unchanged);
}

#[cfg(unix)]
#[test]
fn swapped_symbolic_link_is_noticed() {
    use std::os::unix::fs::symlink;
    let fixture = Fixture::new();
    let root = fixture.directory.path();
    for (version, validity) in [("v1", VALID), ("v2", EXPIRED)] {
        std::fs::create_dir(root.join(version)).unwrap();
        fixture.write(&format!("{version}/tls.pem"), &fixture.issue("localhost", validity).key_store());
    }
    symlink("v1", root.join("..data")).unwrap();
    symlink("..data/tls.pem", root.join("tls.pem")).unwrap();
    let mut settings = fixture.settings(SettingsGroup::Client, "localhost");
    settings.key_store.location = Some(root.join("tls.pem"));
    let mut reloader = Reloader::new(settings, ServerTls::build).unwrap();
    assert_eq!(reloader.current().days_left(VALID.not_after - 86_400), Some(1));
    symlink("v2", root.join("..data_tmp")).unwrap();
    std::fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    assert_eq!(reloader.poll().unwrap(), ReloadOutcome::Replaced);
    assert_eq!(reloader.current().days_left(EXPIRED.not_after + 1), Some(-1));
}

#[test]
fn changed_trust_store_ends_the_trust_in_the_old_ca() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    let settings = fixture.settings(SettingsGroup::Quorum, "localhost");
    let mut reloader = Reloader::new(settings.clone(), PeerTls::build).unwrap();
    let old = reloader.current().clone();
    let endpoint = old.client.endpoint(localhost());
    assert!(connect(&endpoint, &old.server).is_ok());
    fixture.write("ca.pem", other.ca.certificate());
    assert_eq!(reloader.poll().unwrap(), ReloadOutcome::Replaced);
    assert!(connect(&endpoint, &reloader.current().server).is_err(), "a session of the old trust store is not resumed");
    assert!(connect(&reloader.current().client.endpoint(localhost()), &old.server).is_err());
}

#[test]
fn changed_password_file_is_used() {
    let fixture = Fixture::new();
    let mut settings = fixture.settings(SettingsGroup::Client, "client");
    settings.key_store.location = Some(crate::harness::testdata("keytool.p12"));
    settings.key_store.password_path = Some(fixture.write("password", "changeit\n"));
    let mut reloader = Reloader::new(settings, ClientTls::build).unwrap();
    fixture.write("password", "changeit");
    assert_eq!(reloader.poll().unwrap(), ReloadOutcome::Unchanged);
    fixture.write("password", "wrong");
    assert!(reloader.poll().unwrap_err().to_string().contains("the password is wrong"));
}
