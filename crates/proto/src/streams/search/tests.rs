use super::*;

const RTT: Duration = Duration::from_millis(50);
const STEP: Duration = Duration::from_millis(100);

/// One that ends at `now`, on a path without loss or queue.
fn interval(now: Time, acked: u64, streams: u32) -> Interval {
    Interval {
        now,
        span: STEP,
        acked,
        streams,
        with_losses: 0,
        window_bound: 0,
        lost: 0,
        rtt: RTT,
        queue: Duration::ZERO,
        busy: true,
    }
}

/// A path on which n streams get `rate(n)` bytes a second after a slow start of some round trips, give or take
/// `noise` of it.
struct Path {
    search: Search,
    now: Time,
    rng: fastrand::Rng,
    noise: f64,
    streams: u32,
    changed: Time,
    /// How many streams were wanted, and from when on.
    course: Vec<(f64, u32)>,
}

impl Path {
    fn new(first: u32, noise: f64, seed: u64) -> Path {
        Path {
            search: Search::new(first, 32),
            now: Time::ZERO,
            rng: fastrand::Rng::with_seed(seed),
            noise,
            streams: 0,
            changed: Time::ZERO,
            course: vec![],
        }
    }

    fn run(&mut self, seconds: f64, rate: impl Fn(u32) -> f64) -> &mut Path {
        self.run_as(seconds, true, rate)
    }

    fn run_as(&mut self, seconds: f64, busy: bool, rate: impl Fn(u32) -> f64) -> &mut Path {
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.now < end {
            self.now = self.now + STEP;
            if self.streams != self.search.wanted() {
                (self.streams, self.changed) = (self.search.wanted(), self.now);
                self.course.push((self.now.as_secs_f64(), self.streams));
            }
            let grown = 2f64.powf(self.now.since(self.changed).as_secs_f64() / RTT.as_secs_f64() - 6.0);
            let luck = 1.0 + self.noise * (self.rng.f64() * 2.0 - 1.0);
            let acked = rate(self.streams) * luck * grown.min(1.0) * STEP.as_secs_f64();
            let is_full = rate(self.streams + 1) <= rate(self.streams) * 1.001;
            let queue = if is_full { RTT / 2 } else { Duration::ZERO };
            let interval = Interval { queue, busy, ..interval(self.now, acked as u64, self.streams) };
            self.search.on_interval(&interval);
        }
        self
    }

    fn chosen(&self) -> u32 {
        self.search.chosen().unwrap_or_else(|| panic!("still searching: {:?}", self.course))
    }
}

/// Streams that each get their own share until the path is full: window-limited, or held back by random loss
/// (Mathis's formula gives each the same rate).
fn capped(each: f64, cap: f64) -> impl Fn(u32) -> f64 {
    move |streams| (each * f64::from(streams)).min(cap)
}

#[test]
fn enough_streams_to_fill_the_path_and_no_more() {
    for (each, least, most) in [(12e6, 1, 1), (5e6, 2, 4), (1.5e6, 6, 9), (0.7e6, 13, 19), (0.1e6, 30, 32)] {
        let mut path = Path::new(1, 0.0, 1);
        let chosen = path.run(60.0, capped(each, 11e6)).chosen();
        assert!((least..=most).contains(&chosen), "{each}: {chosen} after {:?}", path.search.tried());
    }
}

#[test]
fn noise_does_not_lead_it_far_astray() {
    for seed in 0..50 {
        let chosen = Path::new(1, 0.2, seed).run(60.0, capped(1.5e6, 11e6)).chosen();
        assert!((5..=16).contains(&chosen), "seed {seed}: {chosen}");
        let chosen = Path::new(1, 0.2, seed).run(60.0, |_| 11e6).chosen();
        assert!(chosen <= 4, "seed {seed}, a flat path: {chosen}");
    }
}

