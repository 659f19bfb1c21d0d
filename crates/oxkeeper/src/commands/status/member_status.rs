//! The state of one member, from its replies to four-letter commands.

use super::members::FoundMember;
use crate::four_letter::{self, Reply};
use ox_proto::Zxid;
use ox_tls::ClientTls;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Why a server reports nothing that has no leader.
pub(super) const NO_QUORUM: &str = "no quorum";

#[derive(Clone, Debug, PartialEq)]
pub(super) struct MemberStatus {
    pub(super) member: FoundMember,
    /// What the member reports, or why it does not.
    pub(super) report: Result<MemberReport, String>,
    /// Transactions that the member is behind the most advanced one of its epoch.
    pub(super) lag: Option<i64>,
}

/// Values that the member does not report are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MemberReport {
    /// The id that the server reports, set if it executes `conf`.
    pub(super) id: Option<i64>,
    /// `leader`, `follower`, `observer`, `standalone` or `read-only`.
    pub(super) role: String,
    pub(super) zxid: Option<Zxid>,
    pub(super) latency: Option<Latency>,
    pub(super) connections: Option<u64>,
    pub(super) outstanding: Option<u64>,
    pub(super) nodes: Option<u64>,
    pub(super) version: Option<String>,
    /// Size of snapshots and logs.
    pub(super) disk_bytes: Option<u64>,
    pub(super) uptime_ms: Option<u64>,
}

/// Latencies of requests in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latency {
    pub(super) min: f64,
    pub(super) avg: f64,
    pub(super) max: f64,
}

impl Latency {
    /// Parses the three numbers of `srvr`, such as `0/0.5/12`.
    fn parse(text: &str) -> Option<Self> {
        let numbers: Vec<f64> = text.split('/').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?;
        let [min, avg, max] = numbers[..] else { return None };
        Some(Self { min, avg, max })
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}/{:.1}/{:.0}", self.min, self.avg, self.max)
    }
}

/// Asks all members at the same time.
pub(super) fn ask_all(members: Vec<FoundMember>, tls: Option<&ClientTls>, limit: Duration) -> Vec<MemberStatus> {
    let mut members: Vec<MemberStatus> = std::thread::scope(|scope| {
        let asked: Vec<_> = members
            .into_iter()
            .map(|member| {
                let (address, may_be_plain) = (member.address.clone().unwrap_or_default(), member.may_be_plain);
                (member, scope.spawn(move || ask(&address, (tls, may_be_plain), limit)))
            })
            .collect();
        let joined = asked.into_iter().map(|(member, thread)| {
            let report = thread.join().unwrap_or_else(|_| Err("failed".to_owned()));
            let id = member.id.or(report.as_ref().ok().and_then(|report| report.id));
            MemberStatus { member: FoundMember { id, ..member }, report, lag: None }
        });
        joined.collect()
    });
    let zxid = |member: &MemberStatus| member.report.as_ref().ok().and_then(|report| report.zxid);
    let newest = members.iter().filter_map(zxid).max();
    for member in &mut members {
        // Zxids of different epochs do not tell how many transactions are between them.
        member.lag = newest
            .zip(zxid(member))
            .filter(|(newest, own)| newest.epoch() == own.epoch())
            .map(|(newest, own)| i64::from(newest.counter()) - i64::from(own.counter()));
    }
    members
}

/// Asks with TLS if it is given. A port that may be plain, and does not answer in TLS, is asked without it: the commands
/// contain no secrets.
fn ask(
    address: &str,
    (mut tls, may_be_plain): (Option<&ClientTls>, bool),
    limit: Duration,
) -> Result<MemberReport, String> {
    let mut reply = four_letter::ask(address, "srvr", tls, limit);
    if may_be_plain && tls.is_some() && reply.as_ref().is_err_and(four_letter::is_not_tls) {
        tls = None;
        reply = four_letter::ask(address, "srvr", tls, limit);
    }
    let text = match reply {
        Ok(Reply::Text(text) | Reply::NotAllowed(text)) => text,
        Err(error) => return Err(ox_shell::four_letter::cause(&error)),
    };
    let mut report = from_srvr(&text)?;
    let more = |command, separator| match four_letter::ask(address, command, tls, limit) {
        Ok(Reply::Text(text)) => values(&text, separator),
        Ok(Reply::NotAllowed(_)) | Err(_) => BTreeMap::new(),
    };
    report.uptime_ms = number(&more("mntr", '\t'), "zk_uptime");
    let (conf, dirs) = (more("conf", '='), more("dirs", ':'));
    let is_member = report.role != "standalone"; // a standalone server has the id 0
    report.id = conf.get("serverId").filter(|_| is_member).and_then(|id| id.parse().ok());
    report.disk_bytes = disk_bytes(&conf, &dirs);
    Ok(report)
}

