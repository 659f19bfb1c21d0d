//! Finds the members of an ensemble: by `conf`, in `/zookeeper/config`, or as given.

use crate::four_letter::{self, Reply};
use ox_client::{Client, ClientProperties, Error, ErrorKind};
use ox_proto::ensemble::{Addresses, Ensemble, Member, Role};
use ox_tls::ClientTls;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

/// The members to ask.
#[derive(Clone, Debug)]
pub(super) struct Members {
    pub(super) members: Vec<FoundMember>,
    /// The number of members of the ensemble, as far as known; more than `members` if some cannot be asked.
    pub(super) configured: usize,
    /// Why the list may be incomplete.
    pub(super) remark: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundMember {
    /// Set if the member is in the configuration.
    pub(super) id: Option<i64>,
    pub(super) is_observer: bool,
    /// `host:port` for clients; `None` if the configuration does not contain it.
    pub(super) address: Option<String>,
    /// Whether the address is that of a `server.N` line, which has no TLS unless the port is unified.
    pub(super) may_be_plain: bool,
}

impl Members {
    /// The given servers, which count as all members.
    fn given(servers: &[String], remark: Option<String>) -> Self {
        Self { members: given(servers), configured: servers.len(), remark }
    }
}

/// Finds the members of an ensemble, repeatedly.
pub(super) struct MemberFinder {
    servers: Vec<String>,
    limit: Duration,
    properties: ClientProperties,
    tls: Option<Arc<ClientTls>>,
    /// Found with a session. They are kept: opening and closing a session are two transactions of the ensemble.
    kept: Option<Members>,
}

impl MemberFinder {
    /// `limit` is the time for the replies of one server.
    pub(super) fn new(
        servers: Vec<String>,
        limit: Duration,
        properties: ClientProperties,
        tls: Option<Arc<ClientTls>>,
    ) -> Self {
        Self { servers, limit, properties, tls, kept: None }
    }

    /// The members, from the four-letter command `conf` where a given server executes it, and with a session otherwise.
    /// Without a session, only the given servers are known.
    pub(super) fn find(&mut self) -> Members {
        let ConfReplies { membership, given, refused } = self.ask_conf();
        match membership {
            Some((Membership::Ensemble(ensemble), asked)) => {
                let found = from_config(&ensemble, &self.servers);
                if self.tls.is_some() {
                    return with_asked(at_given(found, &given), asked); // secure ports are in no server.N line
                }
                return with_unlisted(with_asked(found, asked.clone()), &self.servers, asked.address.as_deref());
            }
            Some((Membership::Standalone, _)) => return Members::given(&self.servers, None),
            None => (),
        }
        if let Some(kept) = &self.kept {
            return kept.clone();
        }
        if refused == self.servers.len() {
            return Members::given(&self.servers, self.without_reply()); // a client would wait for a server
        }
        let members = match read_config(&self.servers, self.limit, &self.properties) {
            Ok(Some(ensemble)) => with_unlisted(from_config(&ensemble, &self.servers), &self.servers, None),
            Ok(None) => Members::given(&self.servers, None),
            Err(error) if matches!(error.kind(), ErrorKind::NoServer(_)) => {
                return Members::given(&self.servers, self.without_reply());
            }
            Err(error) => {
                let remark = format!("other members are unknown: /zookeeper/config cannot be read: {error}");
                return Members::given(&self.servers, Some(remark));
            }
        };
        self.kept.insert(members).clone()
    }

    /// The table has the causes if no server can be reached. Several given servers are probably all.
    fn without_reply(&self) -> Option<String> {
        let text = "no reply, so the members of its ensemble are unknown, if it belongs to one; give the addresses of \
                    several, separated by commas";
        (self.servers.len() < 2).then(|| text.to_owned())
    }

