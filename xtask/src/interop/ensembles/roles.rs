//! Mixed ensembles with local sessions, read-only servers and observer masters.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use ox_proto::multi::{MultiHeader, MultiOp};
use ox_proto::request::{CreateRequest, PathRequest, PathWatch};
use ox_proto::{DecodeError, ErrorCode, Jute, OpCode, RawAcls, Reader};

use super::cases::Case;
use super::failover_client::FailoverClient;
use super::mixed_ensemble::MixedEnsemble;
use crate::interop::servers::free_port;
use crate::interop::wire::{SessionHandle, SessionRefused, WireClient};
use crate::interop::workspace::Workspace;

const EPHEMERAL: i32 = 1;

pub(super) fn add_all(cases: &mut Vec<Case>) {
    let mut add = |name: String, is_short, run| cases.push(Case { name, is_short, run });
    for (letters, is_short) in [("aao", false), ("ooa", false), ("ooaA", true), ("aaoO", true)] {
        let run = move |workspace: &_, home: &_| upgrades_local_sessions(workspace, home, letters);
        add(format!("{letters}: local sessions are upgraded"), is_short, Box::new(run));
    }
    for letters in ["oaoA", "aoaO"] {
        let run = move |workspace: &_, home: &_| refuses_upgrade(workspace, home, letters);
        add(format!("{letters}: local sessions stay local"), true, Box::new(run));
    }
    for (letters, is_short) in [("aaaO", false), ("oaaO", true), ("ooaA", true), ("oooA", true), ("oaoO", false)] {
        let run = move |workspace: &_, home: &_| uses_observer_masters(workspace, home, letters);
        add(format!("{letters}: followers are observer masters"), is_short, Box::new(run));
    }
    for letters in ["oao", "aoa"] {
        let run = move |workspace: &_, home: &_| serves_read_only(workspace, home, letters);
        add(format!("{letters}: first server is read-only without a quorum"), true, Box::new(run));
    }
}

fn create(client: &mut WireClient, path: &str, flags: i32) -> Result<i32> {
    let body = CreateRequest { path: Some(path.into()), data: Some(b"data"), acl: RawAcls::OPEN, flags };
    Ok(client.call(OpCode::Create, &body)?.header.err)
}

/// A multi that creates one ephemeral node.
struct OneCreate<'a>(&'a str);

impl<'a> Jute<'a> for OneCreate<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        let request = CreateRequest { path: Some(self.0.into()), data: None, acl: RawAcls::OPEN, flags: EPHEMERAL };
        MultiOp::Create(OpCode::Create, request).put(out);
        MultiHeader::END.put(out);
    }

    fn get(_: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Err(DecodeError::Null) // never received
    }
}

/// Creates an ephemeral node in a multi and returns the error code, 0 for success.
fn create_in_multi(client: &mut WireClient, path: &str) -> Result<i32> {
    let reply = client.call(OpCode::Multi, &OneCreate(path))?;
    let mut body = reply.body()?;
    let header: MultiHeader = body.get()?;
    Ok(if header.op == OpCode::Error.code() { body.get()? } else { 0 })
}

