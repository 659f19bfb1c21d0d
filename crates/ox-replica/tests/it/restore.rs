//! Restoring a snapshot on a standalone server.

use crate::ensemble::leading;
use crate::harness::Harness;
use ox_proto::jute::put_text;
use ox_proto::{OpCode, SessionId, Zxid};
use ox_replica::ReplicaInput;
use ox_tree::{Loader, State, TreeOptions};

/// A copy of the state, as a snapshot contains it.
fn copy(state: &State) -> Box<State> {
    let frozen = state.freeze();
    let mut loader = Loader::new(TreeOptions::default());
    frozen.sessions().iter().for_each(|(session, timeout_ms)| loader.session(*session, *timeout_ms));
    for (id, entries) in frozen.acls() {
        let mut list = Vec::new();
        ox_proto::acl::put_acls(&mut list, entries);
        loader.acl(id, ox_proto::RawAcls::from_encoded(&list).unwrap()).unwrap();
    }
    let visit = |node: ox_tree::FrozenNode<'_>| loader.node(node.path, node.data, node.acl, node.stat);
    frozen.for_each_node(visit).unwrap();
    Box::new(loader.finish(state.last_zxid()).unwrap())
}

#[test]
fn restored_state_replaces_the_old_one_and_goes_on() {
    let mut world = Harness::new();
    let (old, kept) = world.client();
    world.create(old, 1, "/kept", 1);
    world.settle();
    let snapshot = copy(&world.state);
    let restored = snapshot.last_zxid();
    let (late, lost) = world.client();
    world.create(late, 1, "/lost", 1);
    world.create(old, 2, "/old", 0);
    world.settle();
    let before = world.state.last_zxid();
    world.create(old, 3, "/in-flight", 0);
    world.serve(old);
    world.step();
    world.pass(ReplicaInput::Restore(snapshot));
    world.settle();
    assert!(world.sides[old].is_closed && world.sides[late].is_closed, "connections are closed");
    assert_eq!(world.state.last_zxid(), restored);
    assert_eq!(world.state.stat("/lost").or(world.state.stat("/old")).or(world.state.stat("/in-flight")), None);

    // A session of the snapshot is resumed, although its client has seen a later zxid. Another one has expired.
    let resumed = world.connect_after(kept, before);
    let expired = world.connect_after(lost, before);
    world.settle();
    assert_eq!((world.hello(resumed).session, world.hello(expired).session), (kept, SessionId::NONE));
    world.create(resumed, 4, "/new", 0);
    world.settle();
    let reply = world.replies(resumed);
    assert_eq!((reply[0].1, reply[0].2), (restored.0 + 1, 0), "the next zxid follows the snapshot's");
    let future = world.connect_after(kept, Zxid(before.0 + 1));
    world.settle();
    assert!(world.sides[future].is_closed, "no client can have seen that zxid here");

    // Sessions of the snapshot that are not resumed expire with their ephemeral nodes.
    world.cut(resumed);
    world.now.mono_ms += 30_000;
    world.on_time();
    world.settle();
    assert_eq!((world.state.stat("/kept"), world.state.has_session(kept)), (None, false));
    let (client, _) = world.client();
    world.create(client, 1, "/after", 0);
    world.settle();
    assert_eq!(world.replies(client)[0].2, 0);
}

#[test]
fn nothing_is_served_before_the_restored_state_is_durable() {
    let mut world = Harness::new();
    let (client, session) = world.client();
    let snapshot = copy(&world.state);
    world.pass(ReplicaInput::Restore(snapshot));
    world.post();
    world.serve(client);
    assert!(world.sides[client].is_closed);
    let early = world.connect(session, 10_000);
    world.serve(early);
    while !world.inbox.is_empty() {
        world.step();
    }
    world.serve(early);
    assert!(world.sides[early].is_closed && world.sides[early].output.is_empty(), "no reply");
    let again = copy(&world.state);
    world.pass(ReplicaInput::Restore(again)); // ignored: the first one is not durable
    world.settle();
    let side = world.connect(session, 10_000);
    world.settle();
    assert_eq!(world.hello(side).session, session);
}

/// A client that saw the old state cannot know which nodes differ now.
#[test]
fn watches_of_a_client_of_the_old_state_fire() {
    let mut world = Harness::new();
    let (client, session) = world.client();
    world.create(client, 1, "/a", 0);
    world.settle();
    let snapshot = copy(&world.state);
    world.set(client, 2, "/a", b"new");
    world.settle();
    let seen = world.state.last_zxid();
    world.pass(ReplicaInput::Restore(snapshot));
    world.settle();
    let client = world.connect_after(session, seen);
    world.settle();
    world.hello(client);
    let mut body = seen.0.to_be_bytes().to_vec();
    body.extend(1_i32.to_be_bytes());
    put_text(&mut body, "/a");
    body.extend([0; 8]);
    let mut frame = Vec::from((8 + i32::try_from(body.len()).unwrap()).to_be_bytes());
    frame.extend((-8_i32).to_be_bytes());
    frame.extend(OpCode::SetWatches.code().to_be_bytes());
    frame.extend(body);
    world.sides[client].input.extend(frame);
    world.settle();
    let events = world.replies(client);
    let event = events.iter().find(|reply| reply.0 == -1).expect("an event");
    assert_eq!(event.3[..4], 3_i32.to_be_bytes(), "NodeDataChanged");
}

/// The other members would have different data.
#[test]
fn member_ignores_restore() {
    let mut world = leading(|_| ());
    let (client, _) = world.client();
    let before = world.state.last_zxid();
    world.pass(ReplicaInput::Restore(Box::new(State::new(TreeOptions::default()))));
    world.settle();
    assert_eq!((world.state.last_zxid(), world.sides[client].is_closed), (before, false));
}
