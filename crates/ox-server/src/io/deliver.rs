//! What the replica has sent, on its way into the connections' buffers.

use super::turn::IoThread;
use crate::limits::UNSENT_BYTES_MAX;
use crate::mailbox::Mail;
use ox_proto::acl::perms;
use ox_tree::outbox::{Note, Outbox};
use std::sync::atomic::Ordering;

impl IoThread {
    /// Moves everything the replica has sent into the connections' buffers.
    pub(super) fn deliver(&mut self) {
        let Some(Mail { outboxes, accepted }) = self.shared.mailboxes[usize::from(self.number)].take() else { return };
        for (stream, address) in accepted {
            self.add(stream, address);
        }
        for outbox in &outboxes {
            self.deliver_outbox(outbox);
        }
    }

    fn deliver_outbox(&mut self, outbox: &Outbox) {
        let now = self.shared.clock.now();
        let mut sent = 0;
        for part in &outbox.parts {
            let slot = part.conn.slot();
            let Some(conn) = self.conns.get_mut(slot).and_then(Option::as_mut) else { continue };
            if conn.core.id() != part.conn || conn.closing {
                continue;
            }
            let bytes = &outbox.bytes[part.span.clone()];
            self.pool.lend(&mut conn.output);
            let mut keeps_up = true;
            let frames = match &part.note {
                Note::Event(Some(readers)) if !conn.core.ids().may(readers, perms::READ) => continue,
                Note::Event(_) => {
                    keeps_up = conn.put_event(bytes);
                    1
                }
                Note::Answers(count) => {
                    conn.core.on_answers(*count, bytes.len());
                    self.shared.stats.latency.note(now.mono_ms - conn.waiting_since_ms, i64::from(*count));
                    conn.figures.latency.note(now.mono_ms - conn.waiting_since_ms, i64::from(*count));
                    conn.waiting_since_ms = now.mono_ms;
                    if !conn.large.is_empty() {
                        self.shared.totals.free_large_room(conn.done_large());
                    }
                    keeps_up = conn.unsent() <= UNSENT_BYTES_MAX;
                    conn.output.extend_from_slice(bytes);
                    u64::from(*count)
                }
                Note::Attached(session, timeout_ms) => {
                    conn.core.on_attached(*session, *timeout_ms);
                    conn.figures.session.store(session.0, Ordering::Relaxed);
                    conn.figures.timeout_ms.store(*timeout_ms, Ordering::Relaxed);
                    conn.output.extend_from_slice(bytes);
                    1
                }
                Note::Close => {
                    conn.core.start_closing();
                    conn.closing = true;
                    conn.output.extend_from_slice(bytes);
                    u64::from(!bytes.is_empty())
                }
            };
            conn.figures.sent.fetch_add(frames, Ordering::Relaxed);
            sent += frames;
            if !keeps_up {
                conn.closing = true;
                conn.drop_output();
                self.complain(slot, now, "it does not read what it is sent");
            }
            self.list(slot);
        }
        self.shared.stats.sent.fetch_add(sent, Ordering::Relaxed);
    }
}
