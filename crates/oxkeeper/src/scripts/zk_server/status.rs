//! `zkServer.sh status`: finds the client port in the configuration, and asks the server for its mode.

use crate::four_letter::{self, Reply};
use crate::scripts::file_settings::FileSettings;
use crate::scripts::print;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Time for the reply.
const REPLY_LIMIT: Duration = Duration::from_secs(5);

/// The client part of a server's line.
fn client_part<'a>(settings: &'a FileSettings, id: &str) -> Option<&'a str> {
    settings.get(&format!("server.{id}"))?.rsplit_once(';').map(|(_, part)| part)
}

/// Where clients connect to.
#[derive(Debug, PartialEq, Eq)]
struct ClientPort {
    port: String,
    address: String,
    is_secure: bool,
}

impl ClientPort {
    fn plain(port: &str, address: Option<&str>) -> Self {
        Self { port: port.to_owned(), address: address.unwrap_or("localhost").to_owned(), is_secure: false }
    }

    /// Prints where it was searched, as Apache does.
    fn find(settings: &FileSettings) -> Option<Self> {
        let is_number = |text: &&str| text.parse::<u16>().is_ok();
        if let Some(port) = settings.get("clientPort").filter(is_number) {
            return Some(Self::plain(port, settings.get("clientPortAddress")));
        }
        if let Some(found) = Self::of_member(settings) {
            return Some(found);
        }
        print(format_args!("Client port not found. Looking for secureClientPort in the static config.\n"));
        let port = settings.get("secureClientPort")?;
        Some(Self { is_secure: true, ..Self::plain(port, settings.get("secureClientPortAddress")) })
    }

    /// The port in the `server.N` line of this server.
    fn of_member(settings: &FileSettings) -> Option<Self> {
        let id = std::fs::read_to_string(Path::new(settings.get("dataDir").unwrap_or_default()).join("myid"));
        let id = id.ok().map(|id| id.trim().to_owned()).filter(|id| id.parse::<u64>().is_ok());
        let Some(id) = id else {
            print(format_args!(
                "myid could not be determined, will not able to locate clientPort in the server configs.\n"
            ));
            return None;
        };
        let mut part = client_part(settings, &id).map(str::to_owned);
        if part.is_none() {
            print(format_args!("Client port not found in static config file. Looking in dynamic config file.\n"));
            let file = settings.get("dynamicConfigFile").map(|file| FileSettings::read(Path::new(file)));
            part = file.and_then(Result::ok).and_then(|file| client_part(&file, &id).map(str::to_owned));
        }
        let Some(part) = part else {
            print(format_args!("Client port not found in the server configs\n"));
            return None;
        };
        Some(match part.rsplit_once(':') {
            Some((address, port)) => Self::plain(port, Some(address.trim_matches(['[', ']']))),
            None => Self::plain(&part, settings.get("clientPortAddress")),
        })
    }

    /// The address to connect to. A wildcard is an address of this machine.
    fn server(&self) -> String {
        match self.address.as_str() {
            "0.0.0.0" => format!("127.0.0.1:{}", self.port),
            "::" | "0:0:0:0:0:0:0:0" => format!("[::1]:{}", self.port),
            address if address.contains(':') => format!("[{address}]:{}", self.port),
            address => format!("{address}:{}", self.port),
        }
    }
}

/// Prints the mode of a server.
pub(super) fn run(config: &Path) -> ExitCode {
    let found = FileSettings::read(config).ok().and_then(|settings| ClientPort::find(&settings));
    let Some(port) = found else {
        print(format_args!("Unable to find either secure or unsecure client port in any configs. Terminating.\n"));
        return ExitCode::FAILURE;
    };
    let ClientPort { port: number, address, is_secure } = &port;
    print(format_args!("Client port found: {number}. Client address: {address}. Client SSL: {is_secure}.\n"));
    let mode = ask(&port).and_then(|reply| {
        let mode = reply.lines().find(|line| line.contains("Mode")).map(str::to_owned);
        mode.ok_or_else(|| reply.trim().to_owned())
    });
    match mode {
        Ok(mode) => {
            print(format_args!("{mode}\n"));
            ExitCode::SUCCESS
        }
        Err(cause) => {
            if *is_secure {
                print(format_args!("{}", secure_note(number)));
            }
            print(format_args!("Error contacting service. It is probably not running.\n"));
            crate::say(format_args!("{}: {cause}", port.server()));
            ExitCode::FAILURE
        }
    }
}

fn ask(port: &ClientPort) -> Result<String, String> {
    let tls = match port.is_secure {
        true => four_letter::tls(&four_letter::client_properties()).map_err(|error| crate::all_causes(&error))?,
        false => None,
    };
    match four_letter::ask(&port.server(), "srvr", tls.as_ref(), REPLY_LIMIT) {
        Ok(Reply::Text(text) | Reply::NotAllowed(text)) => Ok(text),
        Err(error) => Err(error.to_string()),
    }
}

fn secure_note(port: &str) -> String {
    format!(
        " \nNote: We used secureClientPort ({port}) to establish connection, but we failed. The 'status'
  command establishes a client connection to the server to execute diagnostic commands. Please make sure you
  provided all the Client SSL connection related parameters in the CLIENT_JVMFLAGS environment variable! E.g.:
  CLIENT_JVMFLAGS=\"-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty
  -Dzookeeper.ssl.trustStore.location=/tmp/clienttrust.jks -Dzookeeper.ssl.trustStore.password=password
  -Dzookeeper.ssl.keyStore.location=/tmp/client.jks -Dzookeeper.ssl.keyStore.password=password
  -Dzookeeper.client.secure=true\" ./zkServer.sh status\n \n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(String, bool)> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("myid"), "2\n").unwrap();
        let dynamic = dir.path().join("dynamic");
        std::fs::write(&dynamic, "server.2=b:1:2:participant;[::1]:7\n").unwrap();
        let place = |name: &str| dir.path().join(name).display().to_string();
        let text = text.replace("DYNAMIC", &place("dynamic")).replace("DATA", &place(""));
        ClientPort::find(&FileSettings(text)).map(|port| (port.server(), port.is_secure))
    }

    #[test]
    fn client_port_is_found_in_all_places() {
        let check = |text, server: &str, is_secure| assert_eq!(found(text), Some((server.to_owned(), is_secure)));
        check("  clientPort = 1 \n#clientPort=2\nclientPortAddress=h", "h:1", false);
        check("clientPort=1\nclientPort=2\nclientPortAddress=0.0.0.0", "127.0.0.1:2", false);
        check("dataDir=DATA\nserver.2=b:1:2;5\nserver.1=a:1:2;4", "localhost:5", false);
        check("dataDir=DATA\nserver.2=b:1:2;0.0.0.0:5", "127.0.0.1:5", false);
        check("dataDir=DATA\ndynamicConfigFile=DYNAMIC", "[::1]:7", false);
        check("secureClientPort=9\nsecureClientPortAddress=::1", "[::1]:9", true);
        assert_eq!(found("dataDir=DATA\nserver.1=a:1:2;4"), None);
    }
}
