//! The ensemble: `leader`, `voting_view`, `observers`, `zabstate`.

use super::{Call, Outcome, Serving};
use crate::json::JsonWriter;
use ox_server::{EnsembleReport, MemberReport};

/// The ensemble, if the server is part of one that has a leader.
fn ensemble(serving: &Serving<'_>) -> Option<EnsembleReport> {
    if serving.mode.is_in_quorum() { serving.server.ensemble() } else { None }
}

pub(super) fn leader(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    let Some(report) = ensemble(serving) else { return Outcome::Error("server is not initialized".to_owned()) };
    let leader = report.leader.and_then(|leader| report.members.iter().find(|member| member.id == leader));
    let hosts = leader.map(|leader| leader.quorum.iter().map(|(host, _)| host.as_str()).collect::<Vec<_>>());
    json.key("is_leader");
    json.bool(serving.mode.is_leader());
    json.key("leader_id");
    json.int(report.leader.unwrap_or(-1));
    json.key("leader_ip");
    json.text(&hosts.unwrap_or_default().join("|"));
    Outcome::Done
}

pub(super) fn voting_view(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    json.key("current_config");
    json.begin_object();
    for member in ensemble(serving).iter().flat_map(|report| &report.members).filter(|member| member.is_voter) {
        json.key(&member.id.to_string());
        json.begin_object();
        json.key("server_addresses");
        put_addresses(&member.quorum, json);
        json.key("election_addresses");
        put_addresses(&member.election, json);
        json.key("client_address");
        json.text(&client_address(member));
        json.key("learner_type");
        json.text("participant");
        json.end_object();
    }
    json.end_object();
    Outcome::Done
}

pub(super) fn observers(serving: &Serving<'_>, json: &mut JsonWriter) -> Outcome {
    let observers = ensemble(serving).map(|report| report.observers).unwrap_or_default();
    json.key("synced_observers");
    json.unsigned(observers.len() as u64);
    json.key("observers");
    json.begin_array();
    for observer in observers {
        json.begin_object();
        json.key("remote_socket_address");
        json.text(&observer.address);
        json.key("sid");
        json.int(observer.server);
        json.key("established");
        json.int(observer.established_ms);
        // Counted per server in the metrics, not per connection.
        for name in ["queued_packets", "queued_packets_size", "packets_received", "packets_sent", "requests"] {
            json.key(name);
            json.int(0);
        }
        json.key("last_zxid");
        json.int(0);
        json.end_object();
    }
    json.end_array();
    Outcome::Done
}

pub(super) fn observer_reset(_: &Serving<'_>, _: &mut JsonWriter) -> Outcome {
    Outcome::Done
}

pub(super) fn zabstate(call: &Call<'_>, json: &mut JsonWriter) -> Outcome {
    let serving = call.server.as_ref().and_then(|server| {
        let mode = server.mode()?;
        ensemble(&Serving { call, server, mode }).map(|report| (mode, report))
    });
    let Some((mode, report)) = serving else {
        json.key("voting");
        json.bool(false);
        json.key("zabstate");
        json.text("");
        return Outcome::Done;
    };
    json.key("myid");
    json.int(report.server);
    json.key("is_leader");
    json.bool(mode.is_leader());
    let own = report.members.iter().find(|member| member.id == report.server);
    json.key("quorum_address");
    put_bean(own.map_or(&[], |own| &own.quorum), json);
    json.key("election_address");
    put_bean(own.map_or(&[], |own| &own.election), json);
    json.key("client_address");
    json.text(&own.map(client_address).unwrap_or_default());
    json.key("voting");
    json.bool(own.is_some_and(|own| own.is_voter));
    json.key("last_zxid");
    json.text(&format!("{:#x}", report.last_zxid));
    json.key("zab_epoch");
    json.int(report.last_zxid >> 32);
    json.key("zab_counter");
    json.int(report.last_zxid & 0xffff_ffff);
    json.key("zabstate");
    json.text("broadcast");
    Outcome::Done
}

fn address((host, port): &(String, u16)) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn client_address(member: &MemberReport) -> String {
    member.client.as_ref().map(address).unwrap_or_default()
}

fn put_addresses(addresses: &[(String, u16)], json: &mut JsonWriter) {
    json.begin_array();
    addresses.iter().for_each(|each| json.text(&address(each)));
    json.end_array();
}

/// The addresses as Apache's reflection shows its Java object. Oxkeeper does not probe them: all count as reachable.
fn put_bean(addresses: &[(String, u16)], json: &mut JsonWriter) {
    let first = addresses.first().map(address).unwrap_or_default();
    json.begin_object();
    json.key("empty");
    json.bool(addresses.is_empty());
    json.key("all_addresses");
    put_addresses(addresses, json);
    json.key("wildcard_addresses");
    json.begin_array();
    addresses.iter().for_each(|(_, port)| json.text(&format!("0.0.0.0:{port}")));
    json.end_array();
    json.key("all_ports");
    json.begin_array();
    addresses.iter().for_each(|(_, port)| json.int((*port).into()));
    json.end_array();
    json.key("all_host_strings");
    json.begin_array();
    addresses.iter().for_each(|(host, _)| json.text(host));
    json.end_array();
    json.key("reachable_address");
    json.text(&first);
    for name in ["all_reachable_addresses", "all_reachable_addresses_or_all"] {
        json.key(name);
        put_addresses(addresses, json);
    }
    for name in ["reachable_or_one", "one"] {
        json.key(name);
        json.text(&first);
    }
    json.end_object();
}
