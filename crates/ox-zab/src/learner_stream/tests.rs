#![expect(clippy::wildcard_enum_match_arm, reason = "a few of two dozen messages")]

use super::*;
use crate::message::Request;
use bytes::Bytes;
use ox_proto::SessionId;

const LINK: LinkId = LinkId(3);
const START: Zxid = Zxid(2 << 32);

fn zxid(counter: u32) -> Zxid {
    Zxid::new(2, counter)
}

/// Transactions 1 to `count` of epoch 2, with 100 bytes each.
fn history(count: u32) -> RecentLog {
    let mut history = RecentLog::new(START, 3, 300).with_pinned_max(500);
    (1..=count).for_each(|counter| history.push(EncodedTxn { zxid: zxid(counter), record: Bytes::from(vec![0; 100]) }));
    history
}

struct Script {
    stream: LearnerStream,
    history: RecentLog,
    activations: BTreeMap<Zxid, ServerId>,
    committed: u32,
}

impl Script {
    /// A stream with a window of two transactions, to a learner without any transaction of the epoch.
    fn new(count: u32, committed: u32, wants_proposals: bool) -> Self {
        let mut stream = LearnerStream::new(200);
        stream.begin(START, wants_proposals);
        Self { stream, history: history(count), activations: BTreeMap::new(), committed }
    }

    /// The same after NEWLEADER.
    fn complete(count: u32, committed: u32, wants_proposals: bool) -> Self {
        let mut script = Self::new(count, committed, wants_proposals);
        script.stream.complete(&mut Effects::new(), LINK, Message::UpToDate);
        script.stream.on_sent(usize::MAX);
        script
    }

    fn pump(&mut self) -> (Pumped, String) {
        let mut out = Effects::new();
        let (limit, activations) = (zxid(self.committed), &self.activations);
        let pumped =
            self.stream.pump(&self.history, &mut out, LINK, Committed { limit, epoch_start: START, activations });
        (pumped, describe(&out))
    }

    fn sent(&mut self, transactions: usize) -> (Pumped, String) {
        self.stream.on_sent(transactions * 124);
        self.pump()
    }
}

