//! Transfers of 250 KB over many paths, by who moves them, and what they say of the paper's claims.

use super::path::SenderKind;
use crate::report::{Claim, Interval, Statement};
use longhaul_sim::metrics::Summary;

pub(super) const CLAIMS: [Claim; 5] = [RATIO, BOUNDED, SLOW, PARALLEL, AS_FAST];
const RATIO: Claim = Claim::paper(
    "PCP §4.1, Figure 2",
    "PCP takes 0.52 s in the mean, TCP 1.33 s: 2.5 times as long and more",
);
const BOUNDED: Claim = Claim::paper("PCP §4.1", "every PCP transfer is done within 2 s");
const SLOW: Claim = Claim::paper("PCP §4.1", "more than 10 % of the TCP transfers take longer than 5 s");
const PARALLEL: Claim = Claim::paper(
    "PCP §4.1",
    "four parallel PCP transfers take about as long as one of TCP (within a quarter)",
);
const AS_FAST: Claim =
    Claim::ours("longhaul's default control takes no longer than CUBIC in the mean over the paths");

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKind {
    One(SenderKind),
    /// Four of PCP at the same time.
    FourPcp,
    /// PCP that remembers nothing, in the simulator.
    FreshPcp,
    /// TCP-SACK with Linux's timer, in the simulator.
    QuickTcp,
}

impl RowKind {
    pub(super) const MEASURED: [RowKind; 5] = [
        RowKind::One(SenderKind::Pcp),
        RowKind::One(SenderKind::Tcp),
        RowKind::FourPcp,
        RowKind::One(SenderKind::Kernel),
        RowKind::One(SenderKind::Adaptive),
    ];
    pub(super) const SIMULATED: [RowKind; 7] = [
        RowKind::One(SenderKind::Pcp),
        RowKind::One(SenderKind::Tcp),
        RowKind::FourPcp,
        RowKind::QuickTcp,
        RowKind::FreshPcp,
        RowKind::One(SenderKind::Cubic),
        RowKind::One(SenderKind::Adaptive),
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            RowKind::One(sender) => sender.name(),
            RowKind::FourPcp => "4 parallel PCP",
            RowKind::FreshPcp => "PCP without history",
            RowKind::QuickTcp => "TCP-SACK, timer of 0.2 s",
        }
    }

    /// The paper's mean, seconds.
    pub(super) fn paper_s(self) -> Option<f64> {
        match self {
            RowKind::One(SenderKind::Pcp) => Some(0.52),
            RowKind::One(SenderKind::Tcp) => Some(1.33),
            _ => None,
        }
    }
}

/// What the paper's sentence on all and on a tenth of the transfers is of: it stands below a figure of the paths' means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Transfers,
    Paths,
}

impl Reading {
    pub(super) fn words(self) -> &'static str {
        match self {
            Reading::Transfers => "of transfers",
            Reading::Paths => "of paths' means",
        }
    }
}

/// A row's times.
pub(super) struct Timed {
    pub(super) row: RowKind,
    /// Over the paths, of their means.
    pub(super) of_paths: Summary,
    pub(super) of_transfers: Summary,
    transfers: Vec<f64>,
    pub(super) path_means: Vec<f64>,
    /// Seconds of each transfer, path by path.
    of_path: Vec<Vec<f64>>,
}

impl Timed {
    pub(super) fn of(row: RowKind, times: &[Vec<Vec<f64>>], at: usize) -> Timed {
        let path_means: Vec<f64> =
            times.iter().map(|rows| Summary::of(rows[at].iter().copied()).mean).collect();
        let transfers: Vec<f64> = times.iter().flat_map(|rows| rows[at].iter().copied()).collect();
        Timed {
            row,
            of_paths: Summary::of(path_means.iter().copied()),
            of_transfers: Summary::of(transfers.iter().copied()),
            transfers,
            path_means,
            of_path: times.iter().map(|rows| rows[at].clone()).collect(),
        }
    }

    pub(super) fn share_above(&self, limit_s: f64) -> f64 {
        share_above(&self.transfers, limit_s)
    }

