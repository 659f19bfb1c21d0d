//! SASL between the connect response and the first request, with both sides of DIGEST-MD5.

use super::*;
use ox_proto::request::SaslToken;
use ox_sasl::digest_md5::CLIENT_PORT;
use ox_sasl::digest_md5::acceptor::DigestAcceptor;
use ox_sasl::jaas::modules::{DigestAccounts, DigestCredentials};
use ox_sasl::mechanism::AcceptorStep;
use ox_sasl::secret::SecretBytes;
use std::sync::Arc;

fn exchange() -> SaslExchange {
    let credentials = DigestCredentials { username: "bob".to_owned(), password: SecretBytes::new("secret") };
    SaslExchange::digest_md5(credentials, [7; 30])
}

fn acceptor(password: &str) -> DigestAcceptor {
    let accounts = DigestAccounts::new([("bob".to_owned(), SecretBytes::new(password))]);
    DigestAcceptor::new(CLIENT_PORT, Arc::new(accounts))
}

impl Harness {
    /// A harness whose connection waits for the reply to the first token.
    fn authenticating(read_only: bool) -> Self {
        let mut harness = Self::new();
        harness.open_with_sasl(read_only);
        harness
    }

    fn open_with_sasl(&mut self, read_only: bool) {
        self.session.on_open(self.now_ms, Some(exchange()));
        self.session.out.clear();
        self.accept(ID, read_only).unwrap();
    }

    /// Takes the only request that the session has written, which is a token.
    fn token(&mut self) -> (i32, Vec<u8>) {
        let out = std::mem::take(&mut self.session.out);
        let (frame, rest) = split_frame(&out, 1 << 20).unwrap().unwrap();
        assert!(rest.is_empty(), "nothing else is sent");
        let mut reader = Reader::new(frame);
        let header: RequestHeader = reader.get().unwrap();
        assert_eq!(header.op, OpCode::Sasl.code());
        let SaslToken { token } = reader.get().unwrap();
        (header.xid, token.unwrap().to_vec())
    }

    fn reply_token(&mut self, xid: i32, err: i32, token: Option<&[u8]>) -> Result<(), Disconnect> {
        let mut out = Vec::new();
        put_reply(&mut out, ReplyHeader { xid, zxid: Zxid(0), err }, |out| SaslToken { token }.put(out));
        self.receive(&out)
    }

    /// Plays the server until it confirms or refuses.
    fn authenticate(&mut self, acceptor: &mut DigestAcceptor) -> Result<(), Disconnect> {
        loop {
            let (xid, token) = self.token();
            match acceptor.step(&token, &mut |bytes| bytes.fill(9)) {
                Ok(AcceptorStep::Challenge(challenge)) => self.reply_token(xid, 0, Some(&challenge))?,
                Ok(AcceptorStep::Complete(peer)) => return self.reply_token(xid, 0, peer.token.as_deref()),
                Err(_) => return self.reply_token(xid, ErrorCode::AuthFailed.code(), None),
            }
        }
    }
}

#[test]
fn requests_and_credentials_wait_for_sasl_on_every_connection() {
    let mut harness = Harness::new();
    harness.session.add_auth(0, "digest", Some(b"x"), None).unwrap();
    harness.open_with_sasl(false);
    harness.request("one").unwrap();
    let hasty = harness.request_with("hasty", OpCode::GetData, false, None, &Rc::default());
    assert_eq!(hasty, Err(SubmitError::Disconnected));
    assert!(!harness.session.is_open());
    harness.advance(1000).unwrap();
    harness.authenticate(&mut acceptor("secret")).unwrap();
    assert_eq!(harness.trace(), ["authenticating", "connected"]);
    assert_eq!(harness.sent(), [(-4, OpCode::Auth), (3, OpCode::GetData)]);
    harness.disconnect();
    harness.trace();
    harness.open_with_sasl(true);
    harness.authenticate(&mut acceptor("secret")).unwrap();
    assert_eq!(harness.trace(), ["authenticating ro", "connected ro"]);
}

#[test]
fn refused_credentials_end_the_session() {
    let mut harness = Harness::authenticating(false);
    harness.request("one").unwrap();
    assert_eq!(harness.authenticate(&mut acceptor("other")), Err(Disconnect::SessionEnded));
    let expected =
        ["authenticating", "sasl: the server rejects the credentials", "one: AuthFailed", "over: AuthFailed"];
    assert_eq!(harness.trace(), expected);
}

#[test]
fn server_that_does_not_know_the_password_is_refused() {
    let mut harness = Harness::authenticating(false);
    let mut acceptor = acceptor("secret");
    let (xid, token) = harness.token();
    let Ok(AcceptorStep::Challenge(challenge)) = acceptor.step(&token, &mut |_| ()) else { panic!("a challenge") };
    harness.reply_token(xid, 0, Some(&challenge)).unwrap();
    let (xid, _) = harness.token();
    assert!(harness.reply_token(xid, 0, Some(b"rspauth=00000000000000000000000000000000")).is_err());
    let trace = harness.trace();
    assert_eq!(trace[1], "sasl: DIGEST-MD5: the server does not know the password");
}

#[test]
fn server_without_sasl_or_with_garbage_ends_the_session() {
    for (token, expected) in [
        (None, "sasl: the server does not offer SASL, or does not accept this client"),
        (Some(&b"nonsense"[..]), "sasl: DIGEST-MD5: malformed message: "),
    ] {
        let mut harness = Harness::authenticating(false);
        let (xid, _) = harness.token();
        assert_eq!(harness.reply_token(xid, 0, token), Err(Disconnect::SessionEnded));
        let trace = harness.trace();
        assert!(trace[1].starts_with(expected), "{trace:?}");
    }
}

#[test]
fn connection_lost_during_sasl_counts_as_a_failed_attempt() {
    let mut harness = Harness::authenticating(false);
    harness.request("one").unwrap();
    harness.disconnect();
    assert_eq!(harness.trace(), ["authenticating"], "requests stay queued, and no session was lost");
    harness.session.next_server();
    harness.session.next_server();
    assert!(harness.session.has_tried_all());
    harness.open_with_sasl(false);
    assert_eq!(harness.advance(i64::from(TIMEOUT_MS) / 2), Err(Disconnect::Handshake));
}
