//! The servers of an ensemble: connection strings, the order of connection attempts, and balancing after an update.

use crate::error::{Error, ErrorKind};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;
use std::fmt;
use std::net::Ipv6Addr;

/// The client port where the address names none.
const DEFAULT_PORT: u16 = 2181;
/// The host where the address names a port only.
const THIS_MACHINE: &str = "127.0.0.1";

/// The client address of one server, `host:port`. The port defaults to 2181; in `:2182`, the host is 127.0.0.1. Host
/// names are resolved again for every attempt.
///
/// ```
/// let server: ox_client::ServerAddress = "[::1]:2182".parse()?;
/// assert_eq!((server.host.as_str(), server.port), ("::1", 2182));
/// let mistaken = "2182".parse::<ox_client::ServerAddress>().unwrap_err(); // a port is not a host
/// assert_eq!(mistaken.detail(), Some("did you mean localhost:2182?"));
/// # Ok::<(), ox_client::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerAddress {
    /// Host name, or IP address without brackets.
    pub host: String,
    /// The client port of the server.
    pub port: u16,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl std::str::FromStr for ServerAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        server(text).map_err(|rule| bad_connect_string(text, rule))
    }
}

/// Parses the address of one server. The error is the rule that it breaks.
fn server(text: &str) -> Result<ServerAddress, String> {
    if let Some((scheme, _)) = text.split_once("://") {
        return Err(format!("omit {scheme}://"));
    }
    if is_number(text) {
        return Err(format!("did you mean localhost:{text}?"));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) if !host.is_empty() => (host, None),
            Some((host, port)) if !host.is_empty() && port.starts_with(':') => (host, Some(&port[1..])),
            _ => return Err("an IPv6 address with a port is written as [::1]:2181".to_owned()),
        },
        None => match text.rsplit_once(':') {
            Some((host, port)) if host.contains(':') => (ipv6_without_brackets(text, host, port)?, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port.map_or(Ok(DEFAULT_PORT), str::parse) {
        Ok(0) | Err(_) => return Err("a port is a number from 1 to 65535".to_owned()),
        Ok(port) => port,
    };
    if let Some(sign) = host.chars().find(|sign| sign.is_whitespace() || ";@[]".contains(*sign)) {
        return Err(format!("a host has no `{sign}`; servers are separated by commas"));
    }
    let host = if host.is_empty() { THIS_MACHINE } else { host };
    Ok(ServerAddress { host: host.to_owned(), port })
}

/// Several colons without brackets: an IPv6 address without a port, unless its end may be the port.
fn ipv6_without_brackets<'a>(text: &'a str, host: &str, port: &str) -> Result<&'a str, String> {
    let is_ipv6 = |text: &str| text.split('%').next().is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    match (is_ipv6(text), is_ipv6(host) && is_number(port)) {
        (true, true) => Err(format!("did you mean [{host}]:{port} or [{text}]?")),
        (true, false) => Ok(text),
        (false, true) => Err(format!("did you mean [{host}]:{port}?")),
        (false, false) => Err("a server is host:port, and servers are separated by commas".to_owned()),
    }
}

