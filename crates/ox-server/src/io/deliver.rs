//! What the replica has sent, on its way into the connections' buffers.

use super::turn::IoThread;
use crate::limits::{UNSENT_BYTES_MAX, UNSENT_BYTES_PAUSE, UNSENT_EVENT_BYTES_MAX};
use crate::mailbox::{Mail, Text, memory_of};
use ox_proto::acl::perms;
use ox_replica::{Now, Pressure, SMALL_BYTES};
use ox_tree::outbox::{Outbox, PartKind};

impl IoThread {
    /// Moves everything the replica has sent into the connections' buffers.
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
            self.shared.totals.delivered(memory_of(&outbox));
        }
        for text in texts {
            self.deliver_text(&text);
        }
    }

    /// A piece of the answer to a four-letter word.
    fn deliver_text(&mut self, Text { conn: id, text, is_last }: &Text) {
        let Some(conn) = self.conns.get_mut(id.slot()).and_then(Option::as_mut) else { return };
        if conn.core.id() == *id && !conn.closing {
            conn.output.extend_from_slice(text.as_bytes());
            (conn.closing, conn.wants_more) = (*is_last, !is_last);
            self.figures.on_text(conn, text);
            self.list(id.slot());
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
                    self.figures.on_event(conn, bytes);
                    keeps_up = conn.unsent_events() <= SMALL_BYTES || self.may_wait(slot, now);
                }
                PartKind::Replies(count) => {
                    conn.core.on_replies(*count, bytes.len());
                    self.figures.on_answers(conn, bytes, *count, now.mono_ms);
                    if !conn.large.is_empty() {
                        self.shared.totals.free_large_room(conn.done_large());
                    }
                    keeps_up = conn.unsent() <= UNSENT_BYTES_MAX.min(self.shared.totals.budget().unsent / 2);
                    conn.output.extend_from_slice(bytes);
                }
                PartKind::Attached(session, timeout_ms) => {
                    conn.core.on_attached(*session, *timeout_ms);
                    self.figures.on_attached(conn, *session, *timeout_ms, now.mono_ms);
                    conn.output.extend_from_slice(bytes);
                }
                PartKind::Close => {
                    self.figures.on_last(conn, bytes, now.mono_ms);
                    conn.core.start_closing();
                    conn.closing = true;
                    conn.output.extend_from_slice(bytes);
                }
            }
            if !keeps_up {
                self.give_up(slot, now);
            }
            self.list(slot);
        }
    }

    /// Whether a connection may hold the events it has, or can send enough of them now.
    fn may_wait(&mut self, slot: usize, now: Now) -> bool {
        let totals = &self.shared.totals;
        let bytes_max = match totals.pressure(self.delivered_bytes) {
            Pressure::Low => UNSENT_EVENT_BYTES_MAX.min(totals.budget().unsent / 4),
            Pressure::High => UNSENT_BYTES_PAUSE,
            Pressure::Full => SMALL_BYTES,
        };
        let Some(conn) = self.conns[slot].as_mut().filter(|conn| bytes_max < conn.unsent_events()) else { return true };
        conn.flush_again(now.mono_ms, &mut self.pool).is_ok() && conn.unsent_events() <= bytes_max
    }

    /// Closes a connection without sending what it has not taken.
    fn give_up(&mut self, slot: usize, now: Now) {
        self.complain(slot, now, "it does not read what it is sent");
        if let Some(conn) = self.conns[slot].as_mut() {
            conn.closing = true;
            conn.drop_output();
        }
    }
}
