//! `oxkeeper admin`: sends a command to the AdminServer of a server.

use crate::commands::output::{GOOD, conclude};
use crate::four_letter;
use anyhow::{Context, Result, anyhow, bail};
use ox_tls::{ClientTls, PeerEndpoint};
use rustls::{ClientConnection, StreamOwned};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Time for a connection, and for each read; a snapshot may be large.
const STEP_LIMIT: Duration = Duration::from_secs(30);
/// The head of a reply, and the reply of any command but `snapshot`.
const HEAD_BYTES_MAX: usize = 64 << 10;
const BODY_BYTES_MAX: u64 = 64 << 20;
const PORT_DEFAULT: u16 = 8080;
/// The variable with the `Authorization` header.
const AUTHORIZATION: &str = "OXKEEPER_ADMIN_AUTH";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Commands are those of docs/reference/admin.md, for example:
  oxkeeper admin srvr
  oxkeeper admin log_level module=ox_server level=debug
  oxkeeper admin reload
  oxkeeper admin close_session sessionId=0x1000012ab340000
  oxkeeper admin shed_connections percentage=20
  oxkeeper admin snapshot streaming=true > snapshot.5
  oxkeeper admin restore --body snapshot.5
Commands that need rights take them from OXKEEPER_ADMIN_AUTH or --auth-file, as `digest super:password`, or from the
certificate of CLIENT_JVMFLAGS or --client-configuration, as `x509`.
Exit code: 0 if the reply has no error, 1 if it has one, 2 if there is no reply.")]
pub(crate) struct Args {
    /// A command of the AdminServer, by any of its names
    #[arg(value_name = "COMMAND")]
    command: String,
    /// Parameters of the command
    #[arg(value_name = "NAME=VALUE")]
    parameters: Vec<String>,
    /// The AdminServer: http://host:port/path or https://host:port/path, or a part of it
    #[arg(short, long, value_name = "URL", default_value = "http://127.0.0.1:8080/commands", env = "OXKEEPER_ADMIN")]
    server: String,
    /// A file to send with a POST command, such as the snapshot for restore
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// A file with the value of the Authorization header; - reads standard input
    #[arg(long, value_name = "FILE")]
    auth_file: Option<PathBuf>,
    /// A properties file with the TLS settings of a client, as zkCli takes it
    #[arg(long, value_name = "FILE")]
    client_configuration: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    conclude(|out| send(args, out))
}

fn send(args: &Args, out: &mut dyn Write) -> Result<u8> {
    let url = Url::parse(&args.server)?;
    let Some(is_post) = ox_admin::is_post(&args.command, !args.parameters.is_empty()) else {
        bail!("{} is not a command of the AdminServer\nhint: docs/reference/admin.md lists them", args.command);
    };
    let query: Vec<String> = args.parameters.iter().map(|pair| parameter(pair)).collect::<Result<_>>()?;
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let authorization = authorization(args.auth_file.as_deref())?;
    let mut body = match &args.body {
        None => RequestBody::default(),
        Some(_) if !is_post => bail!("{} is no POST command, and takes no --body", args.command),
        Some(path) => RequestBody::open(path).with_context(|| format!("cannot read {}", path.display()))?,
    };
    // HTTP/1.0: the reply ends with the connection, and is not sent in chunks.
    let request = format!(
        "{} {}/{}{query} HTTP/1.0\r\nHost: {}\r\nContent-Length: {}\r\n{authorization}\r\n",
        if is_post { "POST" } else { "GET" },
        url.path,
        args.command,
        url.authority(),
        body.length
    );
    let reached = || format!("cannot reach the AdminServer at {}", args.server);
    let stream = four_letter::connect(&url.authority(), STEP_LIMIT).map_err(|error| {
        let hint = match error.kind() == io::ErrorKind::ConnectionRefused {
            true => format!("\nhint: is the server running, and is {} its admin.serverPort?", url.port),
            false => String::new(),
        };
        anyhow!("{}: {}{hint}", reached(), ox_shell::four_letter::cause(&error))
    })?;
    stream.set_read_timeout(Some(STEP_LIMIT))?;
    stream.set_write_timeout(Some(STEP_LIMIT))?;
    if !url.is_https {
        return exchange(stream, &request, &mut body, out).with_context(reached);
    }
    let properties = four_letter::client_properties_with(args.client_configuration.as_deref())?;
    let Some(tls) = four_letter::tls(&properties)? else {
        bail!("no TLS settings\nhint: set zookeeper.client.secure and zookeeper.ssl.* in CLIENT_JVMFLAGS or a file");
    };
    exchange(secure(stream, &url, &tls)?, &request, &mut body, out).with_context(reached)
}

