//! Configurations as a server meets them: recorded ones, precedence, remarks, the generated page, and noise.

mod docs;
#[cfg(test)]
mod matrix;
mod noise;
mod notices;
mod values;
#[cfg(test)]
mod world;
