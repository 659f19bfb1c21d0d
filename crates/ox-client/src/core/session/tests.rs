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

/// A caller with a name.
#[derive(Clone, Debug)]
struct Caller(&'static str, Rc<Cell<bool>>);

impl Waiter for Caller {
    fn is_gone(&self) -> bool {
        self.1.get()
    }
}

type Sent = (i32, OpCode);

/// A session and the server that a test plays.
struct Play {
    session: Session<Caller, &'static str>,
    now_ms: i64,
    effects: Vec<Effect<Caller, &'static str>>,
    input: BytesMut,
}

impl Play {
    fn new() -> Self {
        Self::with(Settings::new(TIMEOUT_MS))
    }

    fn with(settings: Settings) -> Self {
        let servers = Servers::new(vec!["a".parse().unwrap(), "b".parse().unwrap()], false, 7);
        let session = Session::new(settings, servers);
        Self { session, now_ms: 1000, effects: Vec::new(), input: BytesMut::new() }
    }

    /// With a session.
    fn connected() -> Self {
        let mut play = Self::new();
        play.open();
        play.welcome(ID, false).unwrap();
        play
    }

    fn open(&mut self) -> ConnectResponse {
        self.session.on_open(self.now_ms);
        let hello = std::mem::take(&mut self.session.out);
        let hello = ConnectRequest::decode(&hello[4..]).unwrap();
        let password = hello.password.unwrap().try_into().unwrap();
        ConnectResponse { timeout_ms: hello.timeout_ms, session: hello.session, password, read_only: hello.read_only }
    }

    fn welcome(&mut self, session: SessionId, read_only: bool) -> Result<(), Lost> {
        let timeout_ms = if session == SessionId::NONE { 0 } else { TIMEOUT_MS };
        let mut out = Vec::new();
        ConnectResponse { timeout_ms, session, password: [1; 16], read_only: Some(read_only) }.put_frame(&mut out);
        self.hear(&out)
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        self.input.extend_from_slice(bytes);
        self.session.on_input(self.now_ms, &mut self.input, &mut self.effects)
    }

    fn reply(&mut self, xid: i32, zxid: i64, err: i32) -> Result<(), Lost> {
        let mut out = Vec::new();
        put_reply(&mut out, ReplyHeader { xid, zxid: Zxid(zxid), err }, |out| Stat::default().put(out));
        self.hear(&out)
    }

    fn event(&mut self, kind: EventType, path: &str) {
        let mut out = Vec::new();
        put_event(&mut out, Zxid(1), kind, path);
        self.hear(&out).unwrap();
    }

    fn ask(&mut self, name: &'static str) -> Result<Submitted, Refused> {
        self.ask_as(name, OpCode::GetData, true, None, &Rc::default())
    }

    fn ask_as(
        &mut self,
        name: &'static str,
        op: OpCode,
        waits: bool,
        watch: Option<(Class, &str)>,
        gone: &Rc<Cell<bool>>,
    ) -> Result<Submitted, Refused> {
        let id = WatchId(1);
        let watch = watch.map(|(class, path)| WatchAsk { id, class, path: path.into(), sink: name });
        let ask = Ask { op, waiter: Caller(name, Rc::clone(gone)), waits, watch };
        self.session.submit(self.now_ms, ask, &|out| put_text(out, "/a")).map_err(|(refused, _)| refused)
    }

    /// Requests written since the last look.
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

    /// What happened since the last look, in words.
    fn told(&mut self) -> Vec<String> {
        let told = self.effects.drain(..).map(|effect| match effect {
            Effect::Done(Caller(name, _), Ok(reply)) => format!("{name}: {}", reply.err),
            Effect::Done(Caller(name, _), Err(failure)) => match (failure.ending, failure.sent) {
                (None, sent) => format!("{name}: lost {}", if sent { "sent" } else { "unsent" }),
                (Some(ending), _) => format!("{name}: {ending:?}"),
            },
            Effect::Event(sink, event) => format!("{sink} {:?} {}", event.kind, event.path).trim_end().to_owned(),
            Effect::End(sink, event) => format!("{sink}! {:?} {}", event.kind, event.path).trim_end().to_owned(),
            Effect::State(Phase::Connected { read_only, .. }) => {
                format!("connected{}", if read_only { " ro" } else { "" })
            }
            Effect::Heard(event) => format!("heard {:?} {}", event.kind, event.path),
            Effect::State(Phase::Suspended { lost_after_ms }) => format!("suspended until {lost_after_ms}"),
            Effect::State(Phase::Over(ending)) => format!("over: {ending:?}"),
        });
        told.collect()
    }

    fn lose(&mut self) {
        self.session.on_lost(self.now_ms, &mut self.effects);
        self.input.clear();
    }

    fn pass(&mut self, ms: i64) -> Result<(), Lost> {
        self.now_ms += ms;
        self.session.on_time(self.now_ms, &mut self.effects)
    }
}

#[test]
fn answers_belong_to_requests_in_order() {
    let mut play = Play::connected();
    assert_eq!(play.told(), ["connected"]);
    play.ask("one").unwrap();
    play.ask("two").unwrap();
    assert_eq!(play.sent(), [(1, OpCode::GetData), (2, OpCode::GetData)]);
    play.reply(1, 5, 0).unwrap();
    play.reply(2, 4, -101).unwrap();
    assert_eq!(play.told(), ["one: 0", "two: -101"]);
    assert_eq!(play.session.identity().last_zxid, Zxid(5), "time does not go back");
    play.ask("three").unwrap();
    assert_eq!(play.reply(4, 6, 0), Err(Lost::OutOfOrder));
    play.lose();
    assert_eq!(play.told(), ["suspended until 10000", "three: lost sent"]);
}

#[test]
fn frames_come_in_pieces() {
    let mut play = Play::connected();
    play.ask("one").unwrap();
    let mut out = Vec::new();
    put_reply(&mut out, ReplyHeader { xid: 1, zxid: Zxid(1), err: 0 }, |_| ());
    for byte in &out[..out.len() - 1] {
        play.hear(&[*byte]).unwrap();
    }
    assert_eq!(play.told(), ["connected"]);
    play.hear(&out[out.len() - 1..]).unwrap();
    assert_eq!(play.told(), ["one: 0"]);
    assert_eq!(play.hear(&[0xff; 4]), Err(Lost::Garbage));
}

#[test]
fn unsent_requests_wait_behind_credentials_and_watches() {
    let mut play = Play::connected();
    play.ask_as("watch", OpCode::GetData, true, Some((Class::Data, "/a")), &Rc::default()).unwrap();
    play.ask_as("stream", OpCode::AddWatch, true, Some((Class::Recursive, "/")), &Rc::default()).unwrap();
    play.reply(1, 3, 0).unwrap();
    play.reply(2, 3, 0).unwrap();
    play.lose();
    play.session.add_auth(play.now_ms, "digest", Some(b"x"), Some(Caller("auth", Rc::default()))).unwrap();
    assert_eq!(play.ask("one"), Ok(Submitted::Queued(1)));
    assert_eq!(play.ask_as("hasty", OpCode::SetData, false, None, &Rc::default()), Err(Refused::Away));
    assert_eq!(play.ask("two"), Ok(Submitted::Queued(2)));
    let gone = Rc::new(Cell::new(false));
    play.ask_as("gone", OpCode::SetData, true, None, &gone).unwrap();
    gone.set(true);
    assert!(play.session.withdraw(1) && !play.session.withdraw(1));
    play.told();
    play.sent();
    assert_eq!(play.open().session, ID);
    play.welcome(ID, false).unwrap();
    let sent = [(xid::AUTH, OpCode::Auth), (3, OpCode::SetWatches2), (4, OpCode::GetData)];
    assert_eq!(play.sent(), sent);
    assert_eq!(play.told(), ["connected", "stream Missed"]);
    play.reply(xid::AUTH, 0, 0).unwrap();
    play.event(EventType::NodeDataChanged, "/a");
    play.reply(3, 9, 0).unwrap();
    play.reply(4, 9, 0).unwrap();
    let told = ["auth: 0", "watch! NodeDataChanged /a", "stream NodeDataChanged /a", "two: 0"];
    assert_eq!(play.told(), told);
}

#[test]
fn pings_and_silence() {
    let mut play = Play::connected();
    assert_eq!(play.session.deadline(), Some(1000 + 3000));
    play.pass(2999).unwrap();
    assert_eq!(play.sent(), []);
    play.pass(1).unwrap();
    assert_eq!(play.sent(), [(xid::PING, OpCode::Ping)]);
    assert_eq!(play.session.lost_after_ms(), 1000 + 9000, "a ping proves nothing before its answer");
    play.now_ms += 2500;
    play.reply(xid::PING, 1, 0).unwrap();
    assert_eq!(play.session.lost_after_ms(), 4000 + 9000, "the server heard of the client when the ping was sent");
    play.pass(500).unwrap();
    assert_eq!(play.sent(), [(xid::PING, OpCode::Ping)]);
    play.pass(3000).unwrap();
    assert_eq!(play.pass(2499), Ok(()));
    assert_eq!(play.pass(1), Err(Lost::Silence));
}

#[test]
fn a_handshake_has_its_time() {
    let mut play = Play::new();
    play.open();
    assert_eq!(play.session.deadline(), Some(1000 + i64::from(TIMEOUT_MS) / 2));
    play.pass(4499).unwrap();
    assert_eq!(play.pass(1), Err(Lost::Handshake));
    play.lose();
    assert_eq!(play.told(), [] as [&str; 0], "there was no session to suspend");
}

#[test]
fn rounds_over_all_servers_become_slower() {
    let mut play = Play::new();
    let pauses: Vec<_> = (0..12).map(|_| play.session.next_server()).collect();
    assert!(pauses.iter().step_by(2).all(|(server, _)| server.host == "a"));
    assert!(pauses.iter().skip(1).step_by(2).all(|(server, pause)| server.host == "b" && *pause == 0));
    let pauses: Vec<_> = pauses.iter().step_by(2).map(|(_, pause)| *pause).collect();
    assert_eq!(pauses[0], 0);
    assert!((25..=50).contains(&pauses[1]) && (50..=100).contains(&pauses[2]) && (400..=800).contains(&pauses[5]));
}

#[test]
fn a_refused_session_is_over() {
    let mut play = Play::connected();
    play.ask_as("watch", OpCode::Exists, true, Some((Class::Data, "/a")), &Rc::default()).unwrap();
    play.reply(1, 3, ErrorCode::NoNode.code()).unwrap();
    play.lose();
    play.ask("one").unwrap();
    play.open();
    play.told();
    assert_eq!(play.welcome(SessionId::NONE, false), Err(Lost::Over));
    assert_eq!(play.told(), ["one: Expired", "over: Expired", "watch! SessionEnded"]);
    assert_eq!(play.ask("two"), Err(Refused::Over(Ending::Expired)));
    let mut fresh = Play::new();
    fresh.open();
    assert_eq!(fresh.welcome(SessionId::NONE, false), Err(Lost::Handshake), "nothing could expire");
}

#[test]
fn watches_are_never_armed_behind_what_was_missed() {
    let mut play = Play::connected();
    play.ask_as("watch", OpCode::GetData, true, Some((Class::Data, "/a")), &Rc::default()).unwrap();
    play.reply(1, 5, 0).unwrap();
    play.lose();
    let seen = |play: &mut Play| {
        let out = std::mem::take(&mut play.session.out);
        Reader::new(&out[12..]).get::<Zxid>().unwrap() // behind length and header
    };
    play.open();
    play.welcome(ID, false).unwrap();
    assert_eq!(seen(&mut play), Zxid(5));
    play.reply(xid::PING, 9, 0).unwrap();
    play.lose();
    assert_eq!(play.session.identity().last_zxid, Zxid(9));
    play.open();
    play.welcome(ID, false).unwrap();
    assert_eq!(seen(&mut play), Zxid(5), "nobody knows what happened to /a between 5 and 9");
    play.reply(3, 9, 0).unwrap();
    play.lose();
    play.open();
    play.welcome(ID, false).unwrap();
    assert_eq!(seen(&mut play), Zxid(9));
}

#[test]
fn a_watch_that_nobody_wants_is_taken_back() {
    let mut play = Play::connected();
    let gone = Rc::new(Cell::new(false));
    play.ask_as("one", OpCode::GetData, true, Some((Class::Data, "/a")), &gone).unwrap();
    play.ask_as("two", OpCode::GetData, true, Some((Class::Data, "/a")), &gone).unwrap();
    gone.set(true);
    play.sent();
    play.reply(1, 1, 0).unwrap();
    assert_eq!(play.sent(), [], "the other one would lose its watch");
    play.reply(2, 1, 0).unwrap();
    assert_eq!(play.sent(), [(3, OpCode::RemoveWatches)]);
    play.reply(3, 1, ErrorCode::NoWatcher.code()).unwrap();
    play.ask_as("three", OpCode::GetData, true, Some((Class::Data, "/a")), &Rc::default()).unwrap();
    play.reply(4, 1, 0).unwrap();
    play.sent();
    play.session.forget(play.now_ms, Class::Data, "/a", WatchId(1));
    assert_eq!(play.sent(), [(5, OpCode::RemoveWatches)]);
    play.lose();
    play.open();
    play.welcome(ID, false).unwrap();
    assert_eq!(play.sent(), []);
}

#[test]
fn failed_reads_leave_no_watch() {
    let mut play = Play::connected();
    play.ask_as("get", OpCode::GetData, true, Some((Class::Data, "/a")), &Rc::default()).unwrap();
    play.ask_as("exists", OpCode::Exists, true, Some((Class::Data, "/b")), &Rc::default()).unwrap();
    play.reply(1, 1, ErrorCode::NoNode.code()).unwrap();
    play.reply(2, 1, ErrorCode::NoNode.code()).unwrap();
    play.told();
    play.event(EventType::NodeCreated, "/a");
    play.event(EventType::NodeCreated, "/b");
    assert_eq!(play.told(), ["exists! NodeCreated /b"]);
}

#[test]
fn closing_comes_last() {
    let mut play = Play::connected();
    play.ask("one").unwrap();
    play.session.close(play.now_ms, Some(Caller("close", Rc::default())), &mut play.effects);
    assert_eq!(play.ask("two"), Err(Refused::Over(Ending::Closed)));
    assert_eq!(play.sent(), [(1, OpCode::GetData), (2, OpCode::CloseSession)]);
    play.reply(1, 1, 0).unwrap();
    assert_eq!(play.reply(2, 2, 0), Err(Lost::Over));
    assert_eq!(play.told(), ["connected", "one: 0", "over: Closed", "close: 0"]);
}

#[test]
fn closing_without_a_connection_looks_for_one() {
    let mut play = Play::connected();
    play.lose();
    play.session.close(play.now_ms, Some(Caller("close", Rc::default())), &mut play.effects);
    assert_eq!(play.session.deadline(), Some(1000 + 9000));
    play.told();
    play.open();
    play.welcome(ID, false).unwrap();
    assert_eq!(play.sent(), [(1, OpCode::CloseSession)]);
    play.lose();
    play.told();
    assert_eq!(play.pass(9000), Err(Lost::Over));
    assert_eq!(play.told(), ["close: lost sent", "over: Closed"]);
    let mut fresh = Play::new();
    fresh.session.close(0, Some(Caller("close", Rc::default())), &mut fresh.effects);
    assert_eq!(fresh.told(), ["over: Closed", "close: 0"], "there is nothing to close");
}

#[test]
fn at_the_bound_requests_wait() {
    let mut settings = Settings::new(TIMEOUT_MS);
    (settings.requests_max, settings.frame_bytes_max) = (2, 14);
    let mut play = Play::with(settings);
    play.ask("one").unwrap();
    play.ask("two").unwrap();
    assert_eq!(play.ask("three"), Err(Refused::Full));
    play.open();
    play.welcome(ID, false).unwrap();
    play.reply(1, 1, 0).unwrap();
    play.ask("three").unwrap();
    assert_eq!(play.ask("four"), Err(Refused::Full));
    play.reply(2, 1, 0).unwrap();
    play.session.settings.frame_bytes_max = 13;
    play.sent();
    assert_eq!(play.ask("large"), Err(Refused::TooLarge));
    assert_eq!(play.sent(), []);
}

#[test]
fn a_read_only_session_is_not_used_again() {
    let mut settings = Settings::new(TIMEOUT_MS);
    settings.read_only = true;
    let mut play = Play::with(settings);
    play.session.next_server();
    assert_eq!(play.open().read_only, Some(true));
    play.welcome(ID, true).unwrap();
    assert_eq!(play.told(), ["connected ro"]);
    assert!(play.session.is_read_only());
    play.session.move_to(&"b".parse().unwrap());
    assert_eq!(play.pass(0), Err(Lost::Moving));
    play.lose();
    assert_eq!(play.pass(0), Ok(()), "it has moved");
    assert_eq!(play.session.next_server().0.host, "b");
    assert_eq!(play.open().session, SessionId::NONE);
    play.welcome(SessionId(8), false).unwrap();
    play.lose();
    assert_eq!(play.open().session, SessionId(8));
}

/// The ensemble does not hear of a client whose server lost the others, and gives the session away in time.
#[test]
fn a_server_that_lost_the_others_proves_nothing() {
    let mut settings = Settings::new(TIMEOUT_MS);
    settings.read_only = true;
    let mut play = Play::with(settings);
    play.open();
    play.welcome(ID, false).unwrap();
    assert_eq!(play.session.lost_after_ms(), 1000 + 9000);
    play.lose();
    play.now_ms = 4000;
    play.open();
    play.welcome(ID, true).unwrap();
    play.ask("read").unwrap();
    let (xid, _) = play.sent().pop().unwrap();
    play.reply(xid, 5, 0).unwrap();
    play.pass(3000).unwrap();
    assert_eq!(play.sent(), [(-2, OpCode::Ping)]);
    play.reply(-2, 5, 0).unwrap();
    assert_eq!(play.session.lost_after_ms(), 1000 + 9000);
    play.lose();
    play.open();
    play.welcome(ID, false).unwrap();
    assert_eq!(play.session.lost_after_ms(), 7000 + 9000, "a server that takes writes does");
}

#[test]
fn bad_credentials_end_everything() {
    let mut play = Play::connected();
    play.ask("one").unwrap();
    play.session.add_auth(0, "digest", Some(b"x"), Some(Caller("auth", Rc::default()))).unwrap();
    assert_eq!(play.reply(xid::AUTH, 0, ErrorCode::AuthFailed.code()), Err(Lost::Over));
    assert_eq!(play.told(), ["connected", "one: AuthFailed", "auth: AuthFailed", "over: AuthFailed"]);
}

#[test]
fn a_server_that_asks_for_proof_ends_everything() {
    let code = ErrorCode::SessionClosedRequireSaslAuth.code();
    let mut play = Play::connected();
    play.ask("one").unwrap();
    assert_eq!(play.reply(1, 0, code), Err(Lost::Over));
    assert_eq!(play.told(), ["connected", "one: -124", "over: AuthFailed"]);
    let mut play = Play::connected();
    play.pass(3000).unwrap();
    assert_eq!(play.reply(xid::PING, 0, code), Err(Lost::Over));
}

#[test]
fn a_long_answer_on_a_slow_line_is_no_silence() {
    let mut play = Play::connected();
    play.ask("long").unwrap();
    play.sent();
    let mut answer = Vec::new();
    put_reply(&mut answer, ReplyHeader { xid: 1, zxid: Zxid(1), err: 0 }, |out| put_text(out, "a long text"));
    let (last, pieces) = answer.split_last().unwrap();
    for piece in pieces.chunks(10) {
        play.hear(piece).unwrap();
        play.pass(5000).unwrap();
    }
    assert_eq!(play.pass(1000), Err(Lost::Silence), "nothing more has come");
    play.hear(&[*last]).unwrap();
    assert_eq!(play.told(), ["connected", "long: 0"]);
}

#[test]
fn servers_that_lose_every_connection_are_not_called_without_a_pause() {
    let mut play = Play::connected();
    let mut pauses = Vec::new();
    for _ in 0..20 {
        play.lose();
        pauses.push(play.session.next_server().1);
        play.open();
        play.welcome(ID, false).unwrap();
    }
    assert_eq!(pauses[0], 0, "the other server may be better");
    assert!(pauses[1..].iter().all(|pause| (5..=100).contains(pause)), "{pauses:?}");
    assert!(50 <= pauses[19]);
    play.now_ms += 1000;
    play.lose();
    assert_eq!(play.session.next_server().1, 0, "that was a good one");
    for _ in 0..20 {
        play.open();
        play.welcome(ID, false).unwrap();
        play.ask("one").unwrap();
        let (xid, _) = play.sent().pop().unwrap();
        play.reply(xid, 1, 0).unwrap();
        play.lose();
        assert_eq!(play.session.next_server().1, 0, "so was that");
    }
}
