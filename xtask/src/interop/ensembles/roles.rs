//! Mixed ensembles with local sessions, read-only servers and observer masters.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use ox_proto::multi::{MultiHeader, MultiOp};
use ox_proto::request::CreateRequest;
use ox_proto::{ErrorCode, OpCode, RawAcls};
use ox_testkit::{OpenError, RawClient, RawConnection, RawHandshake, free_port};
use std::net::SocketAddr;

use super::cases::Case;
use super::mixed_ensemble::MixedEnsemble;
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

const SESSION_MS: i32 = 60_000;

fn connect(address: SocketAddr) -> RawClient {
    RawClient::open(address, SESSION_MS)
}

fn resume(address: SocketAddr, handshake: &RawHandshake) -> Result<RawClient, OpenError> {
    RawClient::open_over(RawConnection::connect(address), handshake)
}

fn is_refused(address: SocketAddr, handshake: &RawHandshake) -> bool {
    matches!(resume(address, handshake), Err(OpenError::Refused))
}

/// Whether the server closes the connection instead of a reply to the handshake.
fn is_closed(address: SocketAddr, handshake: &RawHandshake) -> bool {
    matches!(resume(address, handshake), Err(OpenError::Connection(_)))
}

/// Creates a node and returns the error code.
fn create(client: &mut RawClient, path: &str, flags: i32) -> i32 {
    client.create_as(path, flags).err
}

fn sync(client: &mut RawClient) -> i32 {
    client.ask(|packet, xid| packet.of_path(xid, OpCode::Sync, "/")).err
}

/// Creates an ephemeral node in a multi and returns the error code, 0 for success.
fn create_in_multi(client: &mut RawClient, path: &str) -> Result<i32> {
    let request = CreateRequest { path: Some(path.into()), data: None, acl: RawAcls::OPEN, flags: EPHEMERAL };
    let reply = client.ask(|packet, xid| packet.multi(xid, &[MultiOp::Create(OpCode::Create, request.clone())]));
    let mut body = reply.ok().map_err(|code| anyhow!("error {code}"))?;
    let header: MultiHeader = body.get()?;
    Ok(if header.op == OpCode::Error.code() { body.get()? } else { 0 })
}

/// Each server has local sessions, unknown to the others, until they create an ephemeral node.
fn upgrades_local_sessions(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let settings = "localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true\n";
    let ensemble = MixedEnsemble::start_with(workspace, home, letters, settings, &[])?;
    for index in 0..ensemble.len() {
        let (here, next) = (ensemble.addresses[index], ensemble.addresses[(index + 1) % ensemble.len()]);
        let server_name = || format!("server {}", index + 1);
        let mut client = connect(here);
        ensure!(create(&mut client, &format!("/n/{index}"), 0) == 0, "{}: a plain node is refused", server_name());
        ensemble.wait_for_metric(index, "local_sessions", "1");
        ensemble.wait_for_metric(index, "global_sessions", "0");
        ensemble.wait_until_in_sync(); // a server with a lower zxid closes without a reply
        ensure!(is_refused(next, &client.handshake()), "{}: another server knows its local session", server_name());
        let mut client = resume(here, &client.handshake()).with_context(server_name)?;
        let path = format!("/e-{index}");
        let err =
            if index % 2 == 0 { create(&mut client, &path, EPHEMERAL) } else { create_in_multi(&mut client, &path)? };
        ensure!(err == 0, "{}: error {err}", server_name());
        ensemble.wait_for_metric(index, "local_sessions", "0");
        (0..ensemble.len()).for_each(|other| ensemble.wait_for_metric(other, "global_sessions", "1"));
        let mut moved = resume(next, &client.handshake()).with_context(server_name)?;
        ensure!(sync(&mut moved) == 0 && moved.exists(&path).err == 0, "{}: its node is missing", server_name());
        moved.close();
        (0..ensemble.len()).for_each(|other| ensemble.wait_for_metric(other, "ephemerals_count", "0"));
    }
    Ok(format!("{} nodes", ensemble.check_trees_equal().len()))
}

/// Without upgrading, all servers refuse ephemeral nodes of local sessions with the same errors as Apache.
fn refuses_upgrade(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let ensemble = MixedEnsemble::start_with(workspace, home, letters, "localSessionsEnabled=true\n", &[])?;
    let leader = ensemble.leader();
    for index in 0..ensemble.len() {
        let mut client = connect(ensemble.addresses[index]);
        let single = create(&mut client, "/e", EPHEMERAL);
        let in_multi = create_in_multi(&mut client, "/e")?;
        let expected = if index == leader { ErrorCode::EphemeralOnLocalSession } else { ErrorCode::SessionExpired };
        let message = format!("server {} replies {single} and {in_multi}", index + 1);
        ensure!((single, in_multi) == (ErrorCode::EphemeralOnLocalSession.code(), expected.code()), message);
        ensure!(create(&mut client, &format!("/n/{index}"), 0) == 0, "a plain node is refused");
        let handshake = client.handshake();
        client.close();
        ensure!(is_refused(ensemble.addresses[index], &handshake), "server {} keeps a closed session", index + 1);
    }
    Ok(format!("{} nodes", ensemble.check_trees_equal().len()))
}

