//! `--rate '08:00-18:00 200mbit, 2gbit'`: rates by the clock, as people write them.

use crate::rate::parse_rate;
use longhaul::Rate;
use longhaul::schedule::{Days, Hours, Schedule};

/// Read rates, of which the first that counts at a moment is meant: hours with a rate, days of the week before them if they are
/// not for each day, and last a rate without hours for the rest of the time. `none` is no limit.
pub fn parse_rates(text: &str) -> Result<Schedule, String> {
    if text.trim() == NONE {
        return Ok(Schedule::default());
    }
    let mut rates = Schedule::default();
    // A comma stands between days as well.
    let mut days = String::new();
    for piece in text.split(',').map(str::trim) {
        if rates.always.is_some() {
            return Err(format!(
                "a rate without hours is for the rest of the time and comes last; {EXAMPLE}"
            ));
        }
        if days_of(piece).is_ok() {
            days.push_str(piece);
            days.push(',');
            continue;
        }
        match entry(&format!("{days}{piece}"))? {
            Entry::Hours(hours) => rates.hours.push(hours),
            Entry::Rest(rate) => rates.always = Some(rate),
        }
        days.clear();
    }
    match rates.hours.len() {
        _ if !days.is_empty() => Err(format!("{days} there are no hours and no rate; {EXAMPLE}")),
        ..=HOURS_MAX => Ok(rates),
        _ => Err(format!("more than {HOURS_MAX} rates")),
    }
}

enum Entry {
    Hours(Hours),
    Rest(Rate),
}

/// `mon-fri 08:00-18:00 200mbit`, or a rate alone.
fn entry(text: &str) -> Result<Entry, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let Some(at) = words.iter().position(|word| word.contains(':')) else {
        return parse_rate(text).map(Entry::Rest);
    };
    let (from, to) =
        words[at].split_once('-').ok_or_else(|| format!("{:?} are no hours; {EXAMPLE}", words[at]))?;
    let (from, to) = span_of(from, to)?;
    let days = match words[..at].concat() {
        days if days.is_empty() => Days::ALL,
        days => days_of(&days)?,
    };
    let rate = parse_rate(&words[at + 1..].join(" "))?;
    Ok(Entry::Hours(Hours { from, to, days, rate }))
}

/// As it can be read again.
pub fn rates_text(rates: &Schedule) -> String {
    let hours = rates.hours.iter().map(|hours| {
        let time = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
        let days = match hours.days {
            Days::ALL => String::new(),
            days => {
                DAYS.iter()
                    .zip(0..)
                    .filter(|(_, day)| days.has(*day))
                    .map(|(name, _)| *name)
                    .collect::<Vec<_>>()
                    .join(",")
                    + " "
            }
        };
        format!("{days}{}-{} {}", time(hours.from), time(hours.to), rate_text(hours.rate))
    });
    let all: Vec<String> = hours.chain(rates.always.map(rate_text)).collect();
    if all.is_empty() { NONE.into() } else { all.join(", ") }
}

fn rate_text(Rate(bits): Rate) -> String {
    let units = [(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1000, "kbit"), (1, "bit")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bits % unit == 0).unwrap_or((1, "bit"));
    format!("{}{name}", bits / unit)
}

/// Minutes of the day between which a rate counts, of two times as `HH:MM`.
pub fn span_of(from: &str, to: &str) -> Result<(u16, u16), String> {
    let minute =
        |text: &str| minute_of(text).ok_or_else(|| format!("{text:?} is no time; write it as HH:MM"));
    let span = (minute(from)?, minute(to)?);
    if span.0 == span.1 || span.0 == DAY {
        return Err(format!("from {from} to {to} there is no time"));
    }
    Ok(span)
}

/// Minutes since midnight of `HH:MM`, up to 24:00.
fn minute_of(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str| {
        let digits = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u16>().ok().filter(|_| digits)
    };
    let (hour, minute) = (number(hour)?, number(minute)?);
    let total = hour * 60 + minute;
    (minute < 60 && total <= DAY).then_some(total)
}

