//! `oxkeeper check-config` predicts what the server does, for every recorded configuration.

use crate::process;
use crate::terminal::Terminal;
use crate::tools::{CommandOutput, run_command};
use std::path::Path;

/// One `###` section of a recording: its name, the file, `myid`, and flags.
struct Case {
    name: String,
    config: String,
    my_id: Option<String>,
    flags: Vec<String>,
}

fn cases() -> Vec<Case> {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ox-config/testdata");
    let recordings = ["validation.txt", "probes.txt"].map(|name| std::fs::read_to_string(testdata.join(name)).unwrap());
    recordings.iter().flat_map(|text| text.split("\n### ").skip(1)).map(read_case).collect()
}

fn read_case(section: &str) -> Case {
    let mut lines = section.lines();
    let name = lines.next().unwrap().to_owned();
    let mut case = Case { name, config: String::new(), my_id: None, flags: Vec::new() };
    for line in lines {
        if let Some(text) = line.strip_prefix("    (myid file: '") {
            let text = text.strip_suffix("')").unwrap();
            case.my_id = Some(text.replace("\\n", "\n").replace("\\r", "\r"));
        } else if let Some(flag) = line.strip_prefix("    (-D") {
            case.flags = flag.strip_suffix(')').unwrap().split(" -D").map(|flag| format!("-D{flag}")).collect();
        } else if let Some(text) = line.strip_prefix("    ") {
            case.config += &format!("{text}\n");
        }
    }
    case
}

impl Case {
    /// Creates the files below `root`, with free ports.
    fn lay_out(&self, root: &Path) -> Vec<String> {
        let data = format!("{}/", root.display());
        let config = self.config.replace("/data/", &data);
        let lines = config.lines().map(|line| match line.split_once('=') {
            Some(("clientPort", port)) if port.trim().parse::<u16>().is_ok_and(|port| 1024 < port) => "clientPort=0",
            _ => line,
        });
        let config: String = lines.map(|line| format!("{line}\n")).collect();
        std::fs::write(root.join("tc.cfg"), config).unwrap();
        let member = "server.1=127.0.0.1:21914:21915\n";
        std::fs::write(root.join("dv.dynamic"), format!("{member}version=1\n")).unwrap();
        std::fs::write(root.join("df.dynamic"), format!("{member}tickTime=2000\n")).unwrap();
        if let Some(text) = &self.my_id {
            std::fs::create_dir_all(root.join("tc")).unwrap();
            std::fs::write(root.join("tc/myid"), text).unwrap();
        }
        let file = if self.name == "config file missing" { "nosuch.cfg" } else { "tc.cfg" };
        let mut arguments = vec![root.join(file).display().to_string()];
        arguments.extend(self.flags.iter().map(|flag| flag.replace("/data/", &data)));
        arguments
    }
}

#[test]
fn verdict_on_every_recorded_configuration_matches_the_server() {
    let (mut starts, mut refused) = (0, 0);
    for case in cases() {
        let root = tempfile::tempdir().unwrap();
        let arguments = case.lay_out(root.path());
        let words = |command: &str| -> Vec<String> {
            std::iter::once(command.to_owned()).chain(arguments.iter().cloned()).collect()
        };
        let told = run_command(root.path(), &words("check-config"));
        let server = words("server");
        let server: Vec<&str> = server.iter().map(String::as_str).collect();
        let mut process = process::start(&server, root.path());
        let line = process.wait_for_one(&["Starting server data_dir=", "exit_code="]);
        let does_start = line.contains("Starting server");
        // Problems of directories and ports are found later.
        let is_later = case.name.contains("datadir.autocreate=false");
        let refusal = if case.name == "config file missing" { 2 } else { 1 };
        let expected = if does_start && !is_later { 0 } else { refusal };
        assert_eq!(told.code, Some(expected), "{}: {}\n{line}", case.name, told.out);
        assert_eq!(told.err, "", "{}", case.name);
        if does_start {
            starts += 1;
            assert!(is_later || !told.out.contains("  WRONG "), "{}: {}", case.name, told.out);
            process.kill();
        } else {
            refused += 1;
            let said = process.end().said;
            let errors: Vec<&str> = told.out.lines().filter_map(|line| line.strip_prefix("error: ")).collect();
            assert!(!errors.is_empty(), "{}: {}", case.name, told.out);
            for error in &errors {
                assert!(said.contains(&format!("ERROR oxkeeper: {error}")), "{}: {error}: {said}", case.name);
            }
            let count = said.lines().filter(|line| line.contains(" ERROR ")).count();
            assert!(count <= errors.len() + 1, "{}: {said}", case.name);
        }
    }
    assert!(20 < starts && 60 < refused, "{starts} {refused}");
}

