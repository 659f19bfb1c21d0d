//! Watch events, and where they go.

use super::WatcherId;
use crate::acl_table::AclList;
use crate::metric_summary::MetricSummary;
use ox_proto::Zxid;
use ox_proto::event::EventType;
use std::convert::Infallible;
use std::sync::Arc;

/// An event that is not encoded yet.
#[derive(Clone, Debug)]
pub struct FiredEvent<'a> {
    pub zxid: Zxid,
    pub kind: EventType,
    /// As clients see it.
    pub path: &'a str,
    /// The list that readers must pass; `None` if every client may receive the event.
    pub readers: Option<Arc<AclList>>,
}

/// Receives the events of applied transactions, in the order in which clients must receive them.
pub trait EventSink {
    /// Takes one event for all of `watchers`, which are sorted and not empty.
    fn event(&mut self, watchers: &[WatcherId], event: &FiredEvent<'_>);
}

/// The sink of a replay, which fires no watches.
impl EventSink for Infallible {
    fn event(&mut self, _: &[WatcherId], _: &FiredEvent<'_>) {
        match *self {}
    }
}

/// How many watchers received an event, by type of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FiredCounts {
    pub created: MetricSummary,
    pub deleted: MetricSummary,
    pub changed: MetricSummary,
    pub children: MetricSummary,
}

impl FiredCounts {
    pub(crate) fn record(&mut self, kind: EventType, watchers: usize) {
        let summary = match kind {
            EventType::NodeCreated => &mut self.created,
            EventType::NodeDeleted => &mut self.deleted,
            EventType::NodeDataChanged => &mut self.changed,
            EventType::NodeChildrenChanged => &mut self.children,
        };
        summary.record(i64::try_from(watchers).unwrap_or(i64::MAX));
    }
}
