//! Four-letter words, and the figures in their answers.

use crate::raw::{Client, Raw};
use crate::server_fixture::Served;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// All words are answered.
pub(crate) const ALL_WORDS: &str = "4lw.commands.whitelist=*\n";

/// No figure takes that long.
const PATIENCE: Duration = Duration::from_secs(20);

impl Served {
    /// What comes back on a connection that sends these bytes.
    pub(crate) fn say(&self, bytes: &[u8]) -> String {
        say(self.connect(), bytes)
    }

    /// The answer to a word.
    pub(crate) fn word(&self, word: &str) -> String {
        self.say(word.as_bytes())
    }

    /// The value of a metric.
    pub(crate) fn metric(&self, name: &str) -> String {
        find_metric(&self.word("mntr"), name).unwrap_or_else(|| panic!("{name} is not there"))
    }

    /// Asks again until a metric has a value: threads tell what they counted when they are done.
    pub(crate) fn await_metric(&self, name: &str, expected: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let found = self.metric(name);
            if found == expected {
                return;
            }
            assert!(Instant::now() < until, "{name} is {found}, not {expected}");
        }
    }
}

/// Sends bytes and reads to the end.
pub(crate) fn say(mut raw: Raw, bytes: &[u8]) -> String {
    raw.send(bytes);
    String::from_utf8(raw.rest()).expect("text")
}

pub(crate) fn find_metric(mntr: &str, name: &str) -> Option<String> {
    let mut pairs = mntr.lines().filter_map(|line| line.strip_prefix("zk_")?.split_once('\t'));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}

/// The client's end, as the server shows it.
pub(crate) fn address_of(client: &Client) -> SocketAddr {
    client.raw.writer().local_addr().unwrap()
}
