//! Mixed ensembles with local sessions, with readers of a server that is cut off, and with observers of followers.

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

/// Letters are servers, as in the other cases.
pub(super) fn add_all(cases: &mut Vec<Case>) {
    let mut add = |name: String, is_short, run| cases.push(Case { name, is_short, run });
    for (letters, is_short) in [("aao", false), ("ooa", false), ("ooaA", true), ("aaoO", true)] {
        let run = move |workspace: &_, home: &_| becomes_global(workspace, home, letters);
        add(format!("{letters}: local sessions become global"), is_short, Box::new(run));
    }
    for letters in ["oaoA", "aoaO"] {
        let run = move |workspace: &_, home: &_| stays_local(workspace, home, letters);
        add(format!("{letters}: local sessions stay local"), true, Box::new(run));
    }
    for (letters, is_short) in [("aaaO", false), ("oaaO", true), ("ooaA", true), ("oooA", true), ("oaoO", false)] {
        let run = move |workspace: &_, home: &_| observes_followers(workspace, home, letters);
        add(format!("{letters}: observers of followers"), is_short, Box::new(run));
    }
    for letters in ["oao", "aoa"] {
        let run = move |workspace: &_, home: &_| reads_alone(workspace, home, letters);
        add(format!("{letters}: the first is cut off and read"), true, Box::new(run));
    }
}

fn create(client: &mut WireClient, path: &str, flags: i32) -> Result<i32> {
    let body = CreateRequest { path: Some(path.into()), data: Some(b"data"), acl: RawAcls::OPEN, flags };
    Ok(client.call(OpCode::Create, &body)?.header.err)
}

/// A multi of one create.
struct OneCreate<'a>(&'a str);

impl<'a> Jute<'a> for OneCreate<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        let request = CreateRequest { path: Some(self.0.into()), data: None, acl: RawAcls::OPEN, flags: EPHEMERAL };
        MultiOp::Create(OpCode::Create, request).put(out);
        MultiHeader::END.put(out);
    }

    fn get(_: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Err(DecodeError::Null) // it is only sent
    }
}

/// Creates an ephemeral node in a multi, and tells what became of it.
fn create_in_multi(client: &mut WireClient, path: &str) -> Result<i32> {
    let reply = client.call(OpCode::Multi, &OneCreate(path))?;
    let mut body = reply.body()?;
    let header: MultiHeader = body.get()?;
    Ok(if header.op == OpCode::Error.code() { body.get()? } else { 0 })
}

/// Every server has sessions that nobody else knows, until they own something.
fn becomes_global(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let settings = [("localSessionsEnabled", "true"), ("localSessionsUpgradingEnabled", "true")];
    let ensemble = MixedEnsemble::start_with(workspace, home, letters, &settings, &[])?;
    for index in 0..ensemble.len() {
        let (here, next) = (ensemble.address(index), ensemble.address((index + 1) % ensemble.len()));
        let what = || format!("server {}", index + 1);
        let mut client = WireClient::connect(here).with_context(what)?;
        ensure!(create(&mut client, &format!("/n/{index}"), 0)? == 0, "{}: a plain node is refused", what());
        ensemble.wait_for_metric(index, "local_sessions", "1")?;
        ensemble.wait_for_metric(index, "global_sessions", "0")?;
        ensemble.wait_until_in_sync()?; // who is behind closes without a word
        let refused = WireClient::resume(next, &client.session_handle()).is_err_and(|e| e.is::<SessionRefused>());
        ensure!(refused, "{}: its session is known elsewhere", what());
        let mut client = WireClient::resume(here, &client.session_handle()).with_context(what)?;
        let path = format!("/e-{index}");
        let err =
            if index % 2 == 0 { create(&mut client, &path, EPHEMERAL)? } else { create_in_multi(&mut client, &path)? };
        ensure!(err == 0, "{}: error {err}", what());
        ensemble.wait_for_metric(index, "local_sessions", "0")?;
        (0..ensemble.len()).try_for_each(|other| ensemble.wait_for_metric(other, "global_sessions", "1"))?;
        let mut moved = WireClient::resume(next, &client.session_handle()).with_context(what)?;
        moved.call(OpCode::Sync, &PathRequest { path: Some("/".into()) })?.body()?;
        moved.call(OpCode::Exists, &PathWatch { path: Some(path.into()), watch: false })?.body()?;
        moved.close()?;
        (0..ensemble.len()).try_for_each(|other| ensemble.wait_for_metric(other, "ephemerals_count", "0"))?;
    }
    Ok(format!("{} nodes", ensemble.check_trees_equal()?.len()))
}

