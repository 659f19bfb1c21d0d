//! Diagnostics: names without effect, values parsed unexpectedly, features not implemented yet, and settings that are
//! refused.

use ox_config::{DigestHashSetting, Level, StartArgs};
use ox_proto::ensemble::Address;

use crate::harness::Harness;

/// Warnings and errors for a standalone configuration with these lines and flags.
fn warnings(lines: &str, flags: &str) -> Vec<String> {
    let outcome = Harness::with_config(&format!("dataDir=/d\n{lines}")).and_flags(flags).start();
    let warnings = outcome.warnings();
    outcome.config();
    warnings
}

fn check(lines: &str, flags: &str, expected: &str) {
    assert_eq!(warnings(lines, flags), [expected], "{lines} {flags}");
}

#[test]
fn valid_configuration_has_no_warnings() {
    let lines = "tickTime=2000\ninitLimit=10\nsyncLimit=5\nclientPort=2181\nadmin.enableServer=false\n\
                 4lw.commands.whitelist=*\nserverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
                 nio.numWorkerThreads=4\nquorumListenOnAllIPs=true\nobserver.syncEnabled=false\n";
    let flags = "-Dzookeeper.log.dir=/l -Dzookeeper.client.secure=true";
    assert_eq!(warnings(lines, flags), Vec::<String>::new());
}

#[test]
fn unknown_key_is_reported_with_suggestion() {
    let text = "/data/tc.cfg:2: ticktime is not a known key and has no effect; did you mean tickTime?";
    check("ticktime=2\n", "", text);
    check("noSuchKey=1\n", "", "/data/tc.cfg:2: noSuchKey is not a known key and has no effect");
    let text = "-Dzookeeper.snapcont: snapcont is not a known key and has no effect; did you mean snapCount?";
    check("", "-Dzookeeper.snapcont=5", text);
    let text = "-Doxkeeper.recovery.allowGap: oxkeeper.recovery.allowGap is not a known key and has no effect; did you \
                mean oxkeeper.recovery.allowGaps?";
    check("", "-Doxkeeper.recovery.allowGap=true", text);
}

#[test]
fn allowed_gaps_are_reported_at_every_start() {
    let text = "oxkeeper.recovery.allowGaps=true: the server starts even if transactions are missing, and gives them up; \
                remove it once the server has started";
    check("", "-Doxkeeper.recovery.allowGaps=true", text);
    assert_eq!(warnings("oxkeeper.recovery.allowGaps=true\n", "").len(), 1);
    assert_eq!(warnings("oxkeeper.recovery.allowGaps=false\n", ""), Vec::<String>::new());
}

#[test]
fn unknown_property_is_reported_unless_it_is_javas() {
    let text = "-Djute.maxbufer is not a known property and has no effect; did you mean -Djute.maxbuffer?";
    check("", "-Djute.maxbufer=5", text);
    let text = "-DsnapCount is not a known property and has no effect; did you mean -Dzookeeper.snapCount?";
    check("", "-DsnapCount=5", text);
    check("", "-Dfoo=bar", "-Dfoo is not a known property and has no effect");
    assert_eq!(warnings("", "-Djava.net.preferIPv4Stack=true -Dlog4j2.level=info"), Vec::<String>::new());
}

#[test]
fn unknown_command_in_whitelist_is_reported() {
    let text = "/data/tc.cfg:2: 4lw.commands.whitelist: mntrr is not a four-letter command; did you mean mntr?";
    check("4lw.commands.whitelist=srvr, mntrr\n", "", text);
    let text = "/data/tc.cfg:2: 4lw.commands.whitelist: xyz is not a four-letter command";
    check("4lw.commands.whitelist=xyz,ruok\n", "", text);
    assert_eq!(warnings("4lw.commands.whitelist=srvr, *\n", ""), Vec::<String>::new());
}

#[test]
fn foreign_connection_class_is_reported() {
    let text = "/data/tc.cfg:2: serverCnxnFactory: x.Y is a Java class and has no effect";
    check("serverCnxnFactory=x.Y\n", "", text);
}

