//! The SASL exchange of a connection, between the connect response and all other requests.
//!
//! ```text
//! Handshake ── connect response ──► Authenticating ── confirmed ──► Open
//!                                     │    ▲  │
//!                                     └────┘  └── refused ──► Ended(AuthFailed)
//!                                 token, reply
//! ```

use super::{ConnState, Disconnect, Pending, PendingKind, Session, SessionEnd, Waiter};
use crate::core::Effect;
use crate::core::sasl::SaslStep;
use ox_proto::request::{SaslToken, put_request};
use ox_proto::{ErrorCode, OpCode, Reader};

impl<W: Waiter, S: Clone> Session<W, S> {
    /// The first token of the exchange, if the client authenticates by SASL.
    pub(super) fn first_sasl_token(&mut self) -> Option<Vec<u8>> {
        self.sasl.as_mut().map(|exchange| exchange.first_token())
    }

    pub(super) fn send_sasl(&mut self, now_ms: i64, token: &[u8]) {
        let xid = self.next_xid();
        put_request(&mut self.out, xid, OpCode::Sasl.code(), &SaslToken { token: Some(token) });
        self.last_sent_ms = now_ms;
        self.pending.push_back(Pending { xid, sent_ms: now_ms, kind: PendingKind::Sasl });
    }

    /// As Apache's client, ends the session if either side refuses the other.
    pub(super) fn on_sasl_reply(
        &mut self,
        now_ms: i64,
        err: i32,
        body: &[u8],
        effects: &mut Vec<Effect<W, S>>,
    ) -> Result<(), Disconnect> {
        let ConnState::Authenticating { read_only, .. } = self.conn else { return Err(Disconnect::OutOfOrder) };
        let Some(exchange) = &mut self.sasl else { return Err(Disconnect::OutOfOrder) };
        let step = if err == 0 {
            let reply: SaslToken<'_> = Reader::new(body).get().map_err(|_| Disconnect::MalformedPacket)?;
            exchange.on_token(reply.token)
        } else {
            Err(refusal(err))
        };
        match step {
            Ok(SaslStep::Send(token)) => self.send_sasl(now_ms, &token),
            Ok(SaslStep::Complete) => {
                self.sasl = None;
                self.enter_open(now_ms, read_only, effects);
            }
            Err(reason) => {
                effects.push(Effect::SaslFailed(reason));
                self.end(SessionEnd::AuthFailed, effects);
                return Err(Disconnect::SessionEnded);
            }
        }
        Ok(())
    }
}

fn refusal(err: i32) -> String {
    match ErrorCode::try_from(err) {
        Ok(ErrorCode::AuthFailed | ErrorCode::SessionClosedRequireSaslAuth) => {
            "the server rejects the credentials".to_owned()
        }
        Ok(code) => format!("the server replies: {code}"),
        Err(code) => format!("the server replies with error {code}"),
    }
}