fn explained(config: &str, more: &[&str]) -> CommandOutput {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("zoo.cfg"), config).unwrap();
    run_command(root.path(), &[&["check-config", "zoo.cfg"], more].concat())
}

fn has(told: &CommandOutput, texts: &[&str]) {
    for text in texts {
        assert!(told.out.contains(text), "{text}: {}", told.out);
    }
}

/// The server logs these as weak protection.
#[test]
fn chosen_weak_settings_are_warnings() {
    let told = explained("dataDir=./d\nclientPort=0\nskipACL=yes\nforceSync=no\n", &[]);
    assert_eq!(told.code, Some(0), "{}", told.out);
    has(&told, &["  warning       3  skipACL=yes\n", "weak protection: ACLs are not checked", "2 ok, 2 warning\n"]);
}

#[test]
fn settings_of_the_admin_server_are_used_by_a_standalone_server() {
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ox-tls/testdata");
    let config = |more: &str| {
        let (key, trust) = (stores.join("keytool.jks"), stores.join("ca.pem"));
        format!(
            "dataDir=./d\nclientPort=0\nssl.quorum.keyStore.location={}\nssl.quorum.keyStore.password=changeit\n\
             ssl.quorum.trustStore.location={}\n{more}",
            key.display(),
            trust.display()
        )
    };
    let unused = |told: &CommandOutput| told.out.lines().filter(|line| line.starts_with("  unused ")).count();
    assert_eq!(unused(&explained(&config(""), &[])), 3);
    let told = explained(&config("admin.forceHttps=true\n"), &[]);
    assert_eq!((told.code, unused(&told)), (Some(0), 0), "{}", told.out);
}

#[test]
fn quiet_report_has_each_error_once() {
    let told = explained("dataDir=./d\nclientPort=x\n", &["-q"]);
    assert_eq!(
        told.out,
        "error: zoo.cfg:2: clientPort: \"x\" is not a whole number of 32 bits\nThe server would not start: 1 error\n"
    );
}

#[test]
fn missing_client_port_is_a_warning() {
    let told = explained("dataDir=./d\n", &["-q"]);
    let expected = "  warning    no client port: clients cannot connect; set clientPort\nThe server would start.\n";
    assert_eq!((told.code, told.out.as_str()), (Some(0), expected));
}

#[test]
fn relative_directory_is_shown_as_a_whole() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("zoo.cfg"), "dataDir=./data\nclientPort=0\n").unwrap();
    let told = run_command(root.path(), &["check-config", "zoo.cfg"]);
    let data = root.path().canonicalize().unwrap().join("data");
    has(&told, &[&format!("  dataDir    {} (new: it will be created)\n", data.display())]);
}

/// The stores are read as at a start, and passwords are not shown.
#[test]
fn stores_of_tls_are_checked() {
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ox-tls/testdata");
    let told = |password: &str| {
        let (key, trust) = (stores.join("keytool.jks"), stores.join("ca.pem"));
        let lines = format!(
            "dataDir=./data\nsecureClientPort=2281\nssl.keyStore.location={}\nssl.keyStore.password={password}\n\
             ssl.trustStore.location={}\n",
            key.display(),
            trust.display()
        );
        explained(&lines, &[])
    };
    let good = told("changeit");
    assert_eq!(good.code, Some(0), "{}", good.out);
    has(
        &good,
        &["keytool.jks\n", "ssl.keyStore.password=(not shown)\n", "  TLS        port 2281 on every interface\n"],
    );
    assert!(!good.out.contains("changeit"), "{}", good.out);
    let bad = told("wrong-password");
    assert_eq!(bad.code, Some(1), "{}", bad.out);
    has(&bad, &["cannot be decrypted: the password is wrong"]);
    assert!(!bad.out.contains("wrong-password"), "{}", bad.out);
}

