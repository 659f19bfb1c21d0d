//! A proxy that can be paused, so that requests hang.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

#[derive(Clone)]
pub(crate) struct PausableProxy {
    pub(crate) address: SocketAddr,
    is_paused: Arc<(Mutex<bool>, Condvar)>,
}

impl PausableProxy {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let this = Self { address: listener.local_addr().unwrap(), is_paused: Arc::default() };
        let proxy = this.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else { continue };
                let ends = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (one, other) = (proxy.clone(), proxy.clone());
                std::thread::spawn(move || one.forward(client, server));
                std::thread::spawn(move || other.forward(ends.1, ends.0));
            }
        });
        this
    }

    fn forward(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let (is_paused, resumed) = &*self.is_paused;
            drop(resumed.wait_while(is_paused.lock().unwrap(), |is_paused| *is_paused).unwrap());
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        *self.is_paused.0.lock().unwrap() = paused;
        self.is_paused.1.notify_all();
    }
}
