//! What the server reads in a certificate: names, dates, and where its revocation list is.
//!
//! Signatures and chains are the business of the verifier.

use crate::der::{self, DerReader, OCTET_STRING, SEQUENCE, context, context_bytes};
use crate::error::StoreProblem;
use crate::subject;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SECONDS_PER_DAY: i64 = 24 * 60 * 60;
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];
const CRL_DISTRIBUTION_POINTS: &[u8] = &[0x55, 0x1d, 31];
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The parts of a certificate that are shown, compared or logged. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// X.509 version, 1 to 3.
    pub version: u8,
    /// Hexadecimal, without a prefix, as openssl prints it.
    pub serial: String,
    /// RFC 2253, as the `x509` scheme shows it.
    pub subject: String,
    pub issuer: String,
    /// The last common name of the subject.
    pub common_name: Option<String>,
    /// dNSName entries of the subject alternative names.
    pub dns_names: Vec<String>,
    /// iPAddress entries of the subject alternative names.
    pub addresses: Vec<IpAddr>,
    pub not_before: i64,
    pub not_after: i64,
    /// URIs of the revocation lists that cover the certificate.
    pub crl_distribution_points: Vec<String>,
    pub(crate) subject_der: Vec<u8>,
    pub(crate) issuer_der: Vec<u8>,
}

impl CertificateInfo {
    /// Reads a DER certificate, for example the first one that a peer has sent.
    pub fn parse(certificate: &[u8]) -> Result<Self, StoreProblem> {
        let mut outer = DerReader::new(certificate);
        let mut body = outer.nested(SEQUENCE)?.nested(SEQUENCE)?;
        let version = match body.optional(context(0))? {
            Some(version) => {
                u8::try_from(DerReader::new(version.content).number()?).unwrap_or(u8::MAX).saturating_add(1)
            }
            None => 1,
        };
        let serial = subject::hex(body.expect(der::INTEGER)?.content);
        body.expect(SEQUENCE)?; // signature algorithm
        let issuer = body.expect(SEQUENCE)?.content;
        let mut validity = body.nested(SEQUENCE)?;
        let (not_before, not_after) = (time(&mut validity)?, time(&mut validity)?);
        let subject = body.expect(SEQUENCE)?.content;
        body.expect(SEQUENCE)?; // public key
        let mut info = Self {
            version,
            serial,
            subject: subject::rfc2253(subject)?,
            issuer: subject::rfc2253(issuer)?,
            common_name: subject::last_common_name(subject)?,
            dns_names: Vec::new(),
            addresses: Vec::new(),
            not_before,
            not_after,
            crl_distribution_points: Vec::new(),
            subject_der: subject.to_owned(),
            issuer_der: issuer.to_owned(),
        };
        info.read_extensions(body)?;
        Ok(info)
    }

    /// Full days until the certificate expires; negative when it has expired.
    pub fn days_left(&self, now: i64) -> i64 {
        (self.not_after - now).div_euclid(SECONDS_PER_DAY)
    }

    pub fn is_valid_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    pub(crate) fn is_self_issued(&self) -> bool {
        self.subject_der == self.issuer_der
    }

    fn read_extensions(&mut self, mut body: DerReader<'_>) -> Result<(), StoreProblem> {
        while !body.is_empty() {
            let element = body.any()?; // unique identifiers, then extensions
            if element.tag != context(3) {
                continue;
            }
            let mut extensions = DerReader::new(element.content).nested(SEQUENCE)?;
            while !extensions.is_empty() {
                let mut extension = extensions.nested(SEQUENCE)?;
                let oid = extension.oid()?;
                extension.optional(der::BOOLEAN)?; // critical
                let value = extension.expect(OCTET_STRING)?.content;
                match oid {
                    SUBJECT_ALT_NAME => self.read_alternative_names(value)?,
                    CRL_DISTRIBUTION_POINTS => self.read_distribution_points(value)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn read_alternative_names(&mut self, value: &[u8]) -> Result<(), StoreProblem> {
        let mut names = DerReader::new(value).nested(SEQUENCE)?;
        while !names.is_empty() {
            let name = names.any()?;
            if name.tag == context_bytes(2) {
                self.dns_names.push(String::from_utf8_lossy(name.content).into_owned());
            } else if name.tag == context_bytes(7) {
                self.addresses.extend(address(name.content));
            }
        }
        Ok(())
    }

    fn read_distribution_points(&mut self, value: &[u8]) -> Result<(), StoreProblem> {
        let mut points = DerReader::new(value).nested(SEQUENCE)?;
        while !points.is_empty() {
            let mut point = points.nested(SEQUENCE)?;
            let Some(name) = point.optional(context(0))? else { continue };
            let Some(full_name) = DerReader::new(name.content).optional(context(0))? else { continue };
            let mut uris = DerReader::new(full_name.content);
            while !uris.is_empty() {
                let uri = uris.any()?;
                if uri.tag == context_bytes(6) {
                    self.crl_distribution_points.push(String::from_utf8_lossy(uri.content).into_owned());
                }
            }
        }
        Ok(())
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| IpAddr::from(Ipv6Addr::from(bytes)).to_canonical())
}

/// A UTCTime or GeneralizedTime in the one form that X.509 permits, as seconds since 1970.
pub(crate) fn time(reader: &mut DerReader<'_>) -> Result<i64, StoreProblem> {
    const MALFORMED: StoreProblem = StoreProblem::Damaged("a date has an unexpected form");
    let element = reader.any()?;
    let text = std::str::from_utf8(element.content).map_err(|_| MALFORMED)?;
    let digits = text.strip_suffix('Z').ok_or(MALFORMED)?;
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(MALFORMED);
    }
    let number = |from: usize, to: usize| digits.get(from..to).and_then(|part| part.parse::<i64>().ok());
    let (year, rest) = match (element.tag, digits.len()) {
        (UTC_TIME, 12) => (number(0, 2).map(|year| if year < 50 { 2000 + year } else { 1900 + year }), 2),
        (GENERALIZED_TIME, 14) => (number(0, 4), 4),
        _ => return Err(MALFORMED),
    };
    let part = |index: usize| number(rest + 2 * index, rest + 2 * index + 2).ok_or(MALFORMED);
    let days = days_since_1970(year.ok_or(MALFORMED)?, part(0)?, part(1)?);
    Ok(days * SECONDS_PER_DAY + part(2)? * 3600 + part(3)? * 60 + part(4)?)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, counting years from March on.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        let cases: [(u8, &str, i64); 5] = [
            (UTC_TIME, "700101000000Z", 0),
            (UTC_TIME, "491231235959Z", 2_524_607_999),
            (UTC_TIME, "500101000000Z", -631_152_000),
            (GENERALIZED_TIME, "20000229120000Z", 951_825_600),
            (GENERALIZED_TIME, "21261025000000Z", 4_948_560_000),
        ];
        for (tag, text, expected) in cases {
            let encoded = [&[tag, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
            assert_eq!(time(&mut DerReader::new(&encoded)), Ok(expected), "{text}");
        }
        for text in ["700101000000", "7001010000Z", "70010100000xZ", "+00101000000Z"] {
            let encoded = [&[UTC_TIME, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
            assert!(time(&mut DerReader::new(&encoded)).is_err(), "{text}");
        }
    }

    #[test]
    fn mapped_addresses_are_canonical() {
        assert_eq!(address(&[10, 0, 0, 1]), Some("10.0.0.1".parse().unwrap()));
        let mapped: Ipv6Addr = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(address(&mapped.octets()), Some("10.0.0.1".parse().unwrap()));
        assert_eq!(address(&[1, 2, 3]), None);
    }
}
