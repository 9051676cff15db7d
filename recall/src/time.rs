//! Converts times to days of the calendar.

const DAY: u64 = 86_400_000;

/// A day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CalendarDate {
    /// 1970 and later.
    pub year: u32,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
}

impl CalendarDate {
    /// The day of a time in milliseconds since 1970.
    pub fn of(milliseconds: u64) -> Self {
        // Howard Hinnant's civil_from_days. Years begin in March here, so that a leap day is the last of its year.
        let days = milliseconds / DAY + 719_468;
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        Self { year: year.min(u64::from(u32::MAX)) as u32, month: month as u32, day: day as u32 }
    }

    /// The day so many days before a time in milliseconds since 1970.
    pub fn before(milliseconds: u64, days: u64) -> Self {
        Self::of(milliseconds.saturating_sub(days * DAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(year: u32, month: u32, day: u32) -> CalendarDate {
        CalendarDate { year, month, day }
    }

    #[test]
    fn dates_are_right_for_every_day_of_five_centuries() {
        let lengths = |year: u32| {
            let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
            [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        };
        let mut days = 0;
        for year in 1970..2500 {
            for (month, length) in (1..).zip(lengths(year)) {
                for day in 1..=length {
                    assert_eq!(CalendarDate::of(days * DAY), date(year, month, day));
                    assert_eq!(CalendarDate::of(days * DAY + DAY - 1), date(year, month, day));
                    days += 1;
                }
            }
        }
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        assert_eq!(CalendarDate::before(DAY, 2), date(1970, 1, 1));
        assert_eq!(CalendarDate::before(1_700_000_000_000, 1), date(2023, 11, 13));
        assert!(CalendarDate::of(u64::MAX).year > 100_000);
    }
}
