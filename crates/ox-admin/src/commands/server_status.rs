//! The server as a whole: mode, statistics, settings, environment, metrics.

use super::{Call, Outcome, Serving};
use crate::json::JsonWriter;
use ox_server::{BufferSizes, MonitorValue, environment as machine_environment};

pub(super) fn ruok(_: &Serving<'_>, _: &mut JsonWriter) -> Outcome {
    Outcome::Done
}

pub(super) fn is_read_only(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    json.key("read_only");
    json.bool(serving.mode.is_read_only());
    Outcome::Done
}

pub(super) fn configuration(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    let settings = serving.server.settings();
    json.key("client_port");
    json.int(settings.client_port.into());
    json.key("data_dir");
    json.text(&settings.data_dir);
    json.key("data_log_dir");
    json.text(&settings.data_log_dir);
    let numbers = [
        ("tick_time", settings.tick_ms.into()),
        ("max_client_cnxns", settings.max_client_cnxns.into()),
        ("min_session_timeout", settings.min_session_timeout_ms.into()),
        ("max_session_timeout", settings.max_session_timeout_ms.into()),
        ("server_id", settings.server_id),
        ("client_port_listen_backlog", settings.listen_backlog.into()),
    ];
    put_numbers(&numbers, json);
    Outcome::Done
}

pub(super) fn dirs(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    let (data, logs) = serving.server.directory_sizes();
    json.key("datadir_size");
    json.unsigned(data);
    json.key("logdir_size");
    json.unsigned(logs);
    Outcome::Done
}

pub(super) fn environment(call: &Call<'_>, json: &mut JsonWriter) -> Outcome {
    for (name, value) in machine_environment(call.context.build) {
        json.key(name);
        json.text(&value);
    }
    Outcome::Done
}

/// Apache's trace mask before the server has one.
const DEFAULT_TRACE_MASK: i64 = 306;

pub(super) fn get_trace_mask(call: &Call<'_>, json: &mut JsonWriter) -> Outcome {
    json.key("tracemask");
    json.int(call.server.as_ref().map_or(DEFAULT_TRACE_MASK, ox_server::ServerHandle::trace_mask));
    Outcome::Done
}

pub(super) fn set_trace_mask(call: &Call<'_>, json: &mut JsonWriter) -> Outcome {
    let needed = "setTraceMask requires long traceMask argument";
    let Some(text) = call.parameter("traceMask") else { return Outcome::Error(needed.to_owned()) };
    let Ok(mask) = text.parse::<i64>() else { return Outcome::Error(format!("{needed}, got {text}")) };
    if let Some(server) = &call.server {
        server.set_trace_mask(mask);
    }
    json.key("tracemask");
    json.int(mask);
    Outcome::Done
}

pub(super) fn hash(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    json.key("digests");
    json.begin_array();
    for (zxid, digest) in serving.server.digests() {
        json.begin_object();
        put_numbers(&[("zxid", zxid), ("digest", digest), ("digest_version", DIGEST_VERSION)], json);
        json.end_object();
    }
    json.end_array();
    Outcome::Done
}

/// Version of the digests' algorithm.
const DIGEST_VERSION: i64 = 2;

pub(super) fn initial_configuration(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    json.key("initial_configuration");
    match &serving.call.context.published.file {
        Some(text) => json.text(text),
        None => json.null(),
    }
    Outcome::Done
}

pub(super) fn system_properties(call: &Call<'_>, json: &mut JsonWriter) -> Outcome {
    let machine = machine_environment(call.context.build).into_iter();
    let machine = machine.filter(|(name, value)| is_property(name) && value != ox_server::UNKNOWN);
    let mut properties: Vec<(String, String)> = machine.map(|(name, value)| (name.to_owned(), value)).collect();
    properties.extend(CONSTANTS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    properties.retain(|(name, _)| call.context.published.properties.iter().all(|(given, _)| given != name));
    properties.extend(call.context.published.properties.iter().cloned());
    properties.sort();
    for (name, value) in properties {
        json.key(&name);
        json.text(&value);
    }
    Outcome::Done
}

/// Whether Java has a system property of this name.
fn is_property(name: &str) -> bool {
    let is_of_java = ["java.", "os.", "user."].iter().any(|prefix| name.starts_with(prefix));
    is_of_java && !name.starts_with("os.memory.") && name != "java.compiler"
}

const CONSTANTS: &[(&str, &str)] =
    &[("file.encoding", "UTF-8"), ("file.separator", "/"), ("line.separator", "\n"), ("path.separator", ":")];

pub(super) fn monitor(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    for (name, value) in serving.server.monitor(serving.mode) {
        json.key(&name);
        match value {
            MonitorValue::Int(value) => json.int(value),
            MonitorValue::Double(value) => json.double(value),
            MonitorValue::Text(text) => json.text(&text),
        }
    }
    Outcome::Done
}

pub(super) fn stat_reset(serving: &Serving<'_>, _: &mut JsonWriter) -> Outcome {
    serving.server.reset_stats();
    Outcome::Done
}

pub(super) fn server_stats(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    let stats = serving.server.stats();
    json.key("version");
    json.text(&serving.server.version());
    json.key("read_only");
    json.bool(serving.mode.is_read_only());
    json.key("server_stats");
    json.begin_object();
    json.key("packets_sent");
    json.unsigned(stats.packets_sent);
    json.key("packets_received");
    json.unsigned(stats.packets_received);
    json.key("fsync_threshold_exceed_count");
    json.unsigned(stats.slow_fsyncs);
    put_sizes("client_response_stats", stats.responses, json);
    json.key("provider_null");
    json.bool(false);
    json.key("uptime");
    json.int(stats.uptime_ms);
    json.key("server_state");
    json.text(serving.mode.name());
    put_numbers(&[("outstanding_requests", stats.outstanding_requests), ("min_latency", stats.min_latency_ms)], json);
    json.key("avg_latency");
    json.double(stats.avg_latency_ms);
    let unsigned = |value: u64| value.cast_signed();
    let numbers = [
        ("max_latency", stats.max_latency_ms),
        ("data_dir_size", unsigned(stats.data_dir_bytes)),
        ("log_dir_size", unsigned(stats.log_dir_bytes)),
        ("last_processed_zxid", stats.last_zxid),
        ("num_alive_client_connections", unsigned(stats.connections as u64)),
        ("auth_failed_count", unsigned(stats.auth_failed)),
        // Compat: Apache derives these names from Java's (`replies_have_the_fields_of_apache`).
        ("non_mtlsremote_conn_count", unsigned(stats.plain_remote)),
        ("non_mtlslocal_conn_count", unsigned(stats.plain_local)),
    ];
    put_numbers(&numbers, json);
    json.end_object();
    put_sizes("client_response", stats.responses, json);
    if serving.mode.is_leader() {
        put_sizes("proposal_stats", stats.proposals, json);
    }
    json.key("node_count");
    json.unsigned(stats.nodes as u64);
    Outcome::Done
}

fn put_sizes(name: &str, sizes: BufferSizes, json: &mut JsonWriter) {
    json.key(name);
    json.begin_object();
    put_numbers(
        &[("last_buffer_size", sizes.last), ("min_buffer_size", sizes.min), ("max_buffer_size", sizes.max)],
        json,
    );
    json.end_object();
}

fn put_numbers(numbers: &[(&str, i64)], json: &mut JsonWriter) {
    for (name, value) in numbers {
        json.key(name);
        json.int(*value);
    }
}
