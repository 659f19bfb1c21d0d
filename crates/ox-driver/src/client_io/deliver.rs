//! Delivery of replies and events from the replica into the connections' buffers. A client receives no event about a
//! node that it may not read.

use super::ClientIo;
use super::host::{ClientHost, ClientNote, CloseReason, CommandText, Mail, memory_of};
use super::limits::UNSENT_BYTES_MAX;
use ox_proto::acl::perms;
use ox_replica::outbox::{Outbox, PartKind};
use ox_replica::{Pressure, SMALL_BYTES};
use ox_tree::State;
use ox_tree::auth::SchemeSettings;

impl<S, R> ClientIo<S, R> {
    /// Moves everything that other threads have posted into the connections' buffers.
    pub(super) fn deliver<H: ClientHost<Socket = S, Record = R>>(&mut self, host: &mut H, state: &State) {
        let Some(Mail { outboxes, texts }) = host.take_mail() else { return };
        for outbox in outboxes {
            self.deliver_outbox(&outbox, host, &state.options().schemes);
            self.delivered_mail += memory_of(&outbox);
        }
        for text in texts {
            self.deliver_text(&text, host);
        }
    }

    /// Delivers a chunk of the reply to a four-letter command.
    fn deliver_text<H>(&mut self, CommandText { conn: id, text, is_last }: &CommandText, host: &mut H)
    where
        H: ClientHost<Socket = S, Record = R>,
    {
        let Some(conn) = self.conns.get_mut(id.slot()).and_then(Option::as_mut) else { return };
        if conn.core.id() == *id && !conn.closing {
            conn.output.extend_from_slice(text.as_bytes());
            (conn.closing, conn.wants_more) = (*is_last, !is_last);
            host.on_text(&conn.record, text);
            self.mark_ready(id.slot());
        }
    }

    fn deliver_outbox<H>(&mut self, outbox: &Outbox, host: &mut H, schemes: &SchemeSettings)
    where
        H: ClientHost<Socket = S, Record = R>,
    {
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
                PartKind::Event(Some(readers)) if !conn.core.ids().may(schemes, readers, perms::READ) => {
                    host.note(ClientNote::HiddenEvent);
                    continue;
                }
                PartKind::Event(_) => {
                    conn.put_event(bytes);
                    self.delivered_bytes += bytes.len();
                    host.on_event(&conn.record, bytes);
                    keeps_up = self.may_buffer(slot, host);
                }
                PartKind::Replies(count) => {
                    conn.core.on_replies(*count, bytes.len());
                    host.on_replies(&conn.core, &mut conn.record, bytes, *count);
                    if !conn.large.is_empty() {
                        host.limits().release_large(conn.done_large());
                    }
                    keeps_up = conn.unsent() <= UNSENT_BYTES_MAX.min(host.limits().budget().unsent / 2);
                    conn.output.extend_from_slice(bytes);
                }
                PartKind::Attached(session, timeout_ms) => {
                    conn.core.on_attached(*session, *timeout_ms);
                    host.on_attached(&mut conn.record, *session, *timeout_ms);
                    conn.output.extend_from_slice(bytes);
                }
                PartKind::Close => {
                    host.on_final_reply(&mut conn.record, bytes);
                    conn.core.start_closing();
                    conn.closing = true;
                    conn.output.extend_from_slice(bytes);
                }
            }
            if !keeps_up {
                self.close_slow_reader(slot, host);
            }
            self.mark_ready(slot);
        }
    }

    /// Whether a connection may hold its unsent events, or can send enough of them now.
    fn may_buffer<H: ClientHost<Socket = S, Record = R>>(&mut self, slot: usize, host: &mut H) -> bool {
        let (limits, sizes) = (host.limits(), &self.settings.sizes);
        let Some(conn) = self.conns[slot].as_mut() else { return true };
        if conn.unsent_events() <= SMALL_BYTES.min(sizes.unsent_event_bytes_max) {
            return true;
        }
        let bytes_max = match limits.pressure(self.delivered_bytes) {
            Pressure::Low => sizes.unsent_event_bytes_max.min(limits.budget().unsent / 4),
            Pressure::High => sizes.unsent_pause_bytes,
            Pressure::Full => SMALL_BYTES,
        };
        if conn.unsent_events() <= bytes_max {
            return true;
        }
        conn.flush_again(self.now.mono_ms, &mut self.pool, host).is_ok() && conn.unsent_events() <= bytes_max
    }

    /// Closes a connection without sending its unsent output: events are never dropped in part.
    fn close_slow_reader<H: ClientHost<Socket = S, Record = R>>(&mut self, slot: usize, host: &mut H) {
        if let Some(conn) = self.conns[slot].as_mut() {
            host.on_close(&conn.core, &conn.record, CloseReason::Stuck, self.now);
            conn.closing = true;
            conn.drop_output();
        }
    }
}