    /// The same of the paths' means, if that is how the paper is read; transfers over one path resemble each other.
    fn share_interval(&self, reading: Reading, limit_s: f64) -> Interval {
        match reading {
            Reading::Paths => Interval::of(&self.path_means, |means| {
                means.iter().filter(|mean| ***mean > limit_s).count() as f64 / means.len().max(1) as f64
            }),
            Reading::Transfers => {
                let shares: Vec<f64> = self.of_path.iter().map(|times| share_above(times, limit_s)).collect();
                Interval::of_mean(&shares)
            }
        }
    }

    /// The time of the slowest path, in the mean over its transfers, or of the slowest transfer.
    fn most(&self, reading: Reading) -> Interval {
        let means = self.path_means.iter().zip(&self.of_path);
        match (reading, means.max_by(|a, b| a.0.total_cmp(b.0))) {
            (Reading::Paths, Some((_, transfers))) => Interval::of_mean(transfers),
            _ => Interval::of_mean(&[self.of_transfers.max]),
        }
    }

    /// How many times as long as this one another row's transfers take, in the mean over the same paths.
    fn times(&self, other: &Timed) -> Interval {
        let both: Vec<(f64, f64)> =
            self.path_means.iter().copied().zip(other.path_means.iter().copied()).collect();
        Interval::of(&both, |drawn| {
            drawn.iter().map(|both| both.1).sum::<f64>() / drawn.iter().map(|both| both.0).sum::<f64>()
        })
    }
}

pub(super) fn share_above(seconds: &[f64], limit_s: f64) -> f64 {
    seconds.iter().filter(|&&time| time > limit_s).count() as f64 / seconds.len().max(1) as f64
}

/// What they say of [`CLAIMS`].
pub(super) fn judge(timed: &[Timed], reading: Reading) -> Vec<Statement> {
    let of = |row: RowKind| timed.iter().find(|one| one.row == row);
    let one = |sender: SenderKind| of(RowKind::One(sender));
    let (Some(pcp), Some(tcp), Some(four)) =
        (one(SenderKind::Pcp), one(SenderKind::Tcp), of(RowKind::FourPcp))
    else {
        return CLAIMS.iter().map(|claim| claim.leave_open(TOO_SHORT)).collect();
    };
    let (times, against_tcp) = (pcp.times(tcp), tcp.times(four));
    let (late, slow) = (pcp.share_interval(reading, 2.0), tcp.share_interval(reading, 5.0));
    let most_s = pcp.most(reading);
    let percent = |share: &Interval| {
        let [figure, from, to] = [share.figure, share.from, share.to].map(|share| share * 100.0);
        format!("{figure:.1} % ({from:.1} to {to:.1})")
    };
    let quick = of(RowKind::QuickTcp)
        .map(|quick| format!(" ({:.2} with TCP's timer at 0.2 s)", quick.of_paths.mean / pcp.of_paths.mean));
    let why = |quiet: &'static str| if times.figure < 1.0 { BUSY_HOST } else { quiet };
    let transfers = pcp.transfers.len().min(tcp.transfers.len());
    vec![
        RATIO
            .judge_by(
                times.at_least(2.5),
                transfers,
                format!(
                    "{:.2} against {:.2} s, {times} times as long{}",
                    pcp.of_paths.mean,
                    tcp.of_paths.mean,
                    quick.unwrap_or_default()
                ),
            )
            .otherwise(why(
                "the paper's TCP met more losses than ours: the more than 10 % of its transfers above 5 s make over 0.5 of \
                 its mean of 1.33 s, and it does not tell what its paths lost; on clean paths both are bound by their \
                 start-up",
            )),
        BOUNDED
            .judge_by(
                most_s.at_most(2.0),
                transfers,
                format!("{most_s} s at most; above 2 s {} {}", percent(&late), reading.words()),
            )
            .otherwise(why("paths of 5 or 10 Mb/s of which others take most leave less than 1 Mb/s, over which 250 KB take 2 s")),
        SLOW.judge_by(slow.at_least(0.1), transfers, format!("{} {} of TCP", percent(&slow), reading.words()))
            .otherwise(
                "the paper's paths must have lost more, or more in a row, than ours: 250 KB in 5 s are 0.4 Mb/s, which \
                 TCP falls below at about 5 % loss",
            ),
        PARALLEL
            .judge_by(
                against_tcp.within(0.75..=1.25),
                transfers,
                format!("{:.2} s each, {against_tcp} of TCP's time", four.of_paths.mean),
            )
            .otherwise(why("where nothing is lost the four share what one has for itself")),
        match one(SenderKind::Adaptive).zip(one(SenderKind::Kernel).or(one(SenderKind::Cubic))) {
            None => AS_FAST.leave_open(TOO_SHORT),
            Some((ours, kernel)) => AS_FAST
                .judge_by(
                    kernel.times(ours).at_most(1.0),
                    transfers,
                    format!("{:.2} against {:.2} s", ours.of_paths.mean, kernel.of_paths.mean),
                )
                .otherwise(
                    "250 KB are seventeen segments ten times over: on a fast path they are a matter of the first few round \
                     trips, in which CUBIC's ten segments, doubled, are as fast as any search for the path's rate",
                ),
        },
    ]
}

