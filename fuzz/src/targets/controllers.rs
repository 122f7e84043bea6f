//! Controllers of every kind, told of things that happen on paths and of things that cannot.

use super::Script;
use longhaul_proto::control::{
    AckSample, ControlConfig, Controller, ControllerKind, LossSample, ProbeTrain, Remembered, Sent,
    TimedArrival,
};
use longhaul_proto::path::PathRate;
use longhaul_proto::units::{Rate, Time, nanos};
use std::collections::VecDeque;
use std::time::Duration;

const LEN: u64 = 1038;
const RTT: Duration = Duration::from_millis(20);

/// Whatever happens, a controller gives a rate and a window that a pacer can obey, and once the path is well again a
/// transfer gets on.
pub fn controller(bytes: &[u8]) {
    let mut script = Script { bytes };
    let (Some(kind), Some(choice)) = (script.u8(), script.u8()) else { return };
    let kind = ControllerKind::ALL[usize::from(kind) % ControllerKind::ALL.len()];
    let is_absurd = choice & 1 > 0;
    let mut path = Path::new(kind.build(config(choice)));
    path.check();
    while path.step(&mut script, is_absurd).is_some() {
        path.check();
    }
    path.recover(kind);
}

/// All that a controller may be told at its birth, a bit each.
fn config(choice: u8) -> ControlConfig {
    let has = |bit: u8| choice & 1 << bit > 0;
    let rate = Rate::from_mbps(f64::from(choice).max(1.0));
    ControlConfig {
        path_rate: has(1).then_some(PathRate {
            rate,
            passed: rate.scale(f64::from(choice) / 255.0),
            is_bottleneck: has(2),
        }),
        rate: Some(Rate::from_mbps(50.0)),
        remembered: has(3).then_some(Remembered { rate, share: f64::from(choice) / 255.0 }),
        background: has(4),
        paced: has(5),
        streams: u32::from(choice / 32),
        ..ControlConfig::new(LEN, if has(6) { RTT } else { Duration::ZERO })
    }
}

/// A datagram on its way.
#[derive(Clone, Copy, Debug)]
struct OnWay {
    number: u64,
    sent: Time,
    in_train: bool,
}

/// What an endpoint knows, and the path behind it.
#[derive(Debug)]
struct Path {
    control: Box<dyn Controller>,
    now: Time,
    on_way: VecDeque<OnWay>,
    next: u64,
    train_left: u32,
    train_gap: Duration,
    episode_from: u64,
    /// Totals, in bytes.
    received: u64,
    overrun: u64,
    marked: u64,
    rtt_min: Duration,
    told: Vec<TimedArrival>,
}

impl Path {
    fn new(control: Box<dyn Controller>) -> Path {
        Path {
            control,
            now: Time::from_millis(1),
            on_way: VecDeque::new(),
            next: 0,
            train_left: 0,
            train_gap: Duration::ZERO,
            episode_from: 0,
            received: 0,
            overrun: 0,
            marked: 0,
            rtt_min: RTT,
            told: vec![],
        }
    }

    /// What holds at any time.
    fn check(&self) {
        let control = &self.control;
        let (rate, window) = (control.pacing_rate(), control.window());
        assert!(rate.is_none_or(|rate| rate > Rate(0) && rate < Rate(u64::MAX)), "{rate:?} {control:?}");
        assert!(window.is_none_or(|window| window >= LEN), "{window:?} {control:?}");
        assert!(control.burst() <= BURST_MAX, "{control:?}");
        let snapshot = control.snapshot();
        assert_eq!((snapshot.pacing_rate, snapshot.window), (rate, window), "{control:?}");
        assert!((0.0..=1.0).contains(&snapshot.random_loss), "{snapshot:?}");
    }

