//! SASL for the client port, between servers, and for clients: JAAS files, DIGEST-MD5, Kerberos, and the names that
//! peers get.
//!
//! Everything here is pure: tokens in, tokens out. Sockets, files, time and random bytes belong to the caller. An acceptor or
//! initiator serves one exchange; after an error or the end it accepts no more tokens.
//!
//! | module | subject |
//! |---|---|
//! | [`jaas`] | JAAS files, and which mechanism a section asks for |
//! | [`digest_md5`] | DIGEST-MD5, both sides |
//! | [`gssapi`] | GSSAPI, both sides |
//! | [`krb5`] | Kerberos: tickets, keytabs, caches, exchanges with a KDC |
//! | [`kerberos_name`] | names and ids: `auth_to_local`, `_HOST`, who is authorised |
//!
//! Passwords and keys are [`secret::SecretBytes`]s.

pub mod digest_md5;
pub mod gssapi;
pub mod jaas;
pub mod kerberos_name;
pub mod krb5;
pub mod mechanism;
pub mod secret;
