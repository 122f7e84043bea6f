//! Lanes that die midway: by reset, in silence, all at once.

use super::common::{PATIENCE, Relay, bind, fixed, text, through_relay, until};
use longhaul_stripe::{StripeOptions, StripeStats, StripedStream};
use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::Duration;

/// Short patience, so that tests need not wait long. A busy host may make a lane seem dead that is not: it is replaced.
fn options(lanes: u32) -> StripeOptions {
    fixed(lanes).stall_timeout(Duration::from_millis(500)).patience(Duration::from_secs(20)).buffer(BUFFER)
}

const BUFFER: u64 = 4 << 20;

/// Pass bytes from `near` to `far` and do something when a part of them has arrived. Returns how the sender saw it in
/// the end.
fn pass_and_then(
    near: StripedStream,
    mut far: StripedStream,
    bytes: &[u8],
    midway: impl FnOnce(&StripedStream),
) -> StripeStats {
    let watched = near.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut writer = &near;
            writer.write_all(bytes).unwrap();
            near.close().unwrap();
        });
        let mut got = vec![0; bytes.len() / 4];
        far.read_exact(&mut got).unwrap();
        midway(&watched);
        far.read_to_end(&mut got).unwrap();
        assert!(got == bytes, "{} bytes came of {}", got.len(), bytes.len());
        watched.stats()
    })
}

#[test]
fn a_lane_that_is_reset_is_replaced_and_nothing_is_lost() {
    let (near, far, relay) = through_relay(&options(3));
    near.wait_for_lanes(3, PATIENCE).unwrap();
    let before = relay.connections();
    pass_and_then(near, far, &text(1, 40 << 20), |near| {
        relay.reset(0);
        until(|| (near.stats().lanes_lost >= 1).then_some(()));
        until(|| (near.stats().lanes.len() == 3).then_some(()));
    });
    assert!(relay.connections() > before, "it was replaced");
}

#[test]
fn a_lane_that_overtakes_the_first_ones_last_word_waits_for_it() {
    let listener = bind(&options(2));
    let relay = Relay::start(listener.local_addr().unwrap());
    relay.slow_down_first(Duration::from_millis(100));
    let near = options(2).connect(relay.address()).unwrap();
    near.wait_for_lanes(2, PATIENCE).unwrap();
    assert_eq!(relay.connections(), 2, "none was refused");
    let (far, _) = listener.accept_timeout(PATIENCE).unwrap();
    assert_eq!(far.wait_for_lanes(2, PATIENCE).unwrap(), 2);
}

#[test]
fn a_reset_of_every_lane_is_survived_if_new_ones_can_be_had() {
    let (near, far, relay) = through_relay(&options(2));
    near.wait_for_lanes(2, PATIENCE).unwrap();
    pass_and_then(near, far, &text(2, 40 << 20), |near| {
        (0..relay.connections()).for_each(|at| relay.reset(at));
        until(|| (near.stats().lanes_lost >= 2).then_some(()));
    });
}

#[test]
fn the_server_as_sender_gets_its_lanes_replaced_too() {
    let (near, far, relay) = through_relay(&options(2));
    far.wait_for_lanes(2, PATIENCE).unwrap();
    pass_and_then(far, near, &text(3, 40 << 20), |far| {
        relay.reset(1);
        until(|| (far.stats().lanes_lost >= 1).then_some(()));
        until(|| (far.stats().lanes.len() == 2).then_some(()));
    });
}

#[test]
fn a_lane_on_which_everything_vanishes_is_found_out_and_replaced() {
    let (near, far, relay) = through_relay(&options(3));
    near.wait_for_lanes(3, PATIENCE).unwrap();
    // Whoever sends does not get on without what it has given to this lane. It is the first, which carries most: where
    // there is always room in that one, others may get nothing more.
    let stats = pass_and_then(near, far, &text(4, 40 << 20), |_| relay.swallow(0));
    assert!(stats.lanes_lost > 0 && stats.bytes_resent > 0, "{stats:?}");
}

