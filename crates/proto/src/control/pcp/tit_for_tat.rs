//! When not to yield (PCP §3.5).

/// Where lowering the rate round after round does not shorten the queue, others fill it, and yielding only makes room
/// for more of theirs.
#[derive(Clone, Copy, Debug)]
pub(super) struct TitForTat {
    mode: Mode,
    /// Full compensation may be given up.
    may_fade: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// Compensation works, or has not been needed.
    Full(Yielded),
    /// It does not: only this share of it is applied, for the so-manieth round.
    Weak { strength: f64, rounds: u32 },
    /// The rate was cut by this share at this mean queueing delay (ns), to see whether that helps again.
    Trial { cut: f64, mean_ns: f64 },
}

/// What full compensation has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Yielded {
    /// Rounds with a queue; the mean queueing delay in the first, ns, and the rate then.
    rounds: u32,
    first_ns: f64,
    first_rate: f64,
    /// What sending slower since has taken off the queue if nobody filled it up, ns.
    drained_ns: f64,
}

/// A round of base traffic that met a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedRound {
    /// Mean queueing delay.
    pub mean_ns: f64,
    /// What was sent, bit/s.
    pub rate: f64,
    pub rtt_ns: f64,
    /// Datagrams were lost while the queue was about as long as it gets.
    pub overflowed: bool,
    /// The share of the rate that full compensation would take off.
    pub full: f64,
}

impl TitForTat {
    /// Nothing has been tried yet.
    pub const fn new(may_fade: bool) -> TitForTat {
        TitForTat { mode: FRESH, may_fade }
    }

    /// Others fill the queue, whatever we do.
    pub fn is_weak(&self) -> bool {
        !matches!(self.mode, Mode::Full(_))
    }

    /// A round without a queue: compensation works, or is not needed.
    pub fn on_empty(&mut self) {
        self.mode = FRESH;
    }

    /// A round with a queue is over. Returns the share of the rate to take off.
    pub fn on_round(&mut self, round: &QueuedRound) -> f64 {
        if let Mode::Trial { cut, mean_ns } = self.mode {
            let works = round.mean_ns < mean_ns - 0.5 * cut * round.rtt_ns;
            self.mode = if works { FRESH } else { WEAK };
        }
        match &mut self.mode {
            Mode::Full(yielded) => {
                if yielded.on_round(round) && self.may_fade {
                    self.mode = WEAK;
                    return round.full / DIVISOR;
                }
                round.full.min(CUT_MAX)
            }
            Mode::Weak { rounds, .. } if round.overflowed || *rounds >= RETRY_ROUNDS => {
                let cut = round.full.min(if round.overflowed { OVERFLOW_CUT_MAX } else { RETRY_CUT_MAX });
                self.mode = Mode::Trial { cut, mean_ns: round.mean_ns };
                cut
            }
            Mode::Weak { strength, rounds } => {
                *rounds += 1;
                if rounds.is_multiple_of(DIVIDE_ROUNDS) {
                    *strength = (*strength / DIVISOR).max(STRENGTH_MIN);
                }
                round.full * *strength
            }
            Mode::Trial { .. } => 0.0,
        }
    }
}

impl Yielded {
    /// True if it was all in vain.
    fn on_round(&mut self, round: &QueuedRound) -> bool {
        if self.rounds == 0 || round.mean_ns < self.first_ns * HELPED {
            *self = Yielded { first_ns: round.mean_ns, first_rate: round.rate, ..Yielded::default() };
        }
        self.rounds += 1;
        self.drained_ns += (1.0 - round.rate / self.first_rate) * round.rtt_ns;
        self.rounds > FUTILE_ROUNDS && self.drained_ns > self.first_ns * FUTILE_DRAIN
    }
}

const FRESH: Mode = Mode::Full(Yielded { rounds: 0, first_ns: 0.0, first_rate: 0.0, drained_ns: 0.0 });
const WEAK: Mode = Mode::Weak { strength: 1.0 / DIVISOR, rounds: 0 };

