//! Access control lists (ACLs) and the predefined ones.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = ox_server::Server::ephemeral()?;
//! # let client = ox_client::Client::connect(&server.address().to_string()).await?;
//! use ox_client::{CreateMode, CreateOptions, acl};
//! client.add_auth("digest", b"bob:secret").await?;
//! let options = CreateOptions::new(CreateMode::Persistent).with_acl(acl::creator());
//! client.create("/mine", b"", &options).await?;
//! let (list, _) = client.get_acl("/mine").await?;
//! assert_eq!(&*list[0].scheme, "digest");
//! # Ok(())
//! # }
//! ```

use crate::error::Error;
use ox_proto::ErrorCode;
pub use ox_proto::acl::{Acl, perms};

/// Adds to an InvalidAcl error the rule that the list breaks.
pub(crate) fn explain_acl(error: Error, list: &[Acl]) -> Error {
    if error.code() != Some(ErrorCode::InvalidAcl) {
        return error;
    }
    let rule = if list.is_empty() {
        "the list is empty"
    } else if list.iter().any(|acl| &*acl.scheme == "auth") {
        "the scheme auth (acl::creator) needs a client with credentials: add_auth or Builder::auth"
    } else {
        "an entry has a scheme that the servers do not know, or an id that the scheme does not accept"
    };
    error.with_detail(rule)
}

/// Anyone may do anything: `world:anyone` with all permissions.
///
/// ```
/// use ox_client::acl::{self, perms};
/// assert_eq!((acl::open()[0].perms, &*acl::open()[0].scheme), (perms::ALL, "world"));
/// ```
pub fn open() -> Vec<Acl> {
    vec![Acl::new(perms::ALL, "world", "anyone")]
}

/// Anyone may read, and nothing else.
///
/// ```
/// use ox_client::acl::{self, perms};
/// assert_eq!(acl::read_only()[0].perms, perms::READ);
/// ```
pub fn read_only() -> Vec<Acl> {
    vec![Acl::new(perms::READ, "world", "anyone")]
}

/// All permissions for the identities that the creating client has [authenticated](crate::Client::add_auth) with, none
/// for others.
///
/// ```
/// use ox_client::{CreateMode, CreateOptions, acl};
/// let options = CreateOptions::new(CreateMode::Persistent).with_acl(acl::creator());
/// ```
pub fn creator() -> Vec<Acl> {
    vec![Acl::new(perms::ALL, "auth", "")]
}
