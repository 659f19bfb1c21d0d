//! Changes of the configuration files. The log thread writes them, in order with all other disk work.

use ox_proto::ensemble::Ensemble;
use ox_store::{ConfigFiles, StoreError};
use std::sync::Arc;

/// A change of the configuration files.
#[derive(Clone, Debug)]
pub enum ConfigChange {
    /// A configuration that is logged but not committed.
    Proposed(Arc<Ensemble>),
    /// The committed configuration stays, and the proposed one is discarded.
    Kept,
    /// A committed configuration, and a proposed one that may follow it.
    Committed(Arc<Ensemble>, Option<Arc<Ensemble>>),
}

impl ConfigChange {
    /// Writes the files. The log contains the configuration too, so the server continues if they cannot be written.
    pub fn save(&self, files: &ConfigFiles) -> Result<(), StoreError> {
        match self {
            Self::Proposed(ensemble) => files.save_proposed(ensemble),
            Self::Kept => files.remove_proposed(),
            Self::Committed(ensemble, proposed) => files.save_committed(ensemble, proposed.as_deref()),
        }
    }

    /// The version of a committed configuration.
    pub fn active_version(&self) -> Option<i64> {
        if let Self::Committed(ensemble, _) = self { Some(ensemble.version()) } else { None }
    }
}
