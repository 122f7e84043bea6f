//! When a segment is lost, which goes next and whether it may: RFC 6675 with RFC 9937 where the receiver tells what
//! it has beyond the first gap, RFC 6582 where it does not. How large the window is remains the controller's
//! business.

use super::prr::Prr;
use super::scoreboard::{Departure, News, Scoreboard, SegmentIndex};
use crate::control::{Controller, LossSample, Sent};
use crate::units::{DatagramNumber, Time};
use std::ops::Range;

/// The segments on their way and the rules for sending more.
#[derive(Debug)]
pub(super) struct Congestion {
    controller: Box<dyn Controller>,
    board: Scoreboard,
    phase: RecoveryPhase,
    /// Selective acknowledgements are in use.
    sack: bool,
    /// Whole bytes of a full segment.
    full: u64,
    totals: Totals,
    /// Where [`RecoveryPhase::Repair`] or [`RecoveryPhase::Timeout`] last ended or will end (RFC 6582's and RFC 6675's recovery point).
    recovery_point: SegmentIndex,
    /// Without selective acknowledgements: duplicates in a row.
    duplicates: u32,
    /// Without them: what the window is inflated by, or deflated (RFC 6582 §3.2).
    inflation: i64,
    /// Without them: what duplicates said to have arrived, and no cumulative acknowledgement yet.
    credit: u64,
    /// The segment that opens a repair goes out whatever the window.
    first_resend_due: bool,
    fast_recoveries: u64,
}

/// What is known of the path's use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    /// Bytes sent, as whole datagrams, everything counted as often as it was sent.
    pub sent: u64,
    /// Bytes that arrived, each counted once.
    pub delivered: u64,
    /// Bytes sent up to and including the newest segment that arrived.
    pub covered: u64,
    /// Largest datagram number that arrived.
    pub largest: DatagramNumber,
}

#[derive(Clone, Copy, Debug)]
enum RecoveryPhase {
    /// Nothing is being repaired.
    Open,
    /// Fast recovery.
    Repair { prr: Option<Prr>, is_rescued: bool },
    /// After a timeout, until all that was on its way has been acknowledged.
    Timeout,
}

/// What goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The first segment never sent.
    New,
    /// One sent before.
    Resend(SegmentIndex),
    /// The last one, sent again in case the end is lost.
    Rescue(SegmentIndex),
}

/// What an acknowledgement says, in segments.
#[derive(Clone, Debug)]
pub(super) struct AckedSegments<I> {
    /// All below has arrived.
    pub end: SegmentIndex,
    /// So has this.
    pub blocks: I,
    /// It is one that RFC 5681 §2 calls duplicate.
    pub is_duplicate: bool,
}

impl Congestion {
    /// Nothing sent. `full`: whole bytes of a full segment.
    pub fn new(controller: Box<dyn Controller>, sack: bool, full: u64) -> Congestion {
        Congestion {
            controller,
            board: Scoreboard::new(),
            phase: RecoveryPhase::Open,
            sack,
            full,
            totals: Totals::default(),
            recovery_point: 0,
            duplicates: 0,
            inflation: 0,
            credit: 0,
            first_resend_due: false,
            fast_recoveries: 0,
        }
    }

    /// What is on its way.
    pub fn board(&self) -> &Scoreboard {
        &self.board
    }

