use super::*;

const RTT: Duration = Duration::from_millis(50);
const OBJECT_LEN: u64 = 10_000_000_000;

/// A transfer whose carriers deliver what a test says.
struct Story {
    choice: Choice,
    now: Time,
    delivered: f64,
    settled: u64,
    lost: u64,
    news: Time,
    talks_since: Time,
    last_word: Time,
    /// Something was, over the control stream.
    asked: bool,
    answered: Time,
    udp_answers: u64,
    carrier: Carrier,
    streams: usize,
    streams_can_be_had: bool,
    udp_heard: Option<Time>,
    /// What happened, and when in seconds.
    told: Vec<(f64, String)>,
}

/// What the path is like at a moment.
#[derive(Clone, Copy)]
struct Path {
    udp_mbps: f64,
    tcp_mbps: f64,
    loss: f64,
    /// What waits in its queue.
    queue: Duration,
    /// Probes over UDP pass.
    passes: bool,
    /// The control stream speaks.
    control: bool,
}

const GOOD: Path =
    Path { udp_mbps: 95.0, tcp_mbps: 60.0, loss: 0.0, queue: Duration::ZERO, passes: true, control: true };
const BLOCKED: Path = Path { udp_mbps: 0.0, passes: false, ..GOOD };
const CUT: Path = Path { tcp_mbps: 0.0, control: false, ..BLOCKED };

impl Story {
    fn new(train_mbps: f64) -> Story {
        let config = ChoiceConfig {
            transport: Transport::Auto,
            carrier: Carrier::Object,
            train_rate: Some(Rate::from_mbps(train_mbps)),
            mute: Duration::ZERO,
            has_pipe: false,
            is_hasty: true,
            hands_over: false,
        };
        Story {
            choice: Choice::new(config, Time::ZERO),
            now: Time::ZERO,
            delivered: 0.0,
            settled: 0,
            lost: 0,
            news: Time::ZERO,
            talks_since: Time::ZERO,
            last_word: Time::ZERO,
            asked: false,
            answered: Time::ZERO,
            udp_answers: 0,
            carrier: Carrier::Object,
            streams: 0,
            streams_can_be_had: true,
            udp_heard: None,
            told: vec![],
        }
    }

    /// Go on for so long over such a path.
    fn go_on(&mut self, seconds: f64, path: Path) -> &mut Story {
        for _ in 0..(seconds * 10.0).round() as u32 {
            // What was asked in an outage comes through after it, but over UDP it is lost.
            if path.control && std::mem::take(&mut self.asked) {
                self.answered = self.now;
            }
            self.now = self.now + Duration::from_millis(100);
            let mbps = if self.carrier == Carrier::Object { path.udp_mbps } else { path.tcp_mbps };
            self.delivered += mbps * 1e6 / 8.0 * 0.1;
            if self.carrier == Carrier::Object {
                self.settled += 1000;
                self.lost += (1000.0 * path.loss) as u64;
            }
            if mbps > 0.0 {
                self.news = self.now;
            }
            if path.control {
                self.last_word = self.now;
            } else {
                self.talks_since = self.now;
            }
            let look = Look {
                now: self.now,
                delivered: self.delivered as u64,
                left: OBJECT_LEN - self.delivered as u64,
                settled: self.settled,
                lost: self.lost,
                path_bound: true,
                waiting: true,
                overdue: self.now.since(self.news) > RTT * 3,
                news: self.news,
                talks_since: self.talks_since,
                last_word: self.last_word,
                answered: self.answered,
                udp_heard: self.udp_heard,
                udp_answers: self.udp_answers,
                rtt: RTT + path.queue,
                queue: path.queue,
                paths: 1,
                streams: self.streams,
                no_streams: (!self.streams_can_be_had).then(|| "refused".into()),
            };
            match self.choice.look(&look) {
                Some(Order::OpenStreams) if self.streams_can_be_had => self.streams = 4,
                Some(Order::OpenStreams) => {}
                Some(Order::Probe) => {
                    self.asked = true;
                    if path.passes {
                        (self.udp_heard, self.udp_answers) = (Some(self.now), self.udp_answers + 1);
                    }
                }
                Some(Order::Go { to, why, .. }) => {
                    self.carrier = to;
                    self.told.push((self.now.as_secs_f64(), format!("{to}: {why}")));
                }
                None => {}
            }
        }
        self
    }

    /// The user has it pause for so long.
    fn pause(&mut self, seconds: f64) -> &mut Story {
        for _ in 0..(seconds * 10.0).round() as u32 {
            self.now = self.now + Duration::from_millis(100);
            self.last_word = self.now;
            self.choice.rest(self.now);
        }
        self
    }