/// What is sent with a command.
#[derive(Default)]
struct RequestBody {
    file: Option<File>,
    length: u64,
}

impl RequestBody {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self { length: file.metadata()?.len(), file: Some(file) })
    }
}

fn secure(stream: TcpStream, url: &Url, tls: &ClientTls) -> Result<StreamOwned<ClientConnection, TcpStream>> {
    let names = url.host.parse::<IpAddr>().is_err().then(|| url.host.clone());
    let endpoint = tls.endpoint(PeerEndpoint::new(stream.peer_addr()?.ip(), names));
    Ok(StreamOwned::new(ClientConnection::new(endpoint.config, endpoint.server_name)?, stream))
}

/// A parameter of a query.
fn parameter(pair: &str) -> Result<String> {
    let Some((name, value)) = pair.split_once('=') else {
        let is_address =
            pair.contains("://") || pair.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let server = if is_address { format!(", or -s {pair} for the server") } else { String::new() };
        bail!("{pair} is not a parameter\nhint: write name=value{server}");
    };
    Ok(format!("{}={}", escaped(name), escaped(value)))
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The header line, where there is one.
fn authorization(file: Option<&Path>) -> Result<String> {
    let text = match file {
        None => std::env::var(AUTHORIZATION).unwrap_or_default(),
        Some(path) if path == Path::new("-") => io::read_to_string(io::stdin())?,
        Some(path) => std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
    };
    let text = text.trim();
    if text.contains(['\r', '\n']) {
        bail!("the Authorization header has more than one line");
    }
    Ok(if text.is_empty() { String::new() } else { format!("Authorization: {text}\r\n") })
}

/// Sends a request and prints the body of its reply. Returns the exit code.
fn exchange(mut stream: impl Read + Write, request: &str, body: &mut RequestBody, out: &mut dyn Write) -> Result<u8> {
    // Its error is not one of the standard output.
    stream.write_all(request.as_bytes()).map_err(|error| anyhow!(ox_shell::four_letter::cause(&error)))?;
    if let Some(file) = &mut body.file {
        // An error while the server refuses the request early: its reply says why.
        let _ = io::copy(&mut file.take(body.length), &mut stream);
    }
    stream.flush().map_err(|error| anyhow!(ox_shell::four_letter::cause(&error)))?;
    let (head, begun) = read_head(&mut stream)?;
    let status = head.split_whitespace().nth(1).and_then(|code| code.parse::<u16>().ok()).context("no HTTP reply")?;
    let is_json = head.to_ascii_lowercase().contains("content-type: application/json");
    if status == 200 && !is_json {
        out.write_all(&begun)?;
        io::copy(&mut stream, out)?;
        return Ok(GOOD);
    }
    let mut body = begun;
    match stream.take(BODY_BYTES_MAX).read_to_end(&mut body) {
        // Some servers end TLS without saying so.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
        Ok(_) | Err(_) => (),
    }
    out.write_all(&body)?;
    if !body.is_empty() && !body.ends_with(b"\n") {
        writeln!(out)?;
    }
    let reply: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    let has_error = reply.as_ref().is_none_or(|reply| reply.get("error").is_some_and(|error| !error.is_null()));
    if status != 200 {
        crate::say(format_args!("error: HTTP status {status}{}", remedy(status)));
    }
    Ok(u8::from(status != 200 || has_error))
}

/// What a status of the AdminServer means, where the body does not say it.
fn remedy(status: u16) -> String {
    match status {
        401 | 403 => format!(
            ": the command needs rights\nhint: set {AUTHORIZATION} to `digest super:password`, or give --auth-file"
        ),
        429 => ": nothing was done, because the last such command was too short a time ago\n\
                hint: repeat it later; admin.rateLimiterIntervalInMS of the server is the interval"
            .to_owned(),
        _ => String::new(),
    }
}

/// The status line and the headers, and what has arrived of the body.
fn read_head(stream: &mut impl Read) -> Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let body = bytes.split_off(end + 4);
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), body));
        }
        if HEAD_BYTES_MAX < bytes.len() {
            bail!("the reply is not one of an AdminServer");
        }
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            bail!(
                "connection closed without a reply\nhint: is this the port of an AdminServer? One with TLS needs https://"
            );
        }
        bytes.extend_from_slice(&buffer[..count]);
    }
}

