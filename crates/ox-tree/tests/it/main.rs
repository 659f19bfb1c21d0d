//! The tree against a naive model, over fuzzy snapshots, frozen, and in the cases known from elsewhere.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::wildcard_enum_match_arm, reason = "tests look at a few kinds out of many")]

mod against_model;
mod bare_tree;
mod frozen_views;
mod fuzzy_snapshots;
mod generators;
mod image;
mod known_cases;
mod model;
mod ops;
mod request;
mod harness;