    fn carriers(&self) -> Vec<&str> {
        self.told.iter().map(|(_, line)| line.split(':').next().unwrap()).collect()
    }
}

#[test]
fn a_good_path_is_left_alone() {
    let mut story = Story::new(100.0);
    story.go_on(300.0, GOOD).go_on(60.0, Path { loss: 0.02, udp_mbps: 90.0, ..GOOD });
    // Loss that the controller copes with.
    story.go_on(60.0, Path { loss: 0.08, udp_mbps: 85.0, ..GOOD });
    assert_eq!(story.carriers(), Vec::<&str>::new());
}

#[test]
fn who_means_to_be_slow_is_left_alone() {
    let mut story = Story::new(100.0);
    story.choice.config.is_hasty = false;
    story.go_on(60.0, Path { udp_mbps: 10.0, loss: 0.1, ..GOOD });
    assert_eq!(story.carriers(), Vec::<&str>::new());
    story.go_on(20.0, BLOCKED);
    assert_eq!(story.carriers(), ["stripe"], "silence is another matter");
}

#[test]
fn silence_leads_to_streams_and_back_when_udp_is_heard() {
    let mut story = Story::new(100.0);
    story.go_on(10.0, GOOD).go_on(20.0, BLOCKED);
    assert_eq!(story.carriers(), ["stripe"]);
    assert!((10.5..10.9).contains(&story.told[0].0), "{:?}", story.told);
    story.go_on(60.0, GOOD);
    assert_eq!(story.carriers(), ["stripe", "object", "object"], "{:?}", story.told);
}

#[test]
fn an_outage_is_no_reason_to_change() {
    let mut story = Story::new(100.0);
    story.go_on(10.0, GOOD).go_on(8.0, CUT);
    story.go_on(10.0, GOOD);
    assert_eq!(story.carriers(), Vec::<&str>::new());
}

/// The sender tries again only after a while, and meanwhile what was said over TCP in the outage arrives at once.
#[test]
fn what_tcp_makes_up_for_first_after_an_outage_is_no_reason_to_change() {
    for outage in 1..40 {
        let mut story = Story::new(100.0);
        story.go_on(10.0, GOOD).go_on(f64::from(outage) * 0.1, CUT);
        story.go_on(1.0, Path { udp_mbps: 0.0, ..GOOD }).go_on(5.0, GOOD);
        assert_eq!(story.carriers(), Vec::<&str>::new(), "{outage}");
    }
}

#[test]
fn somebody_who_is_busy_is_not_taken_for_blocked() {
    let mut story = Story::new(100.0);
    story.go_on(10.0, GOOD);
    // Its control stream says that it is alive, but nobody answers.
    for _ in 0..50 {
        story.asked = false;
        story.go_on(0.1, BLOCKED);
    }
    assert_eq!(story.streams, 0);
    story.go_on(5.0, GOOD);
    assert_eq!(story.carriers(), Vec::<&str>::new());
}

#[test]
fn udp_that_was_mute_at_first_is_left_where_there_are_streams_and_tried_again() {
    for (streams, expected) in [(4, vec!["stripe", "object", "object"]), (0, vec![])] {
        let mut story = Story::new(100.0);
        (story.choice.config.mute, story.streams) = (Duration::from_millis(600), streams);
        story.go_on(0.2, GOOD);
        // Those that come later are no reason.
        story.streams = 4;
        story.go_on(30.0, GOOD);
        assert_eq!(story.carriers(), expected);
    }
}

#[test]
fn udp_that_passes_half_of_the_time_is_not_taken_for_one_that_passes_again() {
    let mut story = Story::new(100.0);
    story.go_on(10.0, GOOD).go_on(2.0, BLOCKED);
    for _ in 0..60 {
        story.go_on(0.5, GOOD).go_on(0.5, BLOCKED);
    }
    assert_eq!(story.carriers(), ["stripe"], "{:?}", story.told);
}

#[test]
fn policed_udp_loses_to_streams_and_is_rarely_tried_again() {
    let policed = Path { udp_mbps: 10.0, loss: 0.3, ..GOOD };
    let mut story = Story::new(100.0);
    story.go_on(25.0, policed);
    assert_eq!(story.carriers(), ["stripe", "stripe"], "{:?}", story.told);
    assert!(
        story.told[1].1.contains("60.0 Mb/s") && story.told[1].1.contains("10.0 Mb/s"),
        "{:?}",
        story.told
    );
    story.go_on(275.0, policed);
    let tries = story.told.iter().filter(|(_, line)| line.starts_with("object")).count();
    assert!((1..=4).contains(&tries), "{:?}", story.told);
    assert_eq!(story.carrier, Carrier::Stripe);
}

