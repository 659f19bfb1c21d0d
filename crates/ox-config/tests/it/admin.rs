//! Settings of the AdminServer and of the metrics provider.

use ox_config::{AllowedHosts, Cause, Config, MetricsCompatibility, StartArgs};

use crate::harness::Harness;

const PROMETHEUS: &str =
    "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n";

fn config(lines: &str) -> Config {
    Harness::with_config(&format!("dataDir=/d\n{lines}")).start().config()
}

fn cause(lines: &str) -> Cause {
    Harness::with_config(&format!("dataDir=/d\n{lines}"))
        .start()
        .result
        .expect_err("a configuration that is refused")
        .cause
}

#[test]
fn admin_server_is_on_for_all_interfaces_with_a_file_and_for_loopback_without() {
    let admin = config("").admin.unwrap();
    assert_eq!((admin.listen.ip, admin.listen.port), ("0.0.0.0".parse().ok(), 8080));
    assert_eq!(
        (admin.command_url.as_str(), admin.idle_timeout_ms, admin.rate_limit_ms),
        ("/commands", 30_000, 300_000)
    );
    assert!(admin.is_required && admin.snapshot_enabled && admin.restore_enabled && admin.tls.is_none());
    let admin = Harness::default().start_as(&StartArgs::Nothing).config().admin.unwrap();
    assert_eq!((admin.listen.ip, admin.listen.port), ("127.0.0.1".parse().ok(), 8080));
    assert!(!admin.is_required, "a developer's port 8080 may be in use");
}

/// Compat: only `false` disables it.
#[test]
fn admin_server_is_off_with_exactly_false() {
    assert_eq!(config("admin.enableServer=false\n").admin, None);
    assert!(config("admin.enableServer=no\n").admin.is_some());
}

#[test]
fn bad_interval_of_snapshots_stops_the_start() {
    let bad = |text: &str| Cause::BadValue {
        key: "admin.rateLimiterIntervalInMS",
        text: text.to_owned(),
        expected: "a positive number of milliseconds".to_owned(),
    };
    assert_eq!(cause("admin.rateLimiterIntervalInMS=soon\n"), bad("soon"));
    assert_eq!(cause("admin.rateLimiterIntervalInMS=0\n"), bad("0"));
    assert_eq!(config("admin.rateLimiterIntervalInMS=5\n").admin.unwrap().rate_limit_ms, 5);
}

#[test]
fn command_url_has_one_slash_in_front() {
    assert_eq!(config("admin.commandURL=zk/c/\n").admin.unwrap().command_url, "/zk/c");
    assert!(matches!(cause("admin.commandURL=/a?b\n"), Cause::BadValue { key: "admin.commandURL", .. }));
}

#[test]
fn allowed_hosts_are_names_or_all() {
    let hosts = |lines: &str| config(lines).admin.unwrap().allowed_hosts;
    assert_eq!(hosts(""), AllowedHosts::Names(Vec::new()));
    let names = AllowedHosts::Names(vec!["zk.example.com".to_owned(), "zk".to_owned()]);
    assert_eq!(hosts("oxkeeper.admin.allowedHosts=ZK.example.com, zk\n"), names);
    assert_eq!(hosts("oxkeeper.admin.allowedHosts=*\n"), AllowedHosts::All);
}

#[test]
fn https_of_the_admin_server_needs_the_stores_of_the_quorum() {
    let missing = |port, key| Cause::StoreNotSet { port, key };
    assert_eq!(cause("admin.forceHttps=true\n"), missing("admin.forceHttps", "ssl.quorum.keyStore.location"));
    let stores = "ssl.quorum.keyStore.location=/k.pem\nssl.quorum.keyStore.password=p\n";
    let tls = config(&format!("admin.portUnification=true\n{stores}")).admin.unwrap().tls.unwrap();
    assert!(tls.is_unified);
    assert_eq!(tls.keys.key_store.location.as_deref(), Some("/k.pem".as_ref()));
    assert_eq!(tls.keys.client_auth.as_deref(), Some("none"));
    let lines = format!("admin.forceHttps=true\nadmin.portUnification=true\nadmin.needClientAuth=true\n{stores}");
    assert_eq!(cause(&lines), missing("admin.forceHttps", "ssl.quorum.trustStore.location"));
    let tls = config(&format!("{lines}ssl.quorum.trustStore.location=/t.pem\n")).admin.unwrap().tls.unwrap();
    assert!(!tls.is_unified, "forceHttps wins");
    assert_eq!(tls.keys.client_auth.as_deref(), Some("need"));
}

#[test]
fn prometheus_has_ports_only_with_its_provider() {
    assert_eq!(config("metricsProvider.httpPort=7001\n").prometheus, None);
    let page = config(PROMETHEUS).prometheus.unwrap();
    assert_eq!(page.http.map(|http| (http.ip, http.port)), Some(("0.0.0.0".parse().ok(), 7000)));
    assert_eq!((page.https, page.exports_process, page.compatibility), (None, true, MetricsCompatibility::V3_9));
    let lines = format!("{PROMETHEUS}metricsProvider.compatibility=3.10\n");
    assert_eq!(cause(&lines), Cause::NoMetricsPort, "3.10 has no default port");
    let page = config(&format!("{lines}metricsProvider.httpPort=0\nmetricsProvider.exportJvmInfo=false\n"));
    let page = page.prometheus.unwrap();
    assert_eq!((page.http.unwrap().port, page.exports_process), (0, false));
    assert_eq!(page.compatibility, MetricsCompatibility::V3_10);
}

#[test]
fn https_of_prometheus_needs_stores() {
    let lines = format!("{PROMETHEUS}metricsProvider.httpsPort=7443\n");
    let missing = |key| Cause::StoreNotSet { port: "metricsProvider.httpsPort", key };
    assert_eq!(cause(&lines), missing("metricsProvider.ssl.keyStore.location"));
    let lines = format!("{lines}metricsProvider.ssl.keyStore.location=/k.p12\n");
    assert_eq!(cause(&lines), missing("metricsProvider.ssl.trustStore.location"));
    let keys = config(&format!("{lines}metricsProvider.ssl.need.client.auth=false\n")).prometheus.unwrap().keys;
    assert_eq!(keys.unwrap().client_auth.as_deref(), Some("none"));
}

#[test]
fn secrets_are_not_published() {
    let published = config("ssl.quorum.keyStore.password=hush\nadmin.serverPort=1\n").published;
    assert_eq!(
        published.properties,
        [
            ("zookeeper.admin.serverPort".to_owned(), "1".to_owned()),
            ("zookeeper.ssl.quorum.keyStore.password".to_owned(), "(hidden)".to_owned()),
        ]
    );
    assert_eq!(
        published.file.as_deref(),
        Some("dataDir=/d\nssl.quorum.keyStore.password=(hidden)\nadmin.serverPort=1\n")
    );
}
