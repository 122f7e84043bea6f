//! Values of tables as text.

use crate::report::{Unit, Value};
use longhaul_cli::output::bytes_text;

/// A value without its unit, which stands at the head of its column.
pub fn cell(value: &Value, unit: Unit) -> String {
    match value {
        Value::Nothing => "–".into(),
        Value::Text(text) => text.clone(),
        Value::Number(number) => match unit {
            Unit::Share => percent(number * 100.0),
            Unit::Bytes => bytes_text(number.max(0.0) as u64),
            _ => digits(*number),
        },
    }
}

/// Enough digits to tell two values apart, few enough to read.
fn digits(number: f64) -> String {
    match number.abs() {
        _ if number == number.trunc() && number.abs() < 1e7 => format!("{number}"),
        ..0.1 => format!("{number:.4}"),
        ..1.0 => format!("{number:.3}"),
        ..10.0 => format!("{number:.2}"),
        ..1000.0 => format!("{number:.1}"),
        ..1e7 => format!("{number:.0}"),
        _ => format!("{number:.2e}"),
    }
}

fn percent(number: f64) -> String {
    match number.abs() {
        0.0 => "0".into(),
        ..0.001 => "< 0.001".into(),
        ..0.1 => format!("{number:.3}"),
        ..10.0 => format!("{number:.2}"),
        ..1000.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_as_many_digits_as_they_need() {
        let shown: Vec<_> = [0.0, 3.0, 0.012_345, 0.123_45, 1.2345, 123.45, 12_345.6, 1e9].map(digits).into();
        assert_eq!(shown, ["0", "3", "0.0123", "0.123", "1.23", "123.5", "12346", "1.00e9"]);
        let shown: Vec<_> = [0.0, 0.0001, 0.05, 1.5, 99.96, 12_345.0].map(percent).into();
        assert_eq!(shown, ["0", "< 0.001", "0.050", "1.50", "100.0", "12345"]);
    }
}
