//! The SASL mechanism GSSAPI (RFC 4752) with Kerberos, without a security layer.
//!
//! ```text
//! initiator                                  acceptor
//!     | AP-REQ                                   |
//!     |----------------------------------------->|
//!     | AP-REP              (mutual only)        |
//!     |<-----------------------------------------|
//!     | (empty)             (mutual only)        |
//!     |----------------------------------------->|
//!     | wrap: offered layers, largest message    |
//!     |<-----------------------------------------|
//!     | wrap: chosen layer, size, authzid        |
//!     |----------------------------------------->|
//!     | (null)                                   |
//!     |<-----------------------------------------|
//! ```
//!
//! Java's clients do not ask for mutual authentication, so both forms occur. The initiator of this crate always asks.

use crate::krb5::acceptor::{Accepted, AcceptorCredentials};
use crate::krb5::initiator::{Credential, Initiated};
use crate::krb5::replay_cache::ReplayCache;
use crate::krb5::{KerberosError, WallTime};
use crate::mechanism::{AcceptorStep, AuthenticatedPeer, InitiatorStep, Random, SaslError};
use std::sync::Arc;

/// The only layer: none.
const NO_LAYER: u8 = 1;
/// Tickets with much authorisation data have tens of kilobytes.
const TOKEN_BYTES_MAX: usize = 1 << 18;

/// One exchange at the accepting side.
#[derive(Debug)]
pub struct GssapiAcceptor {
    credentials: Arc<AcceptorCredentials>,
    phase: AcceptorPhase,
}

#[derive(Debug)]
enum AcceptorPhase {
    Start,
    /// AP-REP is sent; an empty token must follow.
    Replied(Box<Accepted>),
    LayersOffered(Box<Accepted>),
    Ended,
}

impl GssapiAcceptor {
    pub fn new(credentials: Arc<AcceptorCredentials>) -> Self {
        Self { credentials, phase: AcceptorPhase::Start }
    }

    /// Processes one token of the peer. All exchanges of a process share one replay cache.
    pub fn step(
        &mut self,
        now: WallTime,
        token: &[u8],
        replays: &ReplayCache,
        random: Random<'_>,
    ) -> Result<AcceptorStep, SaslError> {
        match std::mem::replace(&mut self.phase, AcceptorPhase::Ended) {
            _ if TOKEN_BYTES_MAX < token.len() => Err(KerberosError::Malformed("GSS token").into()),
            AcceptorPhase::Start => {
                let mut accepted = Box::new(self.credentials.accept(now, token, replays, random)?);
                Ok(match accepted.reply.take() {
                    Some(reply) => {
                        self.phase = AcceptorPhase::Replied(accepted);
                        AcceptorStep::Challenge(reply)
                    }
                    None => self.offer_layers(accepted),
                })
            }
            AcceptorPhase::Replied(accepted) if token.is_empty() => Ok(self.offer_layers(accepted)),
            AcceptorPhase::Replied(_) => Err(SaslError::MalformedLayer("a token instead of an empty one")),
            AcceptorPhase::LayersOffered(accepted) => complete(*accepted, token).map(AcceptorStep::Complete),
            AcceptorPhase::Ended => Err(SaslError::IllegalState("GSSAPI")),
        }
    }

    fn offer_layers(&mut self, mut accepted: Box<Accepted>) -> AcceptorStep {
        let offer = accepted.wrap(&[NO_LAYER, 0, 0, 0]);
        self.phase = AcceptorPhase::LayersOffered(accepted);
        AcceptorStep::Challenge(offer)
    }
}

/// Reads the initiator's choice. Compat: the size is not checked, because Java sends one without a layer too.
fn complete(mut accepted: Accepted, token: &[u8]) -> Result<AuthenticatedPeer, SaslError> {
    let choice = accepted.unwrap(token)?;
    let [layer, _, _, _, authzid @ ..] = choice.as_slice() else { return Err(SaslError::MalformedLayer("too short")) };
    if *layer != NO_LAYER {
        return Err(SaslError::MalformedLayer("a layer that was not offered"));
    }
    let authzid = std::str::from_utf8(authzid).map_err(|_| SaslError::MalformedLayer("authzid is not UTF-8"))?;
    let authentication_id = accepted.client.to_string();
    let authorization_id = if authzid.is_empty() { authentication_id.clone() } else { authzid.to_owned() };
    Ok(AuthenticatedPeer { token: None, authentication_id, authorization_id })
}

/// One exchange at the initiating side.
#[derive(Debug)]
pub struct GssapiInitiator {
    /// The client's name, which Java's clients ask for explicitly.
    authzid: String,
    context: Initiated,
    phase: InitiatorPhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InitiatorPhase {
    AwaitApRep,
    AwaitLayers,
    Ended,
}

impl GssapiInitiator {
    /// The exchange and its first token. `credential` is a ticket of the acceptor's service.
    pub fn start(credential: &Credential, now: WallTime, random: Random<'_>) -> (Self, Vec<u8>) {
        let (context, token) = Initiated::new(credential, now, random);
        (Self { authzid: credential.client.to_string(), context, phase: InitiatorPhase::AwaitApRep }, token)
    }

    pub fn step(&mut self, challenge: &[u8]) -> Result<InitiatorStep, SaslError> {
        match std::mem::replace(&mut self.phase, InitiatorPhase::Ended) {
            _ if TOKEN_BYTES_MAX < challenge.len() => Err(KerberosError::Malformed("GSS token").into()),
            InitiatorPhase::AwaitApRep => {
                self.context.verify(challenge)?;
                self.phase = InitiatorPhase::AwaitLayers;
                Ok(InitiatorStep { token: Some(Vec::new()), is_complete: false })
            }
            InitiatorPhase::AwaitLayers => {
                let offer = self.context.unwrap(challenge)?;
                let [layers, _, _, _] = *offer.as_slice() else {
                    return Err(SaslError::MalformedLayer("wrong length"));
                };
                if layers & NO_LAYER == 0 {
                    return Err(SaslError::MalformedLayer("the server demands a security layer"));
                }
                let choice = [&[NO_LAYER, 0, 0, 0], self.authzid.as_bytes()].concat();
                Ok(InitiatorStep { token: Some(self.context.wrap(&choice)), is_complete: true })
            }
            InitiatorPhase::Ended => Err(SaslError::IllegalState("GSSAPI")),
        }
    }
}
