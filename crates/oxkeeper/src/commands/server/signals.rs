//! What signals do to a server. SIGTERM and SIGINT stop it, SIGHUP reads the configuration again; no other signal that
//! an operator or a terminal may send ends it.

use super::reload::Reload;
use super::restart_on_full_disk::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::sync::Arc;

/// Starts the thread that handles signals.
pub(super) fn handle(stop: Arc<Stop>, reload: Arc<Reload>) -> io::Result<Handle> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2])?;
    let handle = signals.handle();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            on_signal(signal, &stop, &reload);
        }
    })?;
    Ok(handle)
}

fn on_signal(signal: i32, stop: &Stop, reload: &Arc<Reload>) {
    let name = signal_hook::low_level::signal_name(signal).unwrap_or("signal");
    match signal {
        SIGHUP => {
            reload.reopen_logs();
            tracing::info!(signal = name, "log files opened again; reloading the configuration");
            // Host names may take long to resolve, and the next signal must still be handled.
            let reload = Arc::clone(reload);
            in_thread("reload", move || _ = reload.run());
        }
        // Java writes a thread dump on SIGQUIT. The replica may hang, and the next signal must still be handled.
        SIGUSR1 | SIGQUIT => {
            tracing::warn!(signal = name, "logging the state of the server");
            let server = stop.running();
            in_thread("state", move || match server {
                Some(server) => server.log_state(),
                None => tracing::warn!("state: no server is running; waiting for disk space, or starting"),
            });
        }
        SIGUSR2 => tracing::debug!(signal = name, "signal ignored"),
        _ => {
            tracing::info!(signal = name, "stopping");
            stop.stop();
        }
    }
}

fn in_thread(name: &str, run: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(run) {
        tracing::error!(%error, name, "cannot start a thread");
    }
}
