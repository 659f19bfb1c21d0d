//! The queue of the command thread.

use super::FourLetterCommand;
use crate::io::connection_table::ClientPort;
use crate::limits::COMMANDS_QUEUED_MAX;
use ox_replica::ConnId;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;

/// A task of the command thread.
pub(super) enum Task {
    /// The port is the one to which the command was sent.
    Execute(ConnId, FourLetterCommand, ClientPort),
    Continue(ConnId),
    Cancel(ConnId),
}

#[derive(Default)]
struct Inner {
    tasks: VecDeque<Task>,
    commands: usize,
}

/// Bounded: commands by a limit, and each connection with a command has one other task queued at a time.
#[derive(Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    arrived: Condvar,
}

impl Queue {
    /// False when too many commands are queued already.
    pub(super) fn put(&self, task: Task) -> bool {
        let mut inner = self.inner.lock();
        if matches!(task, Task::Execute(..)) {
            if COMMANDS_QUEUED_MAX <= inner.commands {
                return false;
            }
            inner.commands += 1;
        }
        inner.tasks.push_back(task);
        drop(inner);
        self.arrived.notify_one();
        true
    }

    /// The next task; `None` if none arrives in time.
    pub(super) fn take(&self, timeout: Duration) -> Option<Task> {
        let mut inner = self.inner.lock();
        if inner.tasks.is_empty() {
            self.arrived.wait_for(&mut inner, timeout);
        }
        let task = inner.tasks.pop_front()?;
        inner.commands -= usize::from(matches!(task, Task::Execute(..)));
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::four_letter::COMMANDS;

    #[test]
    fn full_queue_refuses_commands_only() {
        let (queue, conn) = (Queue::default(), ConnId::new(0, 1, 1));
        let execute = || Task::Execute(conn, FourLetterCommand { command: &COMMANDS[0], mask: 0 }, ClientPort::Client);
        assert!((0..COMMANDS_QUEUED_MAX).all(|_| queue.put(execute())));
        assert!(!queue.put(execute()));
        assert!(queue.put(Task::Continue(conn)) && queue.put(Task::Cancel(conn)));
        assert!(matches!(queue.take(Duration::ZERO), Some(Task::Execute(..))));
        assert!(queue.put(execute()));
    }
}
