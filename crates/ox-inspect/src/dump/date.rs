//! Dates in Java's formats, in UTC.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// In the format of Java's `Date.toString`: `Sun Nov 15 06:44:10 UTC 2026`.
pub fn utc(time_ms: i64) -> String {
    format(time_ms, |_| "%a %b %d %H:%M:%S UTC %Y".into())
}

/// In Java's short format: `11/15/26, 6:44:09 AM UTC`.
pub(super) fn short_date(time_ms: i64) -> String {
    // `%y` fails before 1969 and after 2068.
    format(time_ms, |date| format!("%-m/%-d/{:02}, %-I:%M:%S %p UTC", date.year().rem_euclid(100)))
}

fn format(time_ms: i64, pattern: impl FnOnce(DateTime) -> String) -> String {
    match Timestamp::from_millisecond(time_ms).map(|time| TimeZone::UTC.to_datetime(time)) {
        Ok(date) => date.strftime(&pattern(date)).to_string(),
        Err(_) => format!("{time_ms} ms"), // outside of the years -9999 to 9999
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(time_ms: i64, short: &str, long: &str) {
        assert_eq!(short_date(time_ms), short);
        assert_eq!(utc(time_ms), long);
    }

    #[test]
    fn dates_match_java() {
        check(0, "1/1/70, 12:00:00 AM UTC", "Thu Jan 01 00:00:00 UTC 1970");
        check(-1, "12/31/69, 11:59:59 PM UTC", "Wed Dec 31 23:59:59 UTC 1969");
        check(951_782_400_000, "2/29/00, 12:00:00 AM UTC", "Tue Feb 29 00:00:00 UTC 2000");
        check(1_794_725_049_000, "11/15/26, 6:44:09 AM UTC", "Sun Nov 15 06:44:09 UTC 2026");
        check(4_107_542_399_000, "2/28/00, 11:59:59 PM UTC", "Sun Feb 28 23:59:59 UTC 2100");
    }

    #[test]
    fn time_outside_of_the_calendar_is_printed_as_a_number() {
        check(i64::MIN, "-9223372036854775808 ms", "-9223372036854775808 ms");
        check(i64::MAX, "9223372036854775807 ms", "9223372036854775807 ms");
    }
}
