//! A small HTTP client: one request per connection, the whole reply as bytes.

use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

impl HttpReply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Reads a reply to its end.
    pub fn read(stream: &mut impl Read) -> Result<Self> {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).context("read the reply")?;
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").context("the reply has no head")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = &bytes[end + 4..];
        let body = if is_chunked { without_chunks(body)? } else { body.to_vec() };
        Ok(Self { status: status.with_context(|| format!("no status: {head}"))?, headers, body })
    }
}

fn without_chunks(mut rest: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n").context("a chunk has no length")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end])?, 16).context("length of a chunk")?;
        let start = end + 2;
        if length == 0 {
            return Ok(body);
        }
        let Some(chunk) = rest.get(start..start + length) else { bail!("a chunk is incomplete") };
        body.extend_from_slice(chunk);
        rest = rest.get(start + length + 2..).context("a chunk has no end")?;
    }
}

/// The bytes of a request after which the server closes the connection.
pub fn http_request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        text += "Host: localhost\r\n";
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    let mut bytes = (text + "\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Sends a request and reads the reply.
pub fn http(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<HttpReply> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(&http_request(method, path, headers, body))?;
    HttpReply::read(&mut stream).with_context(|| format!("{method} {path}"))
}