#[test]
fn every_line_is_explained() {
    let config = "\
        # a comment\n\
        tickTime=2000\n\
        dataDir=./data\n\
        clientPort=2181\n\
        clientport=2182\n\
        jute.maxbuffer=5\n\
        initLimit=10\n\
        tickTime=3000\n\
        4lw.commands.whitelist=ruok, stat\n\
        metricsProvider.httpPort=7000\n";
    let told = explained(config, &["-Dzookeeper.snapCount=10", "-Djava.awt.headless=true", "-Dzookeeper.tickTme=1"]);
    assert_eq!((told.code, &*told.err), (Some(0), ""), "{}", told.out);
    has(
        &told,
        &[
            "  overridden    2  tickTime=2000\n",
            "overridden by: zoo.cfg:8",
            "  ok            3  dataDir=./data\n",
            "  unknown       5  clientport=2182\n",
            "did you mean clientPort?",
            "  no effect     6  jute.maxbuffer=5\n",
            "give -Djute.maxbuffer instead",
            "  unused        7  initLimit=10\n",
            "  ok            8  tickTime=3000\n",
            "(default 3000 ms)",
            "  ok           10  metricsProvider.httpPort=7000\n",
            "-Dzookeeper.snapCount=10\n",
            "For a Java virtual machine only.",
            "-Dzookeeper.tickTme=1\n",
            "  role       a standalone server\n",
            "  clients    port 2181 on every interface\n",
            "four-letter commands enabled: ruok, srvr, stat\n",
            "(new: it will be created)",
            "12 settings: 6 ok, 1 ignored, 1 unused, 1 overridden, 1 no effect, 2 unknown\n",
            "The server would start.\n",
        ],
    );
    let empty = explained("dataDir=./data\nclientPort=0\n", &["--quiet"]);
    assert_eq!(empty.out, "The server would start.\n");
    let quiet = explained(config, &["--quiet"]);
    assert!(!quiet.out.contains("dataDir=./data\n") && quiet.out.contains("clientport"), "{}", quiet.out);
}

#[test]
fn all_wrong_lines_are_reported() {
    let told = explained("dataDir=./d\nclientPort=none\ntickTime=x\nauthProvider.1=com.X\nsnapCount=1k\n", &[]);
    assert_eq!(told.code, Some(1));
    assert_eq!(told.out.matches("  WRONG ").count(), 3, "{}", told.out);
    has(
        &told,
        &[
            "com.X cannot be loaded",
            "5 settings: 1 ok, 1 warning, 3 wrong\n",
            "error: zoo.cfg:2: clientPort: \"none\" is not a whole number of 32 bits\n",
            "The server would not start: 3 errors\n",
        ],
    );
}

/// No line is called `ok` that is wrong, unknown or not implemented, whatever is wrong elsewhere.
#[test]
fn only_lines_that_take_effect_are_ok() {
    let config = "\
        dataDir=./d\n\
        clientPort=99999\n\
        tickTime=x\n\
        authProvider.1=com.example.X\n\
        admin.enableServer=true\n\
        admin.serverPort=8080\n\
        audit.enable=false\n\
        metricsProvider.className=com.example.Y\n\
        preAllocSize=abc\n\
        serverCnxnFactory=com.example.Z\n\
        maxCnxns=5\n";
    let told = explained(config, &[]);
    assert_eq!(told.code, Some(1));
    let ok: Vec<&str> = told.out.lines().filter(|line| line.starts_with("  ok ")).collect();
    let lines = [
        (1, "dataDir=./d"),
        (5, "admin.enableServer=true"),
        (6, "admin.serverPort=8080"),
        (7, "audit.enable=false"),
        (11, "maxCnxns=5"),
    ];
    assert_eq!(ok, lines.map(|(line, text)| format!("  ok         {line:>4}  {text}")), "{}", told.out);
    has(
        &told,
        &[
            "  WRONG         2  clientPort=99999\n",
            "  WRONG         4  authProvider.1=com.example.X\n",
            "  WRONG         8  metricsProvider.className=com.example.Y\n",
            "  warning       9  preAllocSize=abc\n",
            "The server would not start: 4 errors\n",
        ],
    );
}

