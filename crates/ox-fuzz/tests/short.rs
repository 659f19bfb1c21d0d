//! A short run of every target.

use ox_fuzz::{TARGETS, Until, run};

/// A test for each target, with its name and a number of inputs.
macro_rules! short_runs {
    ($($test:ident: $name:literal, $inputs:literal;)*) => {
        $(
            #[test]
            fn $test() {
                let target = TARGETS.iter().find(|target| target.name == $name).expect("a target of that name");
                run(target, 1, Until::Inputs($inputs));
            }
        )*

        #[test]
        fn every_target_has_a_short_run() {
            let named: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(named, [$($name),*]);
        }
    };
}

short_runs! {
    connection_target_survives_mutations: "connection", 5_000;
    requests_target_survives_mutations: "requests", 10_000;
    records_target_survives_mutations: "records", 50_000;
    log_target_survives_mutations: "log", 1_000;
    snapshot_target_survives_mutations: "snapshot", 1_000;
    snapshot_gz_target_survives_mutations: "snapshot-gz", 500;
    snapshot_snappy_target_survives_mutations: "snapshot-snappy", 500;
    config_target_survives_mutations: "config", 5_000;
    quorum_packets_target_survives_mutations: "quorum-packets", 20_000;
    quorum_hello_target_survives_mutations: "quorum-hello", 50_000;
    quorum_auth_target_survives_mutations: "quorum-auth", 20_000;
    quorum_notifications_target_survives_mutations: "quorum-notifications", 50_000;
    tls_store_target_survives_mutations: "tls-store", 300;
    tls_hello_target_survives_mutations: "tls-hello", 1_000;
    jaas_target_survives_mutations: "jaas", 10_000;
    auth_to_local_target_survives_mutations: "auth-to-local", 10_000;
    sasl_token_target_survives_mutations: "sasl-token", 2_000;
    keytab_target_survives_mutations: "keytab", 20_000;
    http_target_survives_mutations: "http", 2_000;
    http_query_target_survives_mutations: "http-query", 500;
    http_body_target_survives_mutations: "http-body", 300;
    ensemble_target_survives_mutations: "ensemble", 20_000;
}
