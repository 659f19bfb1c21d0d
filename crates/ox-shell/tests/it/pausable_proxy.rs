//! A way to a server that can be shut: what is asked for behind it hangs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) address: SocketAddr,
    is_shut: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let this = Self { address: listener.local_addr().unwrap(), is_shut: Arc::default() };
        let gate = this.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else { continue };
                let ends = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (one, other) = (gate.clone(), gate.clone());
                std::thread::spawn(move || one.pass(client, server));
                std::thread::spawn(move || other.pass(ends.1, ends.0));
            }
        });
        this
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let (is_shut, opened) = &*self.is_shut;
            drop(opened.wait_while(is_shut.lock().unwrap(), |is_shut| *is_shut).unwrap());
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    }

    pub(crate) fn set_shut(&self, shut: bool) {
        *self.is_shut.0.lock().unwrap() = shut;
        self.is_shut.1.notify_all();
    }
}
