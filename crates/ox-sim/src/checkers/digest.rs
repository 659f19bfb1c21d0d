//! The incremental digest equals the digest computed from the whole tree.

use super::Finding;
use crate::outcome::FailureKind;
use crate::server::process::Process;
use std::convert::Infallible;

pub(crate) fn check(process: &Process) -> Result<(), Finding> {
    let state = &process.state;
    let mut sum = 0_u64;
    let walked = state.freeze().for_each_node(|node| {
        if !node.path.starts_with("/zookeeper/") {
            let mut crc = crc32fast::Hasher::new();
            crc.update(node.path.as_bytes());
            crc.update(node.data.unwrap_or_default());
            crc.update(&node.stat.digest_bytes());
            sum = sum.wrapping_add(u64::from(crc.finalize()));
        }
        Ok::<(), Infallible>(())
    });
    match walked {
        Ok(()) => (),
        Err(never) => match never {},
    }
    if sum.cast_signed() == state.digest() {
        return Ok(());
    }
    let (at, kept) = (state.last_zxid(), state.digest());
    Err(Finding::new(
        FailureKind::Digest,
        format!("at {at} the incremental digest is {kept:x}, that of the tree {sum:x}"),
    ))
}
