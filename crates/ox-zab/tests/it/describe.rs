//! Effects, packets and notifications as lines of text, in ZooKeeper's words.

use ox_proto::Zxid;
use ox_proto::ensemble::{Addresses, Ensemble, Role};
use ox_proto::txn::{Record, Txn as Body};
use ox_zab::{
    DiskJob, Effect, EncodedTxn, Epoch, LearnerKind, Message, PeerState, ServerId, VoteNotification, ZxidRange,
};

/// A zxid as `EPOCH:COUNTER`.
pub(crate) fn zxid(zxid: Zxid) -> String {
    match zxid.0 {
        i64::MIN => "none".to_owned(),
        negative if negative < 0 => negative.to_string(),
        _ => format!("{}:{}", zxid.epoch(), zxid.counter()),
    }
}

fn server(server: ServerId) -> String {
    if server.0 == i64::MIN { "none".to_owned() } else { server.to_string() }
}

fn range(range: ZxidRange) -> String {
    if range.first == range.last { zxid(range.last) } else { format!("{}..{}", zxid(range.first), zxid(range.last)) }
}

/// Runs of consecutive zxids: `1:1..1:5 2:1`.
pub(crate) fn zxids(zxids: impl IntoIterator<Item = Zxid>) -> String {
    let mut runs: Vec<ZxidRange> = Vec::new();
    for zxid in zxids {
        match runs.last_mut().filter(|run| run.last.0 + 1 == zxid.0) {
            Some(run) => run.last = zxid,
            None => runs.push(zxid.into()),
        }
    }
    if runs.is_empty() { "none".to_owned() } else { runs.into_iter().map(range).collect::<Vec<_>>().join(" ") }
}

pub(crate) fn ids(servers: impl IntoIterator<Item = ServerId>) -> String {
    servers.into_iter().map(server).collect::<Vec<_>>().join(",")
}

pub(crate) fn state(state: PeerState) -> &'static str {
    match state {
        PeerState::Looking => "LOOKING",
        PeerState::Following => "FOLLOWING",
        PeerState::Leading => "LEADING",
        PeerState::Observing => "OBSERVING",
    }
}

pub(crate) fn config(config: &Ensemble) -> String {
    let has = |role| config.members().iter().filter(move |(_, member)| member.role == role).map(|(id, _)| *id);
    let observers = ids(has(Role::Observer));
    let observers = if observers.is_empty() { observers } else { format!(" observers={observers}") };
    format!("voters={}{observers} version={}", ids(has(Role::Participant)), zxid(Zxid(config.version())))
}

fn txn(txn: &EncodedTxn) -> String {
    let text = match Record::decode(&txn.record).map(|record| record.txn) {
        Ok(Body::Reconfig { data: Some(text), .. }) => std::str::from_utf8(text).unwrap(),
        _ => return zxid(txn.zxid),
    };
    format!("{} (reconfig {})", zxid(txn.zxid), config(&Ensemble::parse(text, Addresses::One).unwrap()))
}

pub(crate) fn notification(note: &VoteNotification) -> String {
    let VoteNotification { state: of, vote, round, .. } = note;
    let epoch = if vote.epoch == i64::MIN { "none".to_owned() } else { vote.epoch.to_string() };
    let (leader, last) = (server(vote.leader), zxid(vote.zxid));
    format!("{} leader={leader} zxid={last} epoch={epoch} round={round}", state(*of))
}

