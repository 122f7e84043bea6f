//! Whose traffic a flow is and what it is for, in the registry of SciTags (scitags.org): networks of science count by it.

use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// An experiment and one of its activities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct SciTag {
    experiment: u16,
    activity: u8,
}

/// A text or a number that is no tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSciTag(String);

impl fmt::Display for NoSciTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no SciTag: write EXPERIMENT.ACTIVITY, such as 2.16, of 1 to {EXPERIMENT_MAX} and 1 to {ACTIVITY_MAX}",
            self.0
        )
    }
}

impl core::error::Error for NoSciTag {}

impl SciTag {
    /// Of an experiment of 1 to 511 and an activity of 1 to 63.
    pub fn new(experiment: u16, activity: u8) -> Option<SciTag> {
        let is_known = (1..=EXPERIMENT_MAX).contains(&experiment) && (1..=ACTIVITY_MAX).contains(&activity);
        is_known.then_some(SciTag { experiment, activity })
    }

    /// Whose traffic it is.
    pub fn experiment(self) -> u16 {
        self.experiment
    }

    /// What it is for.
    pub fn activity(self) -> u8 {
        self.activity
    }

    /// The flow label of IPv6 that says so, of 20 bits: two of `noise`, the experiment with its bits turned round, one, the
    /// activity, two.
    pub fn flow_label(self, noise: u8) -> u32 {
        let noise = u32::from(noise);
        let turned = u32::from(self.experiment.reverse_bits() >> (u16::BITS - EXPERIMENT_BITS));
        (noise & 0b11) << 18
            | turned << 9
            | (noise >> 2 & 1) << 8
            | u32::from(self.activity) << 2
            | noise >> 3 & 0b11
    }
}

impl From<SciTag> for u16 {
    /// As job systems hand it on.
    fn from(tag: SciTag) -> u16 {
        tag.experiment << ACTIVITY_BITS | u16::from(tag.activity)
    }
}

impl TryFrom<u16> for SciTag {
    type Error = NoSciTag;

    fn try_from(number: u16) -> Result<SciTag, NoSciTag> {
        let activity = number as u8 & ACTIVITY_MAX;
        SciTag::new(number >> ACTIVITY_BITS, activity).ok_or_else(|| NoSciTag(number.to_string()))
    }
}

impl FromStr for SciTag {
    type Err = NoSciTag;

    fn from_str(text: &str) -> Result<SciTag, NoSciTag> {
        let read = || {
            let (experiment, activity) = text.split_once('.')?;
            SciTag::new(experiment.parse().ok()?, activity.parse().ok()?)
        };
        read().ok_or_else(|| NoSciTag(text.into()))
    }
}

impl fmt::Display for SciTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.experiment, self.activity)
    }
}

/// Of a flow label's 20 bits (SciTags technical specification).
const EXPERIMENT_BITS: u32 = 9;
const ACTIVITY_BITS: u32 = 6;
const EXPERIMENT_MAX: u16 = (1 << EXPERIMENT_BITS) - 1;
const ACTIVITY_MAX: u8 = (1 << ACTIVITY_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tag_names_an_experiment_and_an_activity() {
        let tag: SciTag = "2.16".parse().unwrap();
        assert_eq!((tag.experiment(), tag.activity(), u16::from(tag)), (2, 16, 144));
        for bad in
            ["", "2", "2.", ".16", "0.1", "1.0", "512.1", "1.64", "2.16.1", "2,16", "-2.16", "x.y", "2.99999"]
        {
            assert!(bad.parse::<SciTag>().unwrap_err().to_string().contains("2.16"), "{bad}");
        }
        assert_eq!("511.63".parse::<SciTag>().map(u16::from), Ok(0x7fff));
        for bad in [0, 64, 63, 0x8001, u16::MAX] {
            SciTag::try_from(bad).unwrap_err();
        }
    }

    #[test]
    #[allow(clippy::unusual_byte_groupings, reason = "grouped as the label's fields are")]
    fn a_flow_label_has_each_bit_in_its_place() {
        let of = |experiment, activity, noise| SciTag::new(experiment, activity).unwrap().flow_label(noise);
        // 00 | 000000010, turned 010000000 | 0 | 010000 | 00
        assert_eq!(of(2, 16, 0), 0b00_010000000_0_010000_00);
        assert_eq!(of(256, 1, 0), 0b00_000000001_0_000001_00);
        assert_eq!(of(256, 1, 0b11111), 0b11_000000001_1_000001_11);
    }

    proptest! {
        #[test]
        fn what_is_shown_or_sent_can_be_read_again(experiment in 1..=EXPERIMENT_MAX, activity in 1..=ACTIVITY_MAX, noise: u8) {
            let tag = SciTag::new(experiment, activity).unwrap();
            prop_assert_eq!(tag.to_string().parse(), Ok(tag));
            prop_assert_eq!(SciTag::try_from(u16::from(tag)), Ok(tag));
            let label = tag.flow_label(noise);
            prop_assert!(label < 1 << 20);
            prop_assert_eq!((label >> 2 & 0x3f) as u8, activity);
            let turned = (0..9).fold(0, |all, bit| all | (label >> (17 - bit) & 1) << bit);
            prop_assert_eq!(turned, u32::from(experiment));
        }
    }
}