/// The word that more is wanted goes over the lane that brought data last. If that has died meanwhile, nobody has anything on
/// its way that could be missed.
#[test]
fn a_lane_that_dies_while_the_reader_pauses_takes_no_word_with_it() {
    for victim in [0, 1] {
        let (near, mut far, relay) = through_relay(&options(2));
        near.wait_for_lanes(2, PATIENCE).unwrap();
        let bytes = text(6, 3 * BUFFER as usize);
        thread::scope(|scope| {
            let (sent, watched) = (&bytes, near.try_clone().unwrap());
            scope.spawn(move || {
                (&near).write_all(sent).unwrap();
                near.close().unwrap();
            });
            until(|| {
                let stats = watched.stats();
                let on_way: u64 = stats.lanes.iter().map(|lane| lane.bytes_in_flight).sum();
                (stats.bytes_acked > 0 && stats.bytes_unsent > 0 && on_way == 0).then_some(())
            });
            relay.swallow(victim);
            let mut got = vec![];
            far.read_to_end(&mut got).unwrap();
            assert!(got == bytes, "{} bytes came", got.len());
        });
    }
}

#[test]
fn a_slow_lane_is_not_taken_for_a_dead_one_and_carries_less() {
    // Several pieces of the slow lane pass in what a busy host may hold it up.
    let stall = Duration::from_secs(2);
    let (near, far, relay) = through_relay(&options(2).stall_timeout(stall).window(64 << 10));
    near.wait_for_lanes(2, PATIENCE).unwrap();
    relay.slow_down(1, stall / 10);
    pass_and_then(near, far, &text(5, 20 << 20), |near| {
        let stats = near.stats();
        assert_eq!(stats.lanes_lost, 0);
        let sent: Vec<u64> = stats.lanes.iter().map(|lane| lane.bytes_sent).collect();
        assert!(sent[0] > sent[1] * 2, "{sent:?}");
    });
}

#[test]
fn without_any_way_left_the_stream_fails_on_both_sides() {
    let (near, far, relay) = through_relay(&options(2).patience(Duration::from_millis(700)));
    near.wait_for_lanes(2, PATIENCE).unwrap();
    relay.refuse(true);
    (0..relay.connections()).for_each(|at| relay.reset(at));
    for mut stream in [near, far] {
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        assert!(error.to_string().contains("all lanes are gone"), "{error}");
        assert!(stream.write(b"x").is_err());
        assert!(stream.close().is_err());
    }
}

#[test]
fn closing_fails_if_the_other_side_does_not_take_it() {
    let (mut near, far, _relay) = through_relay(&options(1).patience(Duration::from_millis(700)));
    near.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    // The other side holds all that it may, and here there is no room either.
    until(|| {
        let has_no_room = near.write(&[0; 100_000]).is_err();
        (has_no_room && far.stats().bytes_held > BUFFER - BUFFER / 8).then_some(())
    });
    assert_eq!(near.close().unwrap_err().kind(), ErrorKind::TimedOut);
    drop(far);
}

#[test]
fn a_killed_program_is_noticed() {
    let (near, mut far, relay) = through_relay(&options(2).patience(Duration::from_millis(700)));
    far.wait_for_lanes(2, PATIENCE).unwrap();
    // What the kernel does for a program that is gone: its connections end, nothing is said, nobody comes back.
    relay.refuse(true);
    (0..relay.connections()).for_each(|at| relay.reset(at));
    assert_eq!(far.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    drop(near);
}

#[test]
fn more_lanes_are_tried_where_each_is_held_back() {
    let options = StripeOptions::new().remember(false).plain();
    let listener = bind(&options);
    let relay = Relay::start(listener.local_addr().unwrap());
    // 3 MB/s on each lane, through small buffers.
    relay.slow_down_new(Duration::from_millis(20));
    let near = options.window(64 << 10).connect(relay.address()).unwrap();
    let (mut far, _) = listener.accept_timeout(PATIENCE).unwrap();
    let (watched, piece) = (near.try_clone().unwrap(), vec![1; 1 << 20]);
    thread::scope(|scope| {
        scope.spawn(move || while far.read(&mut vec![0; 1 << 20]).unwrap() > 0 {});
        scope.spawn(move || while (&near).write_all(&piece).is_ok() {});
        let stats = until(|| Some(watched.stats()).filter(|stats| stats.lanes_tried.len() >= 2));
        watched.shutdown(std::net::Shutdown::Write).unwrap();
        let tried: Vec<u32> = stats.lanes_tried.iter().map(|tried| tried.0).collect();
        assert_eq!(tried, [1, 2]);
        let [one, two] = [0, 1].map(|at: usize| stats.lanes_tried[at].1);
        assert!(two > one * 1.5, "{one} bytes a second with one lane, {two} with two");
    });
}
