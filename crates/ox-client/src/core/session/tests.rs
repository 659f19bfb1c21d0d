#[cfg(feature = "security")]
mod sasl;

use super::*;
use bytes::BytesMut;
use ox_proto::connect::ConnectResponse;
use ox_proto::event::{EventType, put_event};
use ox_proto::frame::split_frame;
use ox_proto::jute::put_text;
use ox_proto::reply::{ReplyHeader, put_reply};
use ox_proto::{ErrorCode, Reader, Stat};
use std::cell::Cell;
use std::rc::Rc;

const TIMEOUT_MS: i32 = 9000;
const ID: SessionId = SessionId(7);

/// A caller that is identified by name in the trace.
#[derive(Clone, Debug)]
struct Caller(&'static str, Rc<Cell<bool>>);

impl Waiter for Caller {
    fn is_cancelled(&self) -> bool {
        self.1.get()
    }
}

type Sent = (i32, OpCode);

/// A session, with the test in the role of the server.
struct Harness {
    session: Session<Caller, &'static str>,
    now_ms: i64,
    effects: Vec<Effect<Caller, &'static str>>,
    input: BytesMut,
}

impl Harness {
    fn new() -> Self {
        Self::with(Settings::new(TIMEOUT_MS))
    }

    fn with(settings: Settings) -> Self {
        let servers = ServerList::new(vec!["a".parse().unwrap(), "b".parse().unwrap()], false, 7);
        let session = Session::new(settings, servers);
        Self { session, now_ms: 1000, effects: Vec::new(), input: BytesMut::new() }
    }

    /// A harness with an established session.
    fn connected() -> Self {
        let mut harness = Self::new();
        harness.open();
        harness.accept(ID, false).unwrap();
        harness
    }

    fn open(&mut self) -> ConnectResponse {
        self.session.on_open(self.now_ms, None);
        let hello = std::mem::take(&mut self.session.out);
        let hello = ConnectRequest::decode(&hello[4..]).unwrap();
        let password = hello.password.unwrap().try_into().unwrap();
        ConnectResponse { timeout_ms: hello.timeout_ms, session: hello.session, password, read_only: hello.read_only }
    }

    fn accept(&mut self, session: SessionId, read_only: bool) -> Result<(), Disconnect> {
        let timeout_ms = if session == SessionId::NONE { 0 } else { TIMEOUT_MS };
        let mut out = Vec::new();
        ConnectResponse { timeout_ms, session, password: [1; 16], read_only: Some(read_only) }.put_frame(&mut out);
        self.receive(&out)
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), Disconnect> {
        self.input.extend_from_slice(bytes);
        self.session.on_input(self.now_ms, &mut self.input, &mut self.effects)
    }

    fn reply(&mut self, xid: i32, zxid: i64, err: i32) -> Result<(), Disconnect> {
        let mut out = Vec::new();
        put_reply(&mut out, ReplyHeader { xid, zxid: Zxid(zxid), err }, |out| Stat::default().put(out));
        self.receive(&out)
    }

    fn event(&mut self, kind: EventType, path: &str) {
        let mut out = Vec::new();
        put_event(&mut out, Zxid(1), kind, path);
        self.receive(&out).unwrap();
    }

    fn request(&mut self, name: &'static str) -> Result<Submitted, SubmitError> {
        self.request_with(name, OpCode::GetData, true, None, &Rc::default())
    }

    fn request_with(
        &mut self,
        name: &'static str,
        op: OpCode,
        waits: bool,
        watch: Option<(WatchClass, &str)>,
        gone: &Rc<Cell<bool>>,
    ) -> Result<Submitted, SubmitError> {
        let id = WatchId(1);
        let watch = watch.map(|(class, path)| WatchRequest { id, class, path: path.into(), sink: name });
        let request = Request { op, waiter: Caller(name, Rc::clone(gone)), waits, watch };
        self.session.submit(self.now_ms, request, &|out| put_text(out, "/a")).map_err(|(refused, _)| refused)
    }

    /// Takes the requests that the session has written.
    fn sent(&mut self) -> Vec<Sent> {
        let out = std::mem::take(&mut self.session.out);
        let (mut rest, mut sent) = (&out[..], Vec::new());
        while let Some((frame, behind)) = split_frame(rest, 1 << 20).unwrap() {
            let header: RequestHeader = Reader::new(frame).get().unwrap();
            sent.push((header.xid, OpCode::try_from(header.op).unwrap()));
            rest = behind;
        }
        sent
    }

    /// Takes the effects and describes each as text.
    fn trace(&mut self) -> Vec<String> {
        let trace = self.effects.drain(..).map(|effect| match effect {
            Effect::Complete(Caller(name, _), Ok(reply)) => format!("{name}: {}", reply.err),
            Effect::Complete(Caller(name, _), Err(failure)) => match (failure.ended, failure.sent) {
                (None, sent) => format!("{name}: lost {}", if sent { "sent" } else { "unsent" }),
                (Some(ended), _) => format!("{name}: {ended:?}"),
            },
            Effect::Event(sink, event) => format!("{sink} {:?} {}", event.kind, event.path).trim_end().to_owned(),
            Effect::EndWatch(sink, event) => format!("{sink}! {:?} {}", event.kind, event.path).trim_end().to_owned(),
            Effect::State(Phase::Connected { read_only, .. }) => {
                format!("connected{}", if read_only { " ro" } else { "" })
            }
            Effect::Authenticating { read_only } => format!("authenticating{}", if read_only { " ro" } else { "" }),
            Effect::SaslFailed(reason) => format!("sasl: {reason}"),
            Effect::AuthRejected(scheme) => format!("rejected: {scheme}"),
            Effect::Notification(event) => format!("heard {:?} {}", event.kind, event.path),
            Effect::State(Phase::Suspended { lost_after_ms }) => format!("suspended until {lost_after_ms}"),
            Effect::State(Phase::Ended(ended)) => format!("over: {ended:?}"),
        });
        trace.collect()
    }

    fn disconnect(&mut self) {
        self.session.on_lost(self.now_ms, &mut self.effects);
        self.input.clear();
    }

    fn advance(&mut self, ms: i64) -> Result<(), Disconnect> {
        self.now_ms += ms;
        self.session.on_tick(self.now_ms, &mut self.effects)
    }
}

#[test]
fn replies_complete_requests_in_order() {
    let mut harness = Harness::connected();
    assert_eq!(harness.trace(), ["connected"]);
    harness.request("one").unwrap();
    harness.request("two").unwrap();
    assert_eq!(harness.sent(), [(1, OpCode::GetData), (2, OpCode::GetData)]);
    harness.reply(1, 5, 0).unwrap();
    harness.reply(2, 4, -101).unwrap();
    assert_eq!(harness.trace(), ["one: 0", "two: -101"]);
    assert_eq!(harness.session.credentials().last_zxid, Zxid(5), "the zxid never decreases");
    harness.request("three").unwrap();
    assert_eq!(harness.reply(4, 6, 0), Err(Disconnect::OutOfOrder));
    harness.disconnect();
    assert_eq!(harness.trace(), ["suspended until 10000", "three: lost sent"]);
}

#[test]
fn partial_frames_are_reassembled() {
    let mut harness = Harness::connected();
    harness.request("one").unwrap();
    let mut out = Vec::new();
    put_reply(&mut out, ReplyHeader { xid: 1, zxid: Zxid(1), err: 0 }, |_| ());
    for byte in &out[..out.len() - 1] {
        harness.receive(&[*byte]).unwrap();
    }
    assert_eq!(harness.trace(), ["connected"]);
    harness.receive(&out[out.len() - 1..]).unwrap();
    assert_eq!(harness.trace(), ["one: 0"]);
    assert_eq!(harness.receive(&[0xff; 4]), Err(Disconnect::MalformedPacket));
}

#[test]
fn queued_requests_follow_credentials_and_watches_on_reconnect() {
    let mut harness = Harness::connected();
    harness.request_with("watch", OpCode::GetData, true, Some((WatchClass::Data, "/a")), &Rc::default()).unwrap();
    harness.request_with("stream", OpCode::AddWatch, true, Some((WatchClass::Recursive, "/")), &Rc::default()).unwrap();
    harness.reply(1, 3, 0).unwrap();
    harness.reply(2, 3, 0).unwrap();
    harness.disconnect();
    harness.session.add_auth(harness.now_ms, "digest", Some(b"x"), Some(Caller("auth", Rc::default()))).unwrap();
    assert_eq!(harness.request("one"), Ok(Submitted::Queued(1)));
    assert_eq!(
        harness.request_with("hasty", OpCode::SetData, false, None, &Rc::default()),
        Err(SubmitError::Disconnected)
    );
    assert_eq!(harness.request("two"), Ok(Submitted::Queued(2)));
    let gone = Rc::new(Cell::new(false));
    harness.request_with("gone", OpCode::SetData, true, None, &gone).unwrap();
    gone.set(true);
    assert!(harness.session.cancel_queued(1) && !harness.session.cancel_queued(1));
    harness.trace();
    harness.sent();
    assert_eq!(harness.open().session, ID);
    harness.accept(ID, false).unwrap();
    let sent = [(xid::AUTH, OpCode::Auth), (3, OpCode::SetWatches2), (4, OpCode::GetData)];
    assert_eq!(harness.sent(), sent);
    assert_eq!(harness.trace(), ["connected", "stream Missed"]);
    harness.reply(xid::AUTH, 0, 0).unwrap();
    harness.event(EventType::NodeDataChanged, "/a");
    harness.reply(3, 9, 0).unwrap();
    harness.reply(4, 9, 0).unwrap();
    let trace = ["auth: 0", "watch! NodeDataChanged /a", "stream NodeDataChanged /a", "two: 0"];
    assert_eq!(harness.trace(), trace);
}

#[test]
fn idle_session_pings_silent_server_times_out() {
    let mut harness = Harness::connected();
    assert_eq!(harness.session.deadline(), Some(1000 + 3000));
    harness.advance(2999).unwrap();
    assert_eq!(harness.sent(), []);
    harness.advance(1).unwrap();
    assert_eq!(harness.sent(), [(xid::PING, OpCode::Ping)]);
    assert_eq!(harness.session.lost_after_ms(), 1000 + 9000, "an unanswered ping does not extend the session");
    harness.now_ms += 2500;
    harness.reply(xid::PING, 1, 0).unwrap();
    assert_eq!(harness.session.lost_after_ms(), 4000 + 9000, "the timeout counts from when the ping was sent");
    harness.advance(500).unwrap();
    assert_eq!(harness.sent(), [(xid::PING, OpCode::Ping)]);
    harness.advance(3000).unwrap();
    assert_eq!(harness.advance(2499), Ok(()));
    assert_eq!(harness.advance(1), Err(Disconnect::ReadTimeout));
}

#[test]
fn handshake_without_reply_times_out() {
    let mut harness = Harness::new();
    harness.open();
    assert_eq!(harness.session.deadline(), Some(1000 + i64::from(TIMEOUT_MS) / 2));
    harness.advance(4499).unwrap();
    assert_eq!(harness.advance(1), Err(Disconnect::Handshake));
    harness.disconnect();
    assert_eq!(harness.trace(), [] as [&str; 0], "no session was established");
}

#[test]
fn failed_rounds_over_all_servers_double_the_pause() {
    let mut harness = Harness::new();
    let pauses: Vec<_> = (0..12).map(|_| harness.session.next_server()).collect();
    assert!(pauses.iter().step_by(2).all(|(server, _)| server.host == "a"));
    assert!(pauses.iter().skip(1).step_by(2).all(|(server, pause)| server.host == "b" && *pause == 0));
    let pauses: Vec<_> = pauses.iter().step_by(2).map(|(_, pause)| *pause).collect();
    assert_eq!(pauses[0], 0);
    assert!((25..=50).contains(&pauses[1]) && (50..=100).contains(&pauses[2]) && (400..=800).contains(&pauses[5]));
}

#[test]
fn resumed_session_unknown_to_server_expires() {
    let mut harness = Harness::connected();
    harness.request_with("watch", OpCode::Exists, true, Some((WatchClass::Data, "/a")), &Rc::default()).unwrap();
    harness.reply(1, 3, ErrorCode::NoNode.code()).unwrap();
    harness.disconnect();
    harness.request("one").unwrap();
    harness.open();
    harness.trace();
    assert_eq!(harness.accept(SessionId::NONE, false), Err(Disconnect::SessionEnded));
    assert_eq!(harness.trace(), ["one: Expired", "over: Expired", "watch! SessionEnded"]);
    assert_eq!(harness.request("two"), Err(SubmitError::Ended(SessionEnd::Expired)));
    let mut fresh = Harness::new();
    fresh.open();
    assert_eq!(fresh.accept(SessionId::NONE, false), Err(Disconnect::NoSession), "no session was resumed");
}

#[test]
fn rearm_interrupted_keeps_the_zxid_of_the_first_disconnect() {
    let mut harness = Harness::connected();
    harness.request_with("watch", OpCode::GetData, true, Some((WatchClass::Data, "/a")), &Rc::default()).unwrap();
    harness.reply(1, 5, 0).unwrap();
    harness.disconnect();
    let seen = |harness: &mut Harness| {
        let out = std::mem::take(&mut harness.session.out);
        Reader::new(&out[12..]).get::<Zxid>().unwrap() // after length and header
    };
    harness.open();
    harness.accept(ID, false).unwrap();
    assert_eq!(seen(&mut harness), Zxid(5));
    harness.reply(xid::PING, 9, 0).unwrap();
    harness.disconnect();
    assert_eq!(harness.session.credentials().last_zxid, Zxid(9));
    harness.open();
    harness.accept(ID, false).unwrap();
    assert_eq!(seen(&mut harness), Zxid(5), "events on /a between 5 and 9 may be missing");
    harness.reply(3, 9, 0).unwrap();
    harness.disconnect();
    harness.open();
    harness.accept(ID, false).unwrap();
    assert_eq!(seen(&mut harness), Zxid(9));
}

#[test]
fn watch_of_cancelled_requests_is_removed_from_server() {
    let mut harness = Harness::connected();
    let gone = Rc::new(Cell::new(false));
    harness.request_with("one", OpCode::GetData, true, Some((WatchClass::Data, "/a")), &gone).unwrap();
    harness.request_with("two", OpCode::GetData, true, Some((WatchClass::Data, "/a")), &gone).unwrap();
    gone.set(true);
    harness.sent();
    harness.reply(1, 1, 0).unwrap();
    assert_eq!(harness.sent(), [], "another request still arms the same watch");
    harness.reply(2, 1, 0).unwrap();
    assert_eq!(harness.sent(), [(3, OpCode::RemoveWatches)]);
    harness.reply(3, 1, ErrorCode::NoWatcher.code()).unwrap();
    harness.request_with("three", OpCode::GetData, true, Some((WatchClass::Data, "/a")), &Rc::default()).unwrap();
    harness.reply(4, 1, 0).unwrap();
    harness.sent();
    harness.session.remove_watcher(harness.now_ms, WatchClass::Data, "/a", WatchId(1));
    assert_eq!(harness.sent(), [(5, OpCode::RemoveWatches)]);
    harness.disconnect();
    harness.open();
    harness.accept(ID, false).unwrap();
    assert_eq!(harness.sent(), []);
}

#[test]
fn failed_read_leaves_no_watch() {
    let mut harness = Harness::connected();
    harness.request_with("get", OpCode::GetData, true, Some((WatchClass::Data, "/a")), &Rc::default()).unwrap();
    harness.request_with("exists", OpCode::Exists, true, Some((WatchClass::Data, "/b")), &Rc::default()).unwrap();
    harness.reply(1, 1, ErrorCode::NoNode.code()).unwrap();
    harness.reply(2, 1, ErrorCode::NoNode.code()).unwrap();
    harness.trace();
    harness.event(EventType::NodeCreated, "/a");
    harness.event(EventType::NodeCreated, "/b");
    assert_eq!(harness.trace(), ["exists! NodeCreated /b"]);
}

#[test]
fn close_follows_earlier_requests() {
    let mut harness = Harness::connected();
    harness.request("one").unwrap();
    harness.session.close(harness.now_ms, Some(Caller("close", Rc::default())), &mut harness.effects);
    assert_eq!(harness.request("two"), Err(SubmitError::Ended(SessionEnd::Closed)));
    assert_eq!(harness.sent(), [(1, OpCode::GetData), (2, OpCode::CloseSession)]);
    harness.reply(1, 1, 0).unwrap();
    assert_eq!(harness.reply(2, 2, 0), Err(Disconnect::SessionEnded));
    assert_eq!(harness.trace(), ["connected", "one: 0", "over: Closed", "close: 0"]);
}

#[test]
fn close_while_disconnected_reconnects_first() {
    let mut harness = Harness::connected();
    harness.disconnect();
    harness.session.close(harness.now_ms, Some(Caller("close", Rc::default())), &mut harness.effects);
    assert_eq!(harness.session.deadline(), Some(1000 + 9000));
    harness.trace();
    harness.open();
    harness.accept(ID, false).unwrap();
    assert_eq!(harness.sent(), [(1, OpCode::CloseSession)]);
    harness.disconnect();
    harness.trace();
    assert_eq!(harness.advance(9000), Err(Disconnect::SessionEnded));
    assert_eq!(harness.trace(), ["close: lost sent", "over: Closed"]);
    let mut fresh = Harness::new();
    fresh.session.close(0, Some(Caller("close", Rc::default())), &mut fresh.effects);
    assert_eq!(fresh.trace(), ["over: Closed", "close: 0"], "no session was established");
}

#[test]
fn request_beyond_the_limit_is_rejected() {
    let mut settings = Settings::new(TIMEOUT_MS);
    (settings.requests_max, settings.frame_bytes_max) = (2, 14);
    let mut harness = Harness::with(settings);
    harness.request("one").unwrap();
    harness.request("two").unwrap();
    assert_eq!(harness.request("three"), Err(SubmitError::Full));
    harness.open();
    harness.accept(ID, false).unwrap();
    harness.reply(1, 1, 0).unwrap();
    harness.request("three").unwrap();
    assert_eq!(harness.request("four"), Err(SubmitError::Full));
    harness.reply(2, 1, 0).unwrap();
    harness.session.settings.frame_bytes_max = 13;
    harness.sent();
    assert_eq!(harness.request("large"), Err(SubmitError::TooLarge { limit: 13 }));
    assert_eq!(harness.sent(), []);
}

#[test]
fn read_only_session_is_not_resumed() {
    let mut settings = Settings::new(TIMEOUT_MS);
    settings.read_only = true;
    let mut harness = Harness::with(settings);
    harness.session.next_server();
    assert_eq!(harness.open().read_only, Some(true));
    harness.accept(ID, true).unwrap();
    assert_eq!(harness.trace(), ["connected ro"]);
    assert!(harness.session.is_read_only());
    harness.session.switch_to(&"b".parse().unwrap());
    assert_eq!(harness.advance(0), Err(Disconnect::SwitchServer));
    harness.disconnect();
    assert_eq!(harness.advance(0), Ok(()), "the switch is done");
    assert_eq!(harness.session.next_server().0.host, "b");
    assert_eq!(harness.open().session, SessionId::NONE);
    harness.accept(SessionId(8), false).unwrap();
    harness.disconnect();
    assert_eq!(harness.open().session, SessionId(8));
}

/// A read-only server cannot touch the session on the leader, which expires it in time.
#[test]
fn read_only_server_does_not_extend_the_session() {
    let mut settings = Settings::new(TIMEOUT_MS);
    settings.read_only = true;
    let mut harness = Harness::with(settings);
    harness.open();
    harness.accept(ID, false).unwrap();
    assert_eq!(harness.session.lost_after_ms(), 1000 + 9000);
    harness.disconnect();
    harness.now_ms = 4000;
    harness.open();
    harness.accept(ID, true).unwrap();
    harness.request("read").unwrap();
    let (xid, _) = harness.sent().pop().unwrap();
    harness.reply(xid, 5, 0).unwrap();
    harness.advance(3000).unwrap();
    assert_eq!(harness.sent(), [(-2, OpCode::Ping)]);
    harness.reply(-2, 5, 0).unwrap();
    assert_eq!(harness.session.lost_after_ms(), 1000 + 9000);
    harness.disconnect();
    harness.open();
    harness.accept(ID, false).unwrap();
    assert_eq!(harness.session.lost_after_ms(), 7000 + 9000, "a read-write server extends the session");
}

#[test]
fn rejected_credentials_end_the_session() {
    let mut harness = Harness::connected();
    harness.request("one").unwrap();
    harness.session.add_auth(0, "digest", Some(b"x"), Some(Caller("auth", Rc::default()))).unwrap();
    assert_eq!(harness.reply(xid::AUTH, 0, ErrorCode::AuthFailed.code()), Err(Disconnect::SessionEnded));
    let trace = ["connected", "rejected: digest", "one: AuthFailed", "auth: AuthFailed", "over: AuthFailed"];
    assert_eq!(harness.trace(), trace);
}

#[test]
fn sasl_required_ends_the_session() {
    let code = ErrorCode::SessionClosedRequireSaslAuth.code();
    let mut harness = Harness::connected();
    harness.request("one").unwrap();
    assert_eq!(harness.reply(1, 0, code), Err(Disconnect::SessionEnded));
    assert_eq!(harness.trace(), ["connected", "one: -124", "over: AuthFailed"]);
    let mut harness = Harness::connected();
    harness.advance(3000).unwrap();
    assert_eq!(harness.reply(xid::PING, 0, code), Err(Disconnect::SessionEnded));
}

#[test]
fn partial_reply_defers_the_read_timeout() {
    let mut harness = Harness::connected();
    harness.request("long").unwrap();
    harness.sent();
    let mut answer = Vec::new();
    put_reply(&mut answer, ReplyHeader { xid: 1, zxid: Zxid(1), err: 0 }, |out| put_text(out, "a long reply"));
    let (last, pieces) = answer.split_last().unwrap();
    for piece in pieces.chunks(10) {
        harness.receive(piece).unwrap();
        harness.advance(5000).unwrap();
    }
    assert_eq!(harness.advance(1000), Err(Disconnect::ReadTimeout), "no further bytes were received");
    harness.receive(&[*last]).unwrap();
    assert_eq!(harness.trace(), ["connected", "long: 0"]);
}

#[test]
fn short_connections_are_followed_by_a_pause() {
    let mut harness = Harness::connected();
    let mut pauses = Vec::new();
    for _ in 0..20 {
        harness.disconnect();
        pauses.push(harness.session.next_server().1);
        harness.open();
        harness.accept(ID, false).unwrap();
    }
    assert_eq!(pauses[0], 0, "the first failure has no pause");
    assert!(pauses[1..].iter().all(|pause| (5..=100).contains(pause)), "{pauses:?}");
    assert!(50 <= pauses[19]);
    harness.now_ms += 1000;
    harness.disconnect();
    assert_eq!(harness.session.next_server().1, 0, "a connection with a reply resets the pause");
    for _ in 0..20 {
        harness.open();
        harness.accept(ID, false).unwrap();
        harness.request("one").unwrap();
        let (xid, _) = harness.sent().pop().unwrap();
        harness.reply(xid, 1, 0).unwrap();
        harness.disconnect();
        assert_eq!(harness.session.next_server().1, 0, "so does a long-lived connection");
    }
}
