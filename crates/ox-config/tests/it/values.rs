//! Effective values: defaults, precedence, units, corrections.

use std::net::{IpAddr, Ipv4Addr};

use ox_config::{
    Class, CompressionSetting, Config, Environment, FourLetterWhitelist, OnBadText, OnDamageSetting, PublishedSettings,
    Settings, StartArgs, Status, SystemProperties, TornTailSetting,
};

use crate::harness::{FILE, Harness};

const LOOPBACK: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));

/// A standalone configuration with these lines and flags.
fn config(lines: &str, flags: &str) -> Config {
    Harness::with_config(&format!("dataDir=/d\n{lines}")).and_flags(flags).start().config()
}

#[test]
fn default_configuration_listens_on_loopback() {
    let config = Config::default_standalone();
    assert_eq!(config.data_dir.to_str(), Some("./oxkeeper-data"));
    assert_eq!(config.data_log_dir, config.data_dir);
    assert_eq!((config.client_port, config.client_address), (Some(2181), LOOPBACK));
    assert_eq!(config.tick_ms, 3000);
    assert_eq!((config.min_session_timeout_ms, config.max_session_timeout_ms), (6000, 60_000));
    assert_eq!(config.limits.max_client_cnxns, 60);
}

#[test]
fn flags_apply_without_a_file() {
    let outcome = Harness::default().and_flags("-Dzookeeper.snapCount=7 -Xmx1g").start_as(&StartArgs::Nothing);
    assert_eq!(outcome.warnings(), Vec::<String>::new());
    assert_eq!(outcome.config().storage.snap_count, 7);
}

#[test]
fn port_and_directory_arguments_are_parsed() {
    let start = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        Harness::default().start_as(&StartArgs::from_args(&args).unwrap())
    };
    let config = start(&["2182", "data", "2000"]).config();
    assert_eq!((config.client_port, config.client_address), (Some(2182), LOOPBACK));
    assert_eq!((config.tick_ms, config.limits.max_client_cnxns), (2000, 0));
    assert_eq!(config.data_log_dir.to_str(), Some("data"));
    assert_eq!(start(&["2182", "data", "2000", "9"]).config().limits.max_client_cnxns, 9);
    let error = start(&["2182", "data", "abc"]).error();
    assert!(error.starts_with("command line: tickTime: \"abc\" is not "), "{error}");
    assert!(start(&["99999", "data"]).error().contains("port 99999 is out of range"));
    assert!(start(&["2182", "data", "0"]).error().contains("tickTime is not set"));
}

#[test]
fn line_wins_over_its_property() {
    assert_eq!(config("", "-Dzookeeper.snapCount=7").storage.snap_count, 7);
    assert_eq!(config("snapCount=8\n", "-Dzookeeper.snapCount=7").storage.snap_count, 8);
    assert_eq!(config("snapCount=x\n", "-Dzookeeper.snapCount=7").storage.snap_count, 100_000);
}

#[test]
fn file_only_key_ignores_property() {
    let config = config("", "-Dzookeeper.tickTime=1 -DtickTime=2 -Dzookeeper.clientPort=3");
    assert_eq!((config.tick_ms, config.client_port), (3000, None));
}

#[test]
fn property_only_key_ignores_line() {
    let keys = ["jute.maxbuffer=0x400000", "readonlymode.enabled=true", "znode.container.checkIntervalMs=5"];
    let unset = config(&keys.join("\n"), "");
    assert_eq!(unset.limits.jute_max_buffer_bytes, 1_048_575);
    assert_eq!((unset.four_letter_whitelist.allow("isro"), unset.containers.check_interval_ms), (false, 60_000));
    let set = config("", &keys.map(|key| format!("-D{key}")).join(" "));
    assert_eq!(set.limits.jute_max_buffer_bytes, 4 << 20);
    assert_eq!(set.limits.jute_extra_bytes, 4 << 20);
    assert_eq!((set.four_letter_whitelist.allow("isro"), set.containers.check_interval_ms), (true, 5));
}

#[test]
fn fsync_warning_reads_two_properties() {
    let [bare, full] = ["-Dfsync.warningthresholdms", "-Dzookeeper.fsync.warningthresholdms"];
    let threshold = |lines, flags: String| config(lines, &flags).storage.fsync_warning_ms;
    assert_eq!(threshold("", String::new()), 1000);
    assert_eq!(threshold("", format!("{bare}=5")), 5);
    assert_eq!(threshold("", format!("{bare}=5 {full}=6")), 6);
    assert_eq!(threshold("", format!("{bare}=5 {full}=x")), 5);
    assert_eq!(threshold("fsync.warningthresholdms=7\n", format!("{full}=6")), 7);
}

