//! The generator on real sockets, against small servers that behave well or badly.

#[cfg(test)]
mod failures;
#[cfg(test)]
mod fake_server;
#[cfg(test)]
mod workloads;
