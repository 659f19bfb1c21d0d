//! A replica with its connections, without sockets and disk: every hand-over happens when the test says so.

mod order;
mod overload;
mod sessions;
mod world;
