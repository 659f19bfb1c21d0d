//! DER, as far as Kerberos uses it: tags below 31, definite lengths, explicit context tags.

use super::KerberosError;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const GENERAL_STRING: u8 = 0x1B;
pub(super) const SEQUENCE: u8 = 0x30;
const APPLICATION: u8 = 0x60;
const CONTEXT: u8 = 0xA0;

/// Reads values one after another. `what` names the message in errors.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn error(&self) -> KerberosError {
        KerberosError::Malformed(self.what)
    }

    fn over(&self, rest: &'a [u8]) -> Self {
        Self { rest, what: self.what }
    }

    /// The next tag and its content.
    pub(super) fn value(&mut self) -> Result<(u8, &'a [u8]), KerberosError> {
        let (&[tag, first], mut rest) = self.rest.split_first_chunk().ok_or_else(|| self.error())?;
        let mut length = usize::from(first);
        if tag & 0x1F == 0x1F || first == 0x80 {
            return Err(self.error());
        }
        if 0x80 < first {
            let digits;
            (digits, rest) = rest.split_at_checked(usize::from(first & 0x7F)).ok_or_else(|| self.error())?;
            if 4 < digits.len() {
                return Err(self.error());
            }
            length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
        }
        let (content, rest) = rest.split_at_checked(length).ok_or_else(|| self.error())?;
        self.rest = rest;
        Ok((tag, content))
    }

    pub(super) fn expect(&mut self, tag: u8) -> Result<&'a [u8], KerberosError> {
        let (found, content) = self.value()?;
        if found == tag { Ok(content) } else { Err(self.error()) }
    }

    pub(super) fn sequence(&mut self) -> Result<Self, KerberosError> {
        self.expect(SEQUENCE).map(|content| self.over(content))
    }

    /// The sequence inside of an application tag, and the tag's number.
    pub(super) fn application(&mut self) -> Result<(u8, Self), KerberosError> {
        let (tag, content) = self.value()?;
        if tag & 0xE0 != APPLICATION {
            return Err(self.error());
        }
        Ok((tag & 0x1F, self.over(content).sequence()?))
    }

    pub(super) fn message(&mut self, number: u8) -> Result<Self, KerberosError> {
        let (found, sequence) = self.application()?;
        if found == number { Ok(sequence) } else { Err(self.error()) }
    }

    /// The field with context tag `number`; fields before it are skipped.
    pub(super) fn optional(&mut self, number: u8) -> Result<Option<Self>, KerberosError> {
        while let Some(&tag) = self.rest.first() {
            if tag & 0xE0 != CONTEXT {
                return Err(self.error());
            }
            if number < tag & 0x1F {
                break;
            }
            let (tag, content) = self.value()?;
            if tag & 0x1F == number {
                return Ok(Some(self.over(content)));
            }
        }
        Ok(None)
    }

    pub(super) fn field(&mut self, number: u8) -> Result<Self, KerberosError> {
        self.optional(number)?.ok_or_else(|| self.error())
    }

    pub(super) fn integer(mut self) -> Result<i64, KerberosError> {
        let content = self.expect(INTEGER)?;
        let &first = content.first().ok_or_else(|| self.error())?;
        if 8 < content.len() {
            return Err(self.error());
        }
        let sign = if first & 0x80 == 0 { 0 } else { -1 };
        Ok(content.iter().fold(sign, |value, byte| value << 8 | i64::from(*byte)))
    }

    pub(super) fn int32(self) -> Result<i32, KerberosError> {
        let error = self.error();
        self.integer()?.try_into().map_err(|_| error)
    }

    /// An unsigned number. Old implementations write the upper half as negative numbers.
    pub(super) fn uint32(self) -> Result<u32, KerberosError> {
        let error = self.error();
        let value = self.integer()?;
        u32::try_from(value).or_else(|_| i32::try_from(value).map(i32::cast_unsigned)).map_err(|_| error)
    }

    pub(super) fn octets(mut self) -> Result<&'a [u8], KerberosError> {
        self.expect(OCTET_STRING)
    }

    pub(super) fn string(mut self) -> Result<String, KerberosError> {
        let content = self.expect(GENERAL_STRING)?;
        String::from_utf8(content.to_vec()).map_err(|_| self.error())
    }

    /// The first 32 flags.
    pub(super) fn flags(mut self) -> Result<u32, KerberosError> {
        let content = self.expect(BIT_STRING)?;
        let (_, bits) = content.split_first().ok_or_else(|| self.error())?;
        Ok((0..4).fold(0, |flags, at| flags << 8 | u32::from(bits.get(at).copied().unwrap_or(0))))
    }

    /// The time in seconds since 1970.
    pub(super) fn time(mut self) -> Result<i64, KerberosError> {
        let content = self.expect(GENERALIZED_TIME)?;
        let digits = content.strip_suffix(b"Z").filter(|digits| digits.len() == 14).ok_or_else(|| self.error())?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(self.error());
        }
        let number =
            |range: std::ops::Range<usize>| digits[range].iter().fold(0, |n, digit| n * 10 + i64::from(digit - b'0'));
        let (month, day) = (number(4..6), number(6..8));
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(self.error());
        }
        let days = days_from_civil(number(0..4), month, day);
        Ok(days * 86400 + number(8..10) * 3600 + number(10..12) * 60 + number(12..14))
    }
}