#[test]
fn dead_name_is_reported_with_effective_name() {
    let text = "/data/tc.cfg:2: throttledOpWaitTime has no effect; the effective name is throttled_op_wait_time";
    check("throttledOpWaitTime=1\n", "", text);
    let text = "/data/tc.cfg:2: zookeeper.snapCount has no effect with the prefix; write snapCount instead";
    check("zookeeper.snapCount=1\n", "", text);
    let text = "/data/tc.cfg:2: jute.maxbuffer has no effect here; give -Djute.maxbuffer instead";
    check("jute.maxbuffer=1\n", "", text);
    let text = "-Dzookeeper.sslQuorum has no effect; write sslQuorum into the configuration file instead";
    check("", "-Dzookeeper.sslQuorum=true", text);
    let text = "-Dzookeeper.jute.maxbuffer has no effect; give -Djute.maxbuffer instead";
    check("", "-Dzookeeper.jute.maxbuffer=1", text);
}

#[test]
fn unexpected_parse_is_reported() {
    check("snapCount=010\n", "", "/data/tc.cfg:2: snapCount: 010 is read as octal, 8");
    let text = "/data/tc.cfg:2: abc is not a valid value for preAllocSize, expected a whole number of 64 bits; the default \
                65536 is used";
    check("preAllocSize=abc\n", "", text);
    let text = "/data/tc.cfg:2: enforceQuota: yes is read as false; only true means true";
    check("enforceQuota=yes\n", "", text);
    check("skipACL=true\n", "", "/data/tc.cfg:2: skipACL: true is read as no; only yes makes a difference");
    let text = "-Dreadonlymode.enabled: 1 is read as false; only true means true";
    check("", "-Dreadonlymode.enabled=1", text);
}

#[test]
fn unbuilt_feature_is_reported_once() {
    let lines = "netty.server.earlyDropSecureConnectionHandshakes=true\n";
    let text = "/data/tc.cfg:2: the early drop of TLS connections is not implemented yet; no effect: \
                netty.server.earlyDropSecureConnectionHandshakes";
    check(lines, "", text);
    let lines = "netty.server.earlyDropSecureConnectionHandshakes=false\n";
    assert_eq!(warnings(lines, ""), Vec::<String>::new(), "the default needs no warning");
}

#[test]
fn relative_path_is_reported() {
    let harness = Harness::with_config("dataDir=d\ndataLogDir=./l\n");
    let expected = ["/data/tc.cfg:1: dataDir: d is relative. Prepend ./ to indicate that you're sure!"];
    assert_eq!(harness.start().warnings(), expected);
}

/// The shell expands them, a configuration file does not.
#[test]
fn path_that_only_a_shell_understands_is_reported() {
    for path in ["~/zk", "$HOME/zk", "\"/tmp/q\"", "/data/${USER}"] {
        let harness = Harness::with_config(&format!("dataDir={path}\n"));
        let text = "is used literally: `~`, `$` and quotes have no meaning here; write the path in full";
        assert_eq!(harness.start().warnings(), [format!("/data/tc.cfg:1: dataDir: {path} {text}")]);
    }
}

#[test]
fn comment_after_a_value_is_reported() {
    let hint = "; a comment cannot follow a value: write it on a line of its own";
    check("dataLogDir=/l # logs\n", "", &format!("/data/tc.cfg:2: dataLogDir: the value is all of `/l # logs`{hint}"));
    let text = "/data/tc.cfg:2: enforceQuota: true # on is read as false; only true means true";
    check("enforceQuota=true # on\n", "", &format!("{text}{hint}"));
    assert_eq!(warnings("dataLogDir=/l#logs\n# comment\n", ""), Vec::<String>::new());
    let errors = Harness::with_config("dataDir=/d\nclientPort=2181 # clients\n").start().errors;
    let text = "/data/tc.cfg:2: clientPort: \"2181 # clients\" is not a whole number of 32 bits";
    assert_eq!(errors, [format!("{text}{hint}")]);
}