    /// Sums.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// How often a loss was noticed without a timeout.
    pub fn fast_recoveries(&self) -> u64 {
        self.fast_recoveries
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Controller {
        self.controller.as_ref()
    }

    /// The controller.
    pub fn controller_mut(&mut self) -> &mut dyn Controller {
        self.controller.as_mut()
    }

    /// Both sides have told what they can do.
    pub fn agree(&mut self, sack: bool, full: u64) {
        (self.sack, self.full) = (sack, full);
    }

    /// It is the repair of a loss, not the window, that says how much may be sent.
    pub fn is_repairing(&self) -> bool {
        matches!(self.phase, RecoveryPhase::Repair { .. })
    }

    /// Bytes that count against the window.
    pub fn in_flight(&self) -> u64 {
        // Both are far below 2⁶³: the one by the receive window, the other by it too.
        (self.board.pipe() as i64 - self.inflation).max(0) as u64
    }

    /// What arrived, in the controller's terms, is returned; losses have been told to it.
    pub fn on_ack<I: Iterator<Item = Range<SegmentIndex>>>(
        &mut self,
        now: Time,
        told: AckedSegments<I>,
    ) -> News {
        let mut news = News::default();
        let is_advance = told.end > self.board.una();
        self.board.acknowledge(told.end, &mut news);
        let acknowledged = news.delivered;
        if self.sack {
            told.blocks.for_each(|block| self.board.sack(block, &mut news));
        } else {
            self.credit_duplicates(&mut news, told.is_duplicate);
        }
        self.count(&news);
        if !matches!(self.phase, RecoveryPhase::Open) && self.board.una() >= self.recovery_point {
            self.phase = RecoveryPhase::Open;
            (self.duplicates, self.inflation) = (0, 0);
        }
        if self.sack {
            self.repair_by_sack(now, &news, is_advance);
        } else if told.is_duplicate {
            self.on_duplicate(now);
        } else if is_advance {
            self.on_partial(now, acknowledged);
        }
        news
    }

    /// Nothing was acknowledged for a whole timeout (RFC 6298 (5.4), RFC 5681 §3.1, RFC 6675 §5.1).
    pub fn on_timeout(&mut self, now: Time) {
        if self.board.is_reneged() {
            self.board.forget_sacked();
        }
        self.controller.on_timeout(now);
        let lost = self.board.lose_all();
        self.phase = RecoveryPhase::Timeout;
        self.recovery_point = self.board.next();
        (self.duplicates, self.inflation, self.first_resend_due) = (0, 0, false);
        self.tell_loss(now, lost, false);
    }

    /// What goes next (RFC 6675 §4, NextSeg), if anything. `has_new`: something never sent could go.
    pub fn choose(&mut self, has_new: bool) -> Option<Next> {
        if matches!(self.phase, RecoveryPhase::Open) {
            return has_new.then_some(Next::New);
        }
        if let Some(lost) = self.board.next_lost() {
            return Some(Next::Resend(lost));
        }
        if has_new {
            return Some(Next::New);
        }
        let RecoveryPhase::Repair { is_rescued, .. } = self.phase else { return None };
        if !self.sack {
            return None;
        }
        let rescue = || self.board.last_unsacked().filter(|_| !is_rescued).map(Next::Rescue);
        self.board.next_hole().map(Next::Resend).or_else(rescue)
    }

    /// Whether the window has room for it.
    pub fn may_send(&self, next: Next, weight: u64) -> bool {
        if self.first_resend_due && next != Next::New {
            return true;
        }
        match self.phase {
            RecoveryPhase::Repair { prr: Some(prr), .. } => prr.may_send(weight),
            _ => self
                .controller
                .window()
                .is_none_or(|window| self.in_flight().saturating_add(weight) <= window.max(self.full)),
        }
    }

    /// It went.
    pub fn on_sent(&mut self, now: Time, next: Next, number: DatagramNumber, weight: u32) {
        let bytes = u64::from(weight);
        self.totals.sent += bytes;
        let covered = self.totals.sent;
        match next {
            Next::New => self.board.push(number, now, weight, covered),
            Next::Resend(index) => self.board.resend(index, number, now, covered),
            Next::Rescue(index) => self.board.rescue(index, number, now, covered),
        }
        self.first_resend_due &= next == Next::New;
        if let RecoveryPhase::Repair { prr, is_rescued } = &mut self.phase {
            *is_rescued |= matches!(next, Next::Rescue(_));
            if let Some(prr) = prr {
                prr.on_sent(bytes);
            }
        }
        let in_flight = self.in_flight();
        self.controller.on_sent(&Sent { now, number, bytes, in_train: false, in_flight });
    }

    fn count(&mut self, news: &News) {
        let totals = &mut self.totals;
        totals.delivered += news.delivered;
        if let Some(Departure { number, covered, .. }) = news.latest {
            totals.largest = totals.largest.max(number);
            totals.covered = totals.covered.max(covered);
        }
        // Duplicates tell how much arrived, but not what.
        totals.covered = totals.covered.max(totals.delivered);
    }

    fn repair_by_sack(&mut self, now: Time, news: &News, is_advance: bool) {
        let lost = self.board.find_lost();
        if matches!(self.phase, RecoveryPhase::Open) && self.board.is_first_lost() {
            self.begin_repair(now, lost, self.board.unsacked() + news.delivered);
        } else {
            self.tell_loss(now, lost, false);
        }
        let in_flight = self.in_flight();
        if let RecoveryPhase::Repair { prr: Some(prr), .. } = &mut self.phase {
            prr.on_ack(news.delivered, in_flight, is_advance && lost == 0, self.full);
        }
    }

    /// RFC 9937 §5: without selective acknowledgements every duplicate tells of one more segment that arrived.
    fn credit_duplicates(&mut self, news: &mut News, is_duplicate: bool) {
        if is_duplicate && self.credit + self.full <= self.board.unsacked() {
            self.credit += self.full;
            news.delivered += self.full;
        } else {
            let known = self.credit.min(news.delivered);
            self.credit -= known;
            news.delivered -= known;
        }
    }

    /// RFC 6582 §3.2 (1) and (2), RFC 3042 before the third.
    fn on_duplicate(&mut self, now: Time) {
        let full = self.full as i64;
        match self.phase {
            RecoveryPhase::Open => {
                self.duplicates = self.duplicates.saturating_add(1);
                self.inflation = full * i64::from(self.duplicates.min(DUPLICATES_MAX - 1));
                let is_above = self.recovery_point == 0 || self.board.una() > self.recovery_point;
                if self.duplicates >= DUPLICATES_MAX && is_above {
                    let lost = self.board.lose_first();
                    self.inflation = full * i64::from(DUPLICATES_MAX);
                    self.begin_repair(now, lost, self.board.unsacked());
                }
            }
            RecoveryPhase::Repair { .. } => self.inflation += full,
            RecoveryPhase::Timeout => {}
        }
    }

    /// New data was acknowledged; in repair, not all of it (RFC 6582 §3.2 (3)).
    fn on_partial(&mut self, now: Time, acknowledged: u64) {
        match self.phase {
            RecoveryPhase::Open => (self.duplicates, self.inflation) = (0, 0),
            RecoveryPhase::Repair { .. } => {
                let lost = self.board.lose_first();
                self.inflation += self.full as i64 - acknowledged as i64;
                self.first_resend_due = true;
                self.tell_loss(now, lost, false);
            }
            RecoveryPhase::Timeout => {}
        }
    }

    fn begin_repair(&mut self, now: Time, lost: u64, flight: u64) {
        self.fast_recoveries += 1;
        self.recovery_point = self.board.next();
        self.tell_loss(now, lost, true);
        // A controller that does not reduce its window for a loss needs no help to arrive there.
        let target = self.controller.window().filter(|window| self.sack && *window < flight);
        let prr = target.map(|window| Prr::new(window.max(self.full), flight));
        self.first_resend_due = prr.is_none();
        self.phase = RecoveryPhase::Repair { prr, is_rescued: false };
    }

    fn tell_loss(&mut self, now: Time, lost_bytes: u64, new_episode: bool) {
        if lost_bytes > 0 || new_episode {
            let in_flight = self.in_flight();
            self.controller.on_loss(&LossSample { now, lost_bytes, new_episode, in_flight });
        }
    }
}

/// Duplicate acknowledgements that make a loss (RFC 5681 §3.2).
const DUPLICATES_MAX: u32 = 3;
