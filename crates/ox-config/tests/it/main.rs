//! Configurations as a server meets them: recorded ones, precedence, remarks, the generated page, and noise.

mod arbitrary_input;
mod diagnostics;
mod docs;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod recorded_configs;
mod values;