#[test]
fn streams_that_get_into_each_others_way_are_not_taken() {
    // As figure 2 of the PSockets paper: a rise up to 12 streams, then a fall.
    let rate = |streams: u32| {
        let n = f64::from(streams);
        if streams <= 12 { n * 0.8e6 } else { 9.6e6 / (1.0 + (n - 12.0) / 20.0) }
    };
    let chosen = Path::new(1, 0.05, 3).run(60.0, rate).chosen();
    assert!((7..=16).contains(&chosen), "{chosen}");
}

#[test]
fn what_was_best_last_time_is_where_it_begins_and_it_may_go_down_from_there() {
    let mut path = Path::new(16, 0.0, 1);
    let chosen = path.run(60.0, capped(3e6, 11e6)).chosen();
    assert_eq!(path.course[0].1, 16);
    assert!((3..=5).contains(&chosen), "{chosen}: {:?}", path.course);
}

#[test]
fn it_keeps_its_choice_until_the_path_changes() {
    let mut path = Path::new(1, 0.1, 1);
    let chosen = path.run(30.0, capped(5e6, 11e6)).chosen();
    let steps = path.course.len();
    assert_eq!(path.run(300.0, capped(5e6, 11e6)).chosen(), chosen);
    assert_eq!(path.course.len(), steps, "it tried again for no reason");
    // Loss sets in: each stream gets a fifth of what it had.
    let chosen = path.run(60.0, capped(1e6, 11e6)).chosen();
    assert!(chosen >= 8, "{chosen}");
}

#[test]
fn a_program_that_sends_little_teaches_it_nothing() {
    let mut path = Path::new(1, 0.0, 1);
    path.run_as(60.0, false, |_| 1e3);
    assert_eq!((path.search.wanted(), path.search.tried().len()), (1, 0));
    let chosen = path.run(30.0, capped(5e6, 11e6)).chosen();
    assert_eq!(path.run_as(60.0, false, |_| 1e3).chosen(), chosen);
}

#[test]
fn streams_that_cannot_be_had_are_not_waited_for() {
    let mut search = Search::new(1, 32);
    let mut now = Time::ZERO;
    for _ in 0..600 {
        now = now + STEP;
        let streams = search.wanted().min(3);
        let acked = u64::from(streams) * 100_000;
        search.on_interval(&interval(now, acked, streams));
    }
    assert!(search.chosen().is_some_and(|streams| streams <= 3), "{search:?}");
}

/// A box on the way may forget streams that were silent for minutes; they are replaced.
#[test]
fn streams_lost_in_a_long_silence_are_not_taken_for_streams_that_cannot_be_had() {
    let mut search = Search::new(8, 32);
    let mut now = Time::ZERO;
    for streams in [8, 8, 1, 1].into_iter().chain(std::iter::repeat_n(8, 600)) {
        let is_quiet = now.as_secs_f64() < 60.0;
        now = now + if is_quiet { Duration::from_secs(20) } else { STEP };
        let streams = search.wanted().min(streams);
        search.on_interval(&Interval {
            busy: !is_quiet,
            ..interval(now, u64::from(streams) * 100_000, streams)
        });
    }
    assert!(search.wanted() >= 8, "{search:?}");
}

/// All streams die in an outage, and for a while none can be had.
#[test]
fn an_outage_does_not_lower_the_number_of_streams_for_good() {
    let mut search = Search::new(8, 32);
    let mut now = Time::ZERO;
    for _ in 0..2400 {
        now = now + STEP;
        let streams = if (60.0..120.0).contains(&now.as_secs_f64()) { 0 } else { search.wanted() };
        search.on_interval(&interval(now, u64::from(streams) * 100_000, streams));
    }
    assert!(search.wanted() >= 8, "{search:?}");
}

