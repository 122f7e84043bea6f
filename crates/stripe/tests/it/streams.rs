//! What goes in comes out, however it is cut and sealed, and the ends behave as those of a socket.

use super::common::{PATIENCE, bind, fixed, pair, pass, text, until};
use longhaul_stripe::{LaneStats, LocalEnd, Partition, StripeOptions, StripedStream};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

#[test]
fn every_partition_and_number_of_lanes_delivers_the_bytes_both_ways() {
    let bytes = text(1, 3_000_001);
    for partition in
        [Partition::Auto, Partition::Equal, Partition::Blocks(8 << 10), Partition::Blocks(1 << 20)]
    {
        for lanes in [1, 2, 7] {
            for plain in [true, false] {
                let options = fixed(lanes).partition(partition);
                let options = if plain { options.plain() } else { options.key(b"secret") };
                let (near, far) = pair(&options, &options);
                assert_eq!(near.wait_for_lanes(lanes as usize, PATIENCE).unwrap(), lanes as usize);
                let (near, far) = if lanes == 2 { (far, near) } else { (near, far) };
                assert!(pass(near, far, &bytes) == bytes, "{partition:?}, {lanes} lanes, plain {plain}");
            }
        }
    }
}

#[test]
fn both_directions_at_once() {
    let (near, far) = pair(&fixed(4), &fixed(4));
    let (up, down) = (text(1, 20 << 20), text(2, 20 << 20));
    thread::scope(|scope| {
        for (stream, sent, wanted) in [(&near, &up, &down), (&far, &down, &up)] {
            scope.spawn(move || {
                let mut writer = stream;
                writer.write_all(sent).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            });
            scope.spawn(move || {
                let (mut reader, mut got) = (stream, vec![]);
                reader.read_to_end(&mut got).unwrap();
                assert!(got == *wanted);
            });
        }
    });
    near.close().unwrap();
    far.close().unwrap();
}

/// Who reads receives in its own thread, and that thread then only writes: somebody must take in what lets it go on.
#[test]
fn a_thread_that_has_read_writes_more_than_the_buffers_hold() {
    const ANSWER: usize = 5 << 20;
    for (lanes, plain) in [(1, true), (1, false), (3, true)] {
        let options = fixed(lanes).buffer(1 << 20);
        let options = if plain { options.plain() } else { options };
        let (near, far) = pair(&options, &options);
        let answers = text(8, ANSWER);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut stream = &far;
                for _ in 0..4 {
                    stream.read_exact(&mut [0; 7]).unwrap();
                    stream.write_all(&answers).unwrap();
                }
            });
            let mut stream = &near;
            let mut got = vec![0; ANSWER];
            for _ in 0..4 {
                stream.write_all(b"request").unwrap();
                stream.read_exact(&mut got).unwrap();
                assert!(got == answers, "{lanes} lanes, plain {plain}");
            }
        });
    }
}

#[test]
fn single_bytes_are_joined_while_others_are_on_their_way() {
    let (near, far) = pair(&fixed(1), &fixed(1));
    let bytes = text(9, 300_000);
    thread::scope(|scope| {
        scope.spawn(|| bytes.chunks(1).for_each(|byte| (&near).write_all(byte).unwrap()));
        let mut got = vec![0; bytes.len()];
        (&far).read_exact(&mut got).unwrap();
        assert!(got == bytes);
    });
}

#[test]
fn halves_work_in_two_threads_and_end_their_own_direction() {
    let (near, far) = pair(&fixed(2), &fixed(2));
    let (mut reader, mut writer) = near.split();
    let echo = thread::spawn(move || {
        let (mut from, mut to) = far.split();
        std::io::copy(&mut from, &mut to).unwrap()
    });
    let bytes = text(3, 5 << 20);
    let sent = bytes.clone();
    thread::spawn(move || writer.write_all(&sent).unwrap());
    let mut got = vec![];
    reader.read_to_end(&mut got).unwrap();
    assert!(got == bytes);
    assert_eq!(echo.join().unwrap(), bytes.len() as u64);
}

