//! Complete configurations: behaviour recorded from Apache, precedence, diagnostics, the generated page, arbitrary input.

mod admin;
mod arbitrary_input;
mod diagnostics;
mod docs;
#[cfg(test)]
mod harness;
mod quorum_security;
#[cfg(test)]
mod recorded_configs;
mod sasl;
mod tls;
mod values;
mod weak_settings;
