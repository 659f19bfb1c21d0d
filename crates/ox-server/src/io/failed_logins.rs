//! Failed logins by address (S16): after some, new connections of the address wait before they are served.
//!
//! A connection has one SASL login, and a failed one closes it, so a delay of connections limits the passwords that an
//! address can try. Other addresses are not affected. The address is known from the socket alone; behind a gateway,
//! clients share one, so the delay is short and does not grow.

use crate::limits::{FAILED_LOGIN_ADDRESSES_MAX, FAILED_LOGIN_DELAY_MS, FAILED_LOGIN_FORGET_MS, FAILED_LOGINS_MAX};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// The failed logins of all addresses.
#[derive(Debug, Default)]
pub(crate) struct FailedLogins {
    by_origin: Mutex<HashMap<IpAddr, Failures>>,
}

/// The failures of one address, in a leaky bucket.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    /// When one of them is forgotten next.
    forget_ms: i64,
}

impl Failures {
    /// The failures that are not forgotten at a time.
    fn at(self, now_ms: i64) -> Self {
        let forgotten = (now_ms - self.forget_ms).div_euclid(FAILED_LOGIN_FORGET_MS) + 1;
        let forgotten = u32::try_from(forgotten.max(0)).unwrap_or(u32::MAX);
        let forget_ms = self.forget_ms + i64::from(forgotten.min(self.count)) * FAILED_LOGIN_FORGET_MS;
        Self { count: self.count.saturating_sub(forgotten), forget_ms }
    }
}

impl FailedLogins {
    pub(crate) fn note(&self, address: IpAddr, now_ms: i64) {
        let mut by_origin = self.by_origin.lock();
        let origin = origin(address);
        if FAILED_LOGIN_ADDRESSES_MAX <= by_origin.len() && !by_origin.contains_key(&origin) {
            by_origin.retain(|_, failures| 0 < failures.at(now_ms).count);
            if FAILED_LOGIN_ADDRESSES_MAX <= by_origin.len() {
                return; // the addresses that are known have failed recently, and stay delayed
            }
        }
        let fresh = Failures { count: 0, forget_ms: now_ms + FAILED_LOGIN_FORGET_MS };
        let failures = by_origin.get(&origin).map_or(fresh, |failures| failures.at(now_ms));
        let failures = if failures.count == 0 { fresh } else { failures };
        let count = (failures.count + 1).min(2 * FAILED_LOGINS_MAX);
        by_origin.insert(origin, Failures { count, ..failures });
    }

    /// How long a new connection from the address has to wait.
    pub(crate) fn delay_ms(&self, address: IpAddr, now_ms: i64) -> i64 {
        let by_origin = self.by_origin.lock();
        let failures = if by_origin.is_empty() { None } else { by_origin.get(&origin(address)) };
        let is_delayed = failures.is_some_and(|failures| FAILED_LOGINS_MAX <= failures.at(now_ms).count);
        if is_delayed { FAILED_LOGIN_DELAY_MS } else { 0 }
    }
}

/// A host can use all addresses of its IPv6 network.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => {
            let [a, b, c, d, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn s16_address_is_delayed_after_ten_failures_and_only_it() {
        let logins = FailedLogins::default();
        for _ in 0..FAILED_LOGINS_MAX {
            assert_eq!(logins.delay_ms(ip("10.0.0.1"), 0), 0);
            logins.note(ip("10.0.0.1"), 0);
        }
        assert_eq!(logins.delay_ms(ip("10.0.0.1"), 0), FAILED_LOGIN_DELAY_MS);
        assert_eq!(logins.delay_ms(ip("::ffff:10.0.0.1"), 0), FAILED_LOGIN_DELAY_MS);
        assert_eq!(logins.delay_ms(ip("10.0.0.2"), 0), 0);
    }

    #[test]
    fn failures_are_forgotten() {
        let logins = FailedLogins::default();
        (0..1000).for_each(|_| logins.note(ip("10.0.0.1"), 0));
        let until_ms = i64::from(FAILED_LOGINS_MAX + 1) * FAILED_LOGIN_FORGET_MS;
        assert_eq!(logins.delay_ms(ip("10.0.0.1"), until_ms - 1), FAILED_LOGIN_DELAY_MS);
        assert_eq!(logins.delay_ms(ip("10.0.0.1"), until_ms), 0);
        logins.note(ip("10.0.0.1"), until_ms);
        assert_eq!(logins.delay_ms(ip("10.0.0.1"), until_ms), FAILED_LOGIN_DELAY_MS);
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let logins = FailedLogins::default();
        (0..FAILED_LOGINS_MAX).for_each(|host| logins.note(ip(&format!("2001:db8::{host:x}")), 0));
        assert_eq!(logins.delay_ms(ip("2001:db8::ffff"), 0), FAILED_LOGIN_DELAY_MS);
        assert_eq!(logins.delay_ms(ip("2001:db8:0:1::1"), 0), 0);
    }

    #[test]
    fn number_of_addresses_is_bounded() {
        let logins = FailedLogins::default();
        let address = |number: usize| IpAddr::from(u32::try_from(number).unwrap().to_be_bytes());
        (0..FAILED_LOGIN_ADDRESSES_MAX + 10).for_each(|number| logins.note(address(number), 0));
        assert_eq!(logins.by_origin.lock().len(), FAILED_LOGIN_ADDRESSES_MAX);
        logins.note(address(1 << 20), FAILED_LOGIN_FORGET_MS);
        assert_eq!(logins.by_origin.lock().len(), 1, "forgotten ones make place");
    }
}
