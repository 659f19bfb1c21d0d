//! A minimal ZooKeeper server: sessions, a flat tree, data watches.

#![expect(clippy::wildcard_enum_match_arm, reason = "it supports few operations")]

use ox_proto::acl::RawAcls;
use ox_proto::connect::{ConnectRequest, ConnectResponse};
use ox_proto::event::{EventType, put_event};
use ox_proto::frame::split_frame;
use ox_proto::jute::{Jute as _, Reader, put_buffer, put_count, put_text};
use ox_proto::password::session_password;
use ox_proto::reply::{ReplyHeader, put_reply};
use ox_proto::request::{CreateRequest, PathWatch, RequestHeader, SetDataRequest};
use ox_proto::{OpCode, SessionId, Stat, Zxid};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) struct FakeServer {
    address: String,
}

#[derive(Default)]
struct State {
    zxid: i64,
    nodes: BTreeMap<String, (Vec<u8>, Stat)>,
    watches: BTreeMap<String, Vec<Arc<Mutex<TcpStream>>>>,
}

impl FakeServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State::default()));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                thread::spawn(move || serve(stream, &state));
            }
        });
        Self { address }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = stream.try_clone().unwrap();
    let writer = Arc::new(Mutex::new(stream));
    let (mut inbox, mut chunk, mut greeted) = (Vec::new(), [0; 4096], false);
    loop {
        while let Ok(Some((payload, rest))) = split_frame(&inbox, 1 << 20) {
            let mut state = state.lock().unwrap();
            let (reply, keep_open) = if greeted { state.reply(payload, &writer) } else { state.greet(payload) };
            greeted = true;
            writer.lock().unwrap().write_all(&reply).unwrap();
            if !keep_open {
                writer.lock().unwrap().shutdown(std::net::Shutdown::Both).unwrap();
                return;
            }
            inbox = rest.to_vec();
        }
        match reader.read(&mut chunk) {
            Ok(count) if count != 0 => inbox.extend_from_slice(&chunk[..count]),
            _ => return,
        }
    }
}

impl State {
    fn greet(&mut self, payload: &[u8]) -> (Vec<u8>, bool) {
        let request = ConnectRequest::decode(payload).unwrap();
        self.zxid += 1;
        let session = SessionId(0x0100_0000_0000_0000 + self.zxid);
        let (timeout_ms, password) = (request.timeout_ms, session_password(session));
        let mut out = Vec::new();
        ConnectResponse { timeout_ms, session, password, read_only: request.read_only }.put_frame(&mut out);
        (out, true)
    }

    fn reply(&mut self, payload: &[u8], writer: &Arc<Mutex<TcpStream>>) -> (Vec<u8>, bool) {
        let mut from = Reader::new(payload);
        let header: RequestHeader = from.get().unwrap();
        let op = OpCode::try_from(header.op).unwrap();
        let mut out = Vec::new();
        let result = self.perform(op, &mut from, writer, &mut out);
        let (err, body) = match result {
            Ok(body) => (0, body),
            Err(err) => (err, Vec::new()),
        };
        let zxid = if op == OpCode::Auth { Zxid(0) } else { Zxid(self.zxid) };
        put_reply(&mut out, ReplyHeader { xid: header.xid, zxid, err }, |out| out.extend_from_slice(&body));
        (out, op != OpCode::CloseSession)
    }

    fn perform(
        &mut self,
        op: OpCode,
        from: &mut Reader<'_>,
        writer: &Arc<Mutex<TcpStream>>,
        out: &mut Vec<u8>,
    ) -> Result<Vec<u8>, i32> {
        const NO_NODE: i32 = -101;
        const BAD_VERSION: i32 = -103;
        let mut body = Vec::new();
        match op {
            OpCode::Create => {
                let create: CreateRequest<'_> = from.get().unwrap();
                self.zxid += 1;
                let zxid = Zxid(self.zxid);
                let stat = Stat { czxid: zxid, mzxid: zxid, pzxid: zxid, ..Stat::default() };
                let path = create.path.unwrap().into_owned();
                put_text(&mut body, &path);
                self.nodes.insert(path, (create.data.unwrap().to_vec(), stat));
            }
            OpCode::SetData => {
                let set: SetDataRequest<'_> = from.get().unwrap();
                self.zxid += 1;
                let path = set.path.unwrap().into_owned();
                let (data, stat) = self.nodes.get_mut(&path).ok_or(NO_NODE)?;
                if set.version != -1 && set.version != stat.version {
                    return Err(BAD_VERSION);
                }
                *data = set.data.unwrap().to_vec();
                (stat.version, stat.mzxid) = (stat.version + 1, Zxid(self.zxid));
                stat.put(&mut body);
                self.notify(&path, writer, out);
            }
            OpCode::GetData => {
                let get: PathWatch<'_> = from.get().unwrap();
                let path = get.path.unwrap().into_owned();
                let (data, stat) = self.nodes.get(&path).ok_or(NO_NODE)?;
                put_buffer(&mut body, Some(data));
                stat.put(&mut body);
                if get.watch {
                    self.watches.entry(path).or_default().push(Arc::clone(writer));
                }
            }
            OpCode::GetChildren2 => {
                let get: PathWatch<'_> = from.get().unwrap();
                let is_root = get.path.as_deref() == Some("/");
                let names: Vec<_> = self.nodes.keys().filter(|_| is_root).map(|path| &path[1..]).collect();
                put_count(&mut body, names.len() + usize::from(is_root));
                names.iter().for_each(|name| put_text(&mut body, name));
                if is_root {
                    put_text(&mut body, "zookeeper");
                }
                Stat::default().put(&mut body);
            }
            OpCode::GetAcl => {
                body.extend_from_slice(RawAcls::OPEN.bytes());
                Stat::default().put(&mut body);
            }
            OpCode::CloseSession => self.zxid += 1,
            _ => (),
        }
        Ok(body)
    }

    fn notify(&mut self, path: &str, writer: &Arc<Mutex<TcpStream>>, out: &mut Vec<u8>) {
        for watcher in self.watches.remove(path).unwrap_or_default() {
            let mut event = Vec::new();
            put_event(&mut event, Zxid(self.zxid), EventType::NodeDataChanged, path);
            if Arc::ptr_eq(&watcher, writer) {
                out.extend_from_slice(&event);
            } else {
                watcher.lock().unwrap().write_all(&event).unwrap();
            }
        }
    }
}