/// `mon-fri,sun`.
pub fn days_of(text: &str) -> Result<Days, String> {
    let day = |name: &str| {
        let name = name.trim().to_ascii_lowercase();
        let known = DAYS.iter().position(|day| *day == name);
        known
            .map(|at| at as u8)
            .ok_or_else(|| format!("{name:?} is no day; write them as mon-fri or sat,sun"))
    };
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Ok::<_, String>((day(first)?, day(last)?))
    };
    let ranges = text.split(',').map(range).collect::<Result<Vec<_>, _>>()?;
    Ok(ranges.into_iter().fold(Days::NONE, |days, (first, last)| days.with(first, last)))
}

const NONE: &str = "none";
const EXAMPLE: &str = "write it like '08:00-18:00 200mbit, 2gbit' or 'sat,sun 00:00-24:00 5gbit, 1gbit'";
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
/// Minutes.
const DAY: u16 = 24 * 60;
/// Nobody writes more by hand.
const HOURS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_days_and_the_rest() {
        let rates = parse_rates("08:00-18:00 200mbit, 2gbit").unwrap();
        assert_eq!(rates.always, Some(Rate(2_000_000_000)));
        let office = Hours { from: 480, to: 1080, days: Days::ALL, rate: Rate(200_000_000) };
        assert_eq!(rates.hours, [office]);
        let rates = parse_rates("sat, sun 0:00-24:00 5gbit,mon-fri 22:00-6:00 50 MB/s").unwrap();
        let weekend = Hours { from: 0, to: DAY, days: Days::NONE.with(5, 6), rate: Rate(5_000_000_000) };
        let night = Hours { from: 1320, to: 360, days: Days::NONE.with(0, 4), rate: Rate(400_000_000) };
        assert_eq!((rates.hours, rates.always), (vec![weekend, night], None));
        assert_eq!(parse_rates("800mbit"), Ok(Schedule::always(Some(Rate(800_000_000)))));
        assert_eq!(parse_rates(" none "), Ok(Schedule::default()));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "not a rate"),
            ("800", "needs its unit"),
            ("1gbit, 08:00-18:00 200mbit", "comes last"),
            ("1gbit, 2gbit", "comes last"),
            ("08:00 200mbit", "are no hours"),
            ("08:00-25:00 200mbit", "25:00"),
            ("08:00-08:00 200mbit", "there is no time"),
            ("someday 08:00-18:00 200mbit", "is no day"),
            ("08:00-18:00", "not a rate"),
            ("08:00-18:00 5parsec", "parsec"),
            ("sat,sun", "no hours and no rate"),
            ("fast", "not a rate"),
            ("08:00-18:00 200mbit,", "not a rate"),
        ] {
            let error = parse_rates(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
        assert!(parse_rates(&["08:00-18:00 1gbit"; HOURS_MAX + 1].join(",")).is_err());
    }

    #[test]
    fn what_is_told_can_be_read_again() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            let hours = |random: &mut fastrand::Rng| {
                let (from, to) = (random.u16(..DAY), random.u16(1..=DAY));
                let days =
                    if random.bool() { Days::ALL } else { Days::NONE.with(random.u8(..7), random.u8(..7)) };
                let rate = Rate(random.u64(1000..1_000_000) * [1, 1000, 1_000_000][random.usize(..3)]);
                Hours { from, to: if to == from { from + 1 } else { to }, days, rate }
            };
            let hours = (0..random.usize(..4)).map(|_| hours(&mut random)).collect();
            let rates = Schedule { always: random.bool().then(|| Rate(random.u64(1000..1 << 40))), hours };
            assert_eq!(parse_rates(&rates_text(&rates)).as_ref(), Ok(&rates), "{}", rates_text(&rates));
        }
    }
}
