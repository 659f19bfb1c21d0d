//! The protocols between the servers of an ensemble.
//!
//! ```text
//! election port   one hello from the dialer, then frames with one notification each, in both directions
//! quorum port     packets in both directions; a SNAP packet is followed by the snapshot itself
//! ```
//! With SASL, packets of [`auth`] follow the hello, or precede the first packet of the quorum port.
//! Decoding is total: any bytes yield a value or an error. Start with [`packet`] and [`payload`] for the quorum port,
//! [`hello`] and [`notification`] for the election port. [`crate::ensemble`] is the text that both carry.

pub mod auth;
pub mod hello;
pub mod identities;
pub mod notification;
pub mod packet;
pub mod payload;

pub use auth::{AuthPacket, AuthPacketError, AuthStatus};
pub use hello::{Hello, HelloError, HelloVersion};
pub use identities::{RawId, RawIds};
pub use notification::{Notification, NotificationError, PeerState, ReceivedNotification};
pub use packet::{Packet, PacketError, PacketKind, PacketReader};
