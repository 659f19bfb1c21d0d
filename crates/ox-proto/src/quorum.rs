//! What servers of an ensemble say to each other.
//!
//! ```text
//! election port   hello (once, by the dialer), then frames, each with one notification, both ways
//! quorum port     packets both ways; behind a SNAP packet the snapshot itself
//! ```
//! Everything here is total: any bytes give a value or an error. Start with [`packet`] and [`payload`] for the quorum
//! port, [`hello`] and [`notification`] for the election port. The ensemble's text that both carry is
//! [`crate::ensemble`].

pub mod hello;
pub mod identities;
pub mod notification;
pub mod packet;
pub mod payload;

pub use hello::{Hello, HelloError, HelloVersion};
pub use identities::{RawId, RawIds};
pub use notification::{Notification, NotificationError, PeerState, Received};
pub use packet::{Packet, PacketError, PacketKind, PacketReader};