/// Every server says the same about what such a session may not do.
fn stays_local(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let ensemble = MixedEnsemble::start_with(workspace, home, letters, &[("localSessionsEnabled", "true")], &[])?;
    let leader = ensemble.leader()?;
    for index in 0..ensemble.len() {
        let mut client = WireClient::connect(ensemble.address(index))?;
        let alone = create(&mut client, "/e", EPHEMERAL)?;
        let in_multi = create_in_multi(&mut client, "/e")?;
        let expected = if index == leader { ErrorCode::EphemeralOnLocalSession } else { ErrorCode::SessionExpired };
        let what = format!("server {} answers {alone} and {in_multi}", index + 1);
        ensure!((alone, in_multi) == (ErrorCode::EphemeralOnLocalSession.code(), expected.code()), what);
        ensure!(create(&mut client, &format!("/n/{index}"), 0)? == 0, "a plain node is refused");
        let session_handle = client.session_handle();
        client.close()?;
        let is_over =
            WireClient::resume(ensemble.address(index), &session_handle).is_err_and(|e| e.is::<SessionRefused>());
        ensure!(is_over, "server {} keeps a closed session", index + 1);
    }
    Ok(format!("{} nodes", ensemble.check_trees_equal()?.len()))
}

/// One server is left alone: it shows what it has to those who ask for no more, until another one is back.
fn reads_alone(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
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
    ensure!(ensemble.mode(0).as_deref() == Some("read-only"), "its mode is {:?}", ensemble.mode(0));
    ensure!(WireClient::connect(here).is_err_and(|e| !e.is::<SessionRefused>()), "a writer is let in");
    let global = owner.session_handle().allow_read_only();
    ensure!(WireClient::resume(here, &global).is_err_and(|e| !e.is::<SessionRefused>()), "a global session is let in");
    let mut reader = WireClient::resume(here, &SessionHandle::new(true)).context("a reader")?;
    ensure!(reader.is_read_only, "the reader is not told");
    let exists = |path: &'static str| PathWatch { path: Some(path.into()), watch: false };
    reader.call(OpCode::Exists, &exists("/e"))?.body()?;
    let err = create(&mut reader, "/x", 0)?;
    ensure!(err == ErrorCode::NotReadOnly.code(), "a write is answered with {err}");
    let err = reader.call(OpCode::Sync, &PathRequest { path: Some("/".into()) })?.header.err;
    ensure!(err == ErrorCode::NotReadOnly.code(), "sync is answered with {err}");
    ensemble.start_members(&[1])?;
    ensemble.wait_for_reply(0, "isro", "rw")?;
    ensure!(reader.call(OpCode::Exists, &exists("/e")).is_err(), "the reader's connection survives");
    ensemble.start_members(&[2])?;
    let mut owner = WireClient::resume(here, &owner.session_handle()).context("the session that everybody knows")?;
    owner.call(OpCode::Exists, &exists("/e"))?.body()?;
    owner.close()?;
    Ok(format!("{} nodes", ensemble.check_trees_equal()?.len()))
}

/// Observers are served by followers, whoever leads: `letters` says who is who.
fn observes_followers(workspace: &Workspace, home: &Path, letters: &str) -> Result<String> {
    let port = free_port()?;
    let text = port.to_string();
    let settings = [("observerMasterPort", text.as_str())];
    let mut ensemble = MixedEnsemble::start_with(workspace, home, letters, &settings, &[])?;
    let (leader, observer) = (ensemble.leader()?, ensemble.len() - 1);
    let master: usize = ensemble.metric(observer, "observer_master_id")?.parse()?;
    ensure!(master != leader + 1, "the leader serves the observer");
    ensemble.wait_for_metric(master - 1, "synced_observers", "1")?;
    ensemble.wait_for_metric(leader, "synced_observers", "0")?;
    let mut client = WireClient::connect(ensemble.address(observer))?;
    ensure!(create(&mut client, "/e", EPHEMERAL)? == 0, "an ephemeral node is refused");
    for number in 0..100 {
        ensure!(create(&mut client, &format!("/n/o{number}"), 0)? == 0, "a node is refused");
        client.call(OpCode::Sync, &PathRequest { path: Some("/".into()) })?.body()?;
    }
    // The session lives by what the follower tells of it, and moves there and back.
    for index in [master - 1, observer, leader, observer] {
        client = WireClient::resume(ensemble.address(index), &client.session_handle())
            .with_context(|| format!("server {}", index + 1))?;
        client.call(OpCode::Exists, &PathWatch { path: Some("/e".into()), watch: false })?.body()?;
    }
    // It comes back, and gets what it has missed from a follower.
    ensemble.kill(observer)?;
    let mut other = WireClient::connect(ensemble.address(leader))?;
    for number in 0..50 {
        ensure!(create(&mut other, &format!("/n/l{number}"), 0)? == 0, "a node is refused");
    }
    ensemble.start_members(&[observer])?;
    ensemble.check_trees_equal()?;
    ensemble.kill(observer)?;
    ensemble.wipe(observer)?;
    ensemble.start_members(&[observer])?;
    ensemble.check_trees_equal()?;
    // Its follower goes; another one takes over.
    ensemble.kill(master - 1)?;
    let mut client = FailoverClient::new(vec![ensemble.address(observer)])?;
    client.create("/n/after", 0)?;
    client.close()?;
    ensemble.start_members(&[master - 1])?;
    let tree = ensemble.check_trees_equal()?;
    Ok(format!("{} served, {} nodes", ensemble.software(master - 1), tree.len()))
}
