//! What PCP consists of beside its plain rule, to be switched off by experiments that ask what each is worth.

/// A mechanism beside the plain rule: probe with a paced train, raise the rate if its delays do not grow, else halve the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PcpPart {
    /// The base rate is lowered when a queue builds (§3.2).
    Compensation,
    /// A plain queue lowers it before the round trip is over.
    EarlyCut,
    /// Base traffic behind a train that exceeded the path tells nothing.
    TrainShadow,
    /// Delays that jump are no queue: how far they jump is measured.
    JitterMargin,
    /// The least delay is aged.
    Ageing,
    /// A probe that met a queue must show it draining.
    Burden,
    /// Compensation fades where it does not help (§3.5).
    TitForTat,
    /// A train is judged by a line through all of its delays (§3.1), not by its ends.
    Line,
    /// A growth that may be noise is accepted with the probability that it is (§3.1).
    Chance,
    /// A queue that grows by a few percent of the time fails no probe.
    Tolerance,
    /// Trains are longer than five datagrams, and shorter again where some get lost.
    TrainLength,
    /// While a train's result is out, base traffic makes up for what it sent beyond the base rate.
    Repay,
    /// Failed probes are repeated less and less often (§3.3).
    BackOff,
    /// The step does not shrink below a datagram in a round trip.
    LeastStep,
    /// A transfer begins with what the last one found (§3.4).
    History,
    /// What falls due within a quarter of a millisecond leaves together.
    Burst,
}

impl PcpPart {
    /// Every one, in the order of the files that they are in.
    pub const ALL: [PcpPart; 16] = [
        PcpPart::Compensation,
        PcpPart::EarlyCut,
        PcpPart::TrainShadow,
        PcpPart::JitterMargin,
        PcpPart::Ageing,
        PcpPart::Burden,
        PcpPart::TitForTat,
        PcpPart::Line,
        PcpPart::Chance,
        PcpPart::Tolerance,
        PcpPart::TrainLength,
        PcpPart::Repay,
        PcpPart::BackOff,
        PcpPart::LeastStep,
        PcpPart::History,
        PcpPart::Burst,
    ];

    /// For a table.
    pub fn name(self) -> &'static str {
        match self {
            PcpPart::Compensation => "rate compensation",
            PcpPart::EarlyCut => "early cut",
            PcpPart::TrainShadow => "train shadow",
            PcpPart::JitterMargin => "jitter margin",
            PcpPart::Ageing => "ageing of the least delay",
            PcpPart::Burden => "burden of a probe",
            PcpPart::TitForTat => "tit for tat",
            PcpPart::Line => "least squares",
            PcpPart::Chance => "probabilistic accept",
            PcpPart::Tolerance => "tolerance",
            PcpPart::TrainLength => "train length",
            PcpPart::Repay => "repaying a train",
            PcpPart::BackOff => "back-off",
            PcpPart::LeastStep => "least step",
            PcpPart::History => "history",
            PcpPart::Burst => "bursts",
        }
    }
}

/// The part that is switched off, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Without(pub Option<PcpPart>);

impl Without {
    /// Whether the part does what it is there for.
    pub fn has(self, part: PcpPart) -> bool {
        self.0 != Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_is_off_and_none_by_default() {
        for part in PcpPart::ALL {
            assert!(Without::default().has(part));
            let off = PcpPart::ALL.iter().filter(|other| !Without(Some(part)).has(**other));
            assert!(off.eq([&part]), "{}", part.name());
        }
    }
}
