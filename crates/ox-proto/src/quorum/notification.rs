//! Election notifications: a server's vote, its state and its configuration.
//!
//! ```text
//! state i32 | leader i64 | zxid i64 | round i64 | peer epoch i64 | version i32 = 2 | length i32 | the ensemble's text
//! ```
//! Each is the payload of a frame. Older servers stop after the round, the peer epoch or the version; the length tells
//! which. We always write the complete format.

use crate::frame::{FrameError, begin_frame, end_frame, split_frame};
use crate::jute::{DecodeError, Jute, Reader, decode_text, put_text};
use crate::limits::ELECTION_FRAME_BYTES_MAX;
use crate::{ServerId, Zxid};
use std::borrow::Cow;

/// State of a server (Apache: `ServerState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum PeerState {
    Looking = 0,
    Following = 1,
    Leading = 2,
    Observing = 3,
}

impl PeerState {
    /// The value on the wire.
    pub fn code(self) -> i32 {
        self as i32
    }
}

impl TryFrom<i32> for PeerState {
    type Error = i32;
    fn try_from(code: i32) -> Result<Self, i32> {
        match code {
            0 => Ok(Self::Looking),
            1 => Ok(Self::Following),
            2 => Ok(Self::Leading),
            3 => Ok(Self::Observing),
            other => Err(other),
        }
    }
}

/// A vote and the sender's state. The sender is the peer of the connection; the message does not name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    pub state: PeerState,
    /// The server that the sender votes for or follows; `i64::MIN` if it abstains.
    pub leader: ServerId,
    /// The candidate's last zxid.
    pub zxid: Zxid,
    /// The election round (Apache: `electionEpoch`).
    pub round: i64,
    /// The candidate's current epoch.
    pub peer_epoch: i64,
}

/// A notification with the fields that only newer formats have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedNotification<'a> {
    pub notification: Notification,
    /// Format version; 0 if absent, or from servers before 3.5, whose version is ignored.
    pub version: i32,
    /// Text of the sender's committed configuration, since version 2. It may be unparsable; the vote counts anyway.
    pub config: Option<Cow<'a, str>>,
}

/// Why a message is dropped. The connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotificationError {
    /// Shorter than every known format.
    #[error("notification of {0} bytes ends too early")]
    Truncated(usize),
    /// The configuration is longer than the message, or its length is negative.
    #[error("notification announces {0} bytes of configuration")]
    ConfigLength(i32),
    #[error("unknown state {0} in a notification")]
    State(i32),
}

/// The version that we write; the first with a configuration.
const VERSION: i32 = 2;
/// Messages of this length have no peer epoch.
const BYTES_BEFORE_3_4_0: usize = 28;
/// Messages of this length have a version that is ignored.
const BYTES_BEFORE_3_5_0: usize = 40;

/// Splits the first complete frame off `bytes`: its payload and the bytes after it. `None` while it is incomplete; on
/// an error the connection must be closed.
pub fn split(bytes: &[u8]) -> Result<Option<crate::frame::Split<'_>>, FrameError> {
    if bytes.starts_with(&[0; 4]) {
        return Err(FrameError { announced: 0, limit: ELECTION_FRAME_BYTES_MAX });
    }
    split_frame(bytes, ELECTION_FRAME_BYTES_MAX)
}

/// Decodes the payload of a frame.
pub fn decode(payload: &[u8]) -> Result<ReceivedNotification<'_>, NotificationError> {
    let short = |_: DecodeError| NotificationError::Truncated(payload.len());
    let mut from = Reader::new(payload);
    let state: i32 = from.get().map_err(short)?;
    let (leader, zxid, round) = (|| Ok((from.get()?, from.get::<Zxid>()?, from.get()?)))().map_err(short)?;
    let peer_epoch = match payload.len() {
        BYTES_BEFORE_3_4_0 => i64::from(zxid.epoch()),
        _ => from.get().map_err(short)?,
    };
    let version = match payload.len() {
        // Compat: the version of servers before 3.5 is ignored (test `format_is_detected_by_length`).
        BYTES_BEFORE_3_4_0 | BYTES_BEFORE_3_5_0 => 0,
        _ => from.get().map_err(short)?,
    };
    let config = if VERSION <= version { Some(read_config(&mut from, short)?) } else { None };
    let state = PeerState::try_from(state).map_err(NotificationError::State)?;
    Ok(ReceivedNotification { notification: Notification { state, leader, zxid, round, peer_epoch }, version, config })
}

fn read_config<'a>(
    from: &mut Reader<'a>,
    short: impl Fn(DecodeError) -> NotificationError,
) -> Result<Cow<'a, str>, NotificationError> {
    let announced: i32 = from.get().map_err(short)?;
    let wrong = NotificationError::ConfigLength(announced);
    let length = usize::try_from(announced).map_err(|_| wrong)?;
    from.take(length).map(decode_text).map_err(|_| wrong)
}

