//! Cases for the crate zookeeper-client on one server: `suite server proxy control [part of a case name]`.

mod nodes;
mod sessions;
mod suite;
mod watches;

use std::process::ExitCode;

use suite::{Fixture, Suite};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, proxy, control, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: suite server proxy control [part of a case name]");
        return ExitCode::from(2);
    };
    let fixture = Fixture { server: server.clone(), proxy: proxy.clone(), control: control.clone() };
    let filter = rest.first().cloned().unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("build the runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut suite = Suite::new(fixture, filter);
        nodes::run(&mut suite).await;
        watches::run(&mut suite).await;
        sessions::run(&mut suite).await;
        suite.finish()
    })
}