#[test]
fn diagnostic_names_file_line_and_key() {
    let key = "DigestAuthenticationProvider.superDigest";
    let no_digest = "not a digest, so there is no super user; expected a name, a colon, and the SHA1 of \
                     name:password in base64";
    check(&format!("{key}=super:admin\n"), "", &format!("/data/tc.cfg:2: {key}: {no_digest}"));
    check("", &format!("-Dzookeeper.{key}=D/InIHSb7yEEbrWz8b9l71RjZJU="), &format!("-Dzookeeper.{key}: {no_digest}"));
    assert_eq!(warnings(&format!("{key}=super:D/InIHSb7yEEbrWz8b9l71RjZJU=\n"), ""), Vec::<String>::new());
    let text = "/data/tc.cfg:2: server.1: Invalid configuration, only one server specified (ignoring)";
    check("server.1=a:1:2\n", "", text);
    let harness = Harness::default().and_file("zoo.cfg", "dataDir=/d\n");
    let outcome = harness.start_as(&StartArgs::File("zoo.cfg".into()));
    assert_eq!(outcome.warnings(), Vec::<String>::new());
    assert_eq!(outcome.diagnostics[0].text, "zoo.cfg is relative. Prepend ./ to indicate that you're sure!");
}

#[test]
fn empty_path_is_refused() {
    let error = |lines: &str| Harness::with_config(lines).start().error();
    assert_eq!(error("dataDir=\n"), "/data/tc.cfg:1: dataDir: dataDir is not set: its path is empty");
    let text = "/data/tc.cfg:2: dataLogDir: dataLogDir is not set: its path is empty";
    assert_eq!(error("dataDir=/d\ndataLogDir= \n"), text);
    assert_eq!(
        error("clientPort=1\n"),
        "/data/tc.cfg: dataDir is not set; add a line such as dataDir=/var/lib/zookeeper"
    );
}

#[test]
fn zero_is_refused_with_explanation() {
    let error = |lines: &str| Harness::with_config(&format!("dataDir=/d\n{lines}")).start().error();
    let text = "tickTime is not set: 0 counts as unset; expected a positive number";
    assert_eq!(error("tickTime=0\n"), format!("/data/tc.cfg:2: tickTime: {text}"));
    let servers = "server.1=a:1:2\nserver.2=a:1:2\n";
    assert!(
        error(&format!("initLimit=0\n{servers}")).starts_with("/data/tc.cfg:2: initLimit: initLimit is not set: 0")
    );
    assert_eq!(error(servers), "/data/tc.cfg: initLimit is not set; add a line such as initLimit=10");
}

#[test]
fn all_errors_are_reported_and_none_follows_from_another() {
    let check = |lines: &str, expected: &[&str]| {
        let errors = Harness::with_config(lines).start().errors;
        let errors: Vec<_> = errors.iter().map(|error| error.trim_start_matches("/data/tc.cfg")).collect();
        assert_eq!(errors, expected, "{lines}");
    };
    check(
        "clientPort=99999\ntickTime=x\nmaxSessionTimeout=8\nauthProvider.1=com.X\nsnapCount=1\nserver.1=a\n",
        &[
            ":1: clientPort: port 99999 is out of range; expected 0 to 65535",
            ":2: tickTime: \"x\" is not a whole number of 32 bits",
            ":4: authProvider.1: com.X cannot be loaded: Java classes do not run here, and the server does not start \
             with less protection than configured; remove the line, or use one of Apache's classes",
            ":6: server.1: \"a\" is not a member; expected server.N=host:2888:3888[:role][;clientPort]",
            ": dataDir is not set; add a line such as dataDir=/var/lib/zookeeper",
        ],
    );
    // Missing settings of an ensemble are reported although its members cannot be read.
    check(
        "dataDir=/d\nsyncLimit=5\ninitLimt=5\nserver.x=a:1:2\nserver.2=b\n",
        &[
            ":4: server.x: \"x\" is not a whole number of 64 bits",
            ":5: server.2: \"b\" is not a member; expected server.N=host:2888:3888[:role][;clientPort]",
            ": initLimit is not set; add a line such as initLimit=10",
        ],
    );
    check(
        "dataDir=/d\nclientPort=none\nclientPortAddress=localhost\ninitLimit=x\nserver.1=a:1:2\nserver.2=a:1:2\n",
        &[
            ":2: clientPort: \"none\" is not a whole number of 32 bits",
            ":4: initLimit: \"x\" is not a whole number of 32 bits",
            ": syncLimit is not set; add a line such as syncLimit=5",
            ": myid is missing: write 1 or 2 into /d/myid; dataDir /d does not exist: correct it, or create it first",
        ],
    );
}