/// Each server has local sessions, unknown to the others, until they create an ephemeral node.
fn upgrades_local_sessions(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let settings = [("localSessionsEnabled", "true"), ("localSessionsUpgradingEnabled", "true")];
    let ensemble = MixedEnsemble::start_with(workspace, home, letters, &settings, &[])?;
    for index in 0..ensemble.len() {
        let (here, next) = (ensemble.address(index), ensemble.address((index + 1) % ensemble.len()));
        let server_name = || format!("server {}", index + 1);
        let mut client = WireClient::connect(here).with_context(server_name)?;
        ensure!(create(&mut client, &format!("/n/{index}"), 0)? == 0, "{}: a plain node is refused", server_name());
        ensemble.wait_for_metric(index, "local_sessions", "1")?;
        ensemble.wait_for_metric(index, "global_sessions", "0")?;
        ensemble.wait_until_in_sync()?; // a server with a lower zxid closes without a reply
        let refused = WireClient::resume(next, &client.session_handle()).is_err_and(|e| e.is::<SessionRefused>());
        ensure!(refused, "{}: another server knows its local session", server_name());
        let mut client = WireClient::resume(here, &client.session_handle()).with_context(server_name)?;
        let path = format!("/e-{index}");
        let err =
            if index % 2 == 0 { create(&mut client, &path, EPHEMERAL)? } else { create_in_multi(&mut client, &path)? };
        ensure!(err == 0, "{}: error {err}", server_name());
        ensemble.wait_for_metric(index, "local_sessions", "0")?;
        (0..ensemble.len()).try_for_each(|other| ensemble.wait_for_metric(other, "global_sessions", "1"))?;
        let mut moved = WireClient::resume(next, &client.session_handle()).with_context(server_name)?;
        moved.call(OpCode::Sync, &PathRequest { path: Some("/".into()) })?.body()?;
        moved.call(OpCode::Exists, &PathWatch { path: Some(path.into()), watch: false })?.body()?;
        moved.close()?;
        (0..ensemble.len()).try_for_each(|other| ensemble.wait_for_metric(other, "ephemerals_count", "0"))?;
    }
    Ok(format!("{} nodes", ensemble.check_trees_equal()?.len()))
}

/// Without upgrading, all servers refuse ephemeral nodes of local sessions with the same errors as Apache.
fn refuses_upgrade(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let ensemble = MixedEnsemble::start_with(workspace, home, letters, &[("localSessionsEnabled", "true")], &[])?;
    let leader = ensemble.leader()?;
    for index in 0..ensemble.len() {
        let mut client = WireClient::connect(ensemble.address(index))?;
        let single = create(&mut client, "/e", EPHEMERAL)?;
        let in_multi = create_in_multi(&mut client, "/e")?;
        let expected = if index == leader { ErrorCode::EphemeralOnLocalSession } else { ErrorCode::SessionExpired };
        let message = format!("server {} replies {single} and {in_multi}", index + 1);
        ensure!((single, in_multi) == (ErrorCode::EphemeralOnLocalSession.code(), expected.code()), message);
        ensure!(create(&mut client, &format!("/n/{index}"), 0)? == 0, "a plain node is refused");
        let session_handle = client.session_handle();
        client.close()?;
        let is_closed =
            WireClient::resume(ensemble.address(index), &session_handle).is_err_and(|e| e.is::<SessionRefused>());
        ensure!(is_closed, "server {} keeps a closed session", index + 1);
    }
    Ok(format!("{} nodes", ensemble.check_trees_equal()?.len()))
}

