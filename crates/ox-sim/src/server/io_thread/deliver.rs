//! Moves output of the replica into the send buffers of its connections.

use super::IoThread;
use crate::env::Env;
use ox_proto::acl::perms;
use ox_replica::outbox::{Outbox, PartKind};

/// A connection with more unsent bytes is closed.
const UNSENT_BYTES_MAX: usize = 64 << 20;

impl IoThread {
    pub(super) fn deliver(&mut self, env: &mut Env) {
        while let Some(outbox) = self.mailbox.pop_front() {
            self.deliver_outbox(env, &outbox);
            env.trace.bytes(&outbox.bytes);
        }
    }

    fn deliver_outbox(&mut self, env: &mut Env, outbox: &Outbox) {
        for part in &outbox.parts {
            let slot = part.conn.slot();
            let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else { continue };
            if connection.core.id() != part.conn || connection.closing {
                continue;
            }
            let bytes = &outbox.bytes[part.span.clone()];
            let mut keeps_up = true;
            match &part.kind {
                PartKind::Event(Some(readers)) if !connection.core.ids().may(readers, perms::READ) => {
                    env.coverage.hidden_events += 1;
                    continue;
                }
                PartKind::Event(_) => keeps_up = connection.put_event(bytes, env.plan.unsent_events_bytes),
                PartKind::Replies(count) => {
                    connection.core.on_replies(*count, bytes.len());
                    keeps_up = connection.output.len() <= UNSENT_BYTES_MAX;
                    connection.output.extend_from_slice(bytes);
                }
                PartKind::Attached(session, timeout_ms) => {
                    connection.core.on_attached(*session, *timeout_ms);
                    connection.output.extend_from_slice(bytes);
                }
                PartKind::Close => {
                    connection.core.start_closing();
                    connection.closing = true;
                    connection.output.extend_from_slice(bytes);
                }
            }
            if !keeps_up {
                env.coverage.aborted += 1;
                connection.abort();
            }
            self.list(slot);
        }
    }
}
