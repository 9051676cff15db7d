//! Calendar days, in UTC.

/// A day of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// With its century.
    pub year: i32,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
}

impl Day {
    /// The day in which a time lies: milliseconds since 1970.
    pub fn of(milliseconds: u64) -> Self {
        // Years begin in March here, so that leap days are the last of theirs; eras have 400 years.
        let days = milliseconds / 86_400_000 + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let year = era * 400 + year + u64::from(month >= 10);
        Self {
            year: i32::try_from(year).unwrap_or(i32::MAX),
            month: small(if month < 10 { month + 3 } else { month - 9 }),
            day: small(day - (153 * month + 2) / 5 + 1),
        }
    }
}

fn small(number: u64) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
