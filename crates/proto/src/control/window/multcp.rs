//! MulTCP (Crowcroft and Oechslin 1998): one flow that takes the share of N.

use super::{Acked, Lost, Rule};

/// N flows in one.
#[derive(Clone, Copy, Debug)]
pub struct MulTcp {
    streams: f64,
}

impl MulTcp {
    /// As many flows as `streams`, at least one.
    pub fn new(streams: u32) -> MulTcp {
        MulTcp { streams: f64::from(streams.max(1)) }
    }
}

impl Rule for MulTcp {
    fn grow(&mut self, acked: &Acked) -> f64 {
        acked.window + self.streams * acked.segments / acked.window
    }

    fn reduce(&mut self, lost: &Lost) -> f64 {
        // One of the flows halves its window.
        lost.window * (self.streams - 0.5) / self.streams
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, Path};
    use super::*;
    use core::time::Duration;

    #[test]
    fn grows_by_n_and_gives_up_half_of_an_nth() {
        for (streams, left) in [(1, 0.5), (2, 0.75), (4, 0.875), (10, 0.95)] {
            let path = Path::delay(Duration::from_millis(100));
            let mut flow = Flow::in_avoidance(path, MulTcp::new(streams), 400.0);
            flow.run_for(Duration::from_millis(1050));
            let grown = (flow.window() - 400.0) / f64::from(streams);
            assert!((9.5..10.5).contains(&grown), "{streams}: {grown}");
            let (before, after) = flow.lose_one();
            assert!((after / before - left).abs() < 0.002, "{streams}: {before} {after}");
        }
        let mut none = MulTcp::new(0);
        assert_eq!(
            none.reduce(&Lost { now: Default::default(), window: 8.0, by_timeout: false, by_mark: false }),
            4.0
        );
    }
}
