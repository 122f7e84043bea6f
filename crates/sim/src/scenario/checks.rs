//! What values a field may have.

/// A field of a scenario that no path can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{field} {reason}", entry_name(*entry))]
pub struct InvalidField {
    /// The entry of a list that it belongs to: which list, and the index in it.
    pub entry: Option<(&'static str, usize)>,
    /// Which field.
    pub field: &'static str,
    /// Why, to be read after the name of the field.
    pub reason: String,
}

impl InvalidField {
    /// It belongs to an entry of a list.
    pub(super) fn in_entry(self, list: &'static str, index: usize) -> InvalidField {
        InvalidField { entry: Some((list, index)), ..self }
    }
}

fn entry_name(entry: Option<(&'static str, usize)>) -> String {
    entry.map_or(String::new(), |(list, index)| format!("{list} {}: ", index + 1))
}

pub(super) fn positive(field: &'static str, value: f64, max: f64) -> Result<(), InvalidField> {
    if value > 0.0 && value <= max {
        return Ok(());
    }
    refuse(field, format!("must be above 0 and at most {max}, not {value}"))
}

pub(super) fn not_negative(field: &'static str, value: f64, max: f64) -> Result<(), InvalidField> {
    if (0.0..=max).contains(&value) {
        return Ok(());
    }
    refuse(field, format!("must be 0 to {max}, not {value}"))
}

pub(super) fn share(field: &'static str, value: f64) -> Result<(), InvalidField> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    refuse(field, format!("must be a share from 0 to 1, not {value}"))
}

pub(super) fn refuse(field: &'static str, reason: impl Into<String>) -> Result<(), InvalidField> {
    Err(InvalidField { entry: None, field, reason: reason.into() })
}

/// 10 Tb/s: where a packet of the least MTU still lasts longer than a tenth of a nanosecond.
pub(super) const RATE_MAX_MBIT: f64 = 1e7;
/// One hour.
pub(super) const DELAY_MAX_MS: f64 = 3.6e6;
/// Far more than any queue; keeps products within 64 bits.
pub(super) const QUEUE_MAX_BDP: f64 = 1e6;
/// 1 PB: far more than any queue.
pub(super) const QUEUE_MAX_KB: f64 = 1e12;
/// Smallest packet that every IPv4 link must pass, in bytes (RFC 791).
pub(super) const MTU_MIN: u32 = 68;
/// Largest IPv4 packet, in bytes (RFC 791).
pub(super) const MTU_MAX: u32 = 65_535;
/// Ten years: far longer than any run.
pub(super) const TIME_MAX_S: f64 = 3.2e8;