#[test]
fn blocks_and_reads_that_take_parts_of_them_give_the_same_bytes() {
    let (near, mut far) = pair(&fixed(3), &fixed(3));
    let bytes = text(4, 5 << 20);
    let sent = bytes.clone();
    let writing = thread::spawn(move || {
        let (mut rest, mut block) = (&sent[..], vec![]);
        for len in [100_000, 1, 128 << 10, 0, 300_000, 70_000].into_iter().cycle() {
            let (now, later) = rest.split_at(rest.len().min(len));
            block.clear();
            block.extend_from_slice(now);
            near.write_block(&mut block).unwrap();
            let (now, later) = later.split_at(later.len().min(5));
            (&near).write_all(now).unwrap();
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        near.close().unwrap();
    });
    let (mut got, mut spent, mut part) = (vec![], vec![], [0; 777]);
    loop {
        let len = far.read(&mut part).unwrap();
        got.extend_from_slice(&part[..len]);
        let block = far.read_block(spent).unwrap();
        got.extend_from_slice(&block);
        if block.is_empty() {
            break;
        }
        spent = block;
    }
    assert!(got == bytes);
    assert!(far.read_block(vec![]).unwrap().is_empty(), "the end stays the end");
    writing.join().unwrap();
}

#[test]
fn small_messages_go_back_and_forth() {
    let (mut near, mut far) = pair(&fixed(3), &fixed(3));
    thread::spawn(move || {
        let mut line = [0; 5];
        while far.read_exact(&mut line).is_ok() {
            far.write_all(&line).unwrap();
        }
    });
    for n in 0..2000u32 {
        let said = [b'x', n as u8, (n >> 8) as u8, 1, 2];
        near.write_all(&said).unwrap();
        let mut heard = [0; 5];
        near.read_exact(&mut heard).unwrap();
        assert_eq!(heard, said);
    }
}

#[test]
fn shutting_down_writing_leaves_reading_open() {
    let (mut near, mut far) = pair(&fixed(2), &fixed(2));
    near.write_all(b"question").unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    assert_eq!(near.write(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
    let mut question = String::new();
    far.read_to_string(&mut question).unwrap();
    far.write_all(b"answer").unwrap();
    far.close().unwrap();
    let mut answer = String::new();
    near.read_to_string(&mut answer).unwrap();
    assert_eq!((question.as_str(), answer.as_str()), ("question", "answer"));
    assert_eq!(near.read(&mut [0]).unwrap(), 0, "the end stays the end");
}

#[test]
fn writing_to_somebody_who_reads_no_more_fails() {
    let (mut near, far) = pair(&fixed(2), &fixed(2));
    far.shutdown(Shutdown::Read).unwrap();
    let error = until(|| near.write_all(&[0; 1000]).err());
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    // The other direction still works.
    (&far).write_all(b"x").unwrap();
    near.read_exact(&mut [0]).unwrap();
}

#[test]
fn dropping_a_stream_delivers_what_was_written_and_ends_the_other_side() {
    let (mut near, mut far) = pair(&fixed(4), &fixed(4));
    let bytes = text(4, 9 << 20);
    let sent = bytes.clone();
    let writer = thread::spawn(move || {
        near.write_all(&sent).unwrap();
        drop(near);
    });
    let mut got = vec![];
    far.read_to_end(&mut got).unwrap();
    assert!(got == bytes);
    writer.join().unwrap();
    let error = until(|| far.write_all(&[0; 1000]).err());
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn timeouts_end_waiting_and_change_nothing() {
    let (mut near, mut far) = pair(&fixed(1).buffer(1 << 20), &fixed(1).buffer(1 << 20));
    near.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
    assert_eq!(near.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(near.set_read_timeout(Some(Duration::ZERO)).is_err());
    near.set_write_timeout(Some(Duration::from_millis(30))).unwrap();
    let bytes = text(5, 8 << 20);
    let mut sent = 0;
    let error = loop {
        match near.write(&bytes[sent..]) {
            Ok(len) => sent += len,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!((1 << 20..=2 << 20).contains(&sent), "{sent} bytes with nobody reading");
    let mut got = vec![0; sent];
    far.read_exact(&mut got).unwrap();
    assert!(got == bytes[..sent]);
    near.set_nonblocking(true).unwrap();
    assert_eq!(near.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_reader_that_waits_bounds_what_both_sides_hold() {
    let bound = 2 << 20;
    let (near, mut far) = pair(&fixed(4).buffer(bound), &fixed(4).buffer(bound));
    let bytes = text(6, 24 << 20);
    thread::scope(|scope| {
        let (writer, sent) = (&near, &bytes);
        scope.spawn(move || {
            let mut out = writer;
            out.write_all(sent).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        // Until nothing moves any more.
        until(|| (far.stats().bytes_held >= bound - (256 << 10)).then_some(()));
        let (mut got, mut piece) = (vec![], vec![0; 100_000]);
        loop {
            let held = far.stats().bytes_held;
            assert!(held <= bound, "{held}");
            let kept = near.stats().bytes_kept;
            assert!(kept <= bound, "{kept}");
            match far.read(&mut piece).unwrap() {
                0 => break,
                len => got.extend_from_slice(&piece[..len]),
            }
        }
        assert!(got == bytes);
    });
}

#[test]
fn the_server_may_ask_for_more_lanes_than_the_client() {
    let (near, far) = pair(&StripeOptions::new().remember(false), &fixed(5));
    assert_eq!(far.wait_for_lanes(5, PATIENCE).unwrap(), 5);
    let bytes = text(7, 1 << 20);
    assert!(pass(far, near, &bytes) == bytes);
}

#[test]
fn the_port_stays_open_for_further_lanes_of_streams_that_live() {
    let listener = bind(&fixed(4));
    let near = fixed(4).connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept_timeout(PATIENCE).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    assert_eq!(near.wait_for_lanes(4, PATIENCE).unwrap(), 4);
    drop(fixed(1).connect(address).expect_err("no new streams are taken"));
    let bytes = text(8, 1 << 20);
    assert!(pass(near, far, &bytes) == bytes);
    // And closes when the last has ended.
    until(|| std::net::TcpListener::bind(address).ok());
}

#[test]
fn options_that_cannot_be_are_told_in_a_line() {
    let error = fixed(1).congestion("cubci").bind("127.0.0.1:0").unwrap_err();
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let line = error.to_string();
    assert!(line.contains("cubci") && available.split_whitespace().any(|name| line.contains(name)), "{line}");
    let name = available.split_whitespace().next().unwrap();
    let (near, far) = pair(&fixed(2).congestion(name).window(1 << 16), &fixed(2).congestion(name));
    assert!(pass(near, far, b"it works") == b"it works");
}

/// How many lanes begin at each of these addresses.
fn lanes_from(stream: &StripedStream, hosts: &[&str]) -> Vec<usize> {
    let lanes = stream.stats().lanes;
    let at = |host: &&str| lanes.iter().filter(|lane| lane.local.unwrap().ip().to_string() == **host).count();
    hosts.iter().map(at).collect()
}

fn from<const N: usize>(lanes: u32, places: [&str; N]) -> StripeOptions {
    fixed(lanes).local_ends(places.map(LocalEnd::from))
}

#[test]
fn lanes_begin_at_local_ends_in_turn() {
    let (near, far) = pair(&from(6, ["127.0.0.2", "127.0.0.3", "::1"]), &fixed(6));
    near.wait_for_lanes(6, PATIENCE).unwrap();
    assert_eq!(lanes_from(&near, &["127.0.0.2", "127.0.0.3"]), [3, 3], "the third cannot lead there");
    let bytes = text(10, 1 << 20);
    assert!(pass(near, far, &bytes) == bytes);
    let (near, _far) = pair(&from(2, ["lo"]), &fixed(2));
    assert_eq!(near.wait_for_lanes(2, PATIENCE).unwrap(), 2);
}

#[test]
fn each_local_end_has_a_lane_that_carries_data() {
    let options = StripeOptions::new().remember(false);
    let places = ["127.0.0.2", "127.0.0.3", "127.0.0.4"];
    // Small windows: else one lane carries all that is written here, and nothing is left for the others.
    let from = options.clone().local_ends(places.map(LocalEnd::from)).window(64 << 10);
    let (near, mut far) = pair(&from, &options);
    let reading = thread::spawn(move || std::io::copy(&mut far, &mut std::io::sink()));
    let bytes = text(11, 1 << 20);
    until(|| {
        (&near).write_all(&bytes).unwrap();
        let lanes = near.stats().lanes;
        let carries = |host: &&str| {
            let from = |lane: &&LaneStats| lane.local.is_some_and(|local| local.ip().to_string() == **host);
            lanes.iter().filter(from).any(|lane| lane.bytes_sent > 0)
        };
        places.iter().all(carries).then_some(())
    });
    near.close().unwrap();
    reading.join().unwrap().unwrap();
}

#[test]
fn a_local_end_at_which_no_lane_can_begin_loses_its_turns() {
    let (near, far) = pair(&from(4, ["eth-99", "192.0.2.7", "127.0.0.2"]), &fixed(4));
    near.wait_for_lanes(4, PATIENCE).unwrap();
    assert_eq!(lanes_from(&near, &["127.0.0.2"]), [4]);
    assert!(pass(near, far, b"it works") == b"it works");
    let listener = bind(&fixed(1));
    let to = listener.local_addr().unwrap();
    for (place, says) in
        [("eth-99", "from eth-99: "), ("192.0.2.7", "from 192.0.2.7: "), ("::1", "other family")]
    {
        let line = from(1, [place]).connect(to).unwrap_err().to_string();
        assert!(line.contains(says) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn statistics_tell_of_each_lane() {
    let (near, mut far) = pair(&fixed(3).nodelay(false), &fixed(3));
    near.wait_for_lanes(3, PATIENCE).unwrap();
    (&near).write_all(&text(9, 4 << 20)).unwrap();
    far.read_exact(&mut vec![0; 4 << 20]).unwrap();
    // The kernels' own acknowledgements may come later than the stream's, over another lane.
    let is_acked = |lane: &LaneStats| lane.tcp.acked_bytes >= lane.bytes_sent;
    let stats = until(|| {
        let stats = near.stats();
        (stats.bytes_acked == 4 << 20 && stats.lanes.iter().all(is_acked)).then_some(stats)
    });
    assert_eq!((stats.lanes.len(), stats.lanes_lost, stats.bytes_resent), (3, 0, 0));
    assert_eq!(stats.lanes.iter().map(|lane| lane.bytes_sent).sum::<u64>(), 4 << 20);
    let busy = stats.lanes.iter().filter(|lane| lane.bytes_sent > 0);
    assert!(busy.clone().count() > 0);
    assert!(busy.clone().all(|lane| lane.tcp.rtt > Duration::ZERO));
    assert_eq!(near.peer_addr().unwrap(), far.local_addr().unwrap());
    near.set_nodelay(true).unwrap();
}

#[test]
fn who_reads_all_and_closes_at_once_leaves_nothing_undelivered() {
    for lanes in [1, 4].repeat(50) {
        let (mut near, mut far) = pair(&fixed(lanes), &fixed(lanes));
        near.wait_for_lanes(lanes as usize, PATIENCE).unwrap();
        far.write_all(b"pong").unwrap();
        near.read_exact(&mut [0; 4]).unwrap();
        near.close().unwrap();
        far.close().unwrap();
    }
}

#[test]
fn an_address_that_stays_silent_leaves_time_for_the_next() {
    let (silent, listener) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), bind(&fixed(1)));
    let addresses = [silent.local_addr().unwrap(), listener.local_addr().unwrap()];
    let near = fixed(1).connect_timeout(Duration::from_secs(4)).connect(&addresses[..]).unwrap();
    let (far, _) = listener.accept_timeout(PATIENCE).unwrap();
    assert!(pass(near, far, b"it works") == b"it works");
}

#[test]
fn streams_that_nobody_has_accepted_end_with_the_listener() {
    let listener = bind(&fixed(1));
    let address = listener.local_addr().unwrap();
    let streams: Vec<_> = (0..3).map(|_| fixed(1).connect(address).unwrap()).collect();
    let (_kept, peer) = listener.accept_timeout(PATIENCE).unwrap();
    drop(listener);
    for mut stream in streams.into_iter().filter(|stream| stream.local_addr().unwrap() != peer) {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let read = stream.read(&mut [0; 1]);
        assert!(read.as_ref().is_err_and(|error| error.kind() != ErrorKind::WouldBlock), "{read:?}");
    }
}

#[test]
fn the_longest_timeouts_mean_for_ever() {
    let patient = |lanes| fixed(lanes).connect_timeout(Duration::MAX).stall_timeout(Duration::MAX);
    let (near, far) = pair(&patient(2), &patient(2));
    near.wait_for_lanes(2, Duration::MAX).unwrap();
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(Duration::MAX)).unwrap();
        stream.set_write_timeout(Some(Duration::MAX)).unwrap();
    }
    assert!(pass(near, far, b"it works") == b"it works");
}
