//! Configuration: `zoo.cfg`, system properties and arguments into a checked [`Config`].
//!
//! [`SECTIONS`] is the one table of settings; parser, effective values, warnings and the page `docs/config.md` derive
//! from it. A configuration is refused exactly where Apache ZooKeeper refuses it, and besides where it asks for
//! something whose silent absence would hurt: protection, or an ensemble. `testdata/validation.txt` is the recorded
//! proof.
//!
//! ```text
//!  Start (file, arguments, nothing)      SystemProperties (-D, SERVER_JVMFLAGS)
//!          \                              /
//!           Settings::read: what was given, and what wins
//!                     |
//!     lint -> check lines -> check together -> ensemble -> check server -> guard
//!       |                                                                    |
//!   Vec<Notice>                                          Config, or ConfigError (place, cause)
//! ```
//!
//! Pure: files and host names come through the closures of [`Outside`]. Read on in `settings.rs` for precedence and in
//! `checks.rs` for the order of checks.

mod address;
mod auth;
mod checks;
mod config;
mod diagnostic;
mod docs;
mod ensemble;
mod error;
mod explain;
mod java_values;
mod key;
mod keys;
mod limits;
mod lint;
mod member_config;
mod providers;
mod server_lines;
mod settings;
mod spelling;
mod start_args;
mod storage;
mod system_properties;
mod unsupported_protection;

pub use auth::{Auth, FourLetterWords, Hidden};
pub use config::{Autopurge, Config};
pub use diagnostic::{Level, Notice};
pub use docs::config_page;
pub use error::{Cause, ConfigError, Place};
pub use explain::{Effect, Explained, Item, explain};
pub use key::{Class, Key, OnBadText, Reader, Section, Source, Status, Value};
pub use keys::{SECTIONS, find, keys};
pub use limits::{ConnectionThrottle, Limits, RequestThrottle, SessionWeights, Supervision};
pub use member_config::{MemberConfig, MemberFiles};
pub use settings::{Effective, Settings};
pub use start_args::{Outside, Start};
pub use storage::{Compression, Containers, OnDamage, Recovery, Storage, TornTail};
pub use system_properties::SystemProperties;
