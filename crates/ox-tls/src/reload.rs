//! Reload of stores without a restart.
//!
//! The caller polls from time to time. A change of any file makes a new configuration, which new connections use;
//! connections that exist keep theirs. Files that cannot be used change nothing: the error is returned once, and again
//! only when the content has changed again.

use crate::client_tls::ClientTls;
use crate::error::TlsError;
use crate::material::Material;
use crate::server_tls::ServerTls;
use crate::settings::TlsSettings;
use crate::store_files::{Fingerprint, StoreFiles};
use std::sync::Arc;

/// Both sides of the links between servers.
#[derive(Debug)]
pub struct PeerTls {
    pub server: ServerTls,
    pub client: ClientTls,
}

impl PeerTls {
    pub fn build(settings: &TlsSettings, files: &StoreFiles) -> Result<Self, TlsError> {
        let material = Material::load(settings, files)?;
        let server = ServerTls::from_material(settings, &material)?;
        let client = ClientTls::from_material(settings, &material)?;
        Ok(Self { server, client })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadOutcome {
    Unchanged,
    /// [`Reloader::current`] returns the new configuration.
    Replaced,
}

/// Keeps the configuration that was built from the last good files. `T` is what `build` makes of them: `ServerTls`,
/// `ClientTls` or `PeerTls`.
pub struct Reloader<T> {
    settings: TlsSettings,
    build: fn(&TlsSettings, &StoreFiles) -> Result<T, TlsError>,
    current: Arc<T>,
    /// Of the files that were tried last, good or bad.
    last_tried: Fingerprint,
    last_read_error: String,
}

impl<T> Reloader<T> {
    /// Reads the files for the first time, for example `Reloader::new(settings, ServerTls::build)`.
    pub fn new(
        settings: TlsSettings,
        build: fn(&TlsSettings, &StoreFiles) -> Result<T, TlsError>,
    ) -> Result<Self, TlsError> {
        let files = StoreFiles::read(&settings)?;
        let current = Arc::new(build(&settings, &files)?);
        let last_tried = files.fingerprint();
        Ok(Self { settings, build, current, last_tried, last_read_error: String::new() })
    }

    pub fn current(&self) -> &Arc<T> {
        &self.current
    }

    /// Reads the files again and uses them if they are new and good.
    pub fn poll(&mut self) -> Result<ReloadOutcome, TlsError> {
        match StoreFiles::read(&self.settings) {
            Ok(files) => {
                self.last_read_error.clear();
                self.update(&files)
            }
            Err(error) => {
                let text = error.to_string();
                if text == self.last_read_error {
                    return Ok(ReloadOutcome::Unchanged);
                }
                self.last_read_error = text;
                Err(error)
            }
        }
    }

    /// Uses files that the caller has read, if they are new and good.
    pub fn update(&mut self, files: &StoreFiles) -> Result<ReloadOutcome, TlsError> {
        let fingerprint = files.fingerprint();
        if self.last_tried == fingerprint {
            return Ok(ReloadOutcome::Unchanged);
        }
        self.last_tried = fingerprint;
        self.current = Arc::new((self.build)(&self.settings, files)?);
        Ok(ReloadOutcome::Replaced)
    }
}
