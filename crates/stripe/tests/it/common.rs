//! What the tests share.

use longhaul_stripe::{Streams, StripeOptions, StripedListener, StripedStream};
pub use longhaul_testing::relay::Relay;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Nothing takes longer than this, whatever else the machine does.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Two ends of a stream over loopback.
pub fn pair(client: &StripeOptions, server: &StripeOptions) -> (StripedStream, StripedStream) {
    let listener = bind(server);
    let address = listener.local_addr().expect("it is bound");
    let near = client.connect(address).expect("it listens");
    let far = listener.accept_timeout(PATIENCE).expect("somebody has connected").0;
    (near, far)
}

/// Both ends of a stream through a relay.
pub fn through_relay(options: &StripeOptions) -> (StripedStream, StripedStream, Relay) {
    let listener = bind(options);
    let relay = Relay::start(listener.local_addr().expect("it is bound"));
    let near = options.connect(relay.address()).expect("it listens");
    let (far, _) = listener.accept_timeout(PATIENCE).expect("somebody has connected");
    (near, far, relay)
}

/// A stream that lives while things happen around it.
pub fn live(options: &StripeOptions) -> (StripedListener, StripedStream, StripedStream) {
    let listener = bind(options);
    let near = options.connect(listener.local_addr().expect("it is there")).expect("it is there");
    let (far, _) = listener.accept_timeout(PATIENCE).expect("it is there");
    near.wait_for_lanes(2, PATIENCE).expect("it is there");
    (listener, near, far)
}

/// A listener on loopback.
pub fn bind(options: &StripeOptions) -> StripedListener {
    options.bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there")
}

/// Bytes that are different at each place of a stream.
pub fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}

/// Send all of it on one end while the other reads to the end. Returns what arrived.
pub fn pass(from: StripedStream, mut to: StripedStream, bytes: &[u8]) -> Vec<u8> {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            (&from).write_all(bytes).expect("it is taken");
            from.close().expect("it is delivered");
        });
        let mut got = vec![];
        to.read_to_end(&mut got).expect("it comes to its end");
        got
    })
}

/// So many lanes.
pub fn fixed(lanes: u32) -> StripeOptions {
    StripeOptions::new().streams(Streams::Fixed(lanes))
}

/// Wait until something is so.
pub fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "it did not come about");
        std::thread::sleep(Duration::from_millis(2));
    }
}