/// As behind a policer.
#[test]
fn where_packets_are_lost_without_a_queue_and_more_streams_gain_nothing_few_are_kept() {
    let mut search = Search::new(1, 32);
    let (mut now, mut most) = (Time::ZERO, 1);
    for _ in 0..600 {
        now = now + STEP;
        most = most.max(search.at_hand());
        let streams = search.wanted();
        search.on_interval(&Interval { with_losses: streams, lost: 3, ..interval(now, 1_000_000, streams) });
    }
    assert!(search.chosen().is_some_and(|streams| streams <= 2), "{search:?}");
    assert!(most <= 12, "{most} streams were opened");
}

/// Slow starts take long there: what loss by chance leaves of the first one is known at once, and streams are at hand.
#[test]
fn over_a_far_path_the_first_loss_by_chance_is_enough() {
    let mut search = Search::new(1, 32);
    let mut now = Time::ZERO;
    let mut hear = |with_losses| {
        now = now + STEP;
        let far = Interval { with_losses, rtt: 3 * RTT, ..interval(now, 100_000, 1) };
        search.on_interval(&far);
        (search.wanted(), search.at_hand())
    };
    assert_eq!([hear(0), hear(0), hear(0)], [(1, 1), (1, 1), (1, 6)]);
    // A round trip, so that bursts even out.
    assert_eq!([hear(1), hear(1)], [(1, 6), (6, 6)]);
}

/// TCP streams over a path, in steps of a few milliseconds: windows that slow start doubles each round trip and CUBIC
/// (RFC 9438) grows from there, cut by random loss and where they overflow the queue, and never above a given one.
struct Haul {
    /// Packets a second.
    rate: f64,
    rtt_s: f64,
    loss: f64,
    window: f64,
    /// Of a bandwidth-delay product.
    queue_bdp: f64,
    /// The first so many streams are somebody else's.
    rivals: usize,
    streams: Vec<Cubic>,
    lost: u64,
    now_s: f64,
    rng: fastrand::Rng,
}

#[derive(Clone)]
struct Cubic {
    window: f64,
    threshold: f64,
    most: f64,
    cut_s: f64,
    idle_s: f64,
}

const PACKET: f64 = 1448.0;
const DT_S: f64 = 0.005;

