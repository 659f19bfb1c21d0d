//! The address of an HTTP listener: a host, which may not resolve, and a port.

use std::net::IpAddr;

use crate::address::{self, Address};
use crate::error::ErrorCollector;
use crate::settings::Settings;
use crate::start_args::Environment;

/// Where an HTTP listener is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// The host as configured, for messages.
    pub host: String,
    /// `None` if the host does not resolve; binding then fails.
    pub ip: Option<IpAddr>,
    /// 0 picks a free port.
    pub port: u16,
}

impl ListenAddress {
    pub(crate) fn new(host: &str, port: u16, environment: &Environment<'_>) -> ListenAddress {
        let ip = Address::new(host, port, environment).ip;
        ListenAddress { host: host.to_owned(), ip, port }
    }
}

/// The port of a key, with an error if it is out of range.
pub(crate) fn port(settings: &Settings, key: &'static str, number: i32, errors: &mut ErrorCollector) -> u16 {
    let port = address::port(number).map_err(|cause| settings.place_of(key).error(cause));
    errors.check(port).unwrap_or_default()
}
