//! Commands from the replica thread to the peers thread.

use crate::links::Packets;
use ox_proto::ServerId;
use ox_proto::ensemble::Ensemble;
use ox_store::LogDiff;
use ox_tree::FrozenView;
use ox_zab::{LinkId, Message, VoteNotification};
use std::sync::Arc;

/// A command to the peers thread.
pub enum PeerCommand {
    /// Send a notification to a server.
    Notify(ServerId, VoteNotification),
    /// Open a link to a leader.
    Dial(ServerId),
    /// Send packets on a link.
    Send(LinkId, Packets),
    /// Send SNAP and a snapshot.
    Snapshot(LinkId, FrozenView),
    /// Send transactions from the on-disk log, with their commits.
    LogDiff(LinkId, Box<LogDiff>),
    /// Close a link, even if data is unsent.
    Close(LinkId),
    /// Packets of this many bytes are processed: more may be read.
    Consumed(LinkId, usize),
    /// Open the quorum port, or close the ports for learners.
    Listen(bool),
    /// Open the observer master port.
    ServeObservers,
    /// The committed configuration, and the proposed one that may follow it.
    Config(Arc<Ensemble>, Option<Arc<Ensemble>>),
}

/// Commands being collected. Packets for a link go together, unless another command is in between.
pub(super) struct CommandBatch {
    pub(super) commands: Vec<PeerCommand>,
    /// Index of the `Send` command that takes further packets of a link.
    open: Vec<(LinkId, usize)>,
    /// A `Send` command with this many bytes takes no further packets.
    chunk_bytes: usize,
}

impl CommandBatch {
    pub(super) fn new(chunk_bytes: usize) -> Self {
        Self { commands: Vec::new(), open: Vec::new(), chunk_bytes }
    }

    pub(super) fn send(&mut self, link: LinkId, message: &Message) {
        let open = self.open.iter().find(|(of, _)| *of == link);
        let at = open.map_or(self.commands.len(), |(_, at)| *at);
        let is_full =
            |command: &PeerCommand| matches!(command, PeerCommand::Send(_, of) if self.chunk_bytes <= of.bytes.len());
        let at = if self.commands.get(at).is_some_and(is_full) { self.commands.len() } else { at };
        if at == self.commands.len() {
            self.open.retain(|(of, _)| *of != link);
            self.open.push((link, at));
            self.commands.push(PeerCommand::Send(link, Packets::default()));
        }
        if let PeerCommand::Send(_, packets) = &mut self.commands[at] {
            packets.put(message);
        }
    }

    pub(super) fn push(&mut self, command: PeerCommand) {
        self.open.clear();
        self.commands.push(command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_proto::Zxid;

    const ONE: LinkId = LinkId(1);
    const OTHER: LinkId = LinkId(2);

    fn ping(zxid: i64) -> Message {
        Message::Ping(Zxid(zxid))
    }

    /// The link and the number of packets of each command; other commands have no number.
    fn shape(batch: &CommandBatch) -> Vec<(LinkId, Option<u64>)> {
        let shape = |command: &PeerCommand| {
            if let PeerCommand::Send(link, packets) = command {
                return (*link, Some(packets.count));
            }
            let PeerCommand::Close(link) = command else { unreachable!("not used here") };
            (*link, None)
        };
        batch.commands.iter().map(shape).collect()
    }

    #[test]
    fn packets_of_a_link_go_together_until_another_command_or_a_full_chunk() {
        let mut batch = CommandBatch::new(1 << 20);
        for link in [ONE, OTHER, ONE] {
            batch.send(link, &ping(1));
        }
        assert_eq!(shape(&batch), [(ONE, Some(2)), (OTHER, Some(1))]);
        batch.push(PeerCommand::Close(OTHER));
        batch.send(ONE, &ping(2));
        assert_eq!(shape(&batch)[2..], [(OTHER, None), (ONE, Some(1))], "not before the command");
        let mut batch = CommandBatch::new(1);
        (0..2).for_each(|zxid| batch.send(ONE, &ping(zxid)));
        assert_eq!(shape(&batch), [(ONE, Some(1)), (ONE, Some(1))], "the first chunk is full");
    }
}
