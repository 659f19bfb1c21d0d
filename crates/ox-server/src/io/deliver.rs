//! Delivery of replies and events from the replica into the connections' buffers. A client receives no event about a
//! node that it may not read.

use super::io_thread::IoThread;
use crate::limits::{UNSENT_BYTES_MAX, UNSENT_BYTES_PAUSE, UNSENT_EVENT_BYTES_MAX};
use crate::mailbox::{Mail, Text, memory_of};
use ox_proto::acl::perms;
use ox_replica::outbox::{Outbox, PartKind};
use ox_replica::{Now, Pressure, SMALL_BYTES};

impl IoThread {
    /// Moves everything in this thread's mailbox into the connections' buffers.
    pub(super) fn deliver(&mut self) {
        let Some(mail) = self.shared.mailboxes[usize::from(self.number)].take() else { return };
        let Mail { outboxes, accepted, texts, relisten } = mail;
        if let Some(address) = relisten {
            self.relisten(address);
        }
        for (stream, address) in accepted {
            self.add(stream, address);
        }
        for outbox in outboxes {
            self.deliver_outbox(&outbox);
            self.delivered_mail += memory_of(&outbox);
        }
        for text in texts {
            self.deliver_text(&text);
        }
    }

    /// Delivers a chunk of the reply to a four-letter command.
    fn deliver_text(&mut self, Text { conn: id, text, is_last }: &Text) {
        let Some(conn) = self.conns.get_mut(id.slot()).and_then(Option::as_mut) else { return };
        if conn.core.id() == *id && !conn.closing {
            conn.output.extend_from_slice(text.as_bytes());
            (conn.closing, conn.wants_more) = (*is_last, !is_last);
            self.stats.on_text(conn, text);
            self.mark_ready(id.slot());
        }
    }

    fn deliver_outbox(&mut self, outbox: &Outbox) {
        let now = self.shared.clock.now();
        for part in &outbox.parts {
            let slot = part.conn.slot();
            let Some(conn) = self.conns.get_mut(slot).and_then(Option::as_mut) else { continue };
            if conn.core.id() != part.conn || conn.closing {
                continue;
            }
            let bytes = &outbox.bytes[part.span.clone()];
            self.pool.lend(&mut conn.output);
            let mut keeps_up = true;
            match &part.kind {
                PartKind::Event(Some(readers)) if !conn.core.ids().may(readers, perms::READ) => continue,
                PartKind::Event(_) => {
                    conn.put_event(bytes);
                    self.delivered_bytes += bytes.len();
                    self.stats.on_event(conn, bytes);
                    keeps_up = conn.unsent_events() <= SMALL_BYTES || self.may_buffer(slot, now);
                }
                PartKind::Replies(count) => {
                    conn.core.on_replies(*count, bytes.len());
                    self.stats.on_replies(conn, bytes, *count, now.mono_ms);
                    if !conn.large.is_empty() {
                        self.shared.global_limits.release_large(conn.done_large());
                    }
                    keeps_up = conn.unsent() <= UNSENT_BYTES_MAX.min(self.shared.global_limits.budget().unsent / 2);
                    conn.output.extend_from_slice(bytes);
                }
                PartKind::Attached(session, timeout_ms) => {
                    conn.core.on_attached(*session, *timeout_ms);
                    self.stats.on_attached(conn, *session, *timeout_ms, now.mono_ms);
                    conn.output.extend_from_slice(bytes);
                }
                PartKind::Close => {
                    self.stats.on_final_reply(conn, bytes, now.mono_ms);
                    conn.core.start_closing();
                    conn.closing = true;
                    conn.output.extend_from_slice(bytes);
                }
            }
            if !keeps_up {
                self.close_slow_reader(slot, now);
            }
            self.mark_ready(slot);
        }
    }

    /// Whether a connection may hold its unsent events, or can send enough of them now.
    fn may_buffer(&mut self, slot: usize, now: Now) -> bool {
        let global_limits = &self.shared.global_limits;
        let bytes_max = match global_limits.pressure(self.delivered_bytes) {
            Pressure::Low => UNSENT_EVENT_BYTES_MAX.min(global_limits.budget().unsent / 4),
            Pressure::High => UNSENT_BYTES_PAUSE,
            Pressure::Full => SMALL_BYTES,
        };
        let Some(conn) = self.conns[slot].as_mut().filter(|conn| bytes_max < conn.unsent_events()) else { return true };
        conn.flush_again(now.mono_ms, &mut self.pool).is_ok() && conn.unsent_events() <= bytes_max
    }

    /// Closes a connection without sending its unsent output: events are never dropped in part.
    fn close_slow_reader(&mut self, slot: usize, now: Now) {
        self.log_close(slot, now, "the client does not read");
        if let Some(conn) = self.conns[slot].as_mut() {
            conn.closing = true;
            conn.drop_output();
        }
    }
}
