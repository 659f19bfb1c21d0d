//! Settings of the audit log.

use std::path::PathBuf;

use crate::error::{Cause, ErrorCollector};
use crate::settings::Settings;

/// The audit log: which events are written is fixed, where and how is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    pub enabled: bool,
    /// A file of its own, which rotates; `None` writes to the server's log.
    pub file: Option<PathBuf>,
    pub format: AuditFormat,
    /// The file is rotated when it would become larger.
    pub file_bytes_max: u64,
    /// Rotated files to keep.
    pub backups: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditFormat {
    /// Apache's lines: `key=value` fields that are separated by tabs.
    Text,
    Json,
}

const CLASS: &str = "audit.impl.class";
const FILE_BYTES: &str = "oxkeeper.audit.maxFileBytes";
const BACKUPS: &str = "oxkeeper.audit.backups";

/// Refuses a logger class that does not ship with Apache, and sizes that cannot work.
pub(crate) fn check(settings: &Settings, errors: &mut ErrorCollector) {
    let class = settings.text(CLASS).unwrap_or_default();
    if settings.flag("audit.enable") && class != "org.apache.zookeeper.audit.Slf4jAuditLogger" {
        errors.add(settings.place_of(CLASS).error(Cause::AuditLoggerClass(class)));
    }
    if settings.long(FILE_BYTES) < 4096 {
        let (text, expected) = (settings.long(FILE_BYTES).to_string(), "at least 4096".to_owned());
        errors.add(settings.place_of(FILE_BYTES).error(Cause::BadValue { key: FILE_BYTES, text, expected }));
    }
    if !(0..=1000).contains(&settings.int(BACKUPS)) {
        let (text, expected) = (settings.int(BACKUPS).to_string(), "0 to 1000".to_owned());
        errors.add(settings.place_of(BACKUPS).error(Cause::BadValue { key: BACKUPS, text, expected }));
    }
}

impl AuditConfig {
    pub(crate) fn from_checked(settings: &Settings) -> Self {
        let is_json = settings.text("oxkeeper.audit.format").is_some_and(|format| format == "json");
        Self {
            enabled: settings.flag("audit.enable"),
            file: settings.text("oxkeeper.audit.file").map(PathBuf::from),
            format: if is_json { AuditFormat::Json } else { AuditFormat::Text },
            file_bytes_max: settings.long(FILE_BYTES).unsigned_abs(),
            backups: settings.int(BACKUPS).unsigned_abs(),
        }
    }
}
