//! Names of servers, looked up anew each time they are needed. Whoever knows them may take long to answer, so only threads
//! that nobody waits for ask.

use ox_proto::ensemble::Address;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

type LookUp = dyn Fn(&Address) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Who knows them.
#[derive(Clone)]
pub(super) struct Names(Arc<LookUp>);

impl Names {
    /// As the system does it.
    pub(super) fn of_system() -> Self {
        Self(Arc::new(|address| Ok((address.host.as_str(), address.port).to_socket_addrs()?.collect())))
    }

    /// Every address that a name stands for.
    pub(super) fn look_up(&self, address: &Address) -> io::Result<Vec<SocketAddr>> {
        (self.0)(address)
    }

    /// Knows all names, and those that are called "slow" when it is told so.
    #[cfg(test)]
    pub(super) fn slow(found: SocketAddr) -> (Self, std::sync::mpsc::Sender<()>) {
        let (tell, told) = std::sync::mpsc::channel();
        let told = parking_lot::Mutex::new(told);
        let look_up = move |address: &Address| {
            if address.host == "slow" {
                told.lock().recv_timeout(std::time::Duration::from_secs(60)).map_err(io::Error::other)?;
            }
            Ok(vec![SocketAddr::new(found.ip(), address.port)])
        };
        (Self(Arc::new(look_up)), tell)
    }
}
