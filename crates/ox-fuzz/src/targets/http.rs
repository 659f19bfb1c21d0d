//! Whole connections to the AdminServer: request lines, headers, query strings and bodies.

use ox_admin::InMemoryAdmin;
use ox_config::{AllowedHosts, Config};
use ox_server::TestServer;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A server with its AdminServer, which all inputs share.
struct Site {
    admin: InMemoryAdmin,
    _server: TestServer,
}

fn with_site<T>(run: impl FnOnce(&InMemoryAdmin) -> T) -> T {
    static SITE: OnceLock<Mutex<Site>> = OnceLock::new();
    let site = SITE.get_or_init(|| {
        let server = TestServer::start(|_| ()).expect("a server starts on a free port");
        let mut config = Config::default_standalone();
        let settings = config.admin.as_mut().expect("on by default");
        settings.rate_limit_ms = 0;
        settings.allowed_hosts = AllowedHosts::All;
        let admin = InMemoryAdmin::new(&config, server.handle()).expect("a runtime starts").expect("it is enabled");
        for request in corpus() {
            let received = admin.connection(&request);
            let (request, reply) = (String::from_utf8_lossy(&request), String::from_utf8_lossy(&received));
            assert!(reply.starts_with("HTTP/1.") && !reply.contains(" 421 "), "{request} is answered: {reply}");
        }
        Mutex::new(Site { admin, _server: server })
    });
    run(&site.lock().unwrap_or_else(PoisonError::into_inner).admin)
}

const PATHS: [&str; 14] = [
    "/",
    "/commands",
    "/commands/",
    "/commands/ruok",
    "/commands/stat?streaming=false",
    "/commands/set_trace_mask?traceMask=3%306&traceMask=+7",
    "/commands/monitor",
    "/commands/nosuch%20%22name%22/x",
    "/commands/system_properties",
    "/commands/zabstate",
    "/healthz",
    "/readyz?readOnly=true",
    "/metrics?name[]=commit_count&name%5B%5D=readlatency_count",
    "http://other:80/commands/conf",
];

pub(super) fn corpus() -> Vec<Vec<u8>> {
    let get = PATHS.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: localhost:8080\r\n\r\n"));
    let others = [
        "HEAD /commands/ruok HTTP/1.0\r\n\r\n",
        "OPTIONS /commands/ruok HTTP/1.1\r\nHost: [::1]\r\n\r\n",
        "TRACE /commands/ruok HTTP/1.1\r\nHost: a\r\n\r\nGET /livez HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /commands/snapshot?streaming=false HTTP/1.1\r\nHost: a\r\nAuthorization: digest super:pw\r\n\r\n",
        "GET /commands/snap HTTP/1.1\r\nHost: a\r\nAuthorization: ip\r\nX-Forwarded-For: 1.2.3.4, ::1\r\n\r\n",
        "POST /commands/restore HTTP/1.1\r\nHost: a\r\nAuthorization: ip\r\nContent-Length: 5\r\n\r\nhello",
        "POST /commands/restore HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nAuthorization: ip\r\n\r\n\
         5\r\nhello\r\n0\r\n\r\n",
        "POST /commands/close_session?session=0x1&module=ox_zab&level=debug HTTP/1.1\r\nHost: a\r\nAuthorization: digest super:pw\r\n\r\n",
        "POST /commands/log_level?session=0x1&module=ox_zab&level=debug HTTP/1.1\r\nHost: a\r\nAuthorization: digest super:pw\r\n\r\n",
        "POST /commands/reload?session=0x1&module=ox_zab&level=debug HTTP/1.1\r\nHost: a\r\nAuthorization: digest super:pw\r\n\r\n",
        "PUT /metrics HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n\
         {\"percentage\": [100]}",
    ];
    get.chain(others.map(str::to_owned)).map(String::into_bytes).collect()
}

pub(super) fn run(bytes: &[u8]) {
    check(&with_site(|admin| admin.connection(bytes)));
}

pub(super) fn query_corpus() -> Vec<Vec<u8>> {
    ["traceMask=306", "traceMask=3%306&x=%zz&=&&a=b=c", "name[]=a&name%5B%5D=%ff%00", "streaming=true&readOnly=+true%"]
        .map(|query| query.as_bytes().to_vec())
        .into()
}

/// A query string of commands that read one, and a name of a command.
pub(super) fn run_query(bytes: &[u8]) {
    for path in ["/commands/set_trace_mask?", "/metrics?", "/readyz?", "/commands/"] {
        let request = [format!("GET {path}").as_bytes(), bytes, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
        run(&request);
    }
}

/// Bodies of `restore`, valid and not.
pub(super) fn body_corpus() -> Vec<Vec<u8>> {
    let mut corpus = super::files::snapshot_corpus();
    corpus.extend([&b"{\"percentage\": 100}"[..], b"[{\"a\":null}]", b"\"\\ud800\""].map(<[u8]>::to_vec));
    corpus
}

pub(super) fn run_body(bytes: &[u8]) {
    let head = "POST /commands/restore HTTP/1.1\r\nHost: a\r\nAuthorization: ip\r\nConnection: close\r\n";
    let with_length = [format!("{head}Content-Length: {}\r\n\r\n", bytes.len()).as_bytes(), bytes].concat();
    run(&with_length);
    let chunk = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", bytes.len());
    run(&[chunk.as_bytes(), bytes, b"\r\n0\r\n\r\n"].concat());
}

/// Every reply begins with a status line, and JSON is well-formed.
fn check(received: &[u8]) {
    if received.is_empty() {
        return; // closed without a reply
    }
    let text = String::from_utf8_lossy(received);
    let status = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|code| code.parse::<u16>().ok());
    assert!(status.is_some_and(|code| (200..600).contains(&code)), "no status line: {text}");
    let Some((head, body)) = text.split_once("\r\n\r\n") else { panic!("the head does not end: {text}") };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|text| text.parse().ok());
    let is_json = head.lines().any(|line| line == "content-type: application/json");
    // Further requests on the same connection follow.
    if let (true, Some(json)) = (is_json, length.and_then(|length: usize| body.get(..length)))
        && !json.is_empty()
        && !json.starts_with("HTTP/1.")
    // the reply to HEAD has no body
    {
        let parsed = serde_json::from_str::<serde_json::Value>(json);
        assert!(parsed.is_ok_and(|value| value.is_object()), "not a JSON object: {json}");
    }
}