#[test]
fn verdicts_have_colours_on_a_terminal_only() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("zoo.cfg"), "dataDir=/data/new\nclientPort=x\n").unwrap();
    let lines = Terminal::start(directory.path(), 80, "check-config zoo.cfg").lines_until("would not start");
    let wrong = lines.iter().find(|line| line.contains("WRONG")).unwrap_or_else(|| panic!("{lines:#?}"));
    assert!(wrong.contains("\x1b["), "{lines:#?}");
    let piped = run_command(directory.path(), &["check-config", "zoo.cfg"]);
    assert!(piped.out.contains("WRONG") && !piped.out.contains('\x1b'), "{}", piped.out);
}

#[test]
fn paths_of_key_stores_are_shown_and_passwords_are_not() {
    let config = "dataDir=./d\nclientPort=0\nssl.keyStore.location=/keys/k.jks\nssl.keyStore.password=hidden\n\
                  ssl.keyStore.passwordPath=/keys/password\n";
    let told = explained(config, &[]);
    has(&told, &["ssl.keyStore.location=/keys/k.jks\n", "ssl.keyStore.passwordPath=/keys/password\n"]);
    assert!(!told.out.contains("hidden"), "{}", told.out);
}

#[test]
fn existing_directory_is_not_called_new() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("d")).unwrap();
    std::fs::write(root.path().join("zoo.cfg"), "dataDir=./d\nclientPort=0\n").unwrap();
    has(&run_command(root.path(), &["check-config", "zoo.cfg"]), &["/d (contains no data yet)\n"]);
}

#[test]
fn secrets_are_not_shown() {
    let config = "dataDir=./d\nclientPort=0\nDigestAuthenticationProvider.superDigest=super:secret-digest\n";
    let flags = ["-Djavax.net.ssl.keyStorePassword=secret-word", "-Dzookeeper.ssl.trustStore.password=secret-too"];
    for json in [&[][..], &["--json"]] {
        let told = explained(config, &[&flags[..], json].concat());
        assert!(!told.out.contains("secret-"), "{}", told.out);
    }
}

#[test]
fn ensemble_facts_are_printed() {
    let root = tempfile::tempdir().unwrap();
    let members = "server.1=127.0.0.1:2888:3888;2181\nserver.2=127.0.0.1:2889:3889;2182\n";
    let config = format!("dataDir=./data\ninitLimit=10\nsyncLimit=5\n{members}");
    std::fs::write(root.path().join("zoo.cfg"), &config).unwrap();
    let told = run_command(root.path(), &["check-config", "zoo.cfg"]);
    assert_eq!(told.code, Some(1));
    has(
        &told,
        &[&format!(
            "error: zoo.cfg: myid is missing: write 1 or 2 into ./data/myid; dataDir ./data does not exist: correct it, or \
             create it first; ./data/myid is {}: it is relative to the working directory of the server\n\
             The server would not start: 1 error\n",
            root.path().canonicalize().unwrap().join("data/myid").display()
        )],
    );
    assert!(!told.out.contains("  WRONG "), "no line is wrong: {}", told.out);
    std::fs::create_dir(root.path().join("data")).unwrap();
    std::fs::write(root.path().join("data/myid"), "2\n").unwrap();
    let told = run_command(root.path(), &["check-config", "zoo.cfg"]);
    assert_eq!(told.code, Some(0), "{}", told.out);
    has(
        &told,
        &[
            "server 2 of an ensemble of 2 (2 vote, 0 of these may fail); it votes",
            "No server failure will be tolerated",
        ],
    );
    let told = run_command(root.path(), &["check-config", "--json", "zoo.cfg"]);
    let value: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&value["starts"], &value["items"][0]["name"]), (&true.into(), &"dataDir".into()));
}

