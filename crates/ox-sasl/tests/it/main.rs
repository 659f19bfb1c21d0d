//! Exchanges with other implementations, and arbitrary input.
//!
//! Tests against Java need `java`; those against MIT need a KDC (`krb5-kdc`, `krb5-admin-server`) and Python's `gssapi`. What
//! is not installed is skipped with a message.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod digest_with_java;
mod fuzz;
mod gssapi_with_peers;
mod mit_kdc;
mod peer;
