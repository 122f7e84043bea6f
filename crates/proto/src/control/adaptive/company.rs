//! Whether others use the path, and what that makes of a loss.

use super::loss::RANDOM_MAX;
use super::rivals::{Compete, is_bbrs};
use super::{ALIKE, ALONE_SHARE, Adaptive, LITTLE, State, TICKS_PER_RTT};
use crate::control::bbr::RTT_AGE;
use crate::control::{AckSample, ControlConfig};
use crate::units::{Time, nanos};

impl Adaptive {
    /// What the link carries as far as known, bit/s. Hosts that bundle arrivals make pairs look faster than they were, and
    /// the train that began is longer: the lower of both counts.
    pub(super) fn link_rate(&self) -> Option<f64> {
        let policer = self.policer.map(|policer| policer.rate);
        [self.pairs.link(), self.link, policer].into_iter().flatten().reduce(f64::min)
    }

    /// The link carries far more than we get.
    pub(super) fn has_company(&self) -> bool {
        let delivered = self.bandwidth * (1.0 - self.loss_lately);
        match self.link_rate() {
            Some(link) => delivered < ALONE_SHARE * link,
            None => !self.pairs.is_seen() || self.delay.queue_ns > self.own_queue_ns(),
        }
    }

    /// We have less than a link of so many bit/s carries, where that is known.
    pub(super) fn has_less_than(&self, link: Option<f64>) -> bool {
        link.is_some_and(|link| self.bandwidth < (1.0 - ALIKE) * link)
    }

    /// The link carries so much more than we get that what we alone do makes no difference.
    pub(super) fn is_crowded(&self) -> bool {
        let delivered = self.bandwidth * (1.0 - self.loss_lately);
        self.link_rate().is_some_and(|link| delivered < CROWD_SHARE * link)
    }

    /// By how much the delay strays by chance, ns. In a crowd that is the crowd.
    pub(super) fn noise_ns(&self) -> f64 {
        if self.is_crowded() { 0.0 } else { NOISE_FACTOR * self.delay.noise_ns }
    }

    /// Datagrams that we send in a round trip.
    pub(super) fn packets_a_round(&self) -> f64 {
        self.bandwidth * nanos(self.rtt) as f64 / 8e9 / self.datagram_len
    }

    /// What is lost now is lost to all who share the path, and no trial of one of them could tell why: the queue is
    /// longer than our like make it, the delay that it is measured by may be wrong, or it stood though the link was not ours.
    pub(super) fn is_congested(&self) -> bool {
        let is_begun = self.startup.is_none() || self.loss_lately > RANDOM_MAX;
        let is_unsure = self.refresh.is_refuted || self.is_few();
        let is_theirs = is_unsure || self.delay.queue_ns > self.own_queue_ns();
        is_begun && (self.has_company() && is_theirs || self.refresh.is_shared)
    }

    /// A round ends, while the first rate is sought, that delivered `delivered` bit/s: with what it lost that is less than the link
    /// carries, and a part of the first train was lost, too. Others fill the queue: a policer lets the train pass.
    pub(super) fn meets_others(&self, ack: &AckSample, delivered: f64) -> bool {
        let (_, loss) = self.round.counted.until(ack, self.datagram_len);
        let sent = delivered / (1.0 - loss).max(0.1);
        let is_below = self.link_rate().is_some_and(|link| sent < ALONE_SHARE * link);
        self.startup.is_some() && self.met_full && !self.is_background && is_below && loss > ALIKE
    }

    /// So few datagrams a round trip that they do not fill its ticks, each of which needs two: they tell too little of the delay,
    /// while something waits.
    pub(super) fn is_few(&self) -> bool {
        self.packets_a_round() < f64::from(2 * TICKS_PER_RTT) && !self.refresh.is_idle
    }

    /// Hold our own, beginning at `bandwidth` bit/s.
    pub(super) fn compete_at(&mut self, bandwidth: f64) {
        let round_ns = nanos(self.rtt) as f64 + self.delay.queue_ns;
        self.compete(bandwidth * round_ns / 8e9 / self.datagram_len);
    }

    /// Hold our own, beginning with `window` datagrams on their way.
    pub(super) fn compete(&mut self, window: f64) {
        let config = ControlConfig { rtt: self.rtt, ..self.config };
        self.state = State::Compete(Box::new(Compete::new(config, window)));
        (self.growth, self.startup, self.policer) = (0.0, None, None);
        // A share that is lost at random can only be told without rivals.
        self.loss.random = 0.0;
        self.refresh.begin_anew();
    }

    /// End of a round beside rivals that delivered `delivered` bit/s.
    pub(super) fn look_beside_rivals(&mut self, now: Time, delivered: f64) {
        // A mark asks for an answer that a BBR does not give (RFC 3168 §5).
        let (link, is_bbr) = (self.link_rate(), self.dips.is_bbr(now) && !self.is_marked(now));
        let is_deep = is_bbrs(self.round.queue_least_ns, self.rtt);
        if let (State::Compete(compete), Some(link)) = (&mut self.state, link) {
            compete.match_bbr(now, is_bbr, link, delivered, self.rtt);
            compete.leave_half(is_deep, link);
            if compete.is_alone(delivered / link) {
                self.leave_rivals(now);
            }
        }
    }

    /// The rivals are gone.
    pub(super) fn leave_rivals(&mut self, now: Time) {
        if let State::Compete(compete) = &self.state {
            let window = compete.window_bytes() / self.datagram_len;
            // Who is back after so short a time had not left: a BBR drains the queue that often.
            self.refresh.rivals_left = Some((now + RTT_AGE, window));
            self.dips.forget_last();
            self.state = State::Cruise;
        }
    }
}

/// Who gets less than this share is one of many.
const CROWD_SHARE: f64 = 0.25;
/// Ticks stray by so much more at most than they do in the mean.
const NOISE_FACTOR: f64 = 4.0;
/// Above this share lost, what seems random may be a crowd's doing. A test sends a tenth less. If we have little of the link, all
/// together then send less by only this share, which ends no larger loss.
pub(super) const RANDOM_SHARED: f64 = ALIKE * LITTLE;
