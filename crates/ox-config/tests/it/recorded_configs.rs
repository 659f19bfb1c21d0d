//! Recorded configurations: refused where Apache refuses them, with its exit code and the core of its message.

use ox_config::{Diagnostic, StartArgs};

use crate::harness::{FILE, Harness, Outcome};

/// One `###` section of a recording.
struct Case<'t> {
    name: &'t str,
    config: String,
    my_id: Option<String>,
    flags: String,
    /// `None` if Apache kept running.
    exit_code: Option<u8>,
    log: Vec<&'t str>,
}

fn cases(recording: &str) -> impl Iterator<Item = Case<'_>> {
    recording.split("\n### ").skip(1).map(read_case)
}

fn read_case(section: &str) -> Case<'_> {
    let mut lines = section.lines();
    let mut case = Case {
        name: lines.next().unwrap(),
        config: String::new(),
        my_id: None,
        flags: String::new(),
        exit_code: None,
        log: Vec::new(),
    };
    for line in lines {
        if let Some(text) = line.strip_prefix("    (myid file: '") {
            let text = text.strip_suffix("')").unwrap();
            case.my_id = Some(text.replace("\\n", "\n").replace("\\r", "\r"));
        } else if let Some(flag) = line.strip_prefix("    (-D") {
            case.flags = format!("-D{}", flag.strip_suffix(')').unwrap());
        } else if let Some(text) = line.strip_prefix("    ") {
            case.config += &format!("{text}\n");
        } else if let Some(code) = line.strip_prefix("exit code: ") {
            case.exit_code = code.parse().ok();
        } else if let Some(text) = line.strip_prefix("  ") {
            case.log.push(text);
        }
    }
    case
}

impl Case<'_> {
    fn run(&self) -> Outcome {
        if self.name == "no arguments" {
            return Harness::default().start_as(&StartArgs::Nothing);
        }
        if self.name == "config file missing" {
            return Harness::default().start_as(&StartArgs::File("/data/nosuch.cfg".into()));
        }
        // The recording does not contain the two dynamic files; the case names describe them.
        let member = "server.1=127.0.0.1:21914:21915\n";
        let harness = Harness::with_config(&self.config)
            .and_flags(&self.flags)
            .and_file("/data/dv.dynamic", &format!("{member}version=1\n"))
            .and_file("/data/df.dynamic", &format!("{member}tickTime=2000\n"));
        match &self.my_id {
            Some(text) => harness.and_file("/data/tc/myid", text).start(),
            None => harness.start(),
        }
    }

    /// The message of the first exception that carries details.
    fn essence(&self) -> &str {
        let mut messages = self.log.iter().filter_map(|line| {
            let line = line.strip_prefix("Caused by: ").unwrap_or(line);
            let (class, message) = line.split_once(": ")?;
            let exception = class.ends_with("Exception") && !class.contains(' ');
            (exception && !message.starts_with("Error processing ")).then_some(message)
        });
        messages.next().unwrap()
    }

    /// Warnings about the configuration that Apache logged.
    fn warnings(&self) -> impl Iterator<Item = &str> {
        let classes = ["QuorumPeerConfig", "ZooKeeperServer@", "FilePadding", "ProviderRegistry"];
        self.log.iter().filter_map(move |line| {
            let (head, text) = line.split_once("] - ")?;
            let warnings = head.starts_with("WARN") || head.starts_with("ERROR");
            (warnings && classes.iter().any(|class| head.contains(class))).then_some(text)
        })
    }

    fn check_same(&self) {
        let Outcome { result, diagnostics, .. } = self.run();
        let name = self.name;
        match (&result, self.exit_code) {
            (Ok(_), None) => (),
            (Err(error), Some(code)) => {
                let text = error.to_string();
                assert_eq!(error.exit_code(), code, "{name}: {text}");
                let is_same = text.contains(self.essence()) || text.contains(&in_plain_words(self.essence()));
                assert!(is_same, "{name}: {text}");
                assert!(text.starts_with("/data/") || text.starts_with("-D"), "{name}: {text}");
            }
            _ => panic!("{name}: {result:?}"),
        }
        for warning in self.warnings() {
            let reported = diagnostics.iter().any(|Diagnostic { text, .. }| text.contains(warning));
            assert!(reported, "{name}: {warning}: {diagnostics:?}");
        }
    }
}

/// Our text for messages of Apache that do not say what is wrong.
fn in_plain_words(essence: &str) -> String {
    if let Some(text) = essence.strip_prefix("For input string: ") {
        return format!("{} is not ", text.trim_end_matches(" under radix 16"));
    }
    if let Some(text) = essence.strip_prefix("serverid ").and_then(|text| text.strip_suffix(" is not a number")) {
        return format!("contains \"{text}\", which is not a number");
    }
    if let Some((_, ours)) = PLAIN_WORDS.iter().find(|(theirs, _)| essence.contains(theirs)) {
        return (*ours).to_owned();
    }
    match (essence.strip_prefix("port out of range:"), essence.strip_suffix(" file is missing")) {
        (Some(port), _) => format!("port {port} is out of range"),
        (None, Some("myid")) => "myid is missing: write 1".to_owned(),
        (None, Some(file)) => format!("{file} does not exist"),
        (None, None) => essence.to_owned(),
    }
}

