//! The load generator on real sockets, against small servers that behave correctly or not.

#[cfg(test)]
mod failures;
#[cfg(test)]
mod fake_server;
#[cfg(test)]
mod workloads;
