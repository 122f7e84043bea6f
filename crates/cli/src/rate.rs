//! `--rate 800mbit`: rates as people write them.

use longhaul_proto::units::Rate;

/// Read a rate: a number and a unit. `bit` and `b` are bits, `B` and `byte` are bytes, a bare `k`, `m`, `g` or `t`
/// counts bits; prefixes are powers of ten, or of 1024 with an `i`; `/s` or `ps` may follow. The error fits behind
/// "invalid value '…': ".
pub fn parse_rate(text: &str) -> Result<Rate, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let number: f64 = number.parse().map_err(|_| format!("not a rate; {EXAMPLES}"))?;
    if unit.is_empty() {
        return Err(format!("a rate needs its unit; {EXAMPLES}"));
    }
    let factor = bits_per(unit).ok_or_else(|| format!("{unit:?} is not a unit of rate; {EXAMPLES}"))?;
    let bits = number * factor;
    match bits {
        LOWEST..HIGHEST => Ok(Rate(bits as u64)),
        ..LOWEST => Err("slower than 1 kbit, nothing would ever arrive".into()),
        _ => Err("faster than any path there is; leave --rate out for no limit".into()),
    }
}

/// Read a size: a number of bytes, or a number with a unit such as kB, MB, GiB. The error fits behind "invalid value
/// '…': ".
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let number: f64 = number.parse().map_err(|_| format!("not a size; {SIZES}"))?;
    let factor = match unit {
        "" | "B" => Some(1.0),
        _ if ["B", "byte", "bytes"].iter().any(|end| unit.ends_with(end)) => {
            bits_per(unit).map(|bits| bits / 8.0)
        }
        _ => None,
    };
    let bytes = number * factor.ok_or_else(|| format!("{unit:?} is not a unit of size; {SIZES}"))?;
    if (1.0..=MOST_BYTES).contains(&bytes) {
        return Ok(bytes as u64);
    }
    Err("must be 1 B to 1 PB".into())
}

/// How many bits one of `unit` is.
fn bits_per(unit: &str) -> Option<f64> {
    let unit = ["/s", "/S", "ps", "PS"].iter().find_map(|end| unit.strip_suffix(end)).unwrap_or(unit);
    let mut letters = unit.chars();
    let power = match letters.next()?.to_ascii_lowercase() {
        'k' => 1,
        'm' => 2,
        'g' => 3,
        't' => 4,
        _ => 0,
    };
    let rest = if power == 0 { unit } else { letters.as_str() };
    // "kbit" has no i of its own after the prefix, "Kibit" has.
    let (thousand, base) = match rest.strip_prefix(['i', 'I']) {
        Some(base) if power > 0 => (1024f64, base),
        _ => (1000f64, rest),
    };
    let bits = match base {
        "" if power > 0 => 1.0,
        "B" => 8.0,
        "b" => 1.0,
        _ => match base.to_ascii_lowercase().as_str() {
            "bit" | "bits" => 1.0,
            "byte" | "bytes" => 8.0,
            _ => return None,
        },
    };
    Some(bits * thousand.powi(power))
}

const EXAMPLES: &str = "write it like 800mbit, 1.5gbit, 100m (bits) or 50MB/s (bytes)";
const SIZES: &str = "write it like 40MB, 1.5GB or 64KiB";
/// 1 PB.
const MOST_BYTES: f64 = 1e15;
/// bit/s below which a copy could only be a mistake.
const LOWEST: f64 = 1e3;
/// bit/s above which a rate could only be a mistake.
const HIGHEST: f64 = 1e15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_bytes() {
        let cases = [
            ("800mbit", 800_000_000),
            ("1.5gbit", 1_500_000_000),
            ("100m", 100_000_000),
            ("50MB/s", 400_000_000),
            ("50MBps", 400_000_000),
            ("50Mb/s", 50_000_000),
            ("50mbps", 50_000_000),
            ("2500kbit/s", 2_500_000),
            ("1 Gbit", 1_000_000_000),
            ("1MiB/s", 8 << 20),
            ("10Mibit", 10 << 20),
            ("9600bit", 9600),
            ("4000bytes", 32_000),
            (".5g", 500_000_000),
            ("1T", 1_000_000_000_000),
        ];
        for (text, bits) in cases {
            assert_eq!(parse_rate(text), Ok(Rate(bits)), "{text}");
        }
    }

    #[test]
    fn what_the_program_prints_can_be_read_back() {
        for bits in [1_500_000, 93_400_000, 12_340_000_000] {
            assert_eq!(parse_rate(&Rate(bits).to_string()), Ok(Rate(bits)));
        }
    }

    #[test]
    fn mistakes_are_named() {
        let says = |text, part: &str| {
            let error = parse_rate(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        };
        says("800", "needs its unit");
        says("", "not a rate");
        says("fast", "not a rate");
        says("-5mbit", "not a rate");
        says("1.2.3mbit", "not a rate");
        says("5furlongs", "furlongs");
        says("5i", "not a unit");
        says("0mbit", "slower");
        says("9999999tbit", "faster");
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("40MB", 40_000_000),
            ("1.5 GB", 1_500_000_000),
            ("64KiB", 65_536),
            ("250000", 250_000),
            ("7B", 7),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for bad in ["", "0", "40Mbit", "40m", "5MB/s", "many", "2e9GB", "9999PB", "-1MB"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }
}
