//! Things the other side must be told once, whatever becomes of the lane on which they travel.

use super::LaneId;
use super::frame::Frame;
use crate::units::Time;
use core::mem::discriminant;
use core::time::Duration;

/// What is to be told; each kind of frame once, the latest of it.
#[derive(Debug, Default)]
pub struct Notices {
    list: Vec<Notice>,
}

#[derive(Debug)]
struct Notice {
    frame: Frame,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// On no lane.
    Due,
    /// It went over this lane and may be lost with it.
    Sent(LaneId, Time),
    /// It was not answered on this lane: better another one.
    Again(LaneId),
}

impl Notices {
    /// Tell this, in place of an older frame of its kind.
    pub fn post(&mut self, frame: Frame) {
        self.withdraw(&frame);
        self.list.push(Notice { frame, state: State::Due });
    }

    /// No longer tell frames of this kind.
    pub fn withdraw(&mut self, like: &Frame) {
        self.list.retain(|notice| discriminant(&notice.frame) != discriminant(like));
    }

    /// Something for a lane that has room, if there is anything. `alone`: there is no other lane.
    pub fn next(&mut self, lane: LaneId, alone: bool, now: Time) -> Option<Frame> {
        let notice = self.list.iter_mut().find(|notice| match notice.state {
            State::Due => true,
            State::Sent(..) => false,
            State::Again(last) => alone || last != lane,
        })?;
        notice.state = State::Sent(lane, now);
        Some(notice.frame.clone())
    }

    /// Whether [`Notices::next`] has something for a lane.
    pub fn is_due(&self, lane: LaneId, alone: bool) -> bool {
        self.list.iter().any(|notice| match notice.state {
            State::Due => true,
            State::Sent(..) => false,
            State::Again(last) => alone || last != lane,
        })
    }

    /// Whether such a frame is to be told and on no lane.
    pub fn is_unsent(&self, like: &Frame) -> bool {
        let waits = |notice: &Notice| !matches!(notice.state, State::Sent(..));
        self.list.iter().any(|notice| discriminant(&notice.frame) == discriminant(like) && waits(notice))
    }

    /// A lane has died, and perhaps what it carried.
    pub fn lane_died(&mut self, lane: LaneId) {
        for notice in &mut self.list {
            if matches!(notice.state, State::Sent(on, _) | State::Again(on) if on == lane) {
                notice.state = State::Due;
            }
        }
    }

    /// Whatever was told longer ago than this and still stands is told again, over another lane if there is one.
    pub fn repeat(&mut self, like: &Frame, patience: Duration, now: Time) {
        for notice in self.list.iter_mut().filter(|n| discriminant(&n.frame) == discriminant(like)) {
            if let State::Sent(lane, at) = notice.state
                && now.since(at) >= patience
            {
                notice.state = State::Again(lane);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_notice_is_told_once_and_again_if_its_lane_dies() {
        let mut notices = Notices::default();
        notices.post(Frame::Want(3));
        notices.post(Frame::Want(5));
        assert_eq!(notices.next(1, false, Time::ZERO), Some(Frame::Want(5)));
        assert_eq!(notices.next(2, false, Time::ZERO), None);
        notices.lane_died(2);
        assert!(!notices.is_due(2, false));
        notices.lane_died(1);
        assert_eq!(notices.next(2, false, Time::ZERO), Some(Frame::Want(5)));
    }

    #[test]
    fn what_is_not_answered_goes_over_another_lane() {
        let mut notices = Notices::default();
        notices.post(Frame::End(9));
        notices.next(1, false, Time::ZERO);
        notices.repeat(&Frame::End(0), SECOND, Time::from_millis(999));
        assert!(!notices.is_due(2, false));
        notices.repeat(&Frame::End(0), SECOND, Time::from_millis(1000));
        assert!(notices.is_unsent(&Frame::End(0)) && !notices.is_unsent(&Frame::Stop));
        assert_eq!(notices.next(1, false, Time::ZERO), None);
        assert_eq!(notices.next(2, false, Time::from_millis(1000)), Some(Frame::End(9)));
        notices.repeat(&Frame::End(0), SECOND, Time::from_millis(5000));
        assert_eq!(notices.next(2, true, Time::ZERO), Some(Frame::End(9)), "there is only this lane");
    }
}