/// The size of snapshots and logs. A directory for both is counted once; it is recognised by its path in `conf`, or by
/// equal sizes in `dirs` if the server does not execute `conf`.
fn disk_bytes(conf: &BTreeMap<String, String>, dirs: &BTreeMap<String, String>) -> Option<u64> {
    let (data, log) = number(dirs, "datadir_size").zip(number(dirs, "logdir_size"))?;
    let is_shared = match (conf.get("dataDir"), conf.get("dataLogDir")) {
        (Some(data), Some(log)) => data == log,
        _ => data == log,
    };
    Some(if is_shared { data } else { data.saturating_add(log) })
}

fn from_srvr(text: &str) -> Result<MemberReport, String> {
    let values = values(text, ':');
    let Some(role) = values.get("Mode") else {
        return Err(if text.contains("not currently serving") { NO_QUORUM.to_owned() } else { "no reply".to_owned() });
    };
    let version = values.get("Zookeeper version");
    Ok(MemberReport {
        id: None,
        role: role.clone(),
        zxid: values.get("Zxid").and_then(|zxid| i64::from_str_radix(zxid.strip_prefix("0x")?, 16).ok()).map(Zxid),
        latency: values.get("Latency min/avg/max").and_then(|text| Latency::parse(text)),
        connections: number(&values, "Connections"),
        outstanding: number(&values, "Outstanding"),
        nodes: number(&values, "Node count"),
        version: version.map(|version| version.split(',').next().unwrap_or_default().to_owned()),
        disk_bytes: None,
        uptime_ms: None,
    })
}

fn values(text: &str, separator: char) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

fn number(values: &BTreeMap<String, String>, name: &str) -> Option<u64> {
    values.get(name)?.parse().ok()
}

impl MemberStatus {
    pub(super) fn is_serving(&self) -> bool {
        self.report.is_ok()
    }

    /// Whether it shows that the ensemble commits writes: a leader, a standalone server, or a learner of a leader.
    pub(super) fn can_commit(&self) -> bool {
        self.report.as_ref().is_ok_and(|report| report.role != "read-only")
    }

    pub(super) fn in_json(&self) -> Value {
        let report = self.report.as_ref().ok();
        let zxid = report.and_then(|report| report.zxid);
        let latency = report.and_then(|report| report.latency);
        json!({
            "id": self.member.id,
            "address": self.member.address,
            "voter": !self.member.is_observer,
            "role": report.map(|report| &report.role),
            "error": self.report.as_ref().err(),
            "epoch": zxid.map(|zxid| zxid.epoch()),
            "zxid": zxid.map(|zxid| zxid.to_string()),
            "lag": self.lag,
            "latency_min_ms": latency.map(|latency| latency.min),
            "latency_avg_ms": latency.map(|latency| latency.avg),
            "latency_max_ms": latency.map(|latency| latency.max),
            "connections": report.and_then(|report| report.connections),
            "outstanding": report.and_then(|report| report.outstanding),
            "nodes": report.and_then(|report| report.nodes),
            "disk_bytes": report.and_then(|report| report.disk_bytes),
            "uptime_ms": report.and_then(|report| report.uptime_ms),
            "version": report.and_then(|report| report.version.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn srvr_alone_gives_role_zxid_and_latency() {
        let text = "Zookeeper version: 3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024-10-17 23:21 UTC\n\
                    Latency min/avg/max: 0/0.5/12\nReceived: 3\nSent: 2\nConnections: 4\nOutstanding: 0\n\
                    Zxid: 0x200000007\nMode: follower\nNode count: 9\n";
        let report = from_srvr(text).unwrap();
        assert_eq!((report.role.as_str(), report.zxid), ("follower", Some(Zxid(0x2_0000_0007))));
        assert_eq!(report.latency, Some(Latency { min: 0.0, avg: 0.5, max: 12.0 }));
        assert_eq!((report.connections, report.nodes), (Some(4), Some(9)));
        assert_eq!(Latency::parse("0/2.1111/14").unwrap().to_string(), "0/2.1/14");
        assert_eq!(report.version.as_deref(), Some("3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee"));
        assert_eq!(from_srvr("This ZooKeeper instance is not currently serving requests\n"), Err(NO_QUORUM.to_owned()));
    }

    #[test]
    fn shared_directory_is_counted_once() {
        let map =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let dirs = map(&[("datadir_size", "5"), ("logdir_size", "5")]);
        let other = map(&[("datadir_size", "5"), ("logdir_size", "7")]);
        assert_eq!(disk_bytes(&map(&[("dataDir", "/d"), ("dataLogDir", "/d")]), &other), Some(5));
        assert_eq!(disk_bytes(&map(&[("dataDir", "/d"), ("dataLogDir", "/l")]), &dirs), Some(10));
        assert_eq!(disk_bytes(&map(&[]), &dirs), Some(5));
        assert_eq!(disk_bytes(&map(&[]), &other), Some(12));
        assert_eq!(disk_bytes(&map(&[("dataDir", "/d")]), &map(&[])), None);
    }
}
