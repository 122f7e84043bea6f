//! What strangers and liars cost in memory: measured of a whole process, in which nothing else runs.

use super::common::{PATIENCE, fixed, live, pass, text, through_relay, until};
use longhaul_testing::process::is_alone;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::Write;
use std::net::TcpStream;

fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn thousands_of_connections_take_little_memory_and_leave_room_for_others() {
    if !is_alone() {
        return;
    }
    let (listener, near, far) = live(&fixed(2));
    let address = listener.local_addr().unwrap();
    let before = memory_kib();
    let mut crowd = vec![];
    for n in 0..crowd_size() {
        let mut socket = TcpStream::connect(address).unwrap();
        if n % 2 == 0 {
            // Half-open: begins to speak and stops.
            let _ = socket.write_all(b"LHS\x01");
        }
        crowd.push(socket);
    }
    let grown = memory_kib().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB more");
    // A stream gets in while they are there.
    let late = fixed(2).connect(address).unwrap();
    let (met, _) = listener.accept_timeout(PATIENCE).unwrap();
    let bytes = text(5, 1 << 20);
    assert!(pass(late, met, &bytes) == bytes);
    assert!(pass(near, far, &bytes) == bytes);
    drop(crowd);
}

#[test]
fn impossible_frames_end_their_lane_and_not_the_stream() {
    if !is_alone() {
        return;
    }
    let huge = [&[1, 0, 0, 0][..], &u32::MAX.to_be_bytes(), &0u64.to_be_bytes()].concat();
    let far_off = [&[1, 0, 0, 0][..], &1u32.to_be_bytes(), &(1u64 << 60).to_be_bytes(), b"x"].concat();
    let wrapped = [&[1, 0, 0, 0][..], &2u32.to_be_bytes(), &u64::MAX.to_be_bytes(), b"xx"].concat();
    let never_sent = [&[2, 0, 0, 0][..], &9u32.to_be_bytes(), &(1u64 << 50).to_be_bytes(), &[0; 9]].concat();
    for (n, frame) in [huge, far_off, wrapped, never_sent, vec![0xff; 64]].into_iter().enumerate() {
        let options = fixed(2).plain();
        let (near, far, relay) = through_relay(&options);
        near.wait_for_lanes(2, PATIENCE).unwrap();
        far.wait_for_lanes(2, PATIENCE).unwrap();
        let before = memory_kib();
        relay.tamper(1, &frame);
        until(|| (far.stats().lanes_lost == 1).then_some(()));
        assert!(memory_kib().saturating_sub(before) < 16 << 10, "frame {n}");
        let bytes = text(7, 1 << 20);
        assert!(pass(near, far, &bytes) == bytes, "frame {n}");
    }
}

/// As many connections as this process may open, 10 000 at most.
fn crowd_size() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without the right to more it stays as it is.
    let _ = setrlimit(Resource::Nofile, limit);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // The listener's guests take descriptors of this process too.
    let crowd = most.saturating_sub(1500).clamp(200, 10_000);
    println!("a crowd of {crowd}");
    crowd
}