/// Parts of Apache's messages, and of ours for the same error.
const PLAIN_WORDS: &[(&str, &str)] = &[
    ("does not have the form", "expected server.N=host:2888:3888[:role][;clientPort]"),
    ("Malformed \\uxxxx encoding", "four hexadecimal digits must follow \\u"),
    ("ortAddress is set but ", "ort is not; add a line "),
    ("Choose 'true' or 'false.'", "; expected true or false"),
    ("Invalid electionAlg value", "electionAlg must be 3"),
    ("dynamic file shouldn't have version", "must not contain a version"),
    ("Name or service not known", "unknown host no.such.host.invalid: correct the name"),
    ("quorum.auth.enableSasl is disabled", "requires quorum.auth.enableSasl; set quorum.auth.enableSasl=true"),
    ("quorum.auth.learnerRequireSasl is disabled", "requires quorum.auth.learnerRequireSasl; set "),
    ("No auth provider configured", "there is no authProvider line for the scheme foo"),
    ("metrics provider class was not found", "is not a metrics provider of Apache"),
    ("number of participants should be >0", "standaloneEnabled=false requires an ensemble"),
    ("Observers w/o participants", "all servers are observers"),
    ("Observers w/o quorum", "there is one participant only; set standaloneEnabled=false"),
    ("is different from client address", "make them equal, or remove clientPort"),
    ("enforce.auth.schemes must be  configured", "enforce.auth.schemes is not set"),
    ("Authentication scheme ", " is not available; add its authProvider line"),
    ("No such file or directory", "it does not exist"),
    ("Failed to initialize authentication mechanism using SASL", "section 'QuorumServer' could not be found"),
];

/// How we deliberately differ from Apache.
enum Ours {
    /// Accepted: what stops Apache later is not an error of the configuration, or is valid here.
    Accepted,
    /// Refused with a message that contains this text.
    Refused(&'static str),
}

use Ours::{Accepted, Refused};

fn check_recording(recording: &str, differences: &[(&str, Ours)], count: usize) {
    let mut different = 0;
    for case in cases(recording) {
        let Some((name, ours)) = differences.iter().find(|(name, _)| *name == case.name) else {
            case.check_same();
            continue;
        };
        different += 1;
        let result = case.run().result;
        let code = result.as_ref().map_or_else(|error| error.exit_code(), |_| 0);
        let cause = result.map_err(|error| error.cause);
        let as_said = match (ours, &cause) {
            (Accepted, Ok(_)) => code == 0,
            (Refused(text), Err(cause)) => code == 2 && cause.to_string().contains(text),
            _ => false,
        };
        assert!(as_said, "{name}: {code} {cause:?}");
    }
    assert_eq!(different, differences.len(), "a listed difference matches no case");
    assert_eq!(cases(recording).count(), count);
}

#[test]
fn recorded_configs_match_apache() {
    let differences = [
        // Without arguments we start on loopback instead of printing the usage.
        ("no arguments", Accepted),
        // Apache names the line that its hash table happens to yield first.
        (
            "server line in static file beside dynamicConfigFile",
            Refused("server.1 must be in the file that dynamicConfigFile names"),
        ),
        // Detected when the server starts, by other crates.
        ("datadir.autocreate=false and no directory", Accepted),
        ("client port in use", Accepted),
        ("admin port in use", Accepted),
        ("election port in use", Accepted),
        // Apache exits with code 1, after which a supervisor would restart it.
        ("myid not in server list", Refused("server 9 is not a member")),
        // Apache's main thread ends, and the process stays without a server.
        ("audit class missing", Refused("com.example.Nope cannot be loaded")),
        // Apache exits with code 1 in the first case and fails every handshake in the second.
        ("secureClientPort with NIO", Refused("secureClientPort needs ssl.keyStore.location")),
        ("secureClientPort with Netty but no keystore", Refused("secureClientPort needs ssl.keyStore.location")),
    ];
    check_recording(include_str!("../../testdata/validation.txt"), &differences, 56);
}

#[test]
fn probed_configs_match_apache() {
    let differences = [
        ("secure port 0", Refused("secureClientPort needs ssl.keyStore.location")),
        // Apache fails while it creates the server, mostly with code 1; here these are ordinary configuration errors.
        ("fraction not a number", Refused("\"abc\" is not ")),
        ("buffer too small", Refused("expected at least 32")),
        ("no selector threads", Refused("expected at least 1")),
        ("container check interval zero", Refused("expected at least 1")),
        ("container check interval negative", Refused("expected at least 1")),
        ("digest algorithm unknown", Refused("FOO is not a valid value")),
        ("client address unresolvable, one server", Refused("unknown host no.such.host.invalid")),
        ("empty dataDir", Refused("dataDir is not set")),
        ("server line only a semicolon", Refused("expected server.N=host:2888:3888")),
        ("client part only a colon", Refused("expected server.N=host:2888:3888")),
        // Apache logs a warning and runs without the scheme.
        ("auth provider unknown", Refused("com.example.Nope cannot be loaded")),
        // Apache runs with a clock that goes backwards.
        ("negative tick with explicit timeouts", Refused("expected a positive number")),
        // Apache's messages are misleading here.
        ("client part not a number", Refused("Address unresolved: 0.0.0.0:abc")),
        ("roles of two addresses differ", Refused("similar roles: OBSERVER vs PARTICIPANT")),
        ("version in static file", Refused("\"xyz\" is not a hexadecimal")),
    ];
    check_recording(include_str!("../../testdata/probes.txt"), &differences, 73);
}

#[test]
fn error_names_file_line_key_and_expectation() {
    let error = Harness::with_config("# comment\ndataDir=/d\ntickTime=abc\n").start().error();
    let expected = "3: tickTime: \"abc\" is not a whole number of 32 bits";
    assert_eq!(error, format!("{FILE}:{expected}"));
}