/// Days since 1970-01-01 of a date of the Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

pub(super) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    if length < 0x80 {
        out.push(u8::try_from(length).unwrap_or(0x7F));
    } else {
        let bytes = length.to_be_bytes();
        let digits = &bytes[(length.leading_zeros() / 8) as usize..];
        out.push(0x80 | u8::try_from(digits.len()).unwrap_or(8));
        out.extend_from_slice(digits);
    }
    out.extend_from_slice(content);
    out
}

pub(super) fn context(number: u8, content: &[u8]) -> Vec<u8> {
    tagged(CONTEXT | number, content)
}

pub(super) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    tagged(SEQUENCE, &parts.concat())
}

/// A sequence whose parts have the context tags of their numbers.
pub(super) fn fields(parts: &[(u8, Vec<u8>)]) -> Vec<u8> {
    sequence(&parts.iter().map(|(number, content)| context(*number, content)).collect::<Vec<_>>())
}

pub(super) fn application(number: u8, content: &[u8]) -> Vec<u8> {
    tagged(APPLICATION | number, content)
}

pub(super) fn integer(value: i64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let mut start = 0;
    while start < 7
        && (bytes[start] == 0 && bytes[start + 1] < 0x80 || bytes[start] == 0xFF && 0x80 <= bytes[start + 1])
    {
        start += 1;
    }
    tagged(INTEGER, &bytes[start..])
}

pub(super) fn octets(content: &[u8]) -> Vec<u8> {
    tagged(OCTET_STRING, content)
}

pub(super) fn string(text: &str) -> Vec<u8> {
    tagged(GENERAL_STRING, text.as_bytes())
}

pub(super) fn flags(flags: u32) -> Vec<u8> {
    let [a, b, c, d] = flags.to_be_bytes();
    tagged(BIT_STRING, &[0, a, b, c, d])
}

/// Years beyond 9999 have no form; they are cut to the last second of 9999.
pub(super) fn time(seconds: i64) -> Vec<u8> {
    let seconds = seconds.clamp(0, 253_402_300_799);
    let (year, month, day) = civil_from_days(seconds / 86400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    tagged(GENERALIZED_TIME, format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader<'_> {
        Reader::new(bytes, "test")
    }

    #[test]
    fn values_survive_a_round_trip() {
        for value in [0, 1, -1, 127, 128, -128, -129, 255, 256, 0x7FFF_FFFF, 0xFFFF_FFFF, i64::MAX, i64::MIN] {
            assert_eq!(reader(&integer(value)).integer(), Ok(value));
        }
        assert_eq!(integer(128), [2, 2, 0, 128]);
        assert_eq!(reader(&integer(-1)).uint32(), Ok(u32::MAX));
        for seconds in [0, 951_782_400, 1_077_926_399, 1_700_000_000, 4_102_444_800, 253_402_300_799] {
            assert_eq!(reader(&time(seconds)).time(), Ok(seconds));
        }
        assert_eq!(time(951_782_400), tagged(GENERALIZED_TIME, b"20000229000000Z"));
        assert_eq!(reader(&flags(0x4000_0010)).flags(), Ok(0x4000_0010));
        for length in [0, 127, 128, 255, 256, 65536] {
            let content = vec![7; length];
            assert_eq!(reader(&octets(&content)).octets(), Ok(content.as_slice()));
        }
    }

    #[test]
    fn fields_are_found_by_number() {
        let bytes = fields(&[(0, integer(1)), (2, integer(2)), (5, integer(3))]);
        let mut sequence = reader(&bytes).sequence().unwrap();
        assert_eq!(sequence.optional(1).map(|field| field.is_some()), Ok(false));
        assert_eq!(sequence.field(2).unwrap().integer(), Ok(2));
        assert!(sequence.optional(4).unwrap().is_none());
        assert_eq!(sequence.field(5).unwrap().integer(), Ok(3));
        assert!(sequence.optional(6).unwrap().is_none() && sequence.field(6).is_err());
    }

    #[test]
    fn malformed_encodings_are_refused() {
        for bytes in [
            &[][..],
            &[0x30],
            &[0x30, 0x80, 0, 0],
            &[0x30, 0x85, 0, 0, 0, 0, 0],
            &[0x30, 5, 0],
            &[0x1F, 0],
            &[0x30, 0x82, 1],
            &[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF],
        ] {
            assert!(reader(bytes).value().is_err(), "{bytes:?}");
        }
        assert!(reader(&[2, 0]).integer().is_err() && reader(&[2, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]).integer().is_err());
        for text in ["20001301000000Z", "2000010100000Z", "20000101000000+", "2000010100x000Z", "20000100000000Z"] {
            assert!(reader(&tagged(GENERALIZED_TIME, text.as_bytes())).time().is_err());
        }
    }
}
