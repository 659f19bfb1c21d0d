//! ar, the outer format of Debian packages.

use std::fmt::Write;

/// An archive of files with their contents, in this order. Names have at most 15 bytes.
pub(crate) fn ar(members: &[(&str, &[u8])], seconds: u64) -> Vec<u8> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, content) in members {
        debug_assert!(name.len() < 16);
        let mut header = String::new();
        let _ = writeln!(header, "{name:<16}{seconds:<12}{:<6}{:<6}{:<8}{:<10}`", 0, 0, "100644", content.len());
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(content);
        if content.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_start_at_even_offsets() {
        let archive = ar(&[("debian-binary", b"2.0\n"), ("odd", b"x"), ("last", b"yy")], 7);
        let text = String::from_utf8(archive).unwrap();
        let header = |name: &str, size: usize| format!("{name:<16}7           0     0     100644  {size:<10}`\n");
        let expected =
            format!("!<arch>\n{}2.0\n{}x\n{}yy", header("debian-binary", 4), header("odd", 1), header("last", 2));
        assert_eq!(text, expected);
    }
}
