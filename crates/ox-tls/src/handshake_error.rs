//! Why a handshake failed, in the words of an operator.

use rustls::{AlertDescription as Alert, CertificateError as Bad, Error};

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// The text of an error, which says whose certificate is refused.
#[expect(clippy::wildcard_enum_match_arm, reason = "all other kinds are reported as they are")]
pub fn describe_handshake_error(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(bad) => format!("invalid peer certificate: {}", describe(bad)),
        Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA,
        ) => {
            // Not yet valid certificates cause CertificateExpired, too.
            format!("the peer refuses the certificate of this side: {error}; check its dates, names and CA")
        }
        other => other.to_string(),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all other kinds are reported as they are")]
fn describe(bad: &Bad) -> String {
    match bad {
        Bad::ExpiredContext { time, not_after } => {
            let days = time.as_secs().saturating_sub(not_after.as_secs()) / SECONDS_PER_DAY;
            format!("Expired, {days} days ago")
        }
        Bad::NotValidYetContext { time, not_before } => {
            let days = not_before.as_secs().saturating_sub(time.as_secs()).div_ceil(SECONDS_PER_DAY);
            format!("NotValidYet, valid in {days} days: check the clocks")
        }
        Bad::Other(other) => other.0.to_string(),
        Bad::UnknownIssuer => "UnknownIssuer: no CA of the trust store has issued it".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::UnixTime;
    use std::time::Duration;

    #[test]
    fn texts_name_cause_and_side() {
        let day = |day: u64| UnixTime::since_unix_epoch(Duration::from_secs(day * SECONDS_PER_DAY));
        let check = |error: Error, expected: &str| assert_eq!(describe_handshake_error(&error), expected);
        let expired = Bad::ExpiredContext { time: day(12), not_after: day(10) };
        check(expired.into(), "invalid peer certificate: Expired, 2 days ago");
        let early = Bad::NotValidYetContext { time: day(10), not_before: day(12) };
        check(early.into(), "invalid peer certificate: NotValidYet, valid in 2 days: check the clocks");
        check(
            Bad::UnknownIssuer.into(),
            "invalid peer certificate: UnknownIssuer: no CA of the trust store has issued it",
        );
        check(
            Error::AlertReceived(Alert::UnknownCA),
            "the peer refuses the certificate of this side: received fatal alert: UnknownCA; check its dates, names and \
             CA",
        );
        let other = Error::General("something else".to_owned());
        check(other.clone(), &other.to_string());
    }
}
