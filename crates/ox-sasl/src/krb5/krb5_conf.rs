//! `krb5.conf`: the default realm, the KDCs of realms, the realms of hosts, and encryption types.
//!
//! ```text
//! [libdefaults]
//!     default_realm = EXAMPLE.COM
//! [realms]
//!     EXAMPLE.COM = {
//!         kdc = kdc1.example.com:88
//!         kdc = tcp/kdc2.example.com
//!     }
//! [domain_realm]
//!     .example.com = EXAMPLE.COM
//! ```
//!
//! Unknown sections and keys are ignored. KDCs are not looked up in DNS.

use super::KerberosError;
use super::crypto::Etype;

const FILE_BYTES_MAX: usize = 1 << 20;
/// Files that include files.
const INCLUDE_DEPTH_MAX: usize = 8;
const FILES_MAX: usize = 256;
const NESTING_MAX: usize = 16;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Krb5Conf {
    pub default_realm: Option<String>,
    /// Encryption types that an initiator may use, in the order of preference; all supported ones by default.
    pub permitted_etypes: Option<Vec<Etype>>,
    /// Lifetimes in seconds that an initiator asks for.
    pub ticket_lifetime: Option<i64>,
    pub renew_lifetime: Option<i64>,
    pub default_keytab_name: Option<String>,
    pub default_ccache_name: Option<String>,
    /// Requests of at most this size go over UDP first; 0 or 1 means TCP only.
    pub udp_preference_limit: Option<usize>,
    kdcs: Vec<(String, KdcAddress)>,
    domain_realms: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KdcAddress {
    pub host: String,
    pub port: u16,
    /// Whether the configuration forbids UDP for this KDC.
    pub is_tcp_only: bool,
}

/// What an `include` or `includedir` line names. The caller reads files, in the order of their names, and of a directory
/// only those whose names consist of letters, digits, `-` and `_`, or end in `.conf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include<'a> {
    File(&'a str),
    Directory(&'a str),
}

/// Names and texts of included files, or why they cannot be read.
pub type IncludedFiles = Result<Vec<(String, String)>, String>;

impl Krb5Conf {
    pub fn parse(
        name: &str,
        text: &str,
        read: &mut dyn FnMut(Include<'_>) -> IncludedFiles,
    ) -> Result<Self, KerberosError> {
        let mut conf = Self::default();
        let mut files = 0;
        conf.add_file(name, text, read, 0, &mut files)?;
        Ok(conf)
    }

    /// KDCs of a realm, in the order of the file.
    pub fn kdcs(&self, realm: &str) -> impl Iterator<Item = &KdcAddress> {
        self.kdcs.iter().filter(move |(known, _)| known == realm).map(|(_, kdc)| kdc)
    }

    /// The realm of a host: its own entry, or the one of the longest domain that contains it, or the default realm.
    pub fn realm_of_host(&self, host: &str) -> Option<&str> {
        let host = host.to_ascii_lowercase();
        let find =
            |name: &str| self.domain_realms.iter().find(|(known, _)| known == name).map(|(_, realm)| realm.as_str());
        let mut dots = host.char_indices().filter(|(_, char)| *char == '.').map(|(at, _)| at);
        let of_domain = dots.find_map(|at| find(&host[at..]).or_else(|| find(&host[at + 1..])));
        find(&host).or(of_domain).or(self.default_realm.as_deref())
    }

    /// Encryption types for requests.
    pub fn etypes(&self) -> Vec<Etype> {
        self.permitted_etypes.clone().unwrap_or_else(|| Etype::ALL.to_vec())
    }

    fn add_file(
        &mut self,
        name: &str,
        text: &str,
        read: &mut dyn FnMut(Include<'_>) -> IncludedFiles,
        depth: usize,
        files: &mut usize,
    ) -> Result<(), KerberosError> {
        let error = |line: usize, reason: &str| KerberosError::Configuration {
            file: name.to_owned(),
            line,
            reason: reason.to_owned(),
        };
        *files += 1;
        if FILE_BYTES_MAX < text.len() || INCLUDE_DEPTH_MAX < depth || FILES_MAX < *files {
            return Err(error(1, "the file, the number of files or the depth of includes is too large"));
        }
        let mut section = String::new();
        let mut path: Vec<String> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            let directive = line.split_once(char::is_whitespace).map(|(word, rest)| (word, rest.trim()));
            let include = match directive {
                Some(("include", file)) => Some(Include::File(file)),
                Some(("includedir", directory)) => Some(Include::Directory(directory)),
                _ => None,
            };
            if let Some(include) = include.filter(|_| path.is_empty()) {
                for (name, text) in read(include).map_err(|reason| error(number, &reason))? {
                    self.add_file(&name, &text, read, depth + 1, files)?;
                }
            } else if let Some(rest) = line.strip_prefix('[') {
                let (title, _) = rest.split_once(']').ok_or_else(|| error(number, "']' is missing"))?;
                if !path.is_empty() {
                    return Err(error(number, "'}' is missing before this section"));
                }
                section = title.trim().to_owned();
            } else if line.trim_end_matches('*') == "}" {
                path.pop().ok_or_else(|| error(number, "'}' without '{'"))?;
            } else {
                let (key, value) = line.split_once('=').ok_or_else(|| error(number, "'=' is missing"))?;
                let (key, value) = (key.trim().trim_end_matches('*'), value.trim());
                if value.starts_with('{') {
                    path.push(key.to_owned());
                    if NESTING_MAX < path.len() {
                        return Err(error(number, "too many '{'"));
                    }
                    if value.ends_with('}') {
                        path.pop();
                    }
                } else {
                    self.set(&section, &path, key, unquoted(value)).map_err(|reason| error(number, &reason))?;
                }
            }
        }
        if path.is_empty() { Ok(()) } else { Err(error(text.lines().count(), "'}' is missing at the end")) }
    }

    /// Of single values, the first counts, as in MIT's library.
    fn set(&mut self, section: &str, path: &[String], key: &str, value: &str) -> Result<(), String> {
        match (section, path, key) {
            ("libdefaults", [], key) => self.set_default(key, value)?,
            ("realms", [realm], "kdc") => {
                let kdc = kdc_address(value).ok_or("the address of the KDC is malformed")?;
                self.kdcs.push((realm.clone(), kdc));
            }
            ("domain_realm", [], domain) => self.domain_realms.push((domain.to_ascii_lowercase(), value.to_owned())),
            _ => (),
        }
        Ok(())
    }

    fn set_default(&mut self, key: &str, value: &str) -> Result<(), String> {
        let text = |field: &mut Option<String>| {
            field.get_or_insert_with(|| value.to_owned());
        };
        match key {
            "default_realm" => text(&mut self.default_realm),
            "default_keytab_name" => text(&mut self.default_keytab_name),
            "default_ccache_name" => text(&mut self.default_ccache_name),
            // Names of the three keys that limit what an initiator asks for; the last one is the newest.
            "default_tkt_enctypes" | "default_tgs_enctypes" | "permitted_enctypes"
                if self.permitted_etypes.is_none() =>
            {
                self.permitted_etypes = Some(etypes(value)?);
            }
            "ticket_lifetime" if self.ticket_lifetime.is_none() => self.ticket_lifetime = Some(duration(value)?),
            "renew_lifetime" if self.renew_lifetime.is_none() => self.renew_lifetime = Some(duration(value)?),
            "udp_preference_limit" if self.udp_preference_limit.is_none() => {
                let limit = value.parse().map_err(|_| "udp_preference_limit is not a number".to_owned())?;
                self.udp_preference_limit = Some(limit);
            }
            _ => (),
        }
        Ok(())
    }
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

/// Names of encryption types. Unsupported ones are left out; a list of nothing else is an error.
fn etypes(value: &str) -> Result<Vec<Etype>, String> {
    let mut etypes = Vec::new();
    for name in value.split([' ', '\t', ',']).filter(|name| !name.is_empty()) {
        let found = match name.to_ascii_lowercase().as_str() {
            "aes" => vec![Etype::Aes256Sha1, Etype::Aes128Sha1, Etype::Aes256Sha384, Etype::Aes128Sha256],
            "default" => Etype::ALL.to_vec(),
            name => Etype::from_name(name).into_iter().collect(),
        };
        etypes.extend(found.into_iter().filter(|etype| !etypes.contains(etype)).collect::<Vec<_>>());
    }
    if etypes.is_empty() {
        Err(format!("none of the encryption types '{value}' is supported; AES types are"))
    } else {
        Ok(etypes)
    }
}

/// Seconds: a number, `h:m[:s]`, or numbers with the units d, h, m and s.
fn duration(value: &str) -> Result<i64, String> {
    let error = || format!("'{value}' is not a duration");
    let number = |text: &str| text.parse::<u32>().map(i64::from).map_err(|_| error());
    if value.contains(':') {
        let parts = value.split(':').map(number).collect::<Result<Vec<_>, _>>()?;
        return match parts.as_slice() {
            [hours, minutes] => Ok(hours * 3600 + minutes * 60),
            [hours, minutes, seconds] => Ok(hours * 3600 + minutes * 60 + seconds),
            _ => Err(error()),
        };
    }
    let mut rest = value;
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|char: char| char.is_ascii_digit()).len();
        let (amount, after) = rest.split_at(digits);
        let unit = after.chars().next();
        let seconds = match unit {
            None | Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3600,
            Some('d') => 86400,
            Some(_) => return Err(error()),
        };
        total = total.saturating_add(number(amount)? * seconds);
        rest = after.get(1..).unwrap_or_default().trim_start();
    }
    Ok(total)
}

/// `host`, `host:port`, `[address]:port`, each possibly after `tcp/` or `udp/`.
fn kdc_address(value: &str) -> Option<KdcAddress> {
    let (is_tcp_only, rest) = match value.split_once('/') {
        Some(("tcp", rest)) => (true, rest),
        Some(("udp", rest)) => (false, rest),
        Some(_) => return None,
        None => (false, value),
    };
    let (host, port) = if let Some(bracketed) = rest.strip_prefix('[') {
        let (host, after) = bracketed.split_once(']')?;
        (host, after.strip_prefix(':'))
    } else {
        match rest.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, Some(port)),
            _ => (rest, None),
        }
    };
    let port = port.map_or(Some(88), |port| port.parse().ok())?;
    (!host.is_empty()).then(|| KdcAddress { host: host.to_owned(), port, is_tcp_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Krb5Conf, KerberosError> {
        Krb5Conf::parse("krb5.conf", text, &mut |include| match include {
            Include::File("/etc/more") => {
                Ok(vec![("more".to_owned(), "[libdefaults]\ndefault_realm = MORE".to_owned())])
            }
            Include::Directory("/etc/loop") => Ok(vec![("loop".to_owned(), "includedir /etc/loop".to_owned())]),
            Include::File(_) | Include::Directory(_) => Err("no such file".to_owned()),
        })
    }

    #[test]
    fn needed_settings_are_read() {
        let conf = parse(
            "# comment\n[libdefaults]\n default_realm = EXAMPLE.COM\n default_realm = SECOND\n; comment\n\
             permitted_enctypes = aes256-cts-hmac-sha384-192 rc4-hmac,aes128-cts\n ticket_lifetime = 1d 2h\n\
             renew_lifetime = 10:00\n udp_preference_limit = 1\n unknown = { a = b }\n\
             [realms]\n EXAMPLE.COM = {\n kdc = kdc1:750\n kdc* = tcp/[::1]:88\n kdc = ::1\n admin_server = x\n v4 = {\n kdc = no\n }\n }*\n\
             OTHER = {\n kdc = other\n}\n\
             [domain_realm]\n .example.com = EXAMPLE.COM\n special.example.com = \"OTHER\"\n deep.org = DEEP\n",
        )
        .unwrap();
        assert_eq!(conf.default_realm.as_deref(), Some("EXAMPLE.COM"));
        assert_eq!(conf.etypes(), [Etype::Aes256Sha384, Etype::Aes128Sha1]);
        assert_eq!(
            (conf.ticket_lifetime, conf.renew_lifetime, conf.udp_preference_limit),
            (Some(93600), Some(36000), Some(1))
        );
        let kdcs: Vec<_> = conf.kdcs("EXAMPLE.COM").map(|kdc| (kdc.host.as_str(), kdc.port, kdc.is_tcp_only)).collect();
        assert_eq!(kdcs, [("kdc1", 750, false), ("::1", 88, true), ("::1", 88, false)]);
        for (host, realm) in [
            ("A.Example.com", "EXAMPLE.COM"),
            ("special.example.com", "OTHER"),
            ("x.deep.org", "DEEP"),
            ("example.com", "EXAMPLE.COM"),
            ("elsewhere", "EXAMPLE.COM"),
        ] {
            assert_eq!(conf.realm_of_host(host), Some(realm), "{host}");
        }
        assert_eq!(parse("include /etc/more\n").unwrap().default_realm.as_deref(), Some("MORE"));
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, line) in [
            ("[libdefaults", 1),
            ("[realms]\nR = {\n", 2),
            ("[realms]\nR = {\n[libdefaults]", 3),
            ("}", 1),
            ("\nnonsense", 2),
            ("[libdefaults]\npermitted_enctypes = rc4-hmac", 2),
            ("[libdefaults]\nticket_lifetime = soon", 2),
            ("[realms]\nR = {\nkdc = https/x\n}", 3),
            ("include /none", 1),
            ("includedir /etc/loop", 1),
        ] {
            let Err(KerberosError::Configuration { line: found, .. }) = parse(text) else { panic!("{text}") };
            assert_eq!(found, line, "{text}");
        }
    }
}
