//! Four-letter commands, as a client, plain or over TLS.

use ox_client::{ClientProperties, ErrorKind, ServerAddress, TlsFailure};
use ox_tls::{ClientTls, PeerEndpoint, StoreFiles};
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Replies are read up to this size.
const REPLY_BYTES_MAX: u64 = 64 << 20;
/// The end of the reply to a command that `4lw.commands.whitelist` does not contain.
const NOT_ALLOWED: &str = "is not executed because it is not in the whitelist.\n";
/// The first two bytes of an alert of TLS, which a server sends to a client that does not speak TLS.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];

/// A reply, or what the server sent instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(String),
    /// The command is not in the server's `4lw.commands.whitelist`.
    NotAllowed(String),
}

/// TLS and SASL as the environment says, for commands without options of their own.
pub(crate) fn client_properties() -> ClientProperties {
    ClientProperties::from_variables(|name| std::env::var(name).ok())
}

/// The same with the settings of a file, as zkCli takes it, on top.
pub(crate) fn client_properties_with(file: Option<&Path>) -> anyhow::Result<ClientProperties> {
    let mut properties = client_properties();
    if let Some(file) = file {
        let failed = |error: ox_client::Error| {
            if let ErrorKind::BadSecurity(cause) = error.kind() {
                anyhow::anyhow!("client configuration {cause}")
            } else {
                error.into()
            }
        };
        properties.add_file(file).map_err(failed)?;
    }
    Ok(properties)
}

/// TLS as the properties of the environment say; `None` without it.
pub(crate) fn tls(properties: &ClientProperties) -> anyhow::Result<Option<ClientTls>> {
    let Some(settings) = properties.tls_settings()? else { return Ok(None) };
    Ok(Some(ClientTls::build(&settings, &StoreFiles::read(&settings)?)?))
}

/// Sends a command to `host:port`, as [`server_address`] returns it, and reads the whole reply, within `limit`.
pub(crate) fn ask(
    server: &str,
    command: impl AsRef<[u8]>,
    tls: Option<&ClientTls>,
    limit: Duration,
) -> io::Result<Reply> {
    let command = command.as_ref();
    let until = Instant::now() + limit;
    let mut stream = connect(server, limit)?;
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(left))?;
    stream.set_write_timeout(Some(left))?;
    let bytes = match tls {
        None => exchange(&mut stream, command)?,
        Some(tls) => {
            let host = server.rsplit_once(':').map_or(server, |(host, _)| host).trim_matches(['[', ']']);
            let names = host.parse::<IpAddr>().is_err().then(|| host.to_owned());
            let endpoint = tls.endpoint(PeerEndpoint::new(stream.peer_addr()?.ip(), names));
            let connection =
                ClientConnection::new(Arc::clone(&endpoint.config), endpoint.server_name).map_err(io::Error::other)?;
            let mut secured = StreamOwned::new(connection, stream.try_clone()?);
            exchange(&mut secured, command).map_err(|error| {
                let has_certificate = endpoint.config.client_auth_cert_resolver.has_certs();
                with_tls_cause(error, secured.conn.is_handshaking(), has_certificate)
            })?
        }
    };
    let _ = stream.shutdown(Shutdown::Both); // the server has closed it already
    if bytes.starts_with(&TLS_ALERT) {
        return Err(io::Error::other(
            "the server speaks TLS on this port; give --client-configuration, or set zookeeper.client.secure in \
             CLIENT_JVMFLAGS",
        ));
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if text.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "connection closed without a reply"));
    }
    Ok(if text.ends_with(NOT_ALLOWED) { Reply::NotAllowed(text) } else { Reply::Text(text) })
}

/// Whether a port does not answer in TLS, as a plain client port.
pub(crate) fn is_not_tls(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<TlsFailure>());
    matches!(cause, Some(TlsFailure::NotTls | TlsFailure::Closed))
}

/// The cause in the words of the client, if it concerns TLS.
fn with_tls_cause(error: io::Error, is_handshaking: bool, has_certificate: bool) -> io::Error {
    let is_timeout = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    match TlsFailure::of_library(&error, has_certificate) {
        Some(cause) => io::Error::other(cause),
        None if is_handshaking && !is_timeout => io::Error::other(TlsFailure::in_handshake(&error, has_certificate)),
        None => error,
    }
}

fn exchange(stream: &mut (impl Read + Write), command: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(command)?;
    stream.flush()?;
    let mut bytes = Vec::new();
    match stream.take(REPLY_BYTES_MAX).read_to_end(&mut bytes) {
        // Some servers end TLS without saying so; what they sent before is complete.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof || bytes.is_empty() => Err(error),
        Ok(_) | Err(_) => Ok(bytes),
    }
}

/// Connects to the first address of the host that accepts.
pub(crate) fn connect(server: &str, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "unknown host");
    for address in server.to_socket_addrs().map_err(|_| io::Error::other("unknown host"))? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What to do if no process listens on a port of this machine, or one that does not reply as a server.
pub(crate) fn hint(server: &str, error: &io::Error) -> Option<String> {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
    let (host, port) = server.rsplit_once(':')?;
    if [ConnectionReset, TimedOut, UnexpectedEof, WouldBlock].contains(&error.kind()) {
        return Some(format!("hint: is {port} the client port of a ZooKeeper server?"));
    }
    let is_refused = error.kind() == ConnectionRefused;
    let is_local = ox_shell::four_letter::is_local(host.trim_matches(['[', ']']));
    (is_refused && is_local).then_some(ox_shell::four_letter::no_server_hint(port.parse().ok()?))
}

/// The address `host:port` of a server, by the rule of all tools: the port defaults to 2181, the host to this machine.
pub(crate) fn server_address(server: &str) -> Result<String, String> {
    let refusal = |error: ox_client::Error| {
        let detail = error.detail().unwrap_or("expected host:port");
        format!("invalid address of a server: {server:?}: {detail}")
    };
    server.parse::<ServerAddress>().map(|address| address.to_string()).map_err(refusal)
}

/// The servers of a connection string, with ports and without a chroot.
pub(crate) fn server_addresses(servers: &str) -> Result<Vec<String>, String> {
    // A URL is refused as a whole.
    let chroot = servers.find('/').filter(|_| !servers.contains("://"));
    let servers = chroot.map_or(servers, |at| &servers[..at]).split(',').map(str::trim);
    let servers = servers.filter(|server| !server.is_empty()).map(server_address);
    let servers: Vec<String> = servers.collect::<Result<_, _>>()?;
    if servers.is_empty() { Err("no server is given; expected host:port".to_owned()) } else { Ok(servers) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_defaults_and_a_port_alone_is_refused() {
        let cases = [
            ("a", "a:2181"),
            ("a:1", "a:1"),
            (":1", "127.0.0.1:1"),
            ("::1", "[::1]:2181"),
            ("[::1]", "[::1]:2181"),
            ("[::1]:7", "[::1]:7"),
        ];
        for (given, expected) in cases {
            assert_eq!(server_address(given).as_deref(), Ok(expected));
        }
        for (given, detail) in [("2181", "did you mean localhost:2181?"), ("a:x", "a port is a number from 1 to 65535")]
        {
            assert_eq!(server_address(given), Err(format!("invalid address of a server: {given:?}: {detail}")));
        }
    }
}