#[test]
fn oxkeeper_key_is_read_from_line_or_property() {
    let recovery = |lines, flags| config(lines, flags).recovery;
    let default = recovery("", "");
    assert_eq!((default.torn_tail, default.allow_gaps), (TornTailSetting::Truncate, false));
    assert_eq!(recovery("oxkeeper.txnlog.tornTail=refuse\n", "").torn_tail, TornTailSetting::Refuse);
    assert!(recovery("", "-Doxkeeper.recovery.allowGaps=true").allow_gaps);
    assert_eq!(default.on_damage, OnDamageSetting::Quarantine);
    assert_eq!(recovery("", "-Doxkeeper.recovery.onDamage=accept").on_damage, OnDamageSetting::Accept);
    assert_eq!(recovery("oxkeeper.recovery.onDamage=exit\n", "").on_damage, OnDamageSetting::Exit);
    for flags in ["-Doxkeeper.recovery.onDamage=maybe", "-Doxkeeper.recovery.allowGaps=yes"] {
        let outcome = Harness::with_config("dataDir=/d\n").and_flags(flags).start();
        assert!(outcome.error().starts_with("-Doxkeeper.recovery."), "{flags}");
    }
}

#[test]
fn last_duplicate_wins() {
    assert_eq!(config("tickTime=1\ntickTime=2000\n", "").tick_ms, 2000);
}

#[test]
fn storage_values_are_converted_and_corrected() {
    let lines = "snapCount=010\nsnapSizeLimitInKb=2\ntxnLogSizeLimitInKb=-1\npreAllocSize=1\nforceSync=no\n\
                 flushDelay=30\nmaxBatchSize=-1\nsnapshot.compression.method=GZ\n";
    let storage = config(lines, "").storage;
    assert_eq!((storage.snap_count, storage.snap_size_limit_bytes), (8, Some(2048)));
    assert_eq!((storage.txn_log_size_limit_bytes, storage.pre_alloc_bytes), (None, 1024));
    assert_eq!((storage.force_sync, storage.max_batch_size), (false, 0));
    assert_eq!(storage.max_write_queue_poll_ms, 10);
    assert_eq!(storage.snapshot_compression, CompressionSetting::Gzip);
    let storage = config("snapSizeLimitInKb=0\npreAllocSize=0x10\nforceSync=No\n", "").storage;
    assert_eq!((storage.snap_size_limit_bytes, storage.pre_alloc_bytes), (None, 64 << 20));
    assert!(storage.force_sync);
    let storage = config("snapSizeLimitInKb=9223372036854775807\n", "").storage;
    assert_eq!(storage.snap_size_limit_bytes, Some(u64::MAX));
}

#[test]
fn session_timeouts_default_to_ticks() {
    let times = |lines: &str| {
        let config = config(lines, "");
        (config.min_session_timeout_ms, config.max_session_timeout_ms)
    };
    assert_eq!(times("tickTime=2000\n"), (4000, 40_000));
    assert_eq!(times("tickTime=2000\nminSessionTimeout=10\n"), (10, 40_000));
    assert_eq!(times("tickTime=2000\nmaxSessionTimeout=4000\n"), (4000, 4000));
}

#[test]
fn purge_interval_is_converted_to_ms() {
    let interval = |text: &str| config(&format!("autopurge.purgeInterval={text}\n"), "").autopurge.interval_ms;
    assert_eq!(interval("0"), None);
    assert_eq!(interval("-1"), None);
    assert_eq!(interval("2"), Some(7_200_000));
}

#[test]
fn invalid_limits_are_corrected() {
    let lines = "maxCnxns=-5\nlargeRequestMaxBytes=0\nlargeRequestThreshold=0\njute.maxbuffer.extrasize=1\n";
    let limits = config(lines, "").limits;
    assert_eq!((limits.max_cnxns, limits.large_request_max_bytes), (0, 104_857_600));
    assert_eq!((limits.large_request_threshold_bytes, limits.jute_extra_bytes), (None, 1024));
}

#[test]
fn session_weights_are_corrected() {
    assert_eq!(config("", "").connection_throttle.weights, None);
    let lines = "connection_throttle_weight_enabled=true\nconnection_throttle_local_session_weight=5\n\
                 connection_throttle_renew_session_weight=-1\n";
    let weights = config(lines, "").connection_throttle.weights.unwrap();
    assert_eq!((weights.global, weights.renew), (5, 5));
}

#[test]
fn four_letter_whitelist_is_parsed() {
    let words = |lines: &str| config(lines, "").four_letter_whitelist;
    let allowed = |words: &FourLetterWhitelist| ["srvr", "ruok", "stat", "isro"].map(|word| words.allow(word));
    assert_eq!(allowed(&words("")), [true, false, false, false]);
    let some = words("4lw.commands.whitelist= ruok, ,stat \n");
    assert_eq!(allowed(&some), [true, true, true, false]);
    assert_eq!(words("4lw.commands.whitelist=ruok,*\n"), FourLetterWhitelist::All);
    assert_eq!(allowed(&FourLetterWhitelist::All), [true; 4]);
}

#[test]
fn isro_requires_exactly_true() {
    assert!(config("", "-Dreadonlymode.enabled=true").four_letter_whitelist.allow("isro"));
    assert!(!config("", "-Dreadonlymode.enabled=True").four_letter_whitelist.allow("isro"));
}

#[test]
fn secrets_are_hidden() {
    let config = config("DigestAuthenticationProvider.superDigest=super:secret\n", "");
    assert_eq!(config.auth.super_digest.as_ref().unwrap().reveal(), "super:secret");
    assert!(!format!("{config:?}").contains("secret"));
}

