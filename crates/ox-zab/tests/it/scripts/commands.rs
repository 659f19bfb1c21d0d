//! The commands of scripts. `testdata/README.md` describes them for authors.

use super::args::{Args, Direction, Millis};
use crate::reconfig_txn::config_of;
use crate::stepped_ensemble::{Server, SteppedEnsemble};
use ox_proto::Zxid;
use ox_proto::ensemble::{Change, ChangeRules, Ensemble};
use ox_zab::{
    DiskDone, ElectionConnection, Eligibility, EncodedTxn, Epoch, Epochs, Input, Message, PeerOptions, PeerState,
    Reason, ServerId, Traffic, Vote, VoteNotification,
};

/// One script that is being run.
#[derive(Default)]
pub(crate) struct Interpreter {
    servers: SteppedEnsemble,
    /// The configuration of new servers, and whether it can be changed.
    config: Option<(Ensemble, bool)>,
}

impl Interpreter {
    /// Runs one command, and returns what happened; `quietly` before a command hides that.
    pub(crate) fn run(&mut self, command: &str) -> Result<Vec<String>, String> {
        if let Some(command) = command.strip_prefix("quietly ") {
            return self.run(command).map(|_| Vec::new());
        }
        let (name, words) = command.split_once(' ').unwrap_or((command, ""));
        let mut args = Args::new(words);
        self.dispatch(name, &mut args)?;
        args.end()?;
        Ok(self.servers.take_lines())
    }

    fn dispatch(&mut self, name: &str, args: &mut Args<'_>) -> Result<(), String> {
        let servers = &mut self.servers;
        match name {
            "ensemble" => self.config = Some((args.ensemble()?, args.flag("dynamic"))),
            "peer" => self.add(args)?,
            "start" => ids(servers, args)?.into_iter().try_for_each(|id| servers.start(id))?,
            "kill" => servers.kill(args.next()?)?,
            "wipe" => servers.server(args.next()?)?.wipe()?,
            "step" => step(servers, args)?,
            "join" => join(servers, args)?,
            "propose" => propose(servers, args)?,
            "sync" => {
                let id = args.next()?;
                let number: usize = args.next()?;
                servers.step(id, Input::Sync(number as u64, Zxid::ZERO))?;
                servers.step(id, Input::Propose(Vec::new()))?;
            }
            "stabilize" => {
                let ids = ids(servers, args)?;
                servers.stabilize(&ids)?;
            }
            "time" | "run" => {
                let Millis(ms) = args.next()?;
                let ids = ids(servers, args)?;
                servers.pass(ms, &ids, name == "run")?;
            }
            "pause" => {
                let id = args.next()?;
                let Millis(ms) = args.next()?;
                servers.now_ms += ms;
                servers.step(id, Input::Pause)?;
            }
            "pings" => servers.shows_pings = true,
            "status" => {
                for id in ids(servers, args)? {
                    let status = servers.status(id)?;
                    servers.report(status);
                }
            }
            "config" => {
                for id in ids(servers, args)? {
                    let configs = servers.configs(id)?;
                    servers.report(configs);
                }
            }
            other => return transport(other, servers, args),
        }
        Ok(())
    }

