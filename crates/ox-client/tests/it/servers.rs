//! Several servers, and read-only servers.

use crate::{PATIENCE, builder, client, server, with_timeout};
use ox_client::{Client, SessionState};
use ox_proto::SessionId;
use ox_proto::connect::ConnectResponse;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A read-only server: it replies to the handshake and to nothing else.
async fn read_only_server() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut bytes = [0; 4];
                stream.read_exact(&mut bytes).await.unwrap();
                let mut out = Vec::new();
                let (session, password) = (SessionId(77), [0; 16]);
                let welcome = ConnectResponse { timeout_ms: 20_000, session, password, read_only: Some(true) };
                welcome.put_frame(&mut out);
                stream.write_all(&out).await.unwrap();
                let mut rest = [0; 1024];
                while stream.read(&mut rest).await.is_ok_and(|count| count != 0) {}
            });
        }
    });
    address
}

#[tokio::test]
async fn read_only_client_moves_to_read_write_server() {
    let mut server = server();
    if !server.is_in_process() {
        return; // `isro` bypasses the proxy
    }
    let address = read_only_server().await;
    server.stop();
    let both = format!("{address},{}", server.address());
    let client = Client::builder().servers(&both).unwrap().shuffle(false).read_only(true).seed(7);
    let client = with_timeout(client.connect()).await.unwrap();
    let mut states = client.states();
    assert_eq!(states.next().await, Some(SessionState::ConnectedReadOnly));
    server.restart();
    assert!(matches!(with_timeout(states.next()).await, Some(SessionState::Suspended { .. })));
    assert_eq!(with_timeout(states.next()).await, Some(SessionState::Connected));
    assert_ne!(client.session().unwrap().id, SessionId(77), "the session of the read-only server is not kept");
    with_timeout(client.create("/a", b"", ox_client::CreateMode::Persistent)).await.unwrap();
}

#[tokio::test]
async fn unresponsive_servers_are_skipped() {
    let server = server();
    // A server that accepts and stays silent, a closed port, and an unresolvable name.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let bound = tokio::net::TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = bound.local_addr().unwrap(); // bound and not listening: no other test gets the port
    let servers = format!("{},{closed},unknown.invalid:1,{}", silent.local_addr().unwrap(), server.address());
    let client = Client::builder().servers(&servers).unwrap().shuffle(false);
    let client = with_timeout(client.session_timeout(Duration::from_secs(2)).connect()).await.unwrap();
    assert_eq!(client.state(), SessionState::Connected);
}

#[tokio::test]
async fn update_without_current_server_moves_the_client() {
    let (old, new) = (server(), server());
    if !old.is_in_process() {
        return; // both addresses are the same server
    }
    let client = client(&old).await;
    let mut states = client.states();
    states.next().await;
    client.update_servers(&new.address().to_string()).unwrap();
    assert!(matches!(with_timeout(states.next()).await, Some(SessionState::Suspended { .. })));
    // The new server belongs to another ensemble, which does not know the session: the expiry shows that the client
    // moved.
    assert_eq!(with_timeout(states.next()).await, Some(SessionState::Expired));
    assert!(client.update_servers("a:1/chroot").is_err());
}

#[tokio::test]
async fn session_without_pings_expires() {
    let server = server();
    let short = builder(&server).session_timeout(Duration::from_millis(300)).connect().await.unwrap();
    let timeout = short.session().unwrap().timeout;
    assert!(!server.is_in_process() || timeout == Duration::from_millis(300));
    let other = client(&server).await;
    short.create("/mine", b"", ox_client::CreateMode::Ephemeral).await.unwrap();
    // Pings alone keep the session alive.
    let (_, gone) = other.exists_and_watch("/mine").await.unwrap();
    assert!(tokio::time::timeout(timeout * 3, gone).await.is_err());
    let (_, gone) = other.exists_and_watch("/mine").await.unwrap();
    let ticket = short.detach().unwrap();
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
    let error = builder(&server).resume(ticket).connect().await.unwrap_err();
    assert_eq!(error.kind(), &ox_client::ErrorKind::SessionExpired);
}
