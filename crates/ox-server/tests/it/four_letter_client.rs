//! Four-letter commands, and the metrics in their replies.

use crate::server_fixture::ServerFixture;
use ox_testkit::{RawClient, RawConnection};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Enables all four-letter commands.
pub(crate) const ALL_COMMANDS: &str = "4lw.commands.whitelist=*\n";

/// Longest time that a metric takes to be published.
const METRIC_TIMEOUT: Duration = Duration::from_secs(20);

impl ServerFixture {
    /// Sends bytes on a new connection, and returns everything received until its end.
    pub(crate) fn send_and_read(&self, bytes: &[u8]) -> String {
        send_and_read(self.connect(), bytes)
    }

    /// The reply to a four-letter command.
    pub(crate) fn command(&self, command: &str) -> String {
        self.send_and_read(command.as_bytes())
    }

    /// The value of a metric in `mntr`.
    pub(crate) fn metric(&self, name: &str) -> String {
        find_metric(&self.command("mntr"), name).unwrap_or_else(|| panic!("{name} is not there"))
    }

    /// Repeats `mntr` until a metric has a value: threads publish their counts after they have replied.
    pub(crate) fn await_metric(&self, name: &str, expected: &str) {
        let until = Instant::now() + METRIC_TIMEOUT;
        loop {
            let found = self.metric(name);
            if found == expected {
                return;
            }
            assert!(Instant::now() < until, "{name} is {found}, not {expected}");
        }
    }
}

/// Sends bytes and reads to the end of the connection.
pub(crate) fn send_and_read(mut raw: RawConnection, bytes: &[u8]) -> String {
    raw.send(bytes);
    String::from_utf8(raw.rest()).expect("text")
}

pub(crate) fn find_metric(mntr: &str, name: &str) -> Option<String> {
    let mut pairs = mntr.lines().filter_map(|line| line.strip_prefix("zk_")?.split_once('\t'));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}

/// The client's address, as the server sees it.
pub(crate) fn address_of(client: &RawClient) -> SocketAddr {
    client.raw.writer().local_addr().unwrap()
}
