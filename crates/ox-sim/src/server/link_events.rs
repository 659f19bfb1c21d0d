//! What the replica thread of a member does with events of its links: packets wait until the replica takes them.

use super::ExpectedDisk;
use super::member::short;
use super::peers_thread::LinkCommand;
use super::process::Process;
use crate::env::Env;
use crate::event::ProcessId;
use ox_driver::links::LinkEvent;
use ox_replica::ReplicaInput;
use ox_zab::{Input, LinkId, Message};

impl Process {
    pub(super) fn take_link_event(
        &mut self,
        env: &mut Env,
        expected: &mut ExpectedDisk,
        pid: ProcessId,
        event: LinkEvent,
    ) {
        match event {
            LinkEvent::Closed(link) => {
                self.take_packets(env, expected, pid); // packets received before the end count
                self.forget_link(link);
                self.pass(env, ReplicaInput::LinkClosed(link));
            }
            LinkEvent::Progress(link, traffic) => self.pass(env, ReplicaInput::Peer(Input::Traffic(link, traffic))),
            LinkEvent::Sent(link, bytes) => self.pass(env, ReplicaInput::Peer(Input::Sent(link, bytes))),
            LinkEvent::Messages(link, messages, bytes) => {
                self.member.held.add(link, messages, bytes);
                self.take_packets(env, expected, pid);
            }
        }
    }

    pub(super) fn forget_link(&mut self, link: LinkId) {
        self.member.held.forget(link);
        self.member.found.remove(&link);
    }

    /// Passes packets to the replica for as long as it takes them.
    pub(super) fn take_packets(&mut self, env: &mut Env, expected: &mut ExpectedDisk, pid: ProcessId) {
        for link in self.member.held.links() {
            while env.failure.is_none()
                && self.replica.takes_packets(link)
                && let Some(message) = self.member.held.next(link)
            {
                if let Message::LeaderInfo(epoch) = message {
                    self.member.leader_epochs.insert(link, epoch);
                }
                if !matches!(message, Message::Ping(_) | Message::Pong(..)) {
                    env.note(format_args!("peer {}: receives {}", pid.server, short(&message)));
                }
                self.pass(env, ReplicaInput::Packet(link, message));
                self.maybe_flush(env, expected, pid);
            }
        }
    }

    /// Reports what the replica has taken, so that more is read.
    pub(super) fn report_consumed(&mut self, env: &mut Env, pid: ProcessId, has_effects: bool) {
        let threshold = (env.plan.held_bytes / 16).max(1);
        if has_effects || threshold <= self.member.held.unreported_bytes() {
            for (link, bytes) in self.member.held.take_consumed() {
                self.command(env, pid, LinkCommand::Consumed(link, bytes));
            }
        }
    }
}