/// A server without a quorum serves reads to clients that accept a read-only server, until a quorum is back.
fn serves_read_only(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let settings = "localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true\n";
    let mut ensemble = MixedEnsemble::start_with(workspace, home, letters, settings, &["readonlymode.enabled=true"])?;
    let here = ensemble.addresses[0];
    let mut owner = connect(here);
    ensure!(create(&mut owner, "/e", EPHEMERAL) == 0, "an ephemeral node is refused");
    ensemble.wait_until_in_sync();
    ensemble.wait_for_reply(0, "isro", "rw");
    ensemble.kill(1);
    ensemble.kill(2);
    ensemble.wait_for_reply(0, "isro", "ro");
    ensure!(
        ensemble.mode(0).as_deref() == Some("read-only"),
        "the mode is {:?} instead of read-only",
        ensemble.mode(0)
    );
    let (new, reading) = (RawHandshake::new(SESSION_MS), Some(true));
    ensure!(is_closed(here, &new), "a client that needs writes is accepted");
    let global = RawHandshake { read_only: reading, ..owner.handshake() };
    ensure!(is_closed(here, &global), "a global session is accepted");
    let mut reader = resume(here, &RawHandshake { read_only: reading, ..new }).context("connect a read-only client")?;
    ensure!(reader.hello.read_only == reading, "the handshake does not report a read-only server");
    ensure!(reader.exists("/e").err == 0, "a read-only server does not show a node");
    let err = create(&mut reader, "/x", 0);
    ensure!(err == ErrorCode::NotReadOnly.code(), "the reply to a write is {err}");
    let err = sync(&mut reader);
    ensure!(err == ErrorCode::NotReadOnly.code(), "the reply to sync is {err}");
    ensemble.start_members(&[1]);
    ensemble.wait_for_reply(0, "isro", "rw");
    let asked = reader.try_ask(|packet, xid| packet.get(xid, "/e"));
    ensure!(asked.is_err(), "the connection of the read-only client stays open");
    ensemble.start_members(&[2]);
    let mut owner = resume(here, &owner.handshake()).context("resume the global session")?;
    ensure!(owner.exists("/e").err == 0, "the node of the global session is missing");
    owner.close();
    Ok(format!("{} nodes", ensemble.check_trees_equal().len()))
}

/// A follower serves the observer, which is the last of `letters`, as its observer master.
fn uses_observer_masters(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let settings = &format!("observerMasterPort={}\n", free_port());
    let mut ensemble = MixedEnsemble::start_with(workspace, home, letters, settings, &[])?;
    let (leader, observer) = (ensemble.leader(), ensemble.len() - 1);
    let observer_master = ensemble.metric(observer, "observer_master_id").context("no observer master")?;
    let observer_master: usize = observer_master.parse()?;
    ensure!(observer_master != leader + 1, "the leader serves the observer");
    ensemble.wait_for_metric(observer_master - 1, "synced_observers", "1");
    ensemble.wait_for_metric(leader, "synced_observers", "0");
    let mut client = connect(ensemble.addresses[observer]);
    ensure!(create(&mut client, "/e", EPHEMERAL) == 0, "an ephemeral node is refused");
    for i in 0..100 {
        ensure!(create(&mut client, &format!("/n/o{i}"), 0) == 0, "a node is refused");
        ensure!(sync(&mut client) == 0, "sync is refused");
    }
    // The observer master reports touches of the session, and the session can move to any server and back.
    for index in [observer_master - 1, observer, leader, observer] {
        client =
            resume(ensemble.addresses[index], &client.handshake()).with_context(|| format!("server {}", index + 1))?;
        ensure!(client.exists("/e").err == 0, "server {} does not show the node", index + 1);
    }
    // The observer restarts and is synchronised by a follower, by DIFF and, without data, by SNAP.
    ensemble.kill(observer);
    let mut other = connect(ensemble.addresses[leader]);
    for i in 0..50 {
        ensure!(create(&mut other, &format!("/n/l{i}"), 0) == 0, "a node is refused");
    }
    ensemble.start_members(&[observer]);
    ensemble.check_trees_equal();
    ensemble.kill(observer);
    ensemble.servers[observer].wipe();
    ensemble.start_members(&[observer]);
    ensemble.check_trees_equal();
    // The observer master is killed; the observer finds another one.
    ensemble.kill(observer_master - 1);
    let mut client = ensemble.client_of(observer);
    client.create("/n/after", 0);
    client.close();
    ensemble.start_members(&[observer_master - 1]);
    let tree = ensemble.check_trees_equal();
    Ok(format!("observer master {}, {} nodes", ensemble.software(observer_master - 1), tree.len()))
}