impl Notification {
    /// Appends a complete frame. `config` is the text of the sender's committed configuration and must be parsable by
    /// Apache, as the output of [`crate::ensemble::Ensemble`] is.
    pub fn put(&self, config: &str, out: &mut Vec<u8>) {
        let mark = begin_frame(out);
        self.state.code().put(out);
        self.leader.put(out);
        self.zxid.put(out);
        self.round.put(out);
        self.peer_epoch.put(out);
        VERSION.put(out);
        put_text(out, config);
        end_frame(out, mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message of the given length with zxid (5, 1), peer epoch 9 and the given fields.
    fn message(length: usize, version: i32, config: i32) -> Vec<u8> {
        let mut out = Vec::new();
        2_i32.put(&mut out);
        ServerId(3).put(&mut out);
        Zxid::new(5, 1).put(&mut out);
        7_i64.put(&mut out);
        9_i64.put(&mut out);
        version.put(&mut out);
        config.put(&mut out);
        out.resize(length.max(out.len()), b'x');
        out.truncate(length);
        out
    }

    fn check(length: usize, version: i32, config: i32, expected: &str) {
        let shown = match decode(&message(length, version, config)) {
            Ok(ReceivedNotification { notification, version, config }) => {
                assert_eq!((notification.state, notification.leader), (PeerState::Leading, ServerId(3)));
                assert_eq!((notification.zxid, notification.round), (Zxid::new(5, 1), 7));
                format!("epoch {} version {version} {config:?}", notification.peer_epoch)
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{length} bytes, version {version}, config {config}");
    }

    #[test]
    fn format_is_detected_by_length() {
        for length in (0..28).chain(29..40) {
            check(length, 0, 0, &format!("notification of {length} bytes ends too early"));
        }
        check(28, 0, 0, "epoch 5 version 0 None");
        check(40, 1, 0, "epoch 9 version 0 None");
        check(40, 2, 0, "epoch 9 version 0 None");
        check(41, 1, 0, "epoch 9 version 1 None");
        check(43, 1, 0, "epoch 9 version 1 None");
        check(43, 2, 0, "notification of 43 bytes ends too early");
        check(44, 1, 99, "epoch 9 version 1 None");
        check(44, -1, 99, "epoch 9 version -1 None");
        check(44, 2, 0, "epoch 9 version 2 Some(\"\")");
        check(46, 2, 2, "epoch 9 version 2 Some(\"xx\")");
        check(46, 3, 1, "epoch 9 version 3 Some(\"x\")");
        check(46, 2, 3, "notification announces 3 bytes of configuration");
        check(46, 2, -1, "notification announces -1 bytes of configuration");
        check(46, 2, i32::MAX, "notification announces 2147483647 bytes of configuration");
    }

    #[test]
    fn unknown_state_is_refused() {
        for code in -1..6 {
            let mut bytes = message(44, 2, 0);
            bytes[..4].copy_from_slice(&i32::to_be_bytes(code));
            let state = decode(&bytes).map(|received| received.notification.state.code());
            assert_eq!(state, if (0..4).contains(&code) { Ok(code) } else { Err(NotificationError::State(code)) });
        }
    }

    #[test]
    fn oversized_frame_is_refused() {
        let prefix = |length: usize| i32::try_from(length).unwrap().to_be_bytes();
        let error = |announced| Err(FrameError { announced, limit: ELECTION_FRAME_BYTES_MAX });
        assert_eq!(split(&prefix(0)), error(0));
        assert_eq!(split(&[0xff; 4]), error(-1));
        assert_eq!(split(&prefix(524_288)), Ok(None));
        assert_eq!(split(&prefix(524_289)), error(524_289));
        assert_eq!(split(&[0; 3]), Ok(None));
        assert_eq!(split(&[0, 0, 0, 1, 5, 6]), Ok(Some((&[5][..], &[6][..]))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(prop_oneof![2 => Just(0_u8), 1 => any::<u8>(), 1 => 0..4_u8], 0..80),
        ) {
            let _ = split(&bytes);
            let _ = decode(&bytes);
        }

        #[test]
        fn notification_round_trips(numbers in any::<[i64; 4]>(), state in 0..4, config in "\\PC{0,30}") {
            let [leader, zxid, round, peer_epoch] = numbers;
            let state = PeerState::try_from(state).unwrap();
            let notification = Notification { state, leader: ServerId(leader), zxid: Zxid(zxid), round, peer_epoch };
            let mut out = Vec::new();
            notification.put(&config, &mut out);
            let (payload, rest) = split(&out).unwrap().unwrap();
            prop_assert!(rest.is_empty());
            let received = ReceivedNotification { notification, version: 2, config: Some(config.into()) };
            prop_assert_eq!(decode(payload).unwrap(), received);
        }
    }
}
