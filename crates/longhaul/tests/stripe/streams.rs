//! What goes in comes out, however it is cut and sealed.

use crate::common::{PATIENCE, pair, pass, text};
use longhaul::stripe::{Partition, Streams, StripeOptions};

fn options(lanes: u32, partition: Partition) -> StripeOptions {
    StripeOptions::new().streams(Streams::Fixed(lanes)).partition(partition)
}

#[test]
fn every_partition_and_number_of_lanes_delivers_the_bytes_both_ways() {
    let bytes = text(1, 3_000_001);
    for partition in
        [Partition::Auto, Partition::Equal, Partition::Blocks(8 << 10), Partition::Blocks(1 << 20)]
    {
        for lanes in [1, 2, 7] {
            for plain in [true, false] {
                let options = options(lanes, partition);
                let options = if plain { options.plain() } else { options.key(b"secret") };
                let (near, far) = pair(&options, &options);
                assert_eq!(near.wait_for_lanes(lanes as usize, PATIENCE).unwrap(), lanes as usize);
                let (near, far) = if lanes == 2 { (far, near) } else { (near, far) };
                assert!(pass(near, far, &bytes) == bytes, "{partition:?}, {lanes} lanes, plain {plain}");
            }
        }
    }
}
