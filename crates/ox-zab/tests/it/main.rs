//! Elections and agreement among many servers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::wildcard_enum_match_arm, reason = "tests look at a few kinds out of many")]

mod agreement;
mod contention;
mod deaf_members;
mod dialling;
mod elections;
mod emptiness;
mod endings;
mod hall;
mod leader_rules;
mod learner_rules;
mod master_rules;
mod member;
mod membership;
mod peer_options;
mod peer_rules;
mod pending_config;
mod realm;
mod rooms;
