use super::*;
use fastrand::Rng;
use std::net::TcpListener;
use std::thread;

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn streams() -> (Arc<ResumableStream>, Arc<ResumableStream>) {
    let (a, b) = pair();
    let (a, b) = (ResumableStream::new(a), ResumableStream::new(b));
    [&a, &b].iter().for_each(|stream| stream.allow(Duration::from_secs(60)));
    (a, b)
}

/// A new connection between the two.
fn connect_again(client: &Arc<ResumableStream>, server: &Arc<ResumableStream>) {
    let ((near, far), other) = (pair(), server.clone());
    let there = thread::spawn(move || other.go_on(far, Side::Server).unwrap());
    client.go_on(near, Side::Client).unwrap();
    there.join().unwrap();
}

/// Bytes that tell their place.
fn story(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ salt).collect()
}

/// One direction of a stream, without sockets.
#[derive(Default)]
struct Way {
    backlog: Backlog,
    written: Vec<u8>,
    /// What the connection has been given and not delivered.
    on_its_way: VecDeque<u8>,
    taken: Vec<u8>,
    /// What the receiver has told and the writer not heard of, over this connection or an earlier one.
    told: VecDeque<u64>,
}

impl Way {
    fn step(&mut self, rng: &mut Rng, context: &str) {
        match rng.u8(..8) {
            0..2 => {
                let more = story(rng.usize(1..400), rng.u8(..));
                self.written.extend_from_slice(&more);
                self.backlog.push(&more);
            }
            2..4 => {
                let (chunk, until) = self.backlog.next(rng.usize(1..300));
                self.on_its_way.extend(&chunk);
                // It may be delivered, taken and told before the writer has noted that it gave it.
                if rng.bool() {
                    self.deliver(rng);
                    self.told.push_back(self.taken.len() as u64);
                    self.hear(context);
                }
                self.backlog.note_given(until);
            }
            4..6 => self.deliver(rng),
            6 => self.told.push_back(self.taken.len() as u64),
            _ => self.hear(context),
        }
    }

    fn deliver(&mut self, rng: &mut Rng) {
        let len = rng.usize(..=self.on_its_way.len());
        self.taken.extend(self.on_its_way.drain(..len));
    }

    fn hear(&mut self, context: &str) {
        if let Some(position) = self.told.pop_front() {
            assert!(self.backlog.note_taken(position), "{context}");
        }
    }

    /// All that is on its way is lost, and another connection begins. What was heard of before may be processed after it.
    fn cut(&mut self, rng: &mut Rng, context: &str) {
        self.on_its_way.clear();
        self.told.truncate(rng.usize(..=self.told.len()));
        assert!(self.backlog.go_on_from(self.taken.len() as u64), "{context}");
    }
}

#[test]
fn whatever_is_lost_with_connections_comes_exactly_once_and_in_order() {
    for seed in 0..3000 {
        let mut rng = Rng::with_seed(seed);
        let context = format!("seed {seed}");
        let mut ways = [Way::default(), Way::default()];
        let mut cuts = 0;
        for _ in 0..rng.usize(1..400) {
            let way = rng.usize(..2);
            ways[way].step(&mut rng, &context);
            if rng.u8(..20) == 0 {
                // A connection breaks in both directions, at any byte of each.
                cuts += 1;
                for way in &mut ways {
                    way.deliver(&mut rng);
                    way.cut(&mut rng, &context);
                }
            }
        }
        for way in &mut ways {
            assert!(
                way.written.starts_with(&way.taken),
                "{context}, {cuts} cuts: nothing twice, nothing else"
            );
            way.taken.extend(way.on_its_way.drain(..));
            way.taken.extend(way.backlog.next(usize::MAX).0);
            assert_eq!(way.taken, way.written, "{context}, {cuts} cuts");
            assert!(way.backlog.note_taken(way.taken.len() as u64) && way.backlog.is_empty(), "{context}");
        }
    }
}

#[test]
fn nothing_is_taken_that_was_not_written_nor_given_back() {
    let mut backlog = Backlog::default();
    backlog.push(b"four");
    assert!(!backlog.note_taken(5) && !backlog.go_on_from(5) && backlog.go_on_from(3));
    assert!(backlog.note_taken(2), "old news");
    assert!(!backlog.go_on_from(2), "what was taken is not kept");
    assert_eq!((backlog.next(9), backlog.len()), ((b"r".to_vec(), 4), 1));
    backlog.note_given(4);
    assert_eq!((backlog.next(9), backlog.is_empty()), ((vec![], 4), false));
}