/// `p` is a proposal, `c` a commit, `i` an INFORM; a star activates a configuration.
fn describe(out: &Effects) -> String {
    let message = |effect: &Effect| if let Effect::Send(_, message) = effect { Some(message.clone()) } else { None };
    let word = |message: Message| match message {
        Message::Proposal(txn) => format!("p{}", txn.zxid.counter()),
        Message::Inform(txn) => format!("i{}", txn.zxid.counter()),
        Message::InformAndActivate(txn, _) => format!("i{}*", txn.zxid.counter()),
        Message::Commit(zxid) => format!("c{}", zxid.counter()),
        Message::Commits(run) => format!("c{}-{}", run.first.counter(), run.last.counter()),
        Message::CommitAndActivate(zxid, _) => format!("c{}*", zxid.counter()),
        message => format!("{message:?}"),
    };
    out.iter().filter_map(message).map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn transactions_wait_in_the_log_while_the_window_is_full() {
    let mut script = Script::complete(5, 0, true);
    assert_eq!(script.pump(), (Pumped::Done, "p1 p2".to_owned()));
    script.committed = 4;
    assert_eq!(script.pump(), (Pumped::Done, "c1-2".to_owned()), "commits of what was sent do not wait");
    assert_eq!(script.sent(1), (Pumped::Done, "p3 c3".to_owned()));
    assert_eq!(script.sent(3), (Pumped::Done, "p4 c4 p5".to_owned()));
    assert_eq!(script.stream.proposed(), zxid(5));
}

#[test]
fn replies_follow_the_commits_before_them_and_pings_do_not_wait() {
    let mut script = Script::complete(4, 0, true);
    script.pump();
    script.committed = 3;
    let mut out = Effects::new();
    script.stream.send_after(&mut out, LINK, Message::Sync, zxid(3));
    script.stream.send_after(&mut out, LINK, Message::UpToDate, zxid(1));
    script.stream.send_now(&mut out, LINK, Message::Ping(zxid(4)));
    assert_eq!(out, [Effect::Send(LINK, Message::Ping(zxid(4)))]);
    assert_eq!(script.pump().1, "c1-2");
    assert!(!script.stream.is_up_to_date(), "replies keep their order");
    assert_eq!(script.sent(3).1, "p3 c3 Sync UpToDate p4");
    assert!(script.stream.is_up_to_date());
}

#[test]
fn history_respects_window_and_ends_at_current_commit() {
    for (wants_proposals, then) in [(true, "p6"), (false, "")] {
        let mut script = Script::new(4, 3, wants_proposals);
        assert_eq!(script.pump(), (Pumped::Done, "p1 c1 p2 c2".to_owned()));
        script.committed = 4;
        assert_eq!(script.sent(1), (Pumped::Done, "p3 c3".to_owned()));
        assert_eq!(script.sent(4), (Pumped::CaughtUp, "p4 c4".to_owned()));
        script.history = history(6);
        script.committed = 5;
        assert_eq!(script.sent(2), (Pumped::CaughtUp, "p5 c5".to_owned()), "NEWLEADER was not handed over yet");
        script.stream.complete(&mut Effects::new(), LINK, Message::UpToDate);
        assert_eq!(script.pump().1, then);
    }
}

#[test]
fn configurations_are_activated_where_they_are_committed() {
    for (wants_proposals, expected) in [(true, "p1 p2 p3 c1 c2* c3"), (false, "i1 i2* i3")] {
        let mut script = Script::complete(3, 0, wants_proposals);
        script.stream.window.bytes_max = 1000;
        let first = script.pump().1;
        script.activations.insert(zxid(2), ServerId(1));
        script.committed = 3;
        assert_eq!(format!("{first} {}", script.pump().1).trim(), expected);
    }
}

#[test]
fn learner_behind_recent_log_is_detected_when_window_opens() {
    let mut script = Script::complete(8, 0, true);
    assert_eq!(script.pump().1, "p1 p2");
    script.history.trim(zxid(2), zxid(2));
    script.history.trim(zxid(4), zxid(2));
    assert_eq!(
        script.history.start(),
        zxid(2),
        "two applied transactions stay for it, and unapplied ones do not count"
    );
    script.history.trim(zxid(5), zxid(2));
    assert_eq!(script.history.start(), zxid(3), "three are too many");
    assert_eq!(script.pump().0, Pumped::Done, "its window is full");
    assert_eq!(script.sent(2).0, Pumped::Trimmed);
    assert_eq!(script.stream.continue_from_log(&script.history), None, "it has NEWLEADER");
    script.stream.is_complete = false;
    let search = LogDiffRange { after: zxid(2), below: zxid(4), continues: true };
    assert_eq!((script.stream.continue_from_log(&script.history), script.stream.pinned()), (Some(search), None));
    script.stream.on_log_read(zxid(5));
    script.stream.is_complete = true;
    assert_eq!(script.pump().1, "p6 p7");
}

#[test]
fn acknowledgements_overtake_requests_that_wait() {
    let mut stream = RequestStream::new(LINK, 100);
    let request = |cxid| {
        let (body, ids) = (Bytes::from(vec![0; 200]), Bytes::new());
        Message::Request(Request { session: SessionId(1), cxid, op: 5, body, ids })
    };
    let mut out = Effects::new();
    stream.send(&mut out, request(1));
    stream.send(&mut out, request(2));
    stream.send(&mut out, Message::Revalidate(SessionId(2), 1));
    stream.send(&mut out, Message::Ack(zxid(1)));
    let sent =
        |messages: &[Message]| messages.iter().map(|message| Effect::Send(LINK, message.clone())).collect::<Vec<_>>();
    assert_eq!(out, sent(&[request(1), Message::Ack(zxid(1))]));
    out.clear();
    stream.on_sent(&mut out, 248);
    assert_eq!(out, sent(&[request(2)]));
    stream.on_sent(&mut out, 224);
    assert_eq!(out, sent(&[request(2), Message::Revalidate(SessionId(2), 1)]));
}
