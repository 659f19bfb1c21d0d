//! The differential test: the same requests to Oxkeeper and to Apache ZooKeeper, answer by answer.
//!
//! [`suite::run`] plays hand-written scenarios (`scenarios/*.txt`, language in [`script`] and [`grammar`]) and random sequences
//! ([`generate`]) from several sessions over raw sockets. Replies, errors, stats, zxids, events and their order must be
//! equal, and so must the whole trees at the end and after a restart.
//!
//! # Normalisations
//!
//! What Apache leaves open is taken out before comparing, and nothing else:
//!
//! | what | how it is compared | where |
//! |---|---|---|
//! | ctime, mtime | unset, recent or the number itself; equal to each other until the first setData | [`canon`] |
//! | session ids | by the script's name of the session | [`canon`] |
//! | passwords | must be the one derived from the id | `listen` |
//! | counted xids | must be the request's; the number itself is left out | `listen` |
//! | order of children, ephemerals, identities | sorted | [`canon`] |
//! | order of an expanded `auth` entry | digest entries of equal permissions next to each other are sorted | [`canon`] |
//! | UTF-8 or CESU-8 | by character | [`value`] |
//! | place of auth and sasl replies | a list of their own | [`compare`] |
//! | order of events of one closeSession or expiry | sorted, within one zxid and connection | [`compare`] |
//! | readers beside a writer | zxids of their replies and places of their events are open, but see below | [`compare`] |
//! | quota usage after a restart | not compared | [`duel`] |
//!
//! Each server alone must keep the rules of [`compare::Rules`]: zxids never go back on a connection, and an event comes before
//! any reply that could show its change.
//!
//! Intended differences live in one table, [`intended_differences::INTENDED`].

pub mod acl;
pub mod compare;
pub mod connection;
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