pub(crate) fn message(message: &Message) -> String {
    match message {
        Message::Hello { kind, accepted: Epoch(accepted), config_version, .. } => {
            let name = if *kind == LearnerKind::Follower { "FOLLOWERINFO" } else { "OBSERVERINFO" };
            let version = if *config_version == 0 { String::new() } else { zxid(Zxid(*config_version)) };
            let version = if version.is_empty() { version } else { format!(" config={version}") };
            format!("{name} accepted={accepted}{version}")
        }
        Message::LeaderInfo(epoch) => format!("LEADERINFO epoch={epoch}"),
        Message::AckEpoch { last, current: Some(epoch) } => format!("ACKEPOCH zxid={} epoch={epoch}", zxid(*last)),
        Message::AckEpoch { last, current: None } => format!("ACKEPOCH zxid={}", zxid(*last)),
        Message::Diff(at) => format!("DIFF {}", zxid(*at)),
        Message::Trunc(at) => format!("TRUNC {}", zxid(*at)),
        Message::Snap(at) => format!("SNAP {}", zxid(*at)),
        Message::Proposal(of) => format!("PROPOSAL {}", txn(of)),
        Message::Commit(at) => format!("COMMIT {}", zxid(*at)),
        Message::Commits(run) => format!("COMMIT {}", range(*run)),
        Message::Inform(of) => format!("INFORM {}", txn(of)),
        Message::CommitAndActivate(at, leader) => format!("COMMITANDACTIVATE {} leader={leader}", zxid(*at)),
        Message::InformAndActivate(of, leader) => format!("INFORMANDACTIVATE {} leader={leader}", txn(of)),
        Message::NewLeader { epoch, config: text } => {
            let text = std::str::from_utf8(text).unwrap();
            let versioned = Ensemble::parse(text, Addresses::One).ok().filter(|of| of.version() != 0);
            let config = versioned.map_or_else(String::new, |of| format!(" {}", config(&of)));
            format!("NEWLEADER epoch={epoch}{config}")
        }
        Message::UpToDate => "UPTODATE".to_owned(),
        Message::Ack(at) => format!("ACK {}", zxid(*at)),
        Message::Acks(run) => format!("ACK {}", range(*run)),
        Message::Ping(at) => format!("PING {}", zxid(*at)),
        Message::Pong(at, _) => format!("PONG {}", zxid(*at)),
        Message::Revalidate(..) => "REVALIDATE".to_owned(),
        Message::Revalidated(..) => "REVALIDATED".to_owned(),
        Message::Request(request) => format!("REQUEST of {} bytes", request.body.len()),
        Message::Sync => "SYNC".to_owned(),
        Message::Other(kind) => format!("packet of type {kind}"),
    }
}

fn job(job: DiskJob) -> String {
    match job {
        DiskJob::AcceptedEpoch(epoch) => format!("store accepted epoch {epoch}"),
        DiskJob::CurrentEpoch(epoch) => format!("store current epoch {epoch}"),
        DiskJob::Truncate(at) => format!("truncate the log after {}", zxid(at)),
        DiskJob::Install(at) => format!("install the snapshot at {}", zxid(at)),
        DiskJob::InitializeLog => "initialize the log".to_owned(),
    }
}

/// An effect without the server at the other end of its link.
pub(crate) fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Notify(_, note) => notification(note),
        Effect::Dial(leader) => format!("dial {leader}"),
        Effect::Send(_, packet) => message(packet),
        Effect::SendSnapshot(_) => "SNAP and the snapshot".to_owned(),
        Effect::ReadLog(_, range) => {
            let name = if range.continues { "continue from the log" } else { "read the log" };
            format!("{name} after {} and before {}", zxid(range.after), zxid(range.below))
        }
        Effect::SendLogDiff(_) => "the transactions that were read".to_owned(),
        Effect::Close(_) => String::new(),
        Effect::Disk(of) => format!("disk: {}", job(*of)),
        Effect::Append(of) => format!("disk: append {}", txn(of)),
        Effect::Commit(at) => format!("commit up to {}", zxid(*at)),
        Effect::ApplyToSnapshot(of) => format!("apply {} to the snapshot", txn(of)),
        Effect::Established(epoch) => format!("established in epoch {epoch}"),
        Effect::UpToDate(epoch) => format!("up to date in epoch {epoch}"),
        Effect::StepDown(reason) => format!("step down: {reason:?}"),
        Effect::Looking => "looking".to_owned(),
        Effect::Listen => "listen for learners".to_owned(),
        Effect::ServeObservers => "serve observers".to_owned(),
        Effect::FromLearner(_, _, packet) | Effect::FromLeader(packet) => {
            format!("for the replica: {}", message(packet))
        }
        Effect::Synced(id) => format!("reply to sync {id}"),
        Effect::ConfigProposed(of) => format!("proposed configuration: {}", config(of)),
        Effect::ActivateConfig(of, None) => format!("active configuration: {}", config(of)),
        Effect::ActivateConfig(of, Some(leader)) => format!("active configuration: {} leader={leader}", config(of)),
    }
}
