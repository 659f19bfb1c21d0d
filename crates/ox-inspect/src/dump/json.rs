//! Values that several JSON dumps have. The fields of an object are in the order in which they are serialised.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ox_proto::RawAcls;
use serde::Serialize;

pub(super) fn hex(value: i64) -> String {
    format!("{value:#x}")
}

/// Bytes in base64; `None` is null.
pub(super) fn base64(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| STANDARD.encode(bytes))
}

#[derive(Serialize)]
pub(super) struct AclEntry {
    perms: i32,
    scheme: String,
    id: String,
}

pub(super) fn acl_entries(acls: RawAcls<'_>) -> Vec<AclEntry> {
    let entry = |acl: ox_proto::Acl| AclEntry { perms: acl.perms, scheme: acl.scheme.into(), id: acl.id.into() };
    acls.to_stored().into_iter().map(entry).collect()
}
