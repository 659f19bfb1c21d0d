//! Kerberos logins of clients, and of servers that connect to each other: the files, and exchanges with a KDC.
//!
//! `ox-sasl` has the protocols; this crate moves their bytes. Everything here blocks: the caller runs it on a thread
//! for that.

pub mod files;
mod login;

pub use login::KerberosLogin;