    /// Adds a server that is down, with what its disk holds.
    fn add(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        let id: ServerId = args.next()?;
        let (committed, is_dynamic) = self.config.clone().ok_or("no ensemble is defined")?;
        let ends: Vec<Zxid> = args.get("log")?.unwrap_or_default();
        let zxids = ends.iter().flat_map(|end| (1..=end.counter()).map(|counter| Zxid::new(end.epoch(), counter)));
        let mut log: Vec<EncodedTxn> = zxids.map(|zxid| EncodedTxn { zxid, record: bytes::Bytes::new() }).collect();
        let mut last = ends.last().copied().unwrap_or(Zxid::ZERO);
        if args.has("reconfig") {
            last = Zxid(last.0 + 1);
            log.push(args.txn_at(last)?);
        }
        let current = args.get("current")?.unwrap_or(Epoch::of(last));
        let accepted = args.get("accepted")?.unwrap_or(current);
        let mut eligibility = Eligibility::HasHistory;
        for (name, value) in [("empty", Eligibility::Empty), ("quarantined", Eligibility::Quarantined)] {
            if args.flag(name) {
                eligibility = value;
            }
        }
        let default = PeerOptions::default();
        let options = PeerOptions {
            serves_observers: args.flag("serves-observers"),
            may_bootstrap: !args.flag("no-bootstrap"),
            max_snap_syncs: args.get("max-snap-syncs")?.unwrap_or(default.max_snap_syncs),
            max_diff_syncs: args.get("max-diff-syncs")?.unwrap_or(default.max_diff_syncs),
            learner_window_bytes: args.get("window")?.unwrap_or(default.learner_window_bytes),
            request_window_bytes: args.get("request-window")?.unwrap_or(default.request_window_bytes),
            epoch_wait_ms: args.millis("epoch-wait")?,
            dial_ms: args.millis("dial-limit")?.unwrap_or(default.dial_ms),
            dial_pause_ms: args.millis("dial-pause")?.unwrap_or(default.dial_pause_ms),
            observer_delay_ms: args.millis("observer-delay")?.unwrap_or(default.observer_delay_ms),
            ..default
        };
        let server = Server {
            log,
            epochs: Epochs { accepted, current },
            eligibility,
            committed,
            proposed: None,
            is_dynamic,
            options,
            recent_max: args.get("recent")?.unwrap_or(500),
            pinned_bytes_max: args.get("pinned")?.unwrap_or(1 << 20),
            observer_master: args.get("observer-master")?,
            is_disk_low: args.flag("disk-low"),
            process: None,
            was_killed: false,
        };
        match self.servers.servers.insert(id, server) {
            None => Ok(()),
            Some(_) => Err(format!("server {id} exists already")),
        }
    }
}

/// Commands about links, sockets and disks.
fn transport(name: &str, servers: &mut SteppedEnsemble, args: &mut Args<'_>) -> Result<(), String> {
    match name {
        "disk" => {
            let count: Option<usize> = args.get("fsync")?;
            servers.fsync_max = count.unwrap_or(usize::MAX);
            for id in ids(servers, args)? {
                while servers.work(id)? && count.is_none() {}
            }
            servers.fsync_max = usize::MAX;
        }
        "connect" => {
            for id in ids(servers, args)? {
                servers.connect(id)?;
            }
        }
        "deliver" => {
            let Direction(from, to) = args.next()?;
            let count: Option<usize> = args.get("count")?;
            for _ in 0..count.unwrap_or(usize::MAX) {
                if !servers.deliver(from, to)? {
                    break;
                }
            }
        }
        "lose" => {
            let Direction(from, to) = args.next()?;
            servers.lose(from, to);
        }
        "cut" => each_direction(args, |(from, to)| servers.cut(from, to))?,
        "heal" => each_direction(args, |direction| {
            servers.cut.remove(&direction);
        })?,
        "socket" => {
            let Direction(from, to) = args.next()?;
            match args.word()? {
                "full" => drop(servers.full.insert((from, to), 0)),
                "drains" => servers.drain_socket(from, to)?,
                other => return Err(format!("{other}: a socket is full, or drains")),
            }
        }
        other => return Err(format!("{other} is no command")),
    }
    Ok(())
}

/// The named servers, or all.
fn ids(servers: &SteppedEnsemble, args: &mut Args<'_>) -> Result<Vec<ServerId>, String> {
    let mut ids = Vec::new();
    while !args.is_empty() {
        ids.push(args.next()?);
    }
    Ok(if ids.is_empty() { servers.all() } else { ids })
}

fn each_direction(args: &mut Args<'_>, mut with: impl FnMut((ServerId, ServerId))) -> Result<(), String> {
    while !args.is_empty() {
        let Direction(from, to) = args.next()?;
        with((from, to));
    }
    Ok(())
}

