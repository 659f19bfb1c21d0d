//! TLS for the client port, the quorum and election ports, the client library and the admin server.
//!
//! The crate turns one group of `ssl.*` settings and the files that they name into rustls configurations. It opens no
//! socket, starts no thread and reads no clock: the caller drives rustls, resolves names and says when files may have
//! changed.
//!
//! ```text
//!  TlsSettings ──► StoreFiles::read ──► store (PEM, PKCS12, JKS) ──► ServerTls, ClientTls or PeerTls
//!                        ▲                                                  │
//!                        └──────────────── Reloader::poll ◄─────────────────┘
//! ```
//!
//! A setting that asks for protection which cannot be given is an error, never ignored.

mod certificate;
mod certified_keys;
mod cipher_suites;
mod client_tls;
mod der;
mod error;
mod first_byte;
#[cfg(feature = "generate")]
pub mod generate;
mod handshake_error;
mod host_name;
mod material;
mod observer;
mod password_encryption;
mod policy;
mod protocol_versions;
mod reload;
mod revocation;
mod server_tls;
mod settings;
mod store;
mod store_files;
mod subject;
mod verifier;
mod warning;

pub use certificate::CertificateInfo;
pub use client_tls::{ClientEndpoint, ClientTls};
pub use error::{StoreProblem, TlsError};
pub use first_byte::FirstByte;
pub use handshake_error::describe_handshake_error;
pub use host_name::{HostNameMismatch, PeerDecision, PeerEndpoint};
pub use observer::ChainObserver;
pub use reload::{PeerTls, ReloadOutcome, Reloader};
pub use revocation::RevocationListInfo;
pub use server_tls::ServerTls;
pub use settings::{SettingsGroup, StorePassword, StoreSettings, TlsSettings};
pub use store::fuzz_store;
pub use store_files::StoreFiles;
pub use warning::TlsWarning;