#[test]
fn a_stream_goes_on_over_many_connections_both_ways() {
    let (a, b) = streams();
    let len = 3_000_000;
    let talk = |stream: &Arc<ResumableStream>, salt| {
        let stream = stream.clone();
        thread::spawn(move || {
            ResumableWriter(stream.clone()).write_all(&story(len, salt)).unwrap();
            stream.give_again();
        })
    };
    let hear = |stream: &Arc<ResumableStream>, salt| {
        let stream = stream.clone();
        thread::spawn(move || {
            let mut got = vec![0; len];
            ResumableReader(stream).read_exact(&mut got).unwrap();
            assert!(got == story(len, salt));
        })
    };
    let writers = [talk(&a, 1), talk(&b, 2)];
    for round in 0..20 {
        thread::yield_now();
        // The server notices nothing, or first. To the client its connection is broken, or brings nothing.
        if round % 3 == 0 {
            b.state().break_off();
        }
        if round % 2 == 0 {
            a.state().break_off();
        }
        a.state().is_doubted = round % 2 == 1;
        connect_again(&a, &b);
    }
    a.state().break_off();
    let readers = [hear(&a, 2), hear(&b, 1)];
    connect_again(&a, &b);
    readers.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((a.taken(), b.taken()), (len as u64, len as u64));
    assert!(a.note_taken(len as u64) && a.kept() == 0, "it is not kept once it was taken");
    [a, b].iter().for_each(|stream| stream.end());
    writers.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_stream_that_may_not_go_on_ends_with_its_connection() {
    let (a, b) = streams();
    a.allow(Duration::ZERO);
    b.end();
    assert!(ResumableReader(a.clone()).read(&mut [0; 9]).is_err() && a.is_over() && !a.await_need());
    assert!(a.go_on(pair().0, Side::Client).is_err(), "what is over stays so");
}

#[test]
fn a_stream_whose_connection_stays_away_ends_in_time() {
    let (a, b) = streams();
    a.allow(Duration::from_millis(50));
    b.state().break_off();
    assert!(ResumableReader(a.clone()).read(&mut [0; 9]).is_err() && a.is_over());
}

#[test]
fn who_has_taken_what_was_never_said_does_not_go_on() {
    let (a, _b) = streams();
    a.state().break_off();
    let (near, mut far) = pair();
    far.write_all(&7u64.to_be_bytes()).unwrap();
    assert!(a.go_on(near, Side::Client).is_err() && a.is_broken());
}

#[test]
fn a_server_keeps_its_connection_until_the_client_goes_on_over_another() {
    let (a, b) = streams();
    let (near, far) = pair();
    drop(near);
    assert!(b.go_on(far, Side::Server).is_err() && !b.is_broken());
    a.state().backlog.push(b"x");
    ResumableWriter(a.clone()).write_all(b"y").unwrap();
    let mut got = [0; 2];
    ResumableReader(b.clone()).read_exact(&mut got).unwrap();
    assert_eq!(&got, b"xy");
}

/// Two streams whose client hears nothing until it doubts its connection, and the thread that hears.
fn doubted() -> (Arc<ResumableStream>, Arc<ResumableStream>, thread::JoinHandle<Vec<u8>>) {
    let (a, b) = streams();
    a.doubt_silence(Duration::from_millis(1)).unwrap();
    let reading = a.clone();
    let reader = thread::spawn(move || {
        let mut got = vec![0; 5];
        ResumableReader(reading).read_exact(&mut got).map(|()| got).unwrap_or_default()
    });
    assert!(a.await_need() && !a.is_broken() && !a.quiet().is_zero(), "it is doubted, and still there");
    (a, b, reader)
}

#[test]
fn a_connection_that_brings_nothing_stays_until_there_is_another() {
    let (a, b, reader) = doubted();
    // What was said over the one before and is lost there comes over this one.
    b.state().backlog.push(b"again");
    assert!(a.needs_another());
    connect_again(&a, &b);
    ResumableWriter(b.clone()).flush().unwrap();
    assert_eq!(reader.join().unwrap(), b"again");
    assert_eq!((a.breaks(), b.breaks(), a.is_over()), (1, 1, false));
}

#[test]
fn a_connection_that_was_doubted_and_speaks_first_stays() {
    let (a, b, reader) = doubted();
    let ((near, far), other) = (pair(), b.clone());
    ResumableWriter(b.clone()).write_all(b"first").unwrap();
    assert_eq!(reader.join().unwrap(), b"first");
    let there = thread::spawn(move || other.go_on(far, Side::Server));
    assert_eq!(a.go_on(near, Side::Client).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(there.join().unwrap().is_err());
    assert_eq!((a.breaks(), b.breaks(), a.needs_another(), b.is_broken()), (0, 0, false, false));
}

#[test]
fn how_long_a_connection_may_be_silent_follows_its_round_trip() {
    let ms = Duration::from_millis;
    assert_eq!(may_be_silent(ms(300), ms(0), ms(0)), ms(900));
    assert_eq!(may_be_silent(ms(300), ms(100), ms(25)), ms(1500));
}

fn unconnected() -> Arc<ResumableStream> {
    ResumableStream::unconnected(Duration::from_secs(60), Waker::new().unwrap()).unwrap()
}

/// What is said early on a stream, once so much of it is there.
fn early(stream: &ResumableStream, len: usize) -> Vec<(u64, Vec<u8>)> {
    let mut words: Vec<(u64, Vec<u8>)> = vec![];
    while words.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() < len {
        words.extend(stream.early_words(1000));
    }
    words
}

fn await_taken(stream: &ResumableStream, position: u64) {
    while stream.taken() != position {
        thread::yield_now();
    }
}

#[test]
fn what_is_said_before_there_is_a_connection_goes_another_way_and_what_that_loses_over_the_connection() {
    let (client, server) = (unconnected(), unconnected());
    let said = story(40_000, 3);
    let (there, whole) = (server.clone(), said.clone());
    let writer = thread::spawn(move || ResumableWriter(there).write_all(&whole).unwrap());
    let words = early(&server, EARLY_MAX as usize);
    assert!(server.early_words(1000).is_none(), "no more than that, and nothing twice");
    // The third is lost; what comes behind it is worth nothing then, and nothing is taken twice.
    for at in [0, 1, 0, 3, 4] {
        client.take_early(words[at].0, &words[at].1);
    }
    let mut got = vec![0; 1500];
    ResumableReader(client.clone()).read_exact(&mut got).unwrap();
    let (near, mut far) = pair();
    client.connect(near, |come| come.to_be_bytes().to_vec()).unwrap();
    assert_eq!(read_position(&mut far).unwrap(), 2000, "as much as came, read or not");
    got.resize(said.len(), 0);
    // The connection is silent as yet; what comes without it is not waited for there.
    let reader = ResumableReader(client.clone());
    let reading = thread::spawn(move || {
        { reader }.read_exact(&mut got[1500..]).unwrap();
        got
    });
    await_taken(&client, 2000);
    client.take_early(2000, &words[2].1);
    await_taken(&client, 3000);
    // It brings that again.
    server.connect_from(far, 2000).unwrap();
    assert!(reading.join().unwrap() == said);
    writer.join().unwrap();
    ResumableWriter(client.clone()).write_all(b"and back").unwrap();
    let mut back = [0; 8];
    ResumableReader(server.clone()).read_exact(&mut back).unwrap();
    assert_eq!((&back, client.taken(), server.breaks()), (b"and back", said.len() as u64, 0));
}

#[test]
fn there_is_one_first_connection_and_it_goes_on_from_where_the_stream_has_been() {
    let server = unconnected();
    assert!(server.connect_from(pair().0, 1).is_err(), "nothing was said");
    server.connect_from(pair().0, 0).unwrap();
    assert!(server.connect_from(pair().0, 0).is_err(), "somebody who has recorded the first");
    assert!(server.early_words(1000).is_none());
    let client = unconnected();
    client.end();
    assert!(client.connect(pair().0, |_| vec![]).is_err());
}

#[test]
fn a_stream_whose_first_connection_never_comes_ends() {
    let stream = ResumableStream::unconnected(Duration::from_millis(20), Waker::new().unwrap()).unwrap();
    assert!(ResumableReader(stream.clone()).read(&mut [0; 9]).is_err() && stream.is_over());
}
