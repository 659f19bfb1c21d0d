//! Tests of the tree: against the model of `ox-history`, over fuzzy snapshots, with frozen views, and the known cases.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![expect(clippy::wildcard_enum_match_arm, reason = "tests inspect a few of many variants")]

mod against_model;
mod bare_tree;
mod frozen_views;
mod fuzzy_snapshots;
mod generators;
mod harness;
mod image;
mod known_cases;
mod ops;
mod request;