#[test]
fn udp_that_is_dropped_for_a_part_of_every_second_loses_to_streams_soon() {
    let open = Path { udp_mbps: 20.0, loss: 0.05, ..GOOD };
    let closed = Path { loss: 0.5, ..BLOCKED };
    for closed_s in [0.3, 0.5, 0.7] {
        let mut story = Story::new(100.0);
        for _ in 0..10 {
            story.go_on(closed_s, closed).go_on(1.0 - closed_s, open);
        }
        let carriers = story.carriers();
        assert!(
            !carriers.is_empty() && carriers.iter().all(|to| *to == "stripe"),
            "{closed_s}: {:?}",
            story.told
        );
        assert!(story.told[0].0 < 4.0, "{closed_s}: {:?}", story.told);
    }
}

#[test]
fn what_an_outage_leaves_behind_is_not_odd() {
    let nothing = CUT;
    for outage_s in [2.0, 5.0, 20.0] {
        let mut story = Story::new(100.0);
        story.go_on(10.0, GOOD).go_on(outage_s, nothing).go_on(0.5, Path { udp_mbps: 10.0, ..GOOD });
        story.go_on(30.0, GOOD);
        assert_eq!(story.carriers(), Vec::<&str>::new(), "{outage_s}");
    }
}

/// Beside one CUBIC, `auto` once went over to TCP under the host's BBR, which left CUBIC a hundredth.
#[test]
fn a_path_that_is_shared_is_not_taken_from_others() {
    let mut story = Story::new(100.0);
    story.go_on(300.0, Path { udp_mbps: 30.0, tcp_mbps: 95.0, loss: 0.01, ..GOOD });
    assert_eq!(story.carriers(), Vec::<&str>::new());
}

/// With much loss or a small share too: a link that is full is full for TCP.
#[test]
fn what_is_lost_with_a_standing_queue_is_no_reason_to_change() {
    let full = Path { queue: Duration::from_millis(5), tcp_mbps: 95.0, ..GOOD };
    for (udp_mbps, loss) in [(6.0, 0.0), (25.0, 0.1), (40.0, 0.04)] {
        let mut story = Story::new(100.0);
        story.go_on(100.0, Path { udp_mbps, loss, ..full });
        assert_eq!(story.carriers(), Vec::<&str>::new(), "{udp_mbps} Mb/s, loss {loss}");
        // Without the queue it is UDP alone that suffers.
        story.go_on(10.0, Path { udp_mbps, loss, queue: Duration::from_micros(500), ..full });
        assert_eq!(story.carriers()[..1], ["stripe"], "{udp_mbps} Mb/s, loss {loss}");
    }
}

#[test]
fn a_slow_path_is_slow_for_streams_too() {
    // The train ran through an empty bucket; in the long run nothing on the path is faster than UDP.
    let mut story = Story::new(100.0);
    story.go_on(200.0, Path { udp_mbps: 12.0, tcp_mbps: 11.0, ..GOOD });
    assert_eq!(story.carrier, Carrier::Object);
    let tries = story.told.iter().filter(|(_, line)| line.starts_with("stripe")).count();
    assert!((1..=3).contains(&tries), "{:?}", story.told);
}

#[test]
fn without_streams_a_silent_path_is_waited_for() {
    let mut story = Story::new(100.0);
    story.streams_can_be_had = false;
    story.go_on(10.0, GOOD).go_on(20.0, BLOCKED).go_on(5.0, GOOD);
    assert_eq!(story.carriers(), Vec::<&str>::new());
    story.choice.config.has_pipe = true;
    story.go_on(60.0, BLOCKED);
    assert_eq!(story.carriers(), ["ssh"]);
    assert!((35.0..37.0).contains(&story.told[0].0), "soon, whatever was tried before: {:?}", story.told);
}

#[test]
fn a_trial_of_udp_beside_the_pipe_ends_with_the_pipe() {
    let mut story = Story::new(100.0);
    story.streams_can_be_had = false;
    story.choice.config.has_pipe = true;
    story.go_on(60.0, BLOCKED).go_on(120.0, Path { udp_mbps: 5.0, ..GOOD });
    assert_eq!(story.carriers()[..3], ["ssh", "object", "ssh"], "{:?}", story.told);
}

#[test]
fn what_the_user_says_stands() {
    for transport in [Transport::Object, Transport::Stripe, Transport::Ssh] {
        let mut story = Story::new(100.0);
        story.choice.config.transport = transport;
        story.go_on(60.0, BLOCKED);
        assert_eq!(story.carriers(), Vec::<&str>::new());
    }
}