    fn ask_conf(&self) -> ConfReplies {
        std::thread::scope(|scope| {
            let servers = self.servers.iter();
            let asked: Vec<_> = servers
                .map(|server| {
                    (server, scope.spawn(|| four_letter::ask(server, "conf", self.tls.as_deref(), self.limit)))
                })
                .collect();
            let mut replies = ConfReplies::default();
            for (server, thread) in asked {
                match thread.join() {
                    Ok(Ok(Reply::Text(text))) => {
                        let id = server_id(&text);
                        replies.given.extend(id.map(|id| (id, server.clone())));
                        let address = Some(server.clone());
                        let asked = FoundMember { id, is_observer: true, address, may_be_plain: false };
                        let found = || Membership::parse(&text).map(|membership| (membership, asked));
                        replies.membership = replies.membership.or_else(found);
                    }
                    Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => replies.refused += 1,
                    _ => (),
                }
            }
            replies
        })
    }
}

/// What the given servers reply to `conf`.
#[derive(Default)]
struct ConfReplies {
    /// The membership that the first of them reports, and that server.
    membership: Option<(Membership, FoundMember)>,
    /// The given addresses of the servers that report their ids.
    given: BTreeMap<i64, String>,
    /// The number of servers that refuse the connection.
    refused: usize,
}

/// Members whose address was given are asked there.
fn at_given(mut found: Members, given: &BTreeMap<i64, String>) -> Members {
    for member in &mut found.members {
        if let Some(address) = member.id.and_then(|id| given.get(&id)) {
            (member.address, member.may_be_plain) = (Some(address.clone()), false);
        }
    }
    found
}

/// Reports given servers that are no members: they are not in the table. `asked` is the server that named the members.
fn with_unlisted(mut found: Members, servers: &[String], asked: Option<&str>) -> Members {
    let listed: BTreeSet<&str> = found.members.iter().filter_map(|member| member.address.as_deref()).collect();
    let is_listed = |server: &&str| listed.contains(server) || asked == Some(*server);
    let mut others: Vec<&str> = servers.iter().map(String::as_str).filter(|server| !is_listed(server)).collect();
    if others.is_empty() || servers.len() < 2 {
        return found; // the only server has named the others
    }
    // Other names for the same addresses.
    let resolve = |server: &str| server.to_socket_addrs().into_iter().flatten();
    let known: BTreeSet<SocketAddr> = listed.iter().flat_map(|server| resolve(server)).collect();
    others.retain(|server| !resolve(server).any(|address| known.contains(&address)));
    if !others.is_empty() {
        let text = format!("not asked, because no member has this address: {}", others.join(", "));
        found.remark = Some(found.remark.map_or(text.clone(), |remark| format!("{remark}; {text}")));
    }
    found
}

/// The id in a reply to `conf`.
fn server_id(conf: &str) -> Option<i64> {
    conf.lines().find_map(|line| line.strip_prefix("serverId=")?.trim().parse().ok())
}

/// Adds the server that was asked if it is not a member, as one that joins an ensemble.
fn with_asked(mut found: Members, asked: FoundMember) -> Members {
    // A member whose server.N line has no client address is listed as given, without its id.
    let is_other = |member: &FoundMember, id| member.id.is_some_and(|own| own != id);
    let is_missing =
        |id: i64| found.configured == found.members.len() && found.members.iter().all(|member| is_other(member, id));
    if let Some(id) = asked.id.filter(|id| is_missing(*id)) {
        let text = format!("server {id} is not a member of the ensemble: add it by reconfig");
        found.remark = Some(found.remark.map_or(text.clone(), |remark| format!("{remark}; {text}")));
        found.members.push(asked);
        found.configured += 1;
    }
    found
}

/// What a reply to `conf` tells about members.
#[derive(Debug, PartialEq, Eq)]
enum Membership {
    Standalone,
    Ensemble(Ensemble),
}

impl Membership {
    /// `None` if the reply does not tell: the server does not serve clients, or is read-only.
    fn parse(conf: &str) -> Option<Self> {
        let is_standalone = || conf.contains("\nserverId=") && !conf.contains("\nelectionAlg=");
        match conf.split_once("\nmembership:") {
            Some((_, text)) => Ensemble::parse(text, Addresses::Several).ok().map(Self::Ensemble),
            None => is_standalone().then_some(Self::Standalone),
        }
    }
}

/// The ensemble in `/zookeeper/config`; `None` if the server is standalone.
fn read_config(servers: &[String], limit: Duration, properties: &ClientProperties) -> Result<Option<Ensemble>, Error> {
    let client =
        properties.apply(Client::builder().servers(&servers.join(","))?)?.connect_timeout(limit).read_only(true);
    let client = client.connect_blocking()?;
    let node = client.config()?;
    let _ = client.close(); // the server ends the session by itself otherwise
    let text = String::from_utf8_lossy(&node.data);
    Ok(Ensemble::parse(&text, Addresses::Several).ok().filter(|ensemble| !ensemble.members().is_empty()))
}

fn given(servers: &[String]) -> Vec<FoundMember> {
    let found = servers.iter().map(|server| FoundMember {
        id: None,
        is_observer: false,
        address: Some(server.clone()),
        may_be_plain: false,
    });
    found.collect()
}

fn from_config(ensemble: &Ensemble, servers: &[String]) -> Members {
    let hosts: BTreeSet<&str> =
        ensemble.members().values().filter_map(|member| Some(member.quorum.first()?.host.as_str())).collect();
    // Without client ports in the configuration, all members usually have the same one, on different hosts.
    let port = servers.first().and_then(|server| server.rsplit_once(':')).map(|(_, port)| port);
    let port = port.filter(|_| hosts.len() == ensemble.members().len());
    let found = ensemble.members().iter().map(|(id, member)| FoundMember {
        id: Some(id.0),
        is_observer: member.role == Role::Observer,
        address: client_address(member, port),
        may_be_plain: member.client.is_some(),
    });
    let members: Vec<FoundMember> = found.collect();
    let unknown = members.iter().filter(|member| member.address.is_none()).count();
    let count = members.len();
    if unknown == 0 {
        return Members { members, configured: count, remark: None };
    }
    let mut known: Vec<FoundMember> = members.into_iter().filter(|member| member.address.is_some()).collect();
    let addresses: BTreeSet<String> = known.iter().filter_map(|member| member.address.clone()).collect();
    known.extend(
        given(servers).into_iter().filter(|server| !addresses.contains(server.address.as_deref().unwrap_or(""))),
    );
    let remark = (known.len() < count).then(|| {
        format!(
            "{} of {count} members were not asked: their server.N lines have no client address; give the addresses of \
             all members, separated by commas",
            count - known.len()
        )
    });
    Members { members: known, configured: count, remark }
}

/// Where clients connect. A member that listens on all interfaces is reached at the host of its quorum port.
fn client_address(member: &Member, port: Option<&str>) -> Option<String> {
    let host = &member.quorum.first()?.host;
    let bracketed = |host: &str| if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    match &member.client {
        Some(client) if client.is_wildcard() => Some(format!("{}:{}", bracketed(host), client.port)),
        Some(client) => Some(format!("{}:{}", bracketed(&client.host), client.port)),
        None => port.map(|port| format!("{}:{port}", bracketed(host))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::four_letter::server_addresses as split;

    #[test]
    fn conf_tells_members_or_standalone() {
        let head = "clientPort=2181\nserverId=1\n";
        assert_eq!(Membership::parse(head), Some(Membership::Standalone));
        let members = "server.1=a:1:2:participant;b:3\nversion=0";
        let expected = Ensemble::parse(members, Addresses::Several).unwrap();
        let member = format!("{head}electionAlg=3\npeerType=0\n");
        assert_eq!(
            Membership::parse(&format!("{member}membership: \n{members}")),
            Some(Membership::Ensemble(expected))
        );
        for conf in [member.as_str(), "This ZooKeeper instance is not currently serving requests\n"] {
            assert_eq!(Membership::parse(conf), None, "{conf}");
        }
    }

    #[test]
    fn asked_server_that_is_no_member_is_listed() {
        let config = "server.1=a:1:2:participant;a:3\nversion=0";
        let ensemble = Ensemble::parse(config, Addresses::Several).unwrap();
        let address = Some("b:3".to_owned());
        let asked = |id| FoundMember { id: Some(id), is_observer: true, address: address.clone(), may_be_plain: false };
        let joined = with_asked(from_config(&ensemble, &[]), asked(4));
        assert_eq!((joined.members.len(), joined.configured), (2, 2));
        assert!(joined.remark.unwrap().contains("server 4 is not a member"));
        assert_eq!(with_asked(from_config(&ensemble, &[]), asked(1)).members.len(), 1);
        assert_eq!(server_id("clientPort=1\nserverId=4\n"), Some(4));
    }

    #[test]
    fn given_server_that_is_no_member_is_reported() {
        let config = "server.1=127.0.0.1:1:2:participant;127.0.0.1:3\nserver.2=127.0.0.1:4:5:participant;127.0.0.1:6";
        let ensemble = Ensemble::parse(config, Addresses::Several).unwrap();
        let remark = |servers: &str, asked| {
            let servers = split(servers).unwrap();
            with_unlisted(from_config(&ensemble, &servers), &servers, asked).remark
        };
        assert_eq!(remark("127.0.0.1:3,127.0.0.1:6", None), None);
        assert_eq!(remark("localhost:3,127.0.0.1:6", None), None, "another name of a member");
        assert_eq!(remark("127.0.0.1:9", None), None, "the only one named the members");
        assert_eq!(remark("127.0.0.1:3,127.0.0.1:9", Some("127.0.0.1:9")), None, "it named the members");
        let expected = "not asked, because no member has this address: 127.0.0.1:9";
        assert_eq!(remark("127.0.0.1:3,127.0.0.1:9", None).as_deref(), Some(expected));
    }

    /// With TLS: the given address is a secure port, the others are plain ones.
    #[test]
    fn members_are_asked_at_given_addresses_first() {
        let config = "server.1=a:1:2:participant;a:3\nserver.2=b:1:2:participant;b:3\nserver.3=c:1:2";
        let ensemble = Ensemble::parse(config, Addresses::Several).unwrap();
        let found = at_given(from_config(&ensemble, &["a:7".to_owned()]), &[(1, "a:7".to_owned())].into());
        let asked: Vec<_> =
            found.members.iter().map(|member| (member.address.as_deref().unwrap(), member.may_be_plain)).collect();
        assert_eq!(asked, [("a:7", false), ("b:3", true), ("c:7", false)]);
    }

    #[test]
    fn invalid_port_is_refused() {
        let expected = "invalid address of a server: \"127.0.0.1:abc\": a port is a number from 1 to 65535";
        assert_eq!(split("a:1,127.0.0.1:abc"), Err(expected.to_owned()));
        assert!(split("a:99999").is_err() && split("[::1]:x").is_err());
        assert!(split("").is_err() && split(",").is_err());
        assert_eq!(split("a, ::1,[::1]:5/app").unwrap(), ["a:2181", "[::1]:2181", "[::1]:5"]);
        let mistaken = "invalid address of a server: \"2181\": did you mean localhost:2181?";
        assert_eq!(split("2181"), Err(mistaken.to_owned()));
        let url = "invalid address of a server: \"http://a:2181\": omit http://";
        assert_eq!(split("http://a:2181"), Err(url.to_owned()));
    }

    fn addresses(config: &str, servers: &str) -> (Vec<String>, bool) {
        let ensemble = Ensemble::parse(config, Addresses::Several).unwrap();
        let Members { members, configured, remark } = from_config(&ensemble, &split(servers).unwrap());
        assert_eq!((configured, remark.is_some()), (ensemble.members().len(), members.len() < configured));
        (members.into_iter().filter_map(|member| member.address).collect(), remark.is_some())
    }

    #[test]
    fn members_are_found_by_client_address_or_by_host_and_common_port() {
        let config = "server.1=a:1:2:participant;0.0.0.0:2181\nserver.2=b:1:2:observer;10.0.0.2:2182\n";
        assert_eq!(addresses(config, "x"), (vec!["a:2181".to_owned(), "10.0.0.2:2182".to_owned()], false));
        assert_eq!(addresses("server.1=a:1:2\nserver.2=b:1:2\n", "b:7").0, ["a:7", "b:7"]);
        let same_host = "server.1=a:1:2\nserver.2=a:3:4\n";
        assert_eq!(addresses(same_host, "a:7,a:8/app"), (vec!["a:7".to_owned(), "a:8".to_owned()], false));
        assert_eq!(addresses(same_host, "a:7"), (vec!["a:7".to_owned()], true));
        let partly = "server.1=a:1:2;a:7\nserver.2=a:3:4\n";
        assert_eq!(addresses(partly, "a:7"), (vec!["a:7".to_owned()], true));
        assert_eq!(addresses(partly, "a:7,a:8"), (vec!["a:7".to_owned(), "a:8".to_owned()], false));
    }
}
