//! A proxy in front of a client port that knows requests and sessions.

use crate::proxy::{Filters, LinkState, Proxy, frame_filter};
use ox_proto::connect::ConnectResponse;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::RequestHeader;
use ox_proto::{OpCode, Reader, SessionId};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// Which half of an exchange is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DroppedPart {
    /// The request is dropped, so the server does not execute it.
    Request,
    /// The reply is dropped after the server has executed the request.
    Reply,
}

/// A proxy for the connections of clients. Clones control the same proxy.
#[derive(Clone, Debug)]
pub struct ClientProxy {
    proxy: Proxy,
    plan: Arc<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    state: Mutex<PlanState>,
    changed: Condvar,
    proxy: OnceLock<Proxy>,
}

#[derive(Debug, Default)]
struct PlanState {
    /// Requests to drop, or whose replies to drop, each once.
    to_drop: Vec<(OpCode, DroppedPart)>,
    /// Number of requests and replies dropped so far.
    dropped: usize,
    /// The last handshake of each connection.
    handshakes: BTreeMap<u64, ConnectResponse>,
}

impl Plan {
    /// Counts a dropped message, and refuses new connections before the present one is closed.
    fn drop_one(&self, state: &mut PlanState) {
        state.dropped += 1;
        self.proxy.get().expect("set before the first connection").refuse();
        self.changed.notify_all();
    }

    /// Drops requests, and notes in `fatal` the xid of the request whose reply is to be dropped.
    fn on_request(&self, payload: Vec<u8>, fatal: &Mutex<Option<i32>>) -> Option<Vec<Vec<u8>>> {
        let mut state = self.state.lock();
        if let Ok(header) = Reader::new(&payload).get::<RequestHeader>()
            && let Some(at) = state.to_drop.iter().position(|(op, _)| op.code() == header.op)
        {
            if state.to_drop.remove(at).1 == DroppedPart::Request {
                self.drop_one(&mut state);
                return None;
            }
            *fatal.lock() = Some(header.xid);
        }
        Some(vec![payload])
    }

    fn on_reply(&self, payload: Vec<u8>, fatal: &Mutex<Option<i32>>) -> Option<Vec<Vec<u8>>> {
        let header = Reader::new(&payload).get::<ReplyHeader>();
        if header.is_ok_and(|header| Some(header.xid) == *fatal.lock()) {
            self.drop_one(&mut self.state.lock());
            return None;
        }
        Some(vec![payload])
    }

    fn filters(self: &Arc<Self>, id: u64) -> Filters {
        let fatal = Arc::<Mutex<Option<i32>>>::default();
        let (plan, noted, mut is_handshake) = (Arc::clone(self), Arc::clone(&fatal), true);
        let requests = frame_filter(move |payload| {
            if std::mem::take(&mut is_handshake) { Some(vec![payload]) } else { plan.on_request(payload, &noted) }
        });
        let (plan, mut is_handshake) = (Arc::clone(self), true);
        let replies = frame_filter(move |payload| {
            if !std::mem::take(&mut is_handshake) {
                return plan.on_reply(payload, &fatal);
            }
            if let Ok(response) = ConnectResponse::decode(&payload) {
                plan.state.lock().handshakes.insert(id, response);
            }
            Some(vec![payload])
        });
        Filters { requests: Some(requests), replies: Some(replies) }
    }
}

impl ClientProxy {
    pub fn start(server: SocketAddr) -> Self {
        let plan = Arc::<Plan>::default();
        let shared = Arc::clone(&plan);
        let proxy = Proxy::with_filters(server, move |id| shared.filters(id));
        plan.proxy.set(proxy.clone()).expect("set once");
        Self { proxy, plan }
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.proxy.address()
    }

    /// The proxy of the bytes, to close and refuse connections.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Drops the next request of this kind, or its reply, together with the connection. New connections are refused
    /// until [`Proxy::open`].
    pub fn drop_next(&self, op: OpCode, part: DroppedPart) {
        self.plan.state.lock().to_drop.push((op, part));
    }

    /// Waits until `count` messages are dropped.
    pub fn wait_until_dropped(&self, count: usize) {
        self.plan.changed.wait_while(&mut self.plan.state.lock(), |state| state.dropped < count);
    }

    /// From now on discards what clients send, while clients still receive what servers send.
    pub fn discard_requests(&self) {
        self.proxy.requests().set(LinkState::Discarding);
    }

    /// Sessions with an open connection.
    pub fn sessions(&self) -> Vec<SessionId> {
        let (open, state) = (self.proxy.connections(), self.plan.state.lock());
        open.iter().filter_map(|id| Some(state.handshakes.get(id)?.session)).collect()
    }

    /// The reply to the last handshake of a session.
    pub fn handshake_of(&self, session: SessionId) -> Option<ConnectResponse> {
        self.plan.state.lock().handshakes.values().rfind(|response| response.session == session).copied()
    }

    /// Closes the connection of a session; returns whether there was one.
    pub fn close_session_connection(&self, session: SessionId) -> bool {
        let ids: Vec<u64> = {
            let state = self.plan.state.lock();
            let of_session = state.handshakes.iter().filter(|(_, response)| response.session == session);
            of_session.map(|(id, _)| *id).collect()
        };
        self.proxy.close(|id| ids.contains(&id))
    }
}
