//! Numbers, dates and addresses as Java prints them, because tools parse that form.

use jiff::Timestamp;
use std::net::SocketAddr;

/// A double as Java prints it: `0.0`, `1.3943`, `1.79472515318E9`, `1.0E-4`, `NaN`.
pub fn double(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "NaN".to_owned() } else { format!("{value}").replace("inf", "Infinity") };
    }
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return format!("{value:?}");
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').expect("the format has an exponent");
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{point}E{exponent}")
}

/// A mean, rounded half up to four places.
pub(crate) fn average(sum: i64, count: u64) -> f64 {
    if count == 0 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "a mean of large sums has no more digits than that")]
    let exact = sum as f64 / count as f64;
    // Thirty decimal places keep the fifth one exact; cutting the text there never rounds.
    let text = format!("{:.30}", exact.abs());
    let fifth = text.find('.').map_or(text.len(), |point| point + 5);
    let (kept, rest) = text.split_at(fifth);
    let kept: f64 = kept.parse().unwrap_or_default();
    let up = if rest.starts_with(['5', '6', '7', '8', '9']) { 1.0 } else { 0.0 };
    ((kept * 1e4).round() + up) / 1e4 * exact.signum()
}

/// A time in UTC: `Sun Nov 15 06:32:48 UTC 2026`.
pub(crate) fn date(wall_ms: i64) -> String {
    match Timestamp::from_millisecond(wall_ms) {
        Ok(time) => time.strftime("%a %b %d %H:%M:%S UTC %Y").to_string(),
        Err(_) => format!("{wall_ms} ms"), // outside of the years -9999 to 9999
    }
}

/// An address without a host name: `/127.0.0.1:2181`, `/[0:0:0:0:0:0:0:1]:2181`.
pub fn address(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => format!("/{v4}"),
        SocketAddr::V6(v6) => {
            let parts = v6.ip().segments().map(|part| format!("{part:x}"));
            format!("/[{}]:{}", parts.join(":"), v6.port())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_printed_as_in_java() {
        let cases = [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (1.3943, "1.3943"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (1_794_725_153.18, "1.79472515318E9"),
            (-0.5, "-0.5"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (value, expected) in cases {
            assert_eq!(double(value), expected);
        }
    }

    #[test]
    fn averages_round_half_up_from_the_double() {
        let cases = [
            (0, 0, "0.0"),
            (1, 3, "0.3333"),
            (2, 3, "0.6667"),
            (1, 32, "0.0313"),
            (1, 20_000, "1.0E-4"),
            (3, 20_000, "1.0E-4"), // the double is slightly less than 0.00015
            (24, 5, "4.8"),
            (172, 278, "0.6187"),
            (-1, 32, "-0.0313"),
        ];
        for (sum, count, expected) in cases {
            assert_eq!(double(average(sum, count)), expected, "{sum}/{count}");
        }
    }

    #[test]
    fn dates_are_printed_as_in_java() {
        let cases = [
            (0, "Thu Jan 01 00:00:00 UTC 1970"),
            (1_794_724_368_999, "Sun Nov 15 06:32:48 UTC 2026"),
            (951_782_400_000, "Tue Feb 29 00:00:00 UTC 2000"),
            (4_107_542_399_000, "Sun Feb 28 23:59:59 UTC 2100"),
            (4_107_542_400_000, "Mon Mar 01 00:00:00 UTC 2100"),
            (-1, "Wed Dec 31 23:59:59 UTC 1969"),
        ];
        for (wall_ms, expected) in cases {
            assert_eq!(date(wall_ms), expected);
        }
    }

    #[test]
    fn addresses_are_printed_as_in_java() {
        assert_eq!(address("127.0.0.1:80".parse().unwrap()), "/127.0.0.1:80");
        assert_eq!(address("[fe80::1]:80".parse().unwrap()), "/[fe80:0:0:0:0:0:0:1]:80");
    }
}
