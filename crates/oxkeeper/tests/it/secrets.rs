//! Secrets of the configuration and of clients are in no reply, no page and no line of the log.

use crate::process::{Site, start};
use ox_testkit::{RawPacket, four_letter, free_port, http};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The password of the stores, that of a SASL account, that of a client, and the hash of the super user.
const SECRETS: [&str; 4] = ["changeit", "jaas-hush", "client-hush", "bGVhdmUgbWUgYWxvbmUu"];

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ox-tls/testdata").join(name)
}

fn check(what: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{what} shows {secret}: {text}");
    }
}

/// A configuration with a secret of each kind, in the file, in a system property and in a JAAS file.
fn site(directory: &Path, password: &str, admin: SocketAddr) -> Site {
    let jaas = directory.join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    fs::write(&jaas, format!("Server {{ {module} user_bob=\"{}\"; }};\n", SECRETS[1])).unwrap();
    let (keys, trust) = (testdata("keytool.jks"), testdata("trust.jks"));
    let mut site = Site::new(
        directory,
        &format!(
            "secureClientPort=0\nsecureClientPortAddress=127.0.0.1\n4lw.commands.whitelist=*\n\
             ssl.keyStore.location={}\nssl.keyStore.password={password}\nssl.trustStore.location={}\n\
             DigestAuthenticationProvider.superDigest=super:{}\n\
             authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
             admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={}\n",
            keys.display(),
            trust.display(),
            SECRETS[3],
            admin.port()
        ),
    );
    site.flags = vec![
        format!("-Dzookeeper.ssl.trustStore.password={}", SECRETS[0]),
        format!("-Djava.security.auth.login.config={}", jaas.display()),
        "--log".to_owned(),
        "trace".to_owned(),
    ];
    site
}

#[test]
fn secrets_are_shown_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let running = site(directory.path(), SECRETS[0], admin).start();
    let mut client = running.client();
    client.send(&RawPacket::default().auth(-4, "digest", format!("alice:{}", SECRETS[2]).as_bytes()));
    assert_eq!(client.reply().err, 0);
    client.create("/a", b"");
    for command in ["conf", "cons", "crst", "dirs", "dump", "envi", "mntr", "srvr", "stat", "wchc", "wchp", "wchs"] {
        check(command, &four_letter(running.address, command).unwrap());
    }
    let list = http(admin, "GET", "/commands", &[], b"").unwrap().text();
    let names: Vec<&str> =
        list.split("/commands/").skip(1).filter_map(|rest| rest.split(['"', '\'', '>']).next()).collect();
    assert!(names.contains(&"system_properties") && names.contains(&"environment"), "{names:?}");
    for name in names {
        check(name, &http(admin, "GET", &format!("/commands/{name}"), &[], b"").unwrap().text());
    }
    check("the log", &running.stop());
}

#[test]
fn error_about_a_wrong_password_does_not_repeat_it() {
    let directory = tempfile::tempdir().unwrap();
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let site = site(directory.path(), SECRETS[2], admin);
    let arguments: Vec<&str> = ["server", "zoo.cfg"].into_iter().chain(site.flags.iter().map(String::as_str)).collect();
    let ended = start(&arguments, directory.path()).end();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.said);
    assert!(ended.said.contains("the password is wrong"), "{}", ended.said);
    check("the error", &ended.said);
}
