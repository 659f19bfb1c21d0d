//! Apache's line layout, for log shippers and searches that parse it:
//! `2026-11-15 06:29:59,413 [myid:2] - INFO  [main:QuorumPeerMain@152] - Starting quorum peer, myid=2`.

use jiff::Zoned;
use std::fmt;
use std::sync::OnceLock;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The id of a member of an ensemble; the lines of other servers have none.
static MY_ID: OnceLock<i64> = OnceLock::new();

/// Sets the id that lines show from now on.
pub(crate) fn set_my_id(id: i64) {
    let _ = MY_ID.set(id); // a server that restarts after a full disk has the same
}

pub(super) struct ZookeeperLayout;

impl<S, N> FormatEvent<S, N> for ZookeeperLayout
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let time = Zoned::now().strftime("%Y-%m-%d %H:%M:%S,%3f").to_string();
        let my_id = MY_ID.get().map(i64::to_string).unwrap_or_default();
        let thread = std::thread::current();
        let component = metadata.target().rsplit("::").next().unwrap_or_default();
        let (thread, level) = (thread.name().unwrap_or("-"), metadata.level().as_str());
        let line = metadata.line().unwrap_or(0);
        write!(writer, "{time} [myid:{my_id}] - {level:<5} [{thread}:{component}@{line}] - ")?;
        let mut text = Text::default();
        event.record(&mut text);
        writeln!(writer, "{}{}", text.message, text.fields)
    }
}

/// The message of an event, and its other fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.fields += &format!(" {}={value:?}", field.name());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.fields += &format!(" {}={value:?}", field.name());
        }
    }
}
