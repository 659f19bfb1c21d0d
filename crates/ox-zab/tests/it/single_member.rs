//! Settings of members for tests of a single member.

use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_zab::{
    ConfigPair, ElectionSettings, Eligibility, Epoch, Epochs, PeerOptions, PeerSettings, QuorumPeer, RecentLog,
    Recovered, ServerId, Timing,
};

pub(crate) const TIMING: Timing = Timing { tick_ms: 100, init_ticks: 10, sync_ticks: 5 };

/// Servers 1 to 3 are voters of a static configuration.
pub(crate) fn three() -> ConfigPair {
    ConfigPair::fixed(Ensemble::of_numbers(0, [1, 2, 3].map(ServerId), []).unwrap())
}

pub(crate) fn settings(server: i64, configs: ConfigPair) -> PeerSettings {
    let (election, options) = (ElectionSettings::default(), PeerOptions::default());
    PeerSettings { server: ServerId(server), configs, timing: TIMING, election, options }
}

/// A member whose history ends at `last`, with nothing in its recent log.
pub(crate) fn member(settings: PeerSettings, last: Zxid, eligibility: Eligibility) -> QuorumPeer {
    let epochs = Epochs { accepted: Epoch::of(last), current: Epoch::of(last) };
    QuorumPeer::new(settings, Recovered { epochs, history: RecentLog::new(last, 500, 1 << 20), eligibility })
}
