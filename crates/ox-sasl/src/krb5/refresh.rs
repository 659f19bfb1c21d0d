//! When a login is renewed, by the rules of Apache's `Login`.
//!
//! A ticket is refreshed after 80 % of its lifetime, plus at most 5 % at random so that servers do not ask together, but not
//! more often than `kerberos.minReLoginTimeMs`.

use super::WallTime;
use super::initiator::Credential;
use crate::mechanism::Random;

/// Milliseconds; default of `kerberos.minReLoginTimeMs`.
pub const MIN_RELOGIN_MS: i64 = 60_000;
const WINDOW_PERCENT: i64 = 80;
const JITTER_PERMILLE: i64 = 50;

/// How a login that is due gets its next ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshMethod {
    /// A new AS exchange with keytab or password.
    NewLogin,
    /// The KDC renews the ticket that this process has.
    Renew,
    /// Neither is possible: after the end of the ticket, authentications fail. The operator must run `kinit`, or use a
    /// keytab; the caller reads the cache again when it changes.
    Impossible,
}

/// When to refresh a ticket-granting ticket: after its window, but no sooner than the minimum; now, if it would expire first.
pub fn refresh_time(ticket: &Credential, now: WallTime, min_relogin_ms: i64, random: Random<'_>) -> WallTime {
    let (start, end) = (WallTime::from_seconds(ticket.start).0, WallTime::from_seconds(ticket.end).0);
    let mut byte = [0];
    random(&mut byte);
    let permille = WINDOW_PERCENT * 10 + JITTER_PERMILLE * i64::from(byte[0]) / 256;
    let planned = start.saturating_add((end - start) / 1000 * permille);
    let earliest = now.0.saturating_add(min_relogin_ms.saturating_mul(1000));
    if end < planned || end < earliest { now } else { WallTime(planned.max(earliest)) }
}

/// How to refresh. `has_secret` is whether a keytab or password is at hand.
pub fn refresh_method(ticket: &Credential, now: WallTime, has_secret: bool) -> RefreshMethod {
    if has_secret {
        return RefreshMethod::NewLogin;
    }
    let now = now.seconds();
    let is_renewable = ticket.renew_till.is_some_and(|till| ticket.end < till && now < till);
    if is_renewable && now < ticket.end { RefreshMethod::Renew } else { RefreshMethod::Impossible }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::krb5::crypto::{Etype, KerberosKey};
    use crate::krb5::principal::Principal;

    fn ticket(start: i64, end: i64, renew_till: Option<i64>) -> Credential {
        let client = Principal::parse("bob@R", None).unwrap();
        let key = KerberosKey::random(Etype::Aes128Sha1, &mut |_| ());
        Credential { service: client.clone(), client, ticket: Vec::new(), key, start, end, renew_till }
    }

    #[test]
    fn ticket_is_refreshed_in_its_last_fifth() {
        let at = |ticket: &Credential, now, jitter| {
            refresh_time(ticket, WallTime::from_seconds(now), MIN_RELOGIN_MS, &mut |bytes| bytes.fill(jitter)).seconds()
        };
        let day = ticket(1000, 11000, None);
        assert_eq!((at(&day, 1000, 0), at(&day, 1000, 255)), (9000, 9490));
        assert_eq!(at(&day, 10000, 0), 10060, "not before the minimum");
        assert_eq!(at(&day, 10950, 0), 10950, "the minimum is after the end");
        assert_eq!(at(&day, 20000, 0), 20000, "it has expired");
    }

    #[test]
    fn method_depends_on_secret_and_renewal() {
        let now = WallTime::from_seconds(1000);
        assert_eq!(refresh_method(&ticket(0, 2000, None), now, true), RefreshMethod::NewLogin);
        assert_eq!(refresh_method(&ticket(0, 2000, Some(5000)), now, false), RefreshMethod::Renew);
        for (end, renew_till) in [(2000, None), (2000, Some(2000)), (900, Some(5000)), (900, Some(950))] {
            assert_eq!(refresh_method(&ticket(0, end, renew_till), now, false), RefreshMethod::Impossible);
        }
    }
}