#[test]
fn equal_addresses_of_two_servers_are_reported() {
    let lines =
        "dataDir=/d\ninitLimit=5\nsyncLimit=4\nserver.1=localhost:1:2\nserver.2=b:1:2\nserver.3=localhost:3:2\n";
    let outcome = Harness::with_config(lines).and_file("/d/myid", "1").start();
    let expected = "/data/tc.cfg:6: server.1 and server.3 have the same address localhost:2; only one can start";
    assert_eq!(outcome.warnings(), [expected]);
}

/// The text must not suggest the id of a running member.
#[test]
fn removed_member_is_not_told_to_take_another_id() {
    let lines = "dataDir=/d\ninitLimit=5\nsyncLimit=4\nserver.1=a:1:2\nserver.2=b:3:4\nserver.3=c:5:6\n";
    let outcome = Harness::with_config(lines).and_file("/d/myid", "4").start();
    let error = outcome.result.unwrap_err();
    assert_eq!(error.exit_code(), 2, "a restart does not help");
    let expected = "/data/tc.cfg: server 4 is not a member: it was removed by reconfig, or its line server.4 is missing; \
                    correct /d/myid only if 4 is not the id of this server";
    assert_eq!(error.to_string(), expected);
    let outcome = Harness::with_config(lines).and_file("/d/myid", "-1").start();
    let expected = "/data/tc.cfg: /d/myid contains -1, which is no id of a server; write the N of this server's server.N \
                    line into it";
    assert_eq!(outcome.result.unwrap_err().to_string(), expected);
}

#[test]
fn java_flags_give_one_note_without_values() {
    let flags = "-Xmx1g -XX:Foo=secret -Djavax.net.ssl.keyStorePassword=secret -Dcom.sun.management.jmxremote.port=1";
    let outcome = Harness::with_config("dataDir=/d\n").and_flags(flags).start();
    let notes: Vec<_> = outcome.diagnostics.iter().filter(|diagnostic| diagnostic.text.contains("Java")).collect();
    let expected = "for a Java virtual machine only, no effect: -Xmx1g -XX:Foo -Dcom.sun.management.jmxremote.port \
                    -Djavax.net.ssl.keyStorePassword";
    assert_eq!(notes.len(), 1);
    assert_eq!((notes[0].level, notes[0].text.as_str()), (Level::Info, expected));
}

#[test]
fn overwritten_property_is_reported() {
    let harness = Harness::with_config("dataDir=/d\nsnapCount=5\n").and_flags("-Dzookeeper.snapCount=6");
    let expected = "/data/tc.cfg:2: -Dzookeeper.snapCount is overwritten by this line";
    assert!(harness.start().diagnostics.iter().any(|diagnostic| diagnostic.to_string() == expected));
}

#[test]
fn diagnostics_accompany_errors() {
    let outcome = Harness::with_config("datadir=/d\n").start();
    let text = "/data/tc.cfg:1: datadir is not a known key and has no effect; did you mean dataDir?";
    assert_eq!(outcome.warnings(), [text]);
    assert!(outcome.error().contains("dataDir is not set; "));
}

#[test]
fn foreign_auth_provider_is_refused() {
    for class in ["com.example.X", "org.apache.zookeeper.server.auth.NoneSuch", "KeyAuthenticationProvider"] {
        let error = Harness::with_config(&format!("dataDir=/d\nauthProvider.7={class}\n")).start().error();
        assert!(error.contains(":2: authProvider.7: ") && error.contains(class), "{error}");
    }
    let line = "authProvider.1=org.apache.zookeeper.server.auth.KeyAuthenticationProvider";
    assert!(Harness::with_config(&format!("dataDir=/d\n{line}\n")).start().config().auth.key_scheme_enabled);
    assert!(!Harness::with_config("dataDir=/d\n").start().config().auth.key_scheme_enabled);
}

#[test]
fn disabled_feature_is_not_reported() {
    let lines = "sslQuorum=false\nclient.portUnification=false\nquorum.auth.enableSasl=false\n\
                 enforce.auth.enabled=no\nssl.keyStore.location=\nssl.authProvider=x509\n\
                 authProvider.1=org.apache.zookeeper.server.auth.DigestAuthenticationProvider\n";
    check(lines, "", "/data/tc.cfg:5: enforce.auth.enabled: no is read as false; only true means true");
}