#[test]
fn client_port_of_single_member_is_used() {
    let member = "dataDir=/d\nserver.1=localhost:2888:3888;localhost:2181\n";
    let client = |harness: Harness| {
        let config = harness.start().config();
        (config.client_port, config.client_address)
    };
    let with_id = |lines: &str| Harness::with_config(lines).and_file("/d/myid", "1\n");
    assert_eq!(client(with_id(member)), (Some(2181), LOOPBACK));
    assert_eq!(client(Harness::with_config(member)), (None, None));
    let both = format!("{member}clientPort=2181\n");
    assert_eq!(client(with_id(&both)), (Some(2181), LOOPBACK));
    assert_eq!(client(Harness::with_config(&both)), (Some(2181), None));
}

#[test]
fn client_port_of_dynamic_file_is_used() {
    let harness = Harness::with_config("dataDir=/d\ndynamicConfigFile=/d/zoo.cfg.dynamic\n")
        .and_file("/d/myid", "1")
        .and_file("/d/zoo.cfg.dynamic", "server.1=h:1:2;2181\n");
    assert_eq!(harness.start().config().client_port, Some(2181));
}

#[test]
fn effective_values_name_their_place() {
    let harness = Harness::with_config("dataDir=/d\nsnapCount=5\n");
    let read = |path: &std::path::Path| Ok(harness.files[path.to_str().unwrap()].clone());
    let environment = Environment { read: &read, resolve: &|_| None };
    let system = SystemProperties::default();
    let settings = Settings::read(&StartArgs::File(FILE.into()), &system, &environment, &mut Vec::new()).unwrap();
    let shown = |name: &str| {
        let found = settings.effective().find(|row| row.key.name == name).unwrap();
        (found.text, found.place.and_then(|place| place.line()))
    };
    assert_eq!(shown("snapCount"), (Some("5"), Some(2)));
    assert_eq!(shown("tickTime"), (Some("3000"), None));
    assert_eq!(shown("DigestAuthenticationProvider.superDigest"), (None, None));
}

#[test]
fn key_table_is_consistent() {
    let mut names = std::collections::BTreeSet::new();
    for key in ox_config::keys() {
        let name = key.name;
        assert!(names.insert(name), "{name} occurs twice");
        assert!(key.doc.trim().ends_with('.'), "{name} needs a description that ends with a full stop");
        let default = key.reader.read(key.default);
        assert!(key.default.is_empty() || default.is_some(), "{name}: the default does not parse");
        assert!(key.class != Class::J || key.status == Status::Hint, "{name}: a JVM setting must be a hint");
        assert!(key.reader.on_bad_text() == OnBadText::Stop || key.family().is_none(), "{name}");
        assert!(ox_config::find(name).is_some_and(|found| found.name == name), "{name} is shadowed by another row");
    }
}

/// Every key that counts as built makes a difference: some valid value leads to another configuration or to an error.
/// Tests of the server check that it uses the configuration.
#[test]
fn built_keys_affect_configuration() {
    let base = "dataDir=/d\nclientPort=0\nconnection_throttle_weight_enabled=true\nsecureClientPort=0\n\
                ssl.keyStore.location=/k\nssl.trustStore.location=/t\nadmin.portUnification=true\n\
                ssl.quorum.keyStore.location=/k\nssl.quorum.trustStore.location=/t\nmetricsProvider.httpPort=1\n\
                metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
                metricsProvider.httpsPort=2\nmetricsProvider.ssl.keyStore.location=/k\n\
                metricsProvider.ssl.trustStore.location=/t\n";
    // The texts that the AdminServer shows differ in any case.
    let without_texts = |config: Config| Config { published: PublishedSettings::default(), ..config };
    let plain = without_texts(Harness::with_config(base).start().config());
    let sasl = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
    let texts = [
        "7",
        "5000",
        "0.5",
        "true",
        "false",
        "no",
        "yes",
        "refuse",
        "gz",
        "/other",
        "127.0.0.1",
        "*",
        "json",
        "3.10",
        sasl,
    ];
    // These need another setting, and have their tests in `sasl.rs`.
    let depends = [
        "SASLAuthenticationProvider.superPassword",
        "enforce.auth.schemes",
        "sasl.serverconfig",
        "audit.impl.class",
        "metricsProvider.ssl.want.client.auth", // of importance if certificates are not needed
        "ssl.quorum.*",                         // the stores are tested in `admin.rs`
    ];
    let is_alone = |key: &&ox_config::Key| !depends.contains(&key.name);
    for key in ox_config::keys().filter(|key| key.status == Status::Built).filter(is_alone) {
        let name = key.name.replace('*', "1");
        let differs = texts.iter().filter(|text| key.reader.read(text).is_some()).any(|text| {
            let harness = if key.in_file() {
                Harness::with_config(&format!("{base}{name}={text}\n"))
            } else {
                Harness::with_config(base).and_flags(&format!("-D{name}={text}"))
            };
            harness.start().result.map_or(true, |config| without_texts(config) != plain)
        });
        assert!(differs, "{name}");
    }
}
