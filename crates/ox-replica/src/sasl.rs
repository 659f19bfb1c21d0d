//! SASL on the client port: one exchange of tokens per connection, and the identities that it proves.
//!
//! ```text
//! token frame --> Conn keeps the token, and takes no further frame
//!                     |            the I/O thread releases the state lock
//!                 Conn::step_sasl --> challenge | identities | failure, as a reply in request order
//! ```
//!
//! A step hashes and decrypts, so it runs on the connection's I/O thread after the lock of the state is released. A step
//! takes microseconds (at most about a millisecond for the largest Kerberos ticket), which is less than a budget of reads;
//! so no thread of its own is needed.

use crate::clock::Now;
use ox_sasl::digest_md5::CLIENT_PORT;
use ox_sasl::digest_md5::acceptor::DigestAcceptor;
use ox_sasl::gssapi::GssapiAcceptor;
use ox_sasl::jaas::modules::DigestAccounts;
use ox_sasl::kerberos_name::NameError;
use ox_sasl::kerberos_name::identity::{NameMapping, is_super_user};
use ox_sasl::krb5::WallTime;
use ox_sasl::krb5::acceptor::AcceptorCredentials;
use ox_sasl::krb5::replay_cache::ReplayCache;
use ox_sasl::mechanism::{AcceptorStep, AuthenticatedPeer, Random, SaslError};
use ox_tree::auth::Identity;
use std::sync::Arc;

/// Longer tokens are refused by every mechanism, so no more of a token is kept.
const TOKEN_BYTES_MAX: usize = (1 << 18) + 1;

/// How the clients of all connections authenticate.
#[derive(Clone, Debug)]
pub struct SaslServer {
    pub login: ServerLogin,
    pub names: NameMapping,
    /// Ids that get super permissions.
    pub super_users: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum ServerLogin {
    DigestMd5(Arc<DigestAccounts>),
    Gssapi(Arc<AcceptorCredentials>),
}

/// What a step of an exchange needs from outside.
pub struct SaslService<'a> {
    pub server: &'a SaslServer,
    pub now: Now,
    /// Shared by all exchanges of the server.
    pub replays: &'a ReplayCache,
    pub random: Random<'a>,
}

/// The result of one token, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaslOutcome {
    Challenged,
    /// The client has proven this id.
    Authenticated {
        authentication_id: String,
        id: String,
    },
    /// The exchange failed, and the connection is closed after the reply.
    Failed(SaslFailure),
    /// The exchange failed, and the configuration keeps the connection.
    Kept(SaslFailure),
}

/// Why an exchange failed. Contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslFailure {
    #[error(transparent)]
    Exchange(#[from] SaslError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("the connection has too many identities")]
    TooManyIdentities,
}

/// The exchange of one connection.
#[derive(Debug, Default)]
pub(crate) struct SaslExchange {
    acceptor: Option<Acceptor>,
    token: Option<SaslRequest>,
}

/// A token that waits for its step.
#[derive(Debug)]
pub(crate) struct SaslRequest {
    pub(crate) xid: i32,
    token: Vec<u8>,
}

#[derive(Debug)]
enum Acceptor {
    DigestMd5(DigestAcceptor),
    Gssapi(Box<GssapiAcceptor>),
}

/// What a token leads to.
pub(crate) enum SaslProgress {
    Challenge(Vec<u8>),
    Complete { peer: AuthenticatedPeer, id: String, proven: Vec<Identity> },
}

impl SaslExchange {
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    pub(crate) fn keep_token(&mut self, xid: i32, token: &[u8]) {
        let token = token[..token.len().min(TOKEN_BYTES_MAX)].to_vec();
        self.token = Some(SaslRequest { xid, token });
    }

    pub(crate) fn take_token(&mut self) -> Option<SaslRequest> {
        self.token.take()
    }

    pub(crate) fn step(
        &mut self,
        request: &SaslRequest,
        service: &mut SaslService<'_>,
    ) -> Result<SaslProgress, SaslFailure> {
        let acceptor = self.acceptor.get_or_insert_with(|| Acceptor::new(&service.server.login));
        let step = match acceptor {
            Acceptor::DigestMd5(acceptor) => acceptor.step(&request.token, service.random)?,
            Acceptor::Gssapi(acceptor) => {
                let now = WallTime(service.now.wall_ms.saturating_mul(1000));
                acceptor.step(now, &request.token, service.replays, service.random)?
            }
        };
        Ok(match step {
            AcceptorStep::Challenge(token) => SaslProgress::Challenge(token),
            AcceptorStep::Complete(peer) => {
                let id = service.server.names.client_id(&peer.authentication_id)?;
                let mut proven = vec![Identity { scheme: "sasl".into(), id: id.clone() }];
                if is_super_user(&id, service.server.super_users.iter().map(String::as_str)) {
                    proven.push(Identity { scheme: "super".into(), id: String::new() });
                }
                SaslProgress::Complete { peer, id, proven }
            }
        })
    }
}

impl Acceptor {
    fn new(login: &ServerLogin) -> Self {
        match login {
            ServerLogin::DigestMd5(accounts) => Self::DigestMd5(DigestAcceptor::new(CLIENT_PORT, Arc::clone(accounts))),
            ServerLogin::Gssapi(credentials) => Self::Gssapi(Box::new(GssapiAcceptor::new(Arc::clone(credentials)))),
        }
    }
}
