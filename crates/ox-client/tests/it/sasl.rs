//! SASL, as far as a server without it can tell. The session core has tests with both sides; real servers are in
//! `cargo xtask interop security`.

use crate::{builder, server, with_timeout};
use ox_client::{ErrorCode, ErrorKind, SaslLogin, SessionEvent, SessionState};

#[tokio::test]
async fn server_without_sasl_ends_the_session_with_a_reason() {
    let server = server();
    if !server.is_in_process() {
        return; // an external server may know SASL
    }
    let login = SaslLogin::digest("bob", "secret");
    let error = with_timeout(builder(&server).sasl(login.clone()).connect()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::SaslFailed(text) if text.contains("does not offer SASL")), "{error}");
    assert!(error.is_final() && error.code() == Some(ErrorCode::AuthFailed));

    let client = builder(&server).sasl(login).start().unwrap();
    let mut events = client.session_events();
    let mut seen = Vec::new();
    while let Some(event) = with_timeout(events.next()).await {
        seen.push(event);
    }
    let expected = [
        SessionEvent::State(SessionState::Connecting),
        SessionEvent::Authenticating { read_only: false },
        SessionEvent::State(SessionState::AuthFailed),
    ];
    assert_eq!(seen, expected);
    assert!(client.sasl_failure().is_some());
    assert_eq!(client.exists("/").await.unwrap_err().kind(), &ErrorKind::AuthFailed);
}

#[tokio::test]
async fn login_without_ticket_is_a_failed_attempt() {
    let server = server();
    let login = SaslLogin::keytab("bob@R", "/nonexistent.keytab").krb5_conf("/nonexistent.conf");
    let connect = builder(&server).sasl(login).connect_timeout(std::time::Duration::from_millis(300)).connect();
    let error = with_timeout(connect).await.unwrap_err().to_string();
    assert!(error.contains("SASL: /nonexistent.conf: "), "{error}");
}