#[test]
fn a_pause_decides_no_trial() {
    let policed = Path { udp_mbps: 10.0, loss: 0.3, ..GOOD };
    // While the trial settles, and while it measures.
    for into_trial_s in [0.5, 1.5] {
        let mut story = Story::new(100.0);
        while story.carrier == Carrier::Object {
            story.go_on(0.1, policed);
        }
        story.go_on(into_trial_s, policed).pause(20.0).go_on(5.0, policed);
        assert_eq!(story.carriers(), ["stripe", "stripe"], "{:?}", story.told);
        assert!(story.told[1].1.contains("60.0 Mb/s"), "{:?}", story.told);
    }
}

#[test]
fn a_pause_is_no_silence() {
    let mut story = Story::new(100.0);
    story.go_on(10.0, GOOD).pause(60.0);
    // A break after it is too short to be taken for a blocked path, and no longer for the pause.
    story.go_on(0.6, BLOCKED).go_on(10.0, GOOD);
    assert_eq!(story.carriers(), Vec::<&str>::new());
}

/// The user asked for TCP while others are there.
fn switching() -> Story {
    let mut story = Story::new(100.0);
    (story.choice.config.is_hasty, story.choice.config.hands_over) = (false, true);
    story.choice = Choice::new(story.choice.config, Time::ZERO);
    story
}

const SHARED: Path = Path { udp_mbps: 45.0, tcp_mbps: 50.0, queue: Duration::from_millis(30), ..GOOD };

#[test]
fn tcp_has_the_data_while_others_are_there() {
    let mut story = switching();
    story.go_on(10.0, GOOD).go_on(12.0, SHARED).go_on(20.0, Path { tcp_mbps: 94.0, ..GOOD });
    assert_eq!(story.carriers(), ["stripe", "object"], "{:?}", story.told);
    assert!((11.0..12.0).contains(&story.told[0].0), "{:?}", story.told);
    assert!((23.0..24.0).contains(&story.told[1].0), "{:?}", story.told);
}

#[test]
fn a_path_without_others_is_not_handed_over_and_a_pause_is_none() {
    let mut story = switching();
    story
        .go_on(10.0, GOOD)
        .go_on(20.0, Path { udp_mbps: 40.0, loss: 0.1, ..GOOD })
        .pause(10.0)
        .go_on(5.0, GOOD);
    assert_eq!(story.carriers(), Vec::<&str>::new());
}

#[test]
fn udp_that_falls_silent_is_another_matter_than_others() {
    let mut story = switching();
    story.go_on(10.0, GOOD).go_on(20.0, BLOCKED);
    assert_eq!(story.carriers(), ["stripe"], "{:?}", story.told);
    story.go_on(60.0, GOOD);
    assert_eq!(story.carrier, Carrier::Object, "{:?}", story.told);
}

#[test]
fn without_streams_others_are_borne_over_udp() {
    let mut story = switching();
    story.streams_can_be_had = false;
    story.go_on(10.0, GOOD).go_on(40.0, SHARED);
    assert_eq!(story.carriers(), Vec::<&str>::new());
    story.streams_can_be_had = true;
    story.go_on(40.0, SHARED);
    assert_eq!(story.carriers()[..1], ["stripe"], "{:?}", story.told);
}

#[test]
fn an_outage_beside_others_is_not_taken_for_more_of_them() {
    for outage_s in [0.5, 1.5, 4.0] {
        let mut story = switching();
        let queue = Duration::from_millis(30);
        story.go_on(10.0, Path { queue, ..GOOD }).go_on(outage_s, Path { queue, ..CUT });
        story.go_on(10.0, Path { queue, ..GOOD });
        assert_eq!(story.carriers(), Vec::<&str>::new(), "{outage_s}");
    }
}

#[test]
fn a_pause_beside_others_decides_nothing() {
    let mut story = switching();
    story.go_on(10.0, GOOD).go_on(0.5, SHARED).pause(60.0).go_on(0.5, SHARED).go_on(5.0, GOOD);
    assert_eq!(story.carriers(), Vec::<&str>::new(), "{:?}", story.told);
}

#[test]
fn streams_that_bring_nothing_or_break_give_the_data_back() {
    for breaks in [false, true] {
        let mut story = switching();
        story.go_on(10.0, GOOD).go_on(4.0, SHARED);
        assert_eq!(story.carriers(), ["stripe"]);
        if breaks {
            story.streams = 0;
        }
        story.go_on(3.0, Path { tcp_mbps: 0.0, ..SHARED });
        assert_eq!(story.carriers(), ["stripe", "object"], "{:?}", story.told);
        story.go_on(10.0, SHARED);
        assert_eq!(story.carrier, Carrier::Object, "not again at once: {:?}", story.told);
    }
}
