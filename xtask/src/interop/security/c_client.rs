//! Apache's C client over TLS and with SASL. Debian's library has neither, so its shell is built here from Debian's source
//! package, with OpenSSL and Cyrus SASL. The library cannot use both at the same time (ZOOKEEPER-3482).

use super::sasl::PACKAGE;
use crate::interop::servers::{Software, apache};
use crate::interop::tool;
use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use ox_testkit::free_port;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const HEADERS: [(&str, &str); 2] =
    [("/usr/include/openssl/ssl.h", "libssl-dev"), ("/usr/include/sasl/sasl.h", "libsasl2-dev")];
/// What `configure` would find on Linux.
const CONFIG: [&str; 13] = [
    "ARPA_INET_H",
    "FCNTL_H",
    "GETHOSTNAME",
    "GETLOGIN",
    "GETPWUID_R",
    "GETUID",
    "NETDB_H",
    "NETINET_IN_H",
    "POLL",
    "SYS_SOCKET_H",
    "SYS_TIME_H",
    "SYS_UTSNAME_H",
    "UNISTD_H",
];
const SOURCES: [&str; 10] = [
    "src/cli.c",
    "src/addrvec.c",
    "src/mt_adaptor.c",
    "src/recordio.c",
    "src/zk_hashtable.c",
    "src/zk_log.c",
    "src/zk_sasl.c",
    "src/zookeeper.c",
    "src/hashtable/hashtable.c",
    "src/hashtable/hashtable_itr.c",
];

pub(super) fn run(workspace: &Workspace, home: &Path) -> Result<()> {
    let shell = build(workspace).context("build the C client with OpenSSL and SASL")?;
    let jaas = home.join("jaas.conf");
    let module = format!("{PACKAGE}.DigestLoginModule required user_bob=\"bobsecret\"");
    fs::write(&jaas, format!("Server {{ {module}; }};\n"))?;
    let password = home.join("password");
    fs::write(&password, "bobsecret")?;
    let wrong = home.join("wrong");
    fs::write(&wrong, "guess")?;
    let (keys, trust) = (testdata(workspace, "pkcs8.pem"), testdata(workspace, "ca.pem"));
    let secure = free_port();
    let server = Software::Oxkeeper
        .spec(workspace)?
        .setting("secureClientPort", secure)
        .setting("ssl.keyStore.location", &keys)
        .setting("ssl.trustStore.location", &trust)
        .setting("authProvider.1", format!("{PACKAGE}.SASLAuthenticationProvider"))
        .property("java.security.auth.login.config", jaas.display())
        .start_in(&home.join("server"))?;
    let (plain, secure) = (format!("localhost:{}", server.address().port()), format!("localhost:{secure}"));
    let tls = format!("{trust},{keys},{keys},none");
    creates(&shell, &secure, &["--ssl", &tls], "/c-tls")?;
    let sasl = |file: &Path| {
        let file = file.display().to_string();
        ["--mechlist", "DIGEST-MD5", "--user", "bob", "--server-fqdn", "zk-sasl-md5", "--password-file", &file]
            .map(str::to_owned)
    };
    let words = sasl(&password);
    creates(&shell, &plain, &words.each_ref().map(String::as_str), "/c-sasl")?;
    ensure!(server.log().contains("authenticationID=bob;"), "the server has not authenticated the C client");
    let words = sasl(&wrong);
    if creates(&shell, &plain, &words.each_ref().map(String::as_str), "/c-wrong").is_ok() {
        bail!("the C client is served with a wrong password");
    }
    Ok(())
}

fn creates(shell: &Path, server: &str, arguments: &[&str], path: &str) -> Result<()> {
    let mut command = Command::new("timeout");
    command.arg("30").arg(shell).args(["-h", server]).args(arguments).args(["-c", &format!("create {path}")]);
    let output = command.output().context("start the C client")?;
    let shown = [output.stdout, output.stderr].concat();
    let shown = String::from_utf8_lossy(&shown);
    ensure!(shown.contains(&format!("[{path}]: rc = 0")), "cli_mt shows\n{shown}");
    Ok(())
}

