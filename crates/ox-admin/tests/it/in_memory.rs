//! The AdminServer without sockets, as the fuzz targets use it.

use ox_admin::InMemoryAdmin;
use ox_config::{AllowedHosts, Config};
use ox_server::TestServer;

/// Otherwise the targets would test nothing.
#[test]
fn every_connection_gets_a_reply() {
    let server = TestServer::start(|_| ()).unwrap();
    let mut config = Config::default_standalone();
    config.admin.as_mut().unwrap().allowed_hosts = AllowedHosts::All;
    let admin = InMemoryAdmin::new(&config, server.handle()).unwrap().unwrap();
    for round in 0..1500 {
        for (request, status) in [
            ("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", "200"),
            ("GET /commands/ruok HTTP/1.1\r\nHost: a\r\n\r\n", "200"),
            ("GET /commands/ruok HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\n\r\n", "200"),
            ("POST /commands/restore HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhello", "401"),
            ("nonsense\r\n\r\n", "400"),
        ] {
            let received = admin.connection(request.as_bytes());
            let text = String::from_utf8_lossy(&received);
            assert_eq!(text.get(9..12), Some(status), "round {round}: {request:?}: {text}");
        }
    }
}