#[test]
fn unsupported_digest_hash_is_refused() {
    let key = "DigestAuthenticationProvider.digestAlg";
    let start = |hash: &str| Harness::with_config(&format!("dataDir=/d\n{key}={hash}\n")).start();
    assert!(start("MD5").error().contains("MD5 is not a valid value"));
    assert!(start("SHA-224").error().contains("expected SHA1, SHA-256, "));
    for (name, hash) in [
        ("sha-1", DigestHashSetting::Sha1),
        ("SHA-256", DigestHashSetting::Sha256),
        ("sha-384", DigestHashSetting::Sha384),
        ("SHA-512", DigestHashSetting::Sha512),
        ("SHA3-256", DigestHashSetting::Sha3_256),
        ("SHA3-512", DigestHashSetting::Sha3_512),
    ] {
        assert_eq!(start(name).config().auth.digest_hash, hash);
    }
}

#[test]
fn member_config_holds_ensemble() {
    let lines = "dataDir=/d\ninitLimit=5\nsyncLimit=4\nserver.1=a:1:2\nserver.2=b:3:4\nserver.3=c:5:6:observer\n";
    let harness = Harness::with_config(lines).and_file("/d/myid", "2");
    let member = harness.start().config().member.unwrap();
    assert_eq!((member.server.0, member.init_ticks, member.sync_ticks), (2, 5, 4));
    let mine = &member.ensemble.members()[&member.server];
    assert_eq!((&mine.quorum, &mine.election), (&vec![Address::new("b", 3)], &vec![Address::new("b", 4)]));
    assert_eq!((member.files.config.to_str(), member.files.has_dynamic_file), (Some("/data/tc.cfg"), false));
    assert_eq!(member.ensemble.voters().count(), 2);
    assert_eq!(member.handshake_ms, 4 * 3000);
}

/// The suffix of the file name is the version of the members; the `.next` file is only a proposal, ignored if reconfig
/// is disabled or if it does not parse (K103, K104).
#[test]
fn member_version_is_file_suffix() {
    let file = "/data/tc.cfg.dynamic.100000005";
    let start = |lines: &str, next: &str| {
        let lines = format!("dataDir=/d\ninitLimit=5\nsyncLimit=4\ndynamicConfigFile={file}\n{lines}");
        let members = "server.1=a:1:2\nserver.2=b:3:4;2181\n";
        let harness = Harness::with_config(&lines).and_file("/d/myid", "2").and_file(file, members);
        let harness = harness.and_file("/data/tc.cfg.dynamic.next", next);
        harness.start().config().member.unwrap()
    };
    let next = "server.2=b:3:4;2181\nversion=200000001";
    let member = start("reconfigEnabled=true\n", next);
    assert_eq!((member.ensemble.version(), member.files.has_dynamic_file), (0x1_0000_0005, true));
    assert_eq!(member.proposed.unwrap().version(), 0x2_0000_0001);
    assert_eq!(start("", next).proposed, None, "reconfig is disabled");
    assert_eq!(start("reconfigEnabled=true\n", "nonsense").proposed, None);
}