#[test]
fn unreadable_file_is_reported_once() {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("./nowhere.cfg", "./nowhere.cfg does not exist; give the path of a configuration file\n"),
        ("./", "cannot read ./: it is a directory; expected a file\n"),
        (
            "2183",
            "2183 is a port, and the data directory is missing; use `oxkeeper check-config 2183 ./oxkeeper-data-2183`\n",
        ),
    ] {
        let told = run_command(root.path(), &["check-config", name]);
        assert_eq!(told.code, Some(2));
        assert_eq!(told.out + &told.err, format!("error: {text}The server would not start: 1 error\n"));
    }
}

#[test]
fn unusable_directories_are_reported() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("data"), "").unwrap();
    std::fs::write(root.path().join("zoo.cfg"), "dataDir=./data\nclientPort=0\n").unwrap();
    let told = run_command(root.path(), &["check-config", "zoo.cfg"]);
    assert_eq!(told.code, Some(1));
    has(&told, &["error: ./data cannot be used: ./data is not a directory\n"]);
    std::fs::remove_file(root.path().join("data")).unwrap();
    let told = run_command(root.path(), &["check-config", "-Dzookeeper.datadir.autocreate=false", "zoo.cfg"]);
    assert_eq!(told.code, Some(1));
    has(&told, &["zookeeper.datadir.autocreate is false"]);
}

/// The server refuses these at start, so `check-config` must not say that it would start.
#[test]
fn contents_of_directories_are_checked() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let both = |config: &str, code: i32, text: &str| {
        write("zoo.cfg", &format!("{config}admin.enableServer=false\n"));
        let told = run_command(root.path(), &["check-config", "zoo.cfg"]);
        assert_eq!(told.code, Some(1), "{}", told.out);
        has(&told, &[text]);
        let ended = process::start(&["server", "zoo.cfg"], root.path()).end();
        assert_eq!(ended.status.code(), Some(code), "{}", ended.said);
        assert!(ended.said.contains(text), "{text}: {}", ended.said);
    };
    write("data/version-2/log.1", "");
    let misplaced = "log.1 is in the wrong directory: snapshots belong in dataDir, logs in dataLogDir; move the file to \
                     the other directory, or correct dataDir and dataLogDir";
    both("dataDir=./data\ndataLogDir=./logs\nclientPort=0\n", 3, misplaced);
    std::fs::remove_dir_all(root.path().join("data")).unwrap();

    write("data/version-2/snapshot.0", "");
    write("data/version-2/oxk.logs", &root.path().join("logs/version-2").display().to_string());
    write("logs/version-2/log.1", "");
    for log_dir in ["", "dataLogDir=./missing\n"] {
        let elsewhere = format!("the logs of this data are in {}, but ", root.path().join("logs/version-2").display());
        both(&format!("dataDir=./data\n{log_dir}clientPort=0\n"), 3, &elsewhere);
    }
    std::fs::remove_dir_all(root.path().join("data")).unwrap();

    write("data/version-2/oxk.identity", "1");
    write("data/myid", "2");
    // The port of server 2 is in use by its process, which must not be blamed.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let members = format!("server.1=127.0.0.1:1:2;127.0.0.1:5\nserver.2=127.0.0.1:3:4;127.0.0.1:{port}\n");
    let config = format!("dataDir=./data\ninitLimit=5\nsyncLimit=5\n{members}");
    both(&config, 3, "belongs to server 1, not to server 2");
    both(&config, 3, "use the directory of this server, or correct myid");

    let audit = "audit.enable=true\noxkeeper.audit.file=./nowhere/audit.log\n";
    let text =
        "cannot write the audit log ./nowhere/audit.log: No such file or directory (os error 2); create its directory";
    both(&format!("dataDir=./other\nclientPort=0\n{audit}"), 2, text);
    both("dataDir=/proc/nope/x\nclientPort=0\n", 3, "/proc/nope/x");
}