/// A server without a quorum serves reads to clients that accept a read-only server, until a quorum is back.
fn serves_read_only(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let settings = [("localSessionsEnabled", "true"), ("localSessionsUpgradingEnabled", "true")];
    let mut ensemble =
        MixedEnsemble::start_with(workspace, home, letters, &settings, &[("readonlymode.enabled", "true")])?;
    let here = ensemble.address(0);
    let mut owner = WireClient::connect(here)?;
    ensure!(create(&mut owner, "/e", EPHEMERAL)? == 0, "an ephemeral node is refused");
    ensemble.wait_until_in_sync()?;
    ensemble.wait_for_reply(0, "isro", "rw")?;
    ensemble.kill(1)?;
    ensemble.kill(2)?;
    ensemble.wait_for_reply(0, "isro", "ro")?;
    ensure!(
        ensemble.mode(0).as_deref() == Some("read-only"),
        "the mode is {:?} instead of read-only",
        ensemble.mode(0)
    );
    ensure!(
        WireClient::connect(here).is_err_and(|e| !e.is::<SessionRefused>()),
        "a client that needs writes is accepted"
    );
    let global = owner.session_handle().allow_read_only();
    ensure!(
        WireClient::resume(here, &global).is_err_and(|e| !e.is::<SessionRefused>()),
        "a global session is accepted"
    );
    let mut reader = WireClient::resume(here, &SessionHandle::new(true)).context("connect a read-only client")?;
    ensure!(reader.is_read_only, "the handshake does not report a read-only server");
    let exists = |path: &'static str| PathWatch { path: Some(path.into()), watch: false };
    reader.call(OpCode::Exists, &exists("/e"))?.body()?;
    let err = create(&mut reader, "/x", 0)?;
    ensure!(err == ErrorCode::NotReadOnly.code(), "the reply to a write is {err}");
    let err = reader.call(OpCode::Sync, &PathRequest { path: Some("/".into()) })?.header.err;
    ensure!(err == ErrorCode::NotReadOnly.code(), "the reply to sync is {err}");
    ensemble.start_members(&[1])?;
    ensemble.wait_for_reply(0, "isro", "rw")?;
    ensure!(reader.call(OpCode::Exists, &exists("/e")).is_err(), "the connection of the read-only client stays open");
    ensemble.start_members(&[2])?;
    let mut owner = WireClient::resume(here, &owner.session_handle()).context("resume the global session")?;
    owner.call(OpCode::Exists, &exists("/e"))?.body()?;
    owner.close()?;
    Ok(format!("{} nodes", ensemble.check_trees_equal()?.len()))
}

/// A follower serves the observer, which is the last of `letters`, as its observer master.
fn uses_observer_masters(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let port = free_port()?;
    let port_text = port.to_string();
    let settings = [("observerMasterPort", port_text.as_str())];
    let mut ensemble = MixedEnsemble::start_with(workspace, home, letters, &settings, &[])?;
    let (leader, observer) = (ensemble.leader()?, ensemble.len() - 1);
    let observer_master: usize = ensemble.metric(observer, "observer_master_id")?.parse()?;
    ensure!(observer_master != leader + 1, "the leader serves the observer");
    ensemble.wait_for_metric(observer_master - 1, "synced_observers", "1")?;
    ensemble.wait_for_metric(leader, "synced_observers", "0")?;
    let mut client = WireClient::connect(ensemble.address(observer))?;
    ensure!(create(&mut client, "/e", EPHEMERAL)? == 0, "an ephemeral node is refused");
    for i in 0..100 {
        ensure!(create(&mut client, &format!("/n/o{i}"), 0)? == 0, "a node is refused");
        client.call(OpCode::Sync, &PathRequest { path: Some("/".into()) })?.body()?;
    }
    // The observer master reports touches of the session, and the session can move to any server and back.
    for index in [observer_master - 1, observer, leader, observer] {
        client = WireClient::resume(ensemble.address(index), &client.session_handle())
            .with_context(|| format!("server {}", index + 1))?;
        client.call(OpCode::Exists, &PathWatch { path: Some("/e".into()), watch: false })?.body()?;
    }
    // The observer restarts and is synchronised by a follower, by DIFF and, without data, by SNAP.
    ensemble.kill(observer)?;
    let mut other = WireClient::connect(ensemble.address(leader))?;
    for i in 0..50 {
        ensure!(create(&mut other, &format!("/n/l{i}"), 0)? == 0, "a node is refused");
    }
    ensemble.start_members(&[observer])?;
    ensemble.check_trees_equal()?;
    ensemble.kill(observer)?;
    ensemble.wipe(observer)?;
    ensemble.start_members(&[observer])?;
    ensemble.check_trees_equal()?;
    // The observer master is killed; the observer finds another one.
    ensemble.kill(observer_master - 1)?;
    let mut client = FailoverClient::new(vec![ensemble.address(observer)])?;
    client.create("/n/after", 0)?;
    client.close()?;
    ensemble.start_members(&[observer_master - 1])?;
    let tree = ensemble.check_trees_equal()?;
    Ok(format!("observer master {}, {} nodes", ensemble.software(observer_master - 1), tree.len()))
}
