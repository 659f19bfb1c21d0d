//! Dates in Java's formats, in UTC.

/// Calendar fields of a time.
struct Civil {
    year: i64,
    month: usize,
    day: i64,
    weekday: usize,
    hour: i64,
    minute: i64,
    second: i64,
}

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The Gregorian calendar, in years that begin in March, so that a leap day is the last day.
fn civil(time_ms: i64) -> Civil {
    let seconds = time_ms.div_euclid(1000);
    let (days, second_of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = if month_from_march < 10 { month_from_march + 2 } else { month_from_march - 10 };
    Civil {
        year: year_of_era + era * 400 + i64::from(month < 2),
        month: usize::try_from(month).unwrap_or(0),
        day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
        weekday: usize::try_from(days.rem_euclid(7)).unwrap_or(0),
        hour: second_of_day / 3_600,
        minute: second_of_day / 60 % 60,
        second: second_of_day % 60,
    }
}

/// In Java's short format: `11/15/26, 6:44:09 AM UTC`.
pub(super) fn short_date(time_ms: i64) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = civil(time_ms);
    let (half, hour) = (if hour < 12 { "AM" } else { "PM" }, (hour + 11) % 12 + 1);
    format!("{}/{day}/{:02}, {hour}:{minute:02}:{second:02} {half} UTC", month + 1, year.rem_euclid(100))
}

/// In the format of Java's `Date.toString`: `Sun Nov 15 06:44:10 UTC 2026`.
pub(super) fn long_date(time_ms: i64) -> String {
    let Civil { year, month, day, weekday, hour, minute, second } = civil(time_ms);
    format!("{} {} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}", DAYS[weekday], MONTHS[month])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(time_ms: i64, short: &str, long: &str) {
        assert_eq!(short_date(time_ms), short);
        assert_eq!(long_date(time_ms), long);
    }

    #[test]
    fn dates_match_java() {
        check(0, "1/1/70, 12:00:00 AM UTC", "Thu Jan 01 00:00:00 UTC 1970");
        check(-1, "12/31/69, 11:59:59 PM UTC", "Wed Dec 31 23:59:59 UTC 1969");
        check(951_782_400_000, "2/29/00, 12:00:00 AM UTC", "Tue Feb 29 00:00:00 UTC 2000");
        check(1_794_725_049_000, "11/15/26, 6:44:09 AM UTC", "Sun Nov 15 06:44:09 UTC 2026");
        check(4_107_542_399_000, "2/28/00, 11:59:59 PM UTC", "Sun Feb 28 23:59:59 UTC 2100");
        civil(i64::MIN);
        civil(i64::MAX);
    }
}