    /// One thing that happens.
    fn step(&mut self, script: &mut Script<'_>, is_absurd: bool) -> Option<()> {
        let kind = script.u8()?;
        self.now = self.now + Duration::from_micros(u64::from(script.u16()?) * 8);
        match (kind % 16, is_absurd) {
            (0..4, _) => {
                let count = script.u8()?;
                (0..count).for_each(|_| self.send());
            }
            (4..9, _) => {
                let happened = Happened {
                    count: usize::from(script.u8()?),
                    lost: script.u8()?,
                    delay: Duration::from_micros(u64::from(script.u16()?)),
                    pressure: script.u8()?,
                    is_app_limited: kind & 16 > 0,
                    has_latest: kind & 32 == 0,
                    is_overrun: kind & 64 > 0,
                };
                self.acknowledge(&happened);
            }
            (9, _) => self.time_out(),
            // Minutes and hours.
            (10, _) => self.now = self.now + Duration::from_secs(script.u16()?.into()),
            (11, _) => self.poll_probe(),
            (12, _) => self.control.on_timed(self.now, &self.told),
            (13, true) => self.absurd_ack(script, kind)?,
            (14, true) => self.absurd_loss(script, kind)?,
            (15, true) => self.absurd_train(script)?,
            // The train ends early: nothing more to send.
            _ => self.train_left = 0,
        }
        Some(())
    }

    fn poll_probe(&mut self) {
        if self.train_left > 0 {
            return;
        }
        if let Some(ProbeTrain { datagrams, rate }) = self.control.poll_probe(self.now) {
            assert!((1..=TRAIN_MAX).contains(&datagrams) && rate > Rate(0), "{datagrams} at {rate}");
            self.train_left = datagrams;
            self.train_gap = rate.time_for(LEN).min(TRAIN_GAP_MAX);
        }
    }

    fn send(&mut self) {
        self.poll_probe();
        let in_train = self.train_left > 0;
        if in_train {
            self.train_left -= 1;
            self.now = self.now + self.train_gap;
        }
        let (now, number) = (self.now, self.next);
        self.next += 1;
        self.on_way.push_back(OnWay { number, sent: now, in_train });
        let in_flight = self.in_flight();
        self.control.on_sent(&Sent { now, number, bytes: LEN, in_train, in_flight });
    }

    fn in_flight(&self) -> u64 {
        self.on_way.len() as u64 * LEN
    }

    /// An acknowledgement of the oldest datagrams, in the order in which an endpoint tells of it.
    fn acknowledge(&mut self, happened: &Happened) {
        let (mut lost, mut got): (Vec<OnWay>, Vec<OnWay>) = (vec![], vec![]);
        for i in 0..happened.count.min(self.on_way.len()) {
            let side = if happened.lost & 1 << (i % 8) > 0 { &mut lost } else { &mut got };
            side.extend(self.on_way.pop_front());
        }
        let arrival = |datagram: &OnWay| datagram.sent + RTT / 2 + happened.delay + CLOCK_AHEAD;
        let Some(latest) = got.last().copied() else {
            // Nobody tells of these now: found lost later.
            lost.into_iter().rev().for_each(|datagram| self.on_way.push_front(datagram));
            return;
        };
        self.now = self.now.max(latest.sent + RTT + happened.delay);
        let train = got.iter().filter(|datagram| datagram.in_train);
        self.told =
            train.map(|d| TimedArrival { number: d.number, sent: d.sent, arrival: arrival(d) }).collect();
        if !self.told.is_empty() {
            self.control.on_timed(self.now, &self.told);
        }
        self.lose(&lost);
        let bytes = got.len() as u64 * LEN;
        self.received = self.received.saturating_add(bytes);
        if happened.is_overrun {
            self.overrun = self.overrun.saturating_add(bytes / 2);
        }
        if happened.pressure % 4 == 1 {
            self.marked = self.marked.saturating_add(bytes / 2);
        }
        let rtt = self.now.since(latest.sent);
        self.rtt_min = self.rtt_min.min(rtt);
        let one_way_ns = arrival(&latest).0.wrapping_sub(latest.sent.0).cast_signed();
        self.control.on_ack(&AckSample {
            now: self.now,
            arrival: arrival(&latest),
            one_way_ns: happened.has_latest.then_some(one_way_ns),
            rtt: happened.has_latest.then_some(rtt),
            rtt_min: self.rtt_min,
            received_bytes: self.received,
            accepted_bytes: self.received,
            covered_bytes: self.received.max((latest.number + 1).saturating_mul(LEN)),
            overrun_bytes: self.overrun,
            ce_bytes: self.marked,
            pressure: f64::from(happened.pressure) / 255.0,
            latest: latest.number,
            largest: latest.number,
            next_number: self.next,
            in_flight: self.in_flight(),
            app_limited: happened.is_app_limited,
            time_lost: Duration::ZERO,
        });
    }