const BUSY_HOST: &str = "PCP takes for a queue what is a thread that got its processor late, the emulator's or its own, where \
                         other programs want the same processors; the simulator's experiment of this name is free of that";
const TOO_SHORT: &str = "this run was too short for it";

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// So many times of each of two paths, by row.
    pub(crate) fn timed_often(count: usize, of: impl Fn(RowKind) -> [f64; 2]) -> Vec<Timed> {
        let of_path = |path: usize| RowKind::MEASURED.iter().map(|&row| vec![of(row)[path]; count]).collect();
        let times: Vec<Vec<Vec<f64>>> = (0..2).map(of_path).collect();
        RowKind::MEASURED.iter().enumerate().map(|(at, &row)| Timed::of(row, &times, at)).collect()
    }

    pub(crate) fn timed(of: impl Fn(RowKind) -> [f64; 2]) -> Vec<Timed> {
        timed_often(1, of)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::timed_often;
    use super::*;
    use crate::report::Verdict;

    fn verdicts(timed: &[Timed], reading: Reading) -> Vec<Verdict> {
        judge(timed, reading).into_iter().map(|one| one.verdict).collect()
    }

    #[test]
    fn the_papers_own_figures_pass() {
        use Verdict::{Met, NotReproduced, Open, Reproduced};
        let papers = |row| match row {
            RowKind::One(SenderKind::Tcp) => [5.2, 5.5],
            RowKind::FourPcp => [5.0, 5.1],
            RowKind::One(SenderKind::Kernel) => [0.7, 0.8],
            _ => [0.4, 0.6],
        };
        for reading in [Reading::Transfers, Reading::Paths] {
            let pass = [Reproduced, Reproduced, Reproduced, Reproduced, Met];
            assert_eq!(verdicts(&timed_often(100, papers), reading), pass);
            assert_eq!(verdicts(&timed_often(99, papers), reading), [Open; 5], "of too few transfers");
            let slow = |row| if row == RowKind::One(SenderKind::Pcp) { [2.1, 2.2] } else { papers(row) };
            assert_eq!(verdicts(&timed_often(100, slow), reading)[1], NotReproduced);
        }
    }

    #[test]
    fn a_slow_transfer_is_not_a_slow_path() {
        let mut times: Vec<Vec<Vec<f64>>> = vec![vec![vec![0.5; 200]; RowKind::MEASURED.len()]; 2];
        times[0][0][7] = 2.5;
        times[1][0][7] = 2.5;
        let rows: Vec<Timed> =
            RowKind::MEASURED.iter().enumerate().map(|(at, &row)| Timed::of(row, &times, at)).collect();
        assert_eq!(verdicts(&rows, Reading::Transfers)[1], Verdict::NotReproduced);
        assert_eq!(verdicts(&rows, Reading::Paths)[1], Verdict::Reproduced);
    }
}
