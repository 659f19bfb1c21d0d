//! Per-client operation mix: how often a client sends each kind of request.

use ox_testkit::Rng;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpKind {
    Write,
    Multi,
    SetAcl,
    Read,
    Watch,
    Authenticate,
    Quota,
    Odd,
    Close,
}

const OP_KINDS: [OpKind; 9] = [
    OpKind::Write,
    OpKind::Multi,
    OpKind::SetAcl,
    OpKind::Read,
    OpKind::Watch,
    OpKind::Authenticate,
    OpKind::Quota,
    OpKind::Odd,
    OpKind::Close,
];

/// How often a client sends each kind of request, and with which options.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpMix {
    weights: [u64; OP_KINDS.len()],
    /// Reads that set a watch, in a thousand.
    pub(super) watch_per_mille: u32,
    /// Creates of ephemeral nodes, in a thousand.
    pub(super) ephemeral_per_mille: u32,
    /// Creates of containers and TTL nodes, in a thousand.
    pub(super) special_per_mille: u32,
    /// ACLs that do not allow everyone to read, in a thousand.
    pub(super) private_per_mille: u32,
}

const MIXED: OpMix = OpMix {
    weights: [390, 80, 20, 330, 110, 20, 5, 20, 7],
    watch_per_mille: 500,
    ephemeral_per_mille: 350,
    special_per_mille: 250,
    private_per_mille: 100,
};

const OP_MIXES: &[OpMix] = &[
    MIXED,
    // Mostly writes.
    OpMix { weights: [600, 200, 20, 100, 20, 5, 0, 5, 5], special_per_mille: 400, ..MIXED },
    // Many watches, and reads after events.
    OpMix { weights: [60, 20, 5, 500, 350, 20, 0, 5, 5], watch_per_mille: 900, ..MIXED },
    // Ephemeral nodes and short sessions.
    OpMix { weights: [600, 50, 10, 200, 50, 5, 0, 5, 40], ephemeral_per_mille: 850, special_per_mille: 50, ..MIXED },
    // Containers that become empty.
    OpMix { weights: [700, 100, 5, 120, 40, 5, 0, 0, 2], special_per_mille: 600, ephemeral_per_mille: 100, ..MIXED },
    // Restrictive ACLs.
    OpMix { weights: [350, 60, 150, 250, 80, 100, 5, 5, 5], private_per_mille: 600, ..MIXED },
];

impl OpMix {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        *rng.pick(OP_MIXES)
    }

    pub(super) fn draw_kind(&self, rng: &mut Rng) -> OpKind {
        let mut rest = rng.below(self.weights.iter().sum());
        for (kind, weight) in OP_KINDS.into_iter().zip(self.weights) {
            match rest.checked_sub(weight) {
                Some(less) => rest = less,
                None => return kind,
            }
        }
        OpKind::Read
    }
}