    fn lose(&mut self, lost: &[OnWay]) {
        let Some(last) = lost.last() else { return };
        let new_episode = last.number >= self.episode_from;
        if new_episode {
            self.episode_from = self.next;
        }
        let (now, lost_bytes, in_flight) = (self.now, lost.len() as u64 * LEN, self.in_flight());
        self.control.on_loss(&LossSample { now, lost_bytes, new_episode, in_flight });
    }

    /// Silence: as the object's sender, which tells of the timeout and then of what it gives up.
    fn time_out(&mut self) {
        self.now = self.now + Duration::from_secs(1);
        self.control.on_timeout(self.now);
        let lost: Vec<OnWay> = self.on_way.drain(..).collect();
        self.lose(&lost);
    }

    fn absurd_ack(&mut self, script: &mut Script<'_>, kind: u8) -> Option<()> {
        let mut number = || script.u64();
        let ack = AckSample {
            now: self.now,
            arrival: Time(number()?),
            one_way_ns: Some(number()?.cast_signed()),
            rtt: Some(Duration::from_nanos(number()?)),
            rtt_min: Duration::from_nanos(number()?),
            received_bytes: number()?,
            accepted_bytes: number()?,
            covered_bytes: number()?,
            overrun_bytes: number()?,
            ce_bytes: number()?,
            pressure: f64::from(kind & 64) / 64.0,
            latest: number()?,
            largest: number()?,
            next_number: number()?,
            in_flight: number()?,
            app_limited: kind & 16 > 0,
            time_lost: Duration::from_nanos(number()?),
        };
        // No endpoint lets totals go back.
        self.received = self.received.max(ack.received_bytes.max(ack.accepted_bytes).max(ack.covered_bytes));
        self.overrun = self.overrun.max(ack.overrun_bytes);
        self.marked = self.marked.max(ack.ce_bytes);
        self.control.on_ack(&ack);
        Some(())
    }

    fn absurd_loss(&mut self, script: &mut Script<'_>, kind: u8) -> Option<()> {
        let (now, lost_bytes, in_flight) = (self.now, script.u64()?, script.u64()?);
        self.control.on_loss(&LossSample { now, lost_bytes, new_episode: kind & 16 > 0, in_flight });
        Some(())
    }

    fn absurd_train(&mut self, script: &mut Script<'_>) -> Option<()> {
        let arrivals: Vec<TimedArrival> = std::iter::from_fn(|| {
            let (number, sent, arrival) = (script.u64()?, Time(script.u64()?), Time(script.u64()?));
            Some(TimedArrival { number, sent, arrival })
        })
        .take(8)
        .collect();
        self.control.on_timed(self.now, &arrivals);
        let number = arrivals.last()?.number;
        let in_train = number % 2 > 0;
        self.control.on_sent(&Sent { now: self.now, number, bytes: LEN, in_train, in_flight: number });
        Some(())
    }

    /// A path without loss and with an empty queue: the transfer gets on after a while.
    fn recover(&mut self, kind: ControllerKind) {
        if self.received > TOTAL_MAX || self.overrun.max(self.marked) > TOTAL_MAX {
            return;
        }
        self.train_left = 0;
        self.on_way.clear();
        let mut credit_ns = 0;
        let mut rounds = VecDeque::new();
        for _ in 0..ROUNDS_MAX {
            let next = self.next;
            for _ in 0..STEPS_PER_ROUND {
                self.now = self.now + RTT / STEPS_PER_ROUND;
                self.acknowledge_what_is_due();
                self.check();
                self.send_what_may_go(&mut credit_ns);
            }
            rounds.push_back(self.next - next);
            if rounds.len() > ROUNDS_JUDGED {
                rounds.pop_front();
                if rounds.iter().sum::<u64>() >= MOVES {
                    return;
                }
            }
        }
        panic!("{} has stalled: {rounds:?} {:?}", kind.name(), self.control);
    }

    fn acknowledge_what_is_due(&mut self) {
        let count = self.on_way.partition_point(|datagram| datagram.sent + RTT <= self.now);
        let happened = Happened { count, has_latest: true, ..Happened::default() };
        self.acknowledge(&happened);
    }

