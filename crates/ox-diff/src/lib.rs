//! The differential test: sends the same requests to Oxkeeper and to Apache ZooKeeper and compares every reply.
//!
//! [`suite::run`] runs hand-written scenarios (`scenarios/*.txt`, syntax in [`script`] and [`grammar`]) and random
//! sequences ([`generate`]) from several sessions over raw sockets. Replies, errors, stats, zxids, events and their
//! order must be equal, and so must the complete trees at the end and after a restart.
//!
//! # Normalisations before the comparison
//!
//! Exactly what Apache leaves unspecified is normalized before the comparison:
//!
//! | what | how it is compared | where |
//! |---|---|---|
//! | ctime, mtime | unset, recent or the number itself; equal to each other until the first setData | [`normalize`] |
//! | session ids | by the session's name in the script | [`normalize`] |
//! | passwords | must be the one derived from the id | `reply_matcher` |
//! | counted xids | must be the request's; the number itself is omitted | `reply_matcher` |
//! | order of children, ephemerals, identities | sorted | [`normalize`] |
//! | order of an expanded `auth` entry | adjacent digest entries of equal permissions are sorted | [`normalize`] |
//! | UTF-8 or CESU-8 | by character | [`value`] |
//! | position of auth and sasl replies | a separate list | [`compare`] |
//! | order of events of one closeSession or expiry | sorted, within one zxid and connection | [`compare`] |
//! | readers concurrent with a writer | zxids of their replies and positions of their events are not compared, but see below | [`compare`] |
//! | quota usage after a restart | not compared | [`runner`] |
//!
//! Each server must also keep [`compare::Invariants`]: zxids never decrease on a connection, and an event precedes any
//! reply that could show its change.
//!
//! Intended differences are listed in one table, [`intended_differences::INTENDED`].

pub mod acl;
pub mod compare;
pub mod coverage;
pub mod generate;
pub mod grammar;
pub mod intended_differences;
pub mod normalize;
pub mod profile;
mod reply_matcher;
pub mod report;
pub mod request;
pub mod runner;
pub mod scenarios;
pub mod script;
pub mod shrink;
pub mod stream;
pub mod suite;
pub mod target;
pub mod tokenizer;
pub mod value;