fn testdata(workspace: &Workspace, name: &str) -> String {
    workspace.root().join("crates/ox-tls/testdata").join(name).display().to_string()
}

/// Builds the shell, once.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    if let Some((header, package)) = HEADERS.iter().find(|(header, _)| !Path::new(header).exists()) {
        bail!("{header} is missing\nhint: install {package} of Debian");
    }
    Software::Apache.prepare(workspace)?;
    let cache = workspace.cache("c-secure");
    let shell = cache.join("cli_mt");
    fs::create_dir_all(&cache)?;
    tool::once(&cache.join("stamp"), &[], || {
        let source = unpack_source(&cache)?;
        let client = source.join("zookeeper-client/zookeeper-client-c");
        let generated = client.join("generated");
        fs::create_dir_all(&generated)?;
        let jute = source.join("zookeeper-jute/src/main/resources/zookeeper.jute");
        let classes = apache::class_path(workspace, &cache)?;
        let compiler = "org.apache.jute.compiler.generated.Rcc";
        let mut java = Command::new("java");
        tool::run(java.args(["-cp", &classes, compiler, "-l", "c"]).arg(jute).current_dir(&generated))?;
        let config: String = CONFIG.iter().map(|name| format!("#define HAVE_{name} 1\n")).collect();
        let version = "#define VERSION \"3.8.0\"\n#define PACKAGE_STRING \"zookeeper C client 3.8.0\"\n";
        fs::write(generated.join("config.h"), config + version)?;
        let mut gcc = Command::new("gcc");
        gcc.args(["-w", "-O1", "-D_GNU_SOURCE", "-DTHREADED", "-DHAVE_OPENSSL_H", "-DHAVE_CYRUS_SASL_H"]);
        // OpenSSL 3 has no such function any more.
        gcc.args(["-DFIPS_mode()=0", "-Iinclude", "-Igenerated", "-Isrc", "-Isrc/hashtable", "-o"]).arg(&shell);
        gcc.args(SOURCES).arg("generated/zookeeper.jute.c").args(["-lssl", "-lcrypto", "-lsasl2", "-lpthread", "-lm"]);
        tool::run(gcc.current_dir(&client))
    })?;
    Ok(shell)
}

/// Downloads Debian's source package from where this machine gets its packages, with lists of packages of its own.
fn unpack_source(cache: &Path) -> Result<PathBuf> {
    let (lists, parts) = (cache.join("lists"), cache.join("sources"));
    fs::create_dir_all(lists.join("partial"))?;
    fs::create_dir_all(&parts)?;
    write_sources(&parts)?;
    let options = [
        "Dir::Etc::sourcelist=/dev/null".to_owned(),
        format!("Dir::Etc::sourceparts={}", parts.display()),
        format!("Dir::State::lists={}", lists.display()),
    ];
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        options.iter().for_each(|option| _ = command.args(["-o", option]));
        tool::run(command.args(arguments).current_dir(cache))
    };
    apt(&["update"])?;
    apt(&["source", "--download-only", "zookeeper"])?;
    tool::run(Command::new("tar").args(["xzf", "zookeeper_3.8.0.orig.tar.gz", "--no-same-owner"]).current_dir(cache))?;
    Ok(cache.join("apache-zookeeper-3.8.0"))
}

/// Writes the machine's package sources to `parts`, for source packages instead of binary ones.
fn write_sources(parts: &Path) -> Result<()> {
    let in_parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|entry| entry.path());
    for path in in_parts.chain([PathBuf::from("/etc/apt/sources.list")]) {
        let (Ok(text), Some(name)) = (fs::read_to_string(&path), path.file_name()) else { continue };
        let text = match path.extension().and_then(|extension| extension.to_str()) {
            Some("sources") => text.replace("Types: deb", "Types: deb-src"),
            Some("list") => {
                text.lines().filter(|line| line.starts_with("deb ")).fold(String::new(), |mut text, line| {
                    text.push_str(&line.replacen("deb", "deb-src", 1));
                    text.push('\n');
                    text
                })
            }
            _ => continue,
        };
        fs::write(parts.join(name), text)?;
    }
    Ok(())
}