/// A full cut is meant to drain the queue in a round trip; it takes off this much at most. If after so many rounds …
const CUT_MAX: f64 = 0.5;
const FUTILE_ROUNDS: u32 = 3;
/// … so much has been held back that the queue should be gone, and half of it again …
const FUTILE_DRAIN: f64 = 1.5;
/// … but it is not shorter than this part of what it was, compensation does not work …
const HELPED: f64 = 0.7;
/// … and is divided by ten (PCP §3.5), again every few rounds, down to a thousandth.
const DIVISOR: f64 = 10.0;
const DIVIDE_ROUNDS: u32 = 4;
const STRENGTH_MIN: f64 = 0.001;
/// Probing flows alone could each take the others for TCPs. So when the queue overflows, where a TCP would halve its
/// rate, a cut of this much at most is tried; if it shortens the queue, compensation works.
const OVERFLOW_CUT_MAX: f64 = 0.125;
/// And after so many rounds one of this much, lest a flow that fills the queue alone goes on for ever.
const RETRY_ROUNDS: u32 = 64;
const RETRY_CUT_MAX: f64 = 1.0 / 16.0;

#[cfg(test)]
mod tests {
    use super::*;

    const RTT_NS: f64 = 50e6;

    fn round(mean_ns: f64, rate: f64) -> QueuedRound {
        QueuedRound { mean_ns, rate, rtt_ns: RTT_NS, overflowed: false, full: mean_ns / RTT_NS }
    }

    /// Full cuts at a queue of 10 ms that stays, until they are found to be in vain; returns the rate then.
    fn made_weak(tit_for_tat: &mut TitForTat) -> f64 {
        let mut rate = 10e6;
        for _ in 0..10 {
            rate *= 1.0 - tit_for_tat.on_round(&round(10e6, rate));
            if tit_for_tat.is_weak() {
                return rate;
            }
        }
        panic!("still full: {tit_for_tat:?}");
    }

    #[test]
    fn cuts_in_vain_are_divided_by_ten_again_and_again() {
        let mut tit_for_tat = TitForTat::new(true);
        let mut rate = 10e6;
        // A fifth each round: 0.2, 0.36 and 0.488 of 50 ms are held back, which would have drained 10 ms five times.
        let cuts: Vec<f64> = (0..8)
            .map(|_| {
                let cut = tit_for_tat.on_round(&round(10e6, rate));
                rate *= 1.0 - cut;
                cut
            })
            .collect();
        let expected = [0.2, 0.2, 0.2, 0.02, 0.02, 0.02, 0.02, 0.002];
        assert!(cuts.iter().zip(expected).all(|(cut, expected)| (cut - expected).abs() < 1e-12), "{cuts:?}");
    }

    #[test]
    fn cuts_that_help_stay_full() {
        let mut tit_for_tat = TitForTat::new(true);
        let mut rate = 10e6;
        for i in 0..20 {
            let mean_ns = 40e6 * 0.6f64.powi(i);
            rate *= 1.0 - tit_for_tat.on_round(&round(mean_ns, rate));
            assert!(!tit_for_tat.is_weak(), "{i}");
        }
    }

    #[test]
    fn a_queue_that_comes_back_because_we_sped_up_is_not_others() {
        let mut tit_for_tat = TitForTat::new(true);
        for _ in 0..100 {
            tit_for_tat.on_round(&round(2e6, 10e6));
        }
        assert!(!tit_for_tat.is_weak(), "nothing was held back for long");
    }

    #[test]
    fn an_overflow_is_an_opportunity_to_try_again() {
        for (after_ns, works) in [(9.9e6, false), (2e6, true)] {
            let mut tit_for_tat = TitForTat::new(true);
            let rate = made_weak(&mut tit_for_tat);
            let cut = tit_for_tat.on_round(&QueuedRound { overflowed: true, ..round(10e6, rate) });
            assert_eq!(cut, OVERFLOW_CUT_MAX);
            tit_for_tat.on_round(&round(after_ns, rate));
            assert_eq!(!tit_for_tat.is_weak(), works);
        }
    }

    #[test]
    fn a_lone_flow_finds_out_in_the_end() {
        let mut tit_for_tat = TitForTat::new(true);
        let rate = made_weak(&mut tit_for_tat);
        let cuts: Vec<f64> = (0..=RETRY_ROUNDS).map(|_| tit_for_tat.on_round(&round(10e6, rate))).collect();
        assert_eq!(*cuts.last().unwrap(), RETRY_CUT_MAX);
        tit_for_tat.on_round(&round(10e6 - 0.6 * RETRY_CUT_MAX * RTT_NS, rate));
        assert!(!tit_for_tat.is_weak());
    }
}
