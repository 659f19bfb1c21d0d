//! The tree against a naive model, over fuzzy snapshots, frozen, and in the cases known from elsewhere.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::wildcard_enum_match_arm, reason = "tests look at a few kinds out of many")]

mod against_model;
mod direct;
mod freeze;
mod fuzzy;
mod generate;
mod image;
mod known;
mod model;
mod ops;
mod request;
mod world;