/// Where an AdminServer is.
#[derive(Debug, PartialEq, Eq)]
struct Url {
    is_https: bool,
    host: String,
    port: u16,
    /// Without a slash at the end.
    path: String,
}

impl Url {
    /// A URL, in which all but the host may be missing.
    fn parse(text: &str) -> Result<Self> {
        let (is_https, rest) = match text.split_once("://") {
            None => (false, text),
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some((scheme, _)) => bail!("{scheme}:// is not supported\nhint: use http:// or https://"),
        };
        let (authority, path) = rest.split_once('/').map_or((rest, "commands"), |(authority, path)| (authority, path));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse().with_context(|| format!("{port} is not a port"))?;
                (host, port)
            }
            _ => (authority, PORT_DEFAULT),
        };
        let host = match host {
            "" if authority == text && !text.is_empty() => "127.0.0.1", // as for the other tools
            "" => bail!("{text} names no host\nhint: use http://host:{PORT_DEFAULT}"),
            number if number.parse::<u16>().is_ok() => bail!("{number} is not a host\nhint: did you mean :{number}?"),
            host => host,
        };
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { is_https, host: host.trim_matches(['[', ']']).to_owned(), port, path })
    }

    /// Host and port, as the header `Host` has them.
    fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_url_may_be_missing() {
        let check = |text, is_https, authority: &str, path: &str| {
            let url = Url::parse(text).unwrap();
            assert_eq!(
                (url.is_https, url.authority().as_str(), url.path.as_str()),
                (is_https, authority, path),
                "{text}"
            );
        };
        check("zk1", false, "zk1:8080", "/commands");
        check("zk1:9", false, "zk1:9", "/commands");
        check("https://[::1]:9/a/b/", true, "[::1]:9", "/a/b");
        check("http://[::1]/", false, "[::1]:8080", "");
        check(":9", false, "127.0.0.1:9", "/commands");
        assert!(Url::parse("8080").is_err() && Url::parse("").is_err());
        assert!(Url::parse("ftp://zk1").is_err());
        assert!(Url::parse("zk1:port").is_err());
        assert!(Url::parse("http://:8080").is_err());
    }

    #[test]
    fn parameters_are_escaped() {
        assert_eq!(parameter("level=a b&c=d").unwrap(), "level=a%20b%26c%3Dd");
        assert_eq!(parameter("module=ox_server::io").unwrap(), "module=ox_server::io");
        assert_eq!(parameter("level").unwrap_err().to_string(), "level is not a parameter\nhint: write name=value");
        let address = parameter("zk1:8080").unwrap_err().to_string();
        assert!(address.ends_with("hint: write name=value, or -s zk1:8080 for the server"), "{address}");
    }
}