impl Haul {
    fn new(mbit: f64, rtt_ms: f64, loss: f64, window: Option<f64>, seed: u64) -> Haul {
        Haul {
            rate: mbit * 1e6 / 8.0 / 1500.0,
            rtt_s: rtt_ms / 1e3,
            loss,
            window: window.map_or(f64::MAX, |bytes| bytes / PACKET),
            queue_bdp: 1.0,
            rivals: 0,
            streams: vec![],
            lost: 0,
            now_s: 0.0,
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// Packets that got through in a step with the first so many streams of ours, and how long the queue was.
    fn step(&mut self, active: usize) -> (f64, f64) {
        let active = self.rivals + active;
        self.now_s += DT_S;
        let fresh =
            Cubic { window: 10.0, threshold: f64::MAX, most: 0.0, cut_s: self.now_s, idle_s: self.now_s };
        while self.streams.len() < active {
            self.streams.push(fresh.clone());
        }
        let room = self.rate * self.rtt_s;
        let total: f64 = self.streams[..active].iter().map(|stream| stream.window).sum();
        let queue = (total - room).clamp(0.0, room * self.queue_bdp);
        let (trip_s, overflows) = (self.rtt_s + queue / self.rate, total > (1.0 + self.queue_bdp) * room);
        let mut through = 0.0;
        for (index, stream) in self.streams[..active].iter_mut().enumerate() {
            if self.now_s - stream.idle_s > 0.3 {
                // Slow start after idle.
                stream.window = stream.window.min(10.0);
            }
            stream.idle_s = self.now_s;
            let sent = stream.window / trip_s * DT_S;
            let is_ours = index >= self.rivals;
            through += if is_ours { sent } else { 0.0 };
            let unlucky = self.rng.f64() < 1.0 - (1.0 - self.loss).powf(sent);
            let overflow = overflows && self.now_s - stream.cut_s > trip_s && self.rng.f64() < DT_S / trip_s;
            if unlucky || overflow {
                self.lost += u64::from(is_ours);
                stream.most = stream.window;
                stream.window = (stream.window * 0.7).max(2.0);
                (stream.threshold, stream.cut_s) = (stream.window, self.now_s);
            } else if stream.window < stream.threshold {
                stream.window += sent;
            } else {
                let since = self.now_s - stream.cut_s;
                let k = (stream.most * 0.3 / 0.4).cbrt();
                let cubic = 0.4 * (since - k).powi(3) + stream.most;
                let reno = stream.most * 0.7 + 0.53 * since / trip_s;
                stream.window = cubic.max(reno).clamp(stream.window, stream.window + sent / 2.0);
            }
            stream.window = stream.window.min(self.window);
        }
        (through.min(self.rate * DT_S), queue / self.rate)
    }

    /// Packets through with a fixed number of streams, and those after the first seconds.
    fn fixed(mut self, streams: usize, skip_s: f64, seconds: f64) -> (f64, f64) {
        let (mut all, mut late) = (0.0, 0.0);
        while self.now_s < seconds {
            let through = self.step(streams).0;
            all += through;
            late += if self.now_s > skip_s { through } else { 0.0 };
        }
        (all, late / (seconds - skip_s))
    }

    /// The same with as many as are searched for, on a path whose round trips vary without a queue; and how many at
    /// last, and how it came to that.
    fn searched(mut self, skip_s: f64, seconds: f64, unrest_s: f64) -> (f64, f64, u32, Vec<(f64, u32)>) {
        let mut search = Search::new(1, 32);
        let (mut all, mut late, mut acked, mut since) = (0.0, 0.0, 0.0, 0.0);
        let (mut open, mut opening, mut asked, mut course) = (1, 0, 0.0, vec![(0.0, 1)]);
        while self.now_s < seconds {
            // Two round trips until new streams are there.
            if search.at_hand() > open + opening {
                (opening, asked) = (search.at_hand() - open, self.now_s);
            }
            if self.now_s - asked > 2.0 * self.rtt_s {
                (open, opening) = (open + opening, 0);
            }
            let active = search.wanted().min(open);
            let (through, queue) = self.step(active as usize);
            all += through;
            acked += through;
            late += if self.now_s > skip_s { through } else { 0.0 };
            if self.now_s - since >= 0.05 {
                let span = Duration::from_secs_f64(self.now_s - since);
                let now = Time::ZERO + Duration::from_secs_f64(self.now_s);
                let rtt = Duration::from_secs_f64(self.rtt_s + queue);
                let queue = Duration::from_secs_f64(queue + unrest_s);
                let bytes = (acked * PACKET) as u64;
                let streams = self.streams[self.rivals..].iter().take(active as usize);
                let with_losses = streams.filter(|stream| stream.threshold < f64::MAX);
                let window_bound =
                    with_losses.clone().filter(|stream| stream.window < self.window).count() as u32;
                let with_losses = with_losses.count() as u32;
                let interval = Interval {
                    now,
                    span,
                    acked: bytes,
                    streams: active,
                    with_losses,
                    window_bound,
                    lost: std::mem::take(&mut self.lost),
                    rtt,
                    queue,
                    busy: true,
                };
                (acked, since) = (0.0, self.now_s);
                if search.on_interval(&interval) {
                    course.push((self.now_s, search.wanted()));
                }
            }
        }
        (all, late / (seconds - skip_s), search.wanted(), course)
    }
}

#[test]
fn over_hauls_it_is_as_fast_as_the_best_number_with_no_more_streams_than_needed() {
    let window = Some(76e3);
    let hauls = [
        (20.0, 5.0, 0.0, None),
        (20.0, 150.0, 0.0, window),
        (100.0, 20.0, 0.0, window),
        (100.0, 65.0, 0.0, window),
        (500.0, 10.0, 0.0, window),
        (100.0, 65.0, 0.0, None),
        (500.0, 20.0, 0.0, None),
        (100.0, 65.0, 0.001, None),
        (50.0, 150.0, 0.005, None),
        (200.0, 40.0, 0.0002, None),
    ];
    for (mbit, rtt_ms, loss, window) in hauls {
        let name = format!("{mbit} Mb/s, {rtt_ms} ms, loss {loss}, window {window:?}");
        let (mut of_best, mut of_all) = (0.0, 0.0);
        for seed in 0..SEEDS {
            let haul = || Haul::new(mbit, rtt_ms, loss, window, seed);
            let counts = [1, 2, 4, 6, 8, 12, 16, 24, 32];
            let fixed = counts.map(|count| (count, haul().fixed(count as usize, 10.0, 30.0)));
            let (_, best) = fixed.iter().copied().max_by(|a, b| a.1.1.total_cmp(&b.1.1)).unwrap();
            let enough = fixed.iter().find(|one| one.1.1 >= 0.95 * best.1).unwrap().0;
            let (all, late, found, course) = haul().searched(20.0, 30.0, 0.0);
            assert!(2 * found <= 3 * enough + 1, "{name}: {found} where {enough} are enough, {course:?}");
            of_best += late / best.1 / SEEDS as f64;
            of_all += all / best.0 / SEEDS as f64;
        }
        assert!(of_best > 0.95, "{name}: {of_best:.3} of the best at last");
        assert!(of_all > 0.94, "{name}: {of_all:.3} of what the best carries in 30 s");
    }
}

/// Streams with a lucky start fill paths that they cannot keep full; what is chosen then must not be stuck to.
#[test]
fn after_lucky_starts_streams_are_added_soon() {
    for (mbit, rtt_ms, loss) in [(100.0, 65.0, 0.001), (50.0, 150.0, 0.005), (200.0, 40.0, 0.0002)] {
        for seed in 0..24 {
            let haul = || Haul::new(mbit, rtt_ms, loss, None, seed);
            let best = [8, 12, 16, 32].map(|count| haul().fixed(count, 10.0, 30.0).0);
            let (all, _, _, course) = haul().searched(20.0, 30.0, 0.0);
            let share = all / best.into_iter().fold(0.0, f64::max);
            assert!(share > 0.8, "{mbit} Mb/s, {rtt_ms} ms, seed {seed}: {share:.3}, {course:?}");
        }
    }
}

/// What more streams would gain beside another, it would lose.
#[test]
fn where_the_path_is_full_of_others_too_no_streams_are_added() {
    for (rivals, queue_bdp, most) in [(1, 0.5, 0.7), (1, 1.0, 0.65), (1, 2.0, 0.6), (4, 1.0, 0.25)] {
        let mut ours = 0.0;
        for seed in 0..24 {
            let haul = Haul { queue_bdp, rivals, ..Haul::new(100.0, 40.0, 0.0, None, seed) };
            let link = haul.rate;
            let (_, late, found, course) = haul.searched(20.0, 30.0, 0.0);
            assert!(found <= 4, "beside {rivals}, queue {queue_bdp}, seed {seed}: {found}, {course:?}");
            ours += late / link / 24.0;
        }
        assert!(ours <= most, "beside {rivals}, queue {queue_bdp}: {ours:.3} of the link");
    }
}

/// Round trips that are longer than the least without a queue, as on a host that is busy.
#[test]
fn a_path_that_only_seems_full_is_filled() {
    for rtt_ms in [10.0, 40.0] {
        let haul = || Haul::new(500.0, rtt_ms, 0.0, Some(300e3), 1);
        let (best, _) = haul().fixed(12, 10.0, 30.0);
        let (all, _, found, course) = haul().searched(20.0, 30.0, 0.005);
        assert!(all > 0.8 * best, "{rtt_ms} ms: {:.2} of the best, {course:?}", all / best);
        assert!(found <= 16, "{rtt_ms} ms: {found}");
    }
}

const SEEDS: u64 = 4;