/// A member would otherwise serve its data as a standalone server.
#[test]
fn dynamic_file_without_members_is_refused() {
    let file = "/data/tc.cfg.dynamic.100000005";
    for content in ["", "# server.1=a:1:2\n"] {
        let lines = format!("dataDir=/d\nclientPort=2181\ndynamicConfigFile={file}\n");
        let error = Harness::with_config(&lines).and_file("/d/myid", "2").and_file(file, content).start().error();
        let expected = format!("/data/tc.cfg:3: dynamicConfigFile: {file} has no server.N line: it is empty");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn foreign_audit_logger_is_refused_only_if_it_would_be_used() {
    let lines = "dataDir=/d\naudit.impl.class=com.example.Audit\n";
    assert!(!Harness::with_config(lines).start().config().audit.enabled);
    let error = Harness::with_config(&format!("{lines}audit.enable=true\n")).start().error();
    assert!(error.contains(":2: audit.impl.class: com.example.Audit cannot be loaded"), "{error}");
    for line in ["oxkeeper.audit.maxFileBytes=10", "oxkeeper.audit.backups=-1"] {
        assert!(Harness::with_config(&format!("dataDir=/d\n{line}\n")).start().error().contains(":2: "), "{line}");
    }
}

fn error(lines: &str) -> String {
    Harness::with_config(&format!("dataDir=/d\n{lines}")).and_file("/d/myid", "1").start().errors.join("\n")
}

const TWO: &str =
    "initLimit=5\nsyncLimit=5\nserver.1=127.0.0.1:2888:3888;127.0.0.1:2181\nserver.2=127.0.0.1:2889:3889\n";

#[test]
fn port_that_two_settings_open_is_refused() {
    let prometheus = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n";
    let stores = "ssl.keyStore.location=/k.pem\nssl.trustStore.location=/t.pem\n";
    for (lines, place, other) in [
        ("clientPort=2181\nadmin.serverPort=2181\n".to_owned(), "admin.serverPort", "clientPort"),
        (
            format!("{prometheus}metricsProvider.httpPort=2181\nclientPort=2181\n"),
            "metricsProvider.httpPort",
            "clientPort",
        ),
        (format!("{stores}secureClientPort=2181\nclientPort=2181\n"), "secureClientPort", "clientPort"),
        (TWO.replace(";127.0.0.1:2181", "") + "clientPort=2888\n", "clientPort", "server.1"),
        (format!("{TWO}{stores}secureClientPort=2181\n"), "secureClientPort", "server.1"),
    ] {
        let found = error(&lines);
        let expected = format!("{place}: {other} opens port ");
        assert!(found.contains(&expected) && !found.contains('\n'), "{expected}: {found}");
    }
    // Different addresses, and a port that is chosen by the system.
    assert_eq!(
        error("clientPort=2181\nclientPortAddress=127.0.0.1\nadmin.serverPort=2181\nadmin.serverAddress=127.0.0.2\n"),
        ""
    );
    assert_eq!(error("clientPort=0\nadmin.serverPort=0\n"), "");
}

/// A member starts without the AdminServer.
#[test]
fn port_of_the_admin_server_of_a_member_is_a_warning() {
    let outcome =
        Harness::with_config(&format!("dataDir=/d\n{TWO}admin.serverPort=2181\n")).and_file("/d/myid", "1").start();
    let warnings = outcome.warnings().join("\n");
    let expected = "admin.serverPort: server.1 opens port 2181 too: the server starts without the AdminServer";
    assert!(warnings.contains(expected), "{warnings}");
    assert_eq!(outcome.errors, Vec::<String>::new());
    assert_eq!(outcome.config().admin, None, "it would take the port of the clients");
}

#[test]
fn repeated_member_is_reported() {
    let outcome = Harness::with_config(&format!("dataDir=/d\n{TWO}server.2=127.0.0.1:2890:3890\n"))
        .and_file("/d/myid", "1")
        .start();
    let expected =
        "/data/tc.cfg:6: server.2 is given twice: /data/tc.cfg:5 has no effect; correct the id in one of the lines";
    assert!(outcome.warnings().iter().any(|warning| warning == expected), "{:?}", outcome.warnings());
}

#[test]
fn own_host_that_does_not_resolve_is_reported() {
    let lines = TWO.replace("server.1=127.0.0.1:2888:3888;127.0.0.1:2181", "server.1=nowhere:2888:3888;2181");
    let outcome = Harness::with_config(&format!("dataDir=/d\n{lines}")).and_file("/d/myid", "1").start();
    let warnings = outcome.warnings().join("\n");
    assert_eq!(warnings.matches("the host nowhere of this server does not resolve").count(), 1, "{warnings}");
}

#[test]
fn sasl_provider_without_a_section_is_reported() {
    let lines = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n";
    check(
        lines,
        "",
        "/data/tc.cfg:2: authProvider.1: SASL is off: -Djava.security.auth.login.config is not set; \
         give it a file with a section 'Server'",
    );
}

#[test]
fn negative_number_that_counts_as_zero_is_reported() {
    check("maxClientCnxns=-5\n", "", "/data/tc.cfg:2: maxClientCnxns: -5 is read as 0; write 0 if that is intended");
    let text = "/data/tc.cfg:2: autopurge.purgeInterval: -1 is read as 0; write 0 if that is intended";
    check("autopurge.purgeInterval=-1\n", "", text);
}