/// Proposes transactions at an established leader, which logs them too. A reconfiguration may be refused.
fn propose(servers: &mut SteppedEnsemble, args: &mut Args<'_>) -> Result<(), String> {
    let id: ServerId = args.next()?;
    let from: Option<Zxid> = args.get("from")?;
    let leader = servers.process(id)?.peer.role().leader().filter(|leader| leader.is_established());
    let leader = leader.ok_or("the server is no established leader")?;
    let first = leader.zxid_after(leader.last_proposed()).ok_or("no zxid is left")?;
    let count: i64 = args.get("count")?.unwrap_or(1);
    let txn = args.txn_at(first)?;
    if let Some(config) = config_of(&txn) {
        let members = config.to_string();
        let members = members.rsplit_once('\n').map(|(members, _version)| members);
        let rules = ChangeRules { standalone_enabled: false, ..ChangeRules::default() };
        let change = Change { members, ..Change::default() };
        if let Err(code) = leader.check_reconfig(&change, from.map_or(-1, |from| from.0), first, rules) {
            servers.report(format!("{id}: refused: {code:?}"));
            return Ok(());
        }
    }
    let txns: Vec<EncodedTxn> = (0..count).map(|at| EncodedTxn { zxid: Zxid(first.0 + at), ..txn.clone() }).collect();
    servers.step(id, Input::Propose(txns.clone()))?;
    txns.into_iter().try_for_each(|txn| servers.append(id, txn))
}

/// A server learns of a leader that the script plays, connects to it, and accepts its epoch.
fn join(servers: &mut SteppedEnsemble, args: &mut Args<'_>) -> Result<(), String> {
    let (id, leader): (ServerId, ServerId) = (args.next()?, args.need("leader")?);
    let vote = Vote { leader, zxid: Zxid::ZERO, epoch: 0 };
    let voters = servers.server(id)?.committed.voters().filter(|voter| ![id, leader].contains(voter));
    for from in voters.chain([leader]).collect::<Vec<_>>() {
        let state = if from == leader { PeerState::Leading } else { PeerState::Following };
        let note = VoteNotification { state, vote, round: 1, has_version: true };
        servers.step(id, Input::Notification(from, note))?;
    }
    let link = servers.open_link(id, leader);
    servers.step(id, Input::Dialed(leader, Some(link)))?;
    servers.step(id, Input::Packet(link, Message::LeaderInfo(args.need("epoch")?)))?;
    while servers.work(id)? {}
    Ok(())
}

/// Passes one input to one server, as if it came from servers that the script plays itself.
fn step(servers: &mut SteppedEnsemble, args: &mut Args<'_>) -> Result<(), String> {
    let id: ServerId = args.next()?;
    let input = match args.word()? {
        "notification" => Input::Notification(args.need("from")?, args.notification()?),
        "config" => {
            let from = args.need("from")?;
            return servers.receive_config(id, from, args.ensemble()?);
        }
        "election-link" => {
            let other = args.next()?;
            let link = match args.word()? {
                "up" => ElectionConnection::Up,
                "down" => ElectionConnection::Down,
                "connecting" => ElectionConnection::Connecting,
                state => return Err(format!("{state}: an election connection is up, down or connecting")),
            };
            Input::ElectionLink(other, link)
        }
        "dialed" => {
            let leader = args.next()?;
            let link = (!args.flag("refused")).then(|| servers.open_link(id, leader));
            Input::Dialed(leader, link)
        }
        "link" => Input::LinkOpened(servers.open_link(args.need("from")?, id)),
        "closed" => Input::LinkClosed(servers.link(id, args.need("from")?)?),
        "packet" => {
            let from = args.need("from")?;
            let link = servers.link(id, from)?;
            if !servers.process(id)?.peer.takes_packets(link) {
                return Err(format!("server {id} takes no packet before its disk has worked"));
            }
            Input::Packet(link, args.message(from)?)
        }
        "send" => {
            let (to, count) = (args.need("to")?, args.get("count")?.unwrap_or(1));
            let (link, message) = (servers.link(id, to)?, args.message(id)?);
            return (0..count).try_for_each(|_: usize| servers.step(id, Input::Send(link, message.clone())));
        }
        "sent" => Input::Traffic(servers.link(id, args.need("to")?)?, Traffic::Sent),
        "received" => Input::Traffic(servers.link(id, args.need("from")?)?, Traffic::Received),
        "truncated" => {
            let end = args.get("end")?;
            servers.skip_truncation(id)?;
            Input::Done(DiskDone::Truncated(end))
        }
        "snapshot" => {
            let last = args.next()?;
            servers.process(id)?.snapshot = vec![args.txn_at(last)?];
            Input::SnapshotReceived
        }
        "applied" => Input::Applied(args.next()?),
        "step-down" => Input::StepDown(Reason::NoQuorum),
        "disk-low" => Input::DiskLow(true),
        "disk-free" => Input::DiskLow(false),
        other => return Err(format!("{other} is no input")),
    };
    servers.step(id, input)
}