    fn send_what_may_go(&mut self, credit_ns: &mut u64) {
        let step = nanos(RTT / STEPS_PER_ROUND);
        *credit_ns = credit_ns.saturating_add(step);
        for _ in 0..SENT_PER_STEP_MAX {
            self.poll_probe();
            if self.train_left > 0 {
                (0..self.train_left).for_each(|_| self.send());
                continue;
            }
            let gap = self.control.pacing_rate().map_or(0, |rate| nanos(rate.time_for(LEN)));
            let is_full = self.control.window().is_some_and(|window| self.in_flight() + LEN > window);
            if is_full || gap > *credit_ns {
                break;
            }
            *credit_ns -= gap;
            self.send();
        }
        // As a pacer: credit is for the datagram that is due, and a little more.
        *credit_ns = (*credit_ns).min(step.max(nanos(CREDIT_MAX)));
    }
}

/// What an acknowledgement tells.
#[derive(Clone, Copy, Debug, Default)]
struct Happened {
    count: usize,
    /// Which of any eight datagrams did not come in.
    lost: u8,
    delay: Duration,
    pressure: u8,
    is_app_limited: bool,
    has_latest: bool,
    is_overrun: bool,
}

pub fn controller_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![];
    for kind in 0..ControllerKind::ALL.len() as u8 {
        seeds.push(lossy(kind));
        seeds.push(silent(kind));
        seeds.push(absurd(kind));
        seeds.push(clock_jumps(kind));
    }
    seeds
}

/// Growth, a queue, then losses.
fn lossy(kind: u8) -> Vec<u8> {
    let mut script = vec![kind, 0b0110_0000];
    for round in 0..30u8 {
        script.extend([0, 0, 100, 20 + round]);
        let lost = if round % 10 == 9 { 0b1000 } else { 0 };
        script.extend([4, 4, 0, 20 + round, lost, round, 0, 0]);
    }
    script
}

/// A train, silence, idle hours, the same train told again.
fn silent(kind: u8) -> Vec<u8> {
    let mut script = vec![kind, 0b0111_1110];
    for _ in 0..4 {
        script.extend([11, 0, 100, 0, 0, 100, 30, 4, 9, 0, 30, 0, 0, 0, 0, 12, 0, 0]);
        script.extend([0, 0, 0, 8, 9, 0, 0, 9, 0, 0, 10, 0, 0, 14, 0, 13, 0, 0]);
    }
    script
}

/// Numbers out of range in each place.
fn absurd(kind: u8) -> Vec<u8> {
    let mut script = vec![kind, 0b0100_0001];
    let mut number = 1u64;
    for _ in 0..3 {
        script.extend([0, 0, 100, 20, 4, 9, 0, 10, 0, 0, 0, 0]);
        for (what, count) in [(13, 13), (14, 2), (15, 24)] {
            script.extend([what, 0, 1]);
            for _ in 0..count {
                script.extend(number.to_be_bytes());
                number = number.rotate_left(21).wrapping_mul(5);
            }
        }
    }
    script
}

/// The receiver's clock jumps from one end of what can be told to the other while a refresh of the default control is
/// under way.
fn clock_jumps(kind: u8) -> Vec<u8> {
    let mut script = vec![kind, 0b0100_0001];
    for step in 1..100u64 {
        let one_way = if step < 27 { i64::MAX } else { i64::MIN };
        let (number, bytes, rtt) = (step * 20, step * 20 * LEN, nanos(RTT));
        // 20 ms later.
        script.extend([13, 0x09, 0xc4]);
        let arrival = step * 20_000_000;
        let told = [arrival, one_way.cast_unsigned(), rtt, rtt, bytes, bytes, bytes, 0, number, number];
        told.into_iter().chain([number + 1, LEN, 0]).for_each(|number| script.extend(number.to_be_bytes()));
    }
    script
}

/// The receiver's clock against the sender's.
const CLOCK_AHEAD: Duration = Duration::from_secs(1000);
const BURST_MAX: Duration = Duration::from_millis(100);
/// Datagrams in a train.
const TRAIN_MAX: u32 = 256;
/// Slower trains leave at this spacing.
const TRAIN_GAP_MAX: Duration = Duration::from_secs(1);
/// Beyond it totals have no room to go on.
const TOTAL_MAX: u64 = 1 << 62;
const STEPS_PER_ROUND: u32 = 20;
const SENT_PER_STEP_MAX: u32 = 20;
const CREDIT_MAX: Duration = Duration::from_secs(1);
/// The transfer must have come back to life within so many round trips.
const ROUNDS_MAX: u32 = 3000;
const ROUNDS_JUDGED: usize = 10;
/// Two datagrams a round trip, with a round trip to spare for what is found at its edges.
const MOVES: u64 = 2 * (ROUNDS_JUDGED as u64 - 1);
