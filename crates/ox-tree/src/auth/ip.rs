//! The ip scheme: an address, or a network as `address/bits`.

use std::net::IpAddr;

/// An address as Java prints it: IPv6 as eight groups without compression, mapped IPv4 as IPv4.
pub fn java_address(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => v6.segments().map(|group| format!("{group:x}")).join(":"),
    }
}

pub(super) fn is_valid(id: &str) -> bool {
    parse_network(id).is_some()
}

pub(super) fn matches(proven: &str, entry: &str) -> bool {
    let (Some(address), Some((network, bits))) = (parse_address(proven), parse_network(entry)) else { return false };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).checked_shr(32 - bits).unwrap_or(0) == 0,
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).checked_shr(128 - bits).unwrap_or(0) == 0,
        _ => false,
    }
}

fn parse_network(id: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = match id.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (id, None),
    };
    let address = parse_address(address)?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(width), java_number)?;
    (bits <= width).then_some((address, bits))
}

fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        // Apache does not accept embedded IPv4.
        return if text.contains('.') { None } else { text.parse().ok().map(IpAddr::V6) };
    }
    let parts: Vec<u8> = text.split('.').map(|part| java_number(part)?.try_into().ok()).collect::<Option<_>>()?;
    <[u8; 4]>::try_from(parts).ok().map(IpAddr::from)
}

// Compat: Java's parser accepts a plus sign and leading zeros.
fn java_number(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_ids_are_addresses_or_networks() {
        for id in ["1.2.3.4", "1.2.3.4/0", "1.2.3.4/32", "01.+2.3.4", "::1", "1:2:3:4:5:6:7:8/128", "fe80::/10"] {
            assert!(is_valid(id), "{id}");
        }
        for id in ["", "1.2.3", "1.2.3.256", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/x", "::1/129", "::ffff:1.2.3.4", "host"]
        {
            assert!(!is_valid(id), "{id}");
        }
    }

    #[test]
    fn networks_match_their_leading_bits() {
        assert!(
            matches("127.0.0.1", "127.0.0.1") && matches("127.0.0.1", "127.0.0.0/8") && matches("9.9.9.9", "1.1.1.1/0")
        );
        assert!(!matches("127.0.0.1", "127.0.0.2/32") && !matches("127.0.0.1", "::1"));
        assert!(matches("0:0:0:0:0:0:0:1", "::1/128") && matches("0:0:0:0:0:0:0:1", "::/0"));
        assert!(!matches("fe80:0:0:0:0:0:0:1%eth0", "fe80::/10"));
    }

    #[test]
    fn java_address_has_eight_groups() {
        assert_eq!(java_address("::1".parse().unwrap()), "0:0:0:0:0:0:0:1");
        assert_eq!(java_address("::ffff:1.2.3.4".parse().unwrap()), "1.2.3.4");
    }
}