/// The system would resolve a number to an IPv4 address that no server has.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses a connection string, `host:port,host:port/chroot`.
pub(crate) fn parse(text: &str) -> Result<(Vec<ServerAddress>, String), Error> {
    let bad = |rule: String| bad_connect_string(text, rule);
    if let Some((before, _)) = text.split_once("://") {
        return Err(bad(format!("omit {}://", before.rsplit(',').next().unwrap_or_default())));
    }
    let (servers, chroot) = match text.find('/') {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    if has_server(chroot) {
        return Err(bad("the chroot follows the last server, and is that of all servers".to_owned()));
    }
    let servers: Vec<_> = servers.split(',').map(str::trim).filter(|server| !server.is_empty()).collect();
    if servers.is_empty() {
        return Err(bad("it names no server".to_owned()));
    }
    let parse = |address: &&str| {
        let quote = |rule| if *address == text { rule } else { format!("`{address}`: {rule}") };
        server(address).map_err(|rule| bad(quote(rule)))
    };
    Ok((servers.iter().map(parse).collect::<Result<_, _>>()?, chroot.to_owned()))
}

/// Whether a server follows a comma in a chroot, as in `/app,b:2181/app`.
fn has_server(chroot: &str) -> bool {
    let is_server = |text: &str| text.rsplit_once(':').is_some_and(|(_, port)| is_number(port));
    chroot.split(',').skip(1).any(|text| text.split('/').next().is_some_and(is_server))
}

fn bad_connect_string(text: &str, rule: String) -> Error {
    Error::connect(ErrorKind::BadConnectString(text.to_owned())).with_detail(rule)
}

/// Chooses the server of the next connection attempt.
#[derive(Debug)]
pub(crate) struct ServerList {
    servers: Vec<ServerAddress>,
    /// Index of the server to try next.
    at: usize,
    current: Option<ServerAddress>,
    /// Set by an update until the next session: which servers to move to.
    rebalance: Option<Rebalance>,
    preferred: Option<ServerAddress>,
    shuffles: bool,
    random: Pcg32,
}

/// How clients are distributed over servers kept from the old list and servers that are new.
#[derive(Debug)]
struct Rebalance {
    old: Vec<ServerAddress>,
    new: Vec<ServerAddress>,
    /// Probability of choosing a kept server.
    p_old: f64,
}

impl ServerList {
    /// `servers` must not be empty.
    pub(crate) fn new(mut servers: Vec<ServerAddress>, shuffles: bool, seed: u64) -> Self {
        let mut random = Pcg32::seed_from_u64(seed);
        if shuffles {
            servers.shuffle(&mut random);
        }
        Self { servers, at: 0, current: None, rebalance: None, preferred: None, shuffles, random }
    }

    pub(crate) fn all(&self) -> &[ServerAddress] {
        &self.servers
    }

    pub(crate) fn len(&self) -> usize {
        self.servers.len()
    }

    /// A random value between half of `most` and `most`.
    pub(crate) fn jitter(&mut self, most: u64) -> u64 {
        self.random.random_range(most / 2..=most)
    }

    pub(crate) fn next(&mut self) -> ServerAddress {
        let chosen = self.preferred.take().or_else(|| self.next_rebalanced());
        let server = chosen.unwrap_or_else(|| {
            let server = self.servers[self.at % self.servers.len()].clone();
            self.at = (self.at + 1) % self.servers.len();
            server
        });
        self.current = Some(server.clone());
        server
    }

    fn next_rebalanced(&mut self) -> Option<ServerAddress> {
        let rebalance = self.rebalance.as_mut()?;
        let takes_old = self.random.random_bool(rebalance.p_old);
        let (first, second) = match takes_old {
            true => (&mut rebalance.old, &mut rebalance.new),
            false => (&mut rebalance.new, &mut rebalance.old),
        };
        let server = first.pop().or_else(|| second.pop());
        if server.is_none() {
            self.rebalance = None; // all tried: back to round robin
        }
        server
    }

    /// A session is established: later attempts go round robin, starting after this server.
    pub(crate) fn on_connected(&mut self) {
        self.rebalance = None;
        if let Some(at) = self.servers.iter().position(|server| Some(server) == self.current.as_ref()) {
            self.at = (at + 1) % self.servers.len();
        }
    }

    /// Tries `server` next, before all others.
    pub(crate) fn prefer(&mut self, server: &ServerAddress) {
        self.preferred = Some(server.clone());
    }

    /// All servers but the current one.
    pub(crate) fn others(&self) -> Vec<ServerAddress> {
        self.servers.iter().filter(|server| Some(*server) != self.current.as_ref()).cloned().collect()
    }

    /// Replaces the list. Returns true if the client should leave its current server, so that the load is balanced when
    /// every client does the same.
    pub(crate) fn update(&mut self, mut servers: Vec<ServerAddress>, is_connected: bool) -> bool {
        if self.shuffles {
            servers.shuffle(&mut self.random);
        }
        let before = std::mem::replace(&mut self.servers, servers);
        self.at = 0;
        self.preferred = None;
        self.rebalance = None;
        let current = self.current.clone().filter(|_| is_connected);
        let (mut old, new): (Vec<_>, Vec<_>) = self.servers.iter().cloned().partition(|server| before.contains(server));
        let (sizes, kept) = ((before.len() as f64, self.servers.len() as f64), old.len() as f64);
        let stays = current.as_ref().is_some_and(|current| self.servers.contains(current));
        let has_grown = sizes.0 < sizes.1;
        let (leaves, p_old) = match (has_grown, stays) {
            (true, true) => (!self.random.random_bool(sizes.0 / sizes.1), 0.0),
            (true, false) => (true, 0.0),
            (false, true) => (false, 0.0),
            (false, false) if new.is_empty() => (true, 1.0),
            (false, false) => (true, (kept * (sizes.0 - sizes.1)) / (sizes.1 * (sizes.0 - kept))),
        };
        if leaves {
            old.retain(|server| Some(server) != current.as_ref());
            self.rebalance = Some(Rebalance { old, new, p_old: p_old.clamp(0.0, 1.0) });
        }
        leaves && current.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &str) -> Vec<ServerAddress> {
        names.split(' ').map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn connection_string_valid_is_parsed_invalid_is_rejected() {
        let check = |text: &str, expected: &[(&str, u16)], chroot: &str| {
            let (servers, found) = parse(text).unwrap();
            let servers: Vec<_> = servers.iter().map(|server| (server.host.as_str(), server.port)).collect();
            assert_eq!((servers.as_slice(), found.as_str()), (expected, chroot), "{text}");
        };
        check("a", &[("a", 2181)], "");
        check("a:1,b", &[("a", 1), ("b", 2181)], "");
        check(" a:1 , b:2 /app/x", &[("a", 1), ("b", 2)], "/app/x");
        check("[::1]:7,[fe80::1]/", &[("::1", 7), ("fe80::1", 2181)], "/");
        check("::1", &[("::1", 2181)], "");
        check(":1,a", &[("127.0.0.1", 1), ("a", 2181)], "");
        check("fe80::1%eth0,[::1:2181]", &[("fe80::1%eth0", 2181), ("::1:2181", 2181)], "");
        check("a/b,c/d:7", &[("a", 2181)], "/b,c/d:7");
    }

    #[test]
    fn connection_string_invalid_is_reported_with_the_rule() {
        let (port, list) =
            ("a port is a number from 1 to 65535", "a server is host:port, and servers are separated by commas");
        let brackets = "an IPv6 address with a port is written as [::1]:2181";
        let chroot = "the chroot follows the last server, and is that of all servers";
        for (text, detail) in [
            ("", "it names no server"),
            ("/a", "it names no server"),
            (" , ", "it names no server"),
            ("a:", port),
            (":", port),
            ("a:0", port),
            ("a:70000", port),
            ("a:1,b:x", &format!("`b:x`: {port}")),
            ("a:1:2", list),
            ("a:1;b:2", list),
            ("a:1 b:2/c", &format!("`a:1 b:2`: {list}")),
            ("me@a:1", "a host has no `@`; servers are separated by commas"),
            ("a;b:1", "a host has no `;`; servers are separated by commas"),
            ("::1:2181", "did you mean [::1]:2181 or [::1:2181]?"),
            ("::1:24181", "did you mean [::1]:24181?"),
            ("[::1", brackets),
            ("[::1]7", brackets),
            ("[]:1", brackets),
            ("2181", "did you mean localhost:2181?"),
            ("a:1,7/app", "`7`: did you mean localhost:7?"),
            ("zk://a:1", "omit zk://"),
            ("a:1,zk://b:2", "omit zk://"),
            ("a:1/app,b:1/app", chroot),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.to_string(), format!("connect: invalid connection string `{text}`: {detail}"));
        }
        assert_eq!("[::1]:7".parse::<ServerAddress>().unwrap().to_string(), "[::1]:7");
    }

    #[test]
    fn servers_are_tried_round_robin_in_shuffled_order() {
        let mut servers = ServerList::new(list("a b c"), true, 7);
        let first: Vec<_> = (0..3).map(|_| servers.next()).collect();
        let mut sorted = first.clone();
        sorted.sort();
        assert_eq!(sorted, list("a b c"));
        assert_eq!((0..3).map(|_| servers.next()).collect::<Vec<_>>(), first);
        let orders: std::collections::BTreeSet<_> =
            (0..50).map(|seed| ServerList::new(list("a b c"), true, seed).servers).collect();
        assert_eq!(orders.len(), 6);
        assert_eq!(ServerList::new(list("a b c"), false, 7).servers, list("a b c"));
    }

    /// Clients per server after many clients made the same update.
    fn spread(before: &str, after: &str) -> std::collections::BTreeMap<String, usize> {
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..6000 {
            let mut servers = ServerList::new(list(before), true, seed);
            let mut at = servers.next();
            servers.on_connected();
            if servers.update(list(after), true) {
                at = servers.next();
                servers.on_connected();
            }
            *counts.entry(at.host).or_default() += 1;
        }
        counts
    }

    #[test]
    fn updated_list_balances_clients_evenly() {
        for (before, after) in [("a b c", "a b c d e"), ("a b c d e", "a b c"), ("a b c", "a b d"), ("a b", "c d e")] {
            let counts = spread(before, after);
            let share = 6000 / list(after).len();
            for server in list(after) {
                let count = counts.get(&server.host).copied().unwrap_or(0);
                assert!(count.abs_diff(share) < share / 10, "{before} -> {after}: {counts:?}");
            }
        }
        assert_eq!(spread("a b", "a b"), spread("a b", "b a"));
    }
}
