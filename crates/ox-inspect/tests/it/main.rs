//! The tools on files that were recorded from Apache, and on damaged copies of them.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod dump;
mod golden_sets;
mod tools;
