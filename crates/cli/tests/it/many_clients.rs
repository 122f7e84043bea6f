//! Many clients of one daemon at once.

use crate::common::tree::*;
use crate::common::{Running, Server, peak_memory};
use longhaul_testing::machine;
use std::time::Instant;

#[test]
#[ignore = "measures, and takes 2 GB of disk"]
fn sixty_four_clients_at_once_are_all_served_alike() {
    let Some(_alone) = machine::measure() else { return };
    let (here, there) = (folder(), folder());
    let server = Server::start(there.path(), &[]);
    for n in 0..CLIENTS {
        write_noise(here.path().join(n.to_string()), FILE_LEN, n as u64);
    }
    let began = Instant::now();
    let copies: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let ends = [here.path().join(n.to_string()).into_os_string(), server.url(&n.to_string()).into()];
            let copy = Running::start(&mut server.cp_command(ends));
            std::thread::spawn(move || {
                copy.finish().expect_code(0);
                began.elapsed().as_secs_f64()
            })
        })
        .collect();
    let seconds: Vec<f64> = copies.into_iter().map(|copy| copy.join().unwrap()).collect();
    let peak = peak_memory(server.id());
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let slowest = seconds.iter().copied().fold(0.0, f64::max);
    println!("mean {mean:.1} s, slowest {slowest:.1} s, the daemon's peak {} MB", peak / 1_000_000);
    (0..CLIENTS)
        .for_each(|n| assert_same_bytes(here.path().join(n.to_string()), there.path().join(n.to_string())));
    assert!(slowest <= 2.0 * mean, "{seconds:?}");
    assert!(peak <= 600_000_000, "{peak} bytes");
}

const CLIENTS: usize = 64;
/// 1 GB in all.
const FILE_LEN: usize = 1_000_000_000 / CLIENTS;
