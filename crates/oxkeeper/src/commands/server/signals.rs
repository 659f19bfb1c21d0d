//! What signals do to a server. SIGTERM and SIGINT stop it; no other signal that an operator or a terminal may send
//! ends it.

use super::restart_on_full_disk::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::sync::Arc;

/// Starts the thread that handles signals.
pub(super) fn handle(stop: Arc<Stop>) -> io::Result<Handle> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2])?;
    let handle = signals.handle();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            on_signal(signal, &stop);
        }
    })?;
    Ok(handle)
}

fn on_signal(signal: i32, stop: &Stop) {
    let name = signal_hook::low_level::signal_name(signal).unwrap_or("signal");
    match signal {
        SIGHUP => tracing::info!(
            signal = name,
            "signal ignored: the configuration is read at the start only, and the log is written to stderr; restart \
             the server to change either"
        ),
        // Java writes a thread dump on SIGQUIT. The replica may hang, and the next signal must still be handled.
        SIGUSR1 | SIGQUIT => {
            tracing::info!(signal = name, "logging the state of the server");
            let server = stop.running();
            let spawned = std::thread::Builder::new().name("state".to_owned()).spawn(move || match server {
                Some(server) => server.log_state(),
                None => tracing::info!("state: no server is running; waiting for disk space, or starting"),
            });
            if let Err(error) = spawned {
                tracing::error!(%error, "cannot log the state");
            }
        }
        SIGUSR2 => tracing::debug!(signal = name, "signal ignored"),
        _ => {
            tracing::info!(signal = name, "stopping");
            stop.stop();
        }
    }
}
