//! Certificates and findings as text.

use crate::terminal::{Paint, Tone};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ox_tls::CertificateInfo;
use std::io::{self, Write};
use std::net::IpAddr;

/// Certificates that expire sooner are reported.
const EXPIRY_WARNING_DAYS: i64 = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Finding {
    Ok,
    Warning,
    /// Connections or the start fail because of it.
    Failure,
}

/// A warning or a failure.
pub(in crate::commands) struct TlsProblem {
    /// Who uses the ports: `clients` or `servers`.
    pub(in crate::commands) ports: String,
    pub(in crate::commands) text: String,
}

/// Lines of a report, and the worst finding among them.
#[derive(Debug, Default)]
pub(super) struct Findings {
    lines: Vec<(Option<Finding>, String)>,
}

impl Findings {
    pub(super) fn heading(&mut self, text: impl Into<String>) {
        self.lines.push((None, text.into()));
    }

    pub(super) fn add(&mut self, finding: Finding, text: impl Into<String>) {
        self.lines.push((Some(finding), text.into()));
    }

    pub(super) fn ok(&mut self, text: impl Into<String>) {
        self.add(Finding::Ok, text);
    }

    pub(super) fn has_failure(&self) -> bool {
        self.count(Finding::Failure) != 0
    }

    pub(super) fn count(&self, finding: Finding) -> usize {
        self.lines.iter().filter(|(found, _)| *found == Some(finding)).count()
    }

    /// Warnings and failures, with the part of the heading above them that names the ports.
    pub(super) fn problems(&self) -> Vec<TlsProblem> {
        let (mut ports, mut problems) = ("", Vec::new());
        for (finding, text) in &self.lines {
            match finding {
                None => ports = text.split(':').next().unwrap_or_default(),
                Some(Finding::Ok) => (),
                Some(Finding::Warning | Finding::Failure) => {
                    problems.push(TlsProblem { ports: ports.to_owned(), text: text.clone() });
                }
            }
        }
        problems
    }

    /// Adds a chain, leaf first, with the dates of each certificate.
    pub(super) fn chain(&mut self, certificates: &[CertificateInfo], now: i64) {
        for (at, certificate) in certificates.iter().enumerate() {
            let place = if at == 0 { "certificate" } else { "issuer" };
            self.ok(format!(
                "{place} {} (serial {}), issued by {}",
                certificate.subject, certificate.serial, certificate.issuer
            ));
            if at == 0 {
                let names = names(certificate);
                match names.is_empty() {
                    true => self.add(Finding::Warning, "it has no alternative names; peers compare its common name"),
                    false => self.ok(format!("valid for {}", names.join(", "))),
                }
            }
            self.dates(certificate, now);
        }
    }

    fn dates(&mut self, certificate: &CertificateInfo, now: i64) {
        let (from, until) = (date(certificate.not_before), date(certificate.not_after));
        let days = certificate.days_left(now);
        if now < certificate.not_before {
            self.add(Finding::Failure, format!("not valid before {from}: peers refuse it until then; check the clock"));
        } else if certificate.not_after < now {
            self.add(Finding::Failure, format!("expired on {until}: peers refuse it; issue a new certificate"));
        } else if days < EXPIRY_WARNING_DAYS {
            self.add(Finding::Warning, format!("expires on {until}, in {days} days"));
        } else {
            self.ok(format!("valid from {from} until {until} ({days} days left)"));
        }
    }

    pub(super) fn print(&self, paint: Paint, out: &mut dyn Write) -> io::Result<()> {
        for (finding, text) in &self.lines {
            match finding {
                None => writeln!(out, "{}", paint.text(Tone::Heading, text))?,
                Some(Finding::Ok) => writeln!(out, "  {}       {text}", paint.text(Tone::Good, "ok"))?,
                Some(Finding::Warning) => writeln!(out, "  {}  {text}", paint.text(Tone::Warning, "warning"))?,
                Some(Finding::Failure) => writeln!(out, "  {}    {text}", paint.text(Tone::Bad, "FAILS"))?,
            }
        }
        Ok(())
    }

    pub(super) fn in_json(&self) -> serde_json::Value {
        let lines = self.lines.iter().map(|(finding, text)| {
            let finding = match finding {
                None => "section",
                Some(Finding::Ok) => "ok",
                Some(Finding::Warning) => "warning",
                Some(Finding::Failure) => "failure",
            };
            serde_json::json!({ "finding": finding, "text": text })
        });
        serde_json::json!({ "passes": !self.has_failure(), "findings": lines.collect::<Vec<_>>() })
    }
}

/// What a certificate is valid for.
pub(super) fn names(certificate: &CertificateInfo) -> Vec<String> {
    let addresses = certificate.addresses.iter().map(IpAddr::to_string);
    certificate.dns_names.iter().cloned().chain(addresses).collect()
}

fn date(seconds: i64) -> String {
    Timestamp::from_second(seconds)
        .map_or_else(|_| seconds.to_string(), |time| time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d").to_string())
}
