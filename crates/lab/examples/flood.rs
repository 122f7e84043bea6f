//! How fast this machine can emulate: `flood SCENARIO.toml [SECONDS [UDP_PAYLOAD]]` sends UDP from left to right as
//! fast as the left host lets it and says what came of it and what it cost.

use longhaul_lab::{Lab, Scenario, Side, ensure_privileges};
use std::net::UdpSocket;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flood: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("usage: flood SCENARIO.toml [SECONDS [UDP_PAYLOAD]]")?;
    let seconds: f64 = args.next().map_or(Ok(5.0), |text| text.parse())?;
    let payload: usize = args.next().map_or(Ok(1472), |text| text.parse())?;
    ensure_privileges()?;
    let lab = Lab::start(&Scenario::load(Path::new(&file))?)?;
    let bind = |end| lab.enter(end, || UdpSocket::bind((lab.address(end), 0)));
    let (left, right) = (bind(Side::Left)??, bind(Side::Right)??);
    left.connect(right.local_addr()?)?;
    right.set_read_timeout(Some(Duration::from_millis(100)))?;
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| -> io::Result<()> {
        scope.spawn(|| {
            let mut block = vec![0; 65_536];
            while !stop.load(Ordering::Relaxed) {
                if let Ok(len) = right.recv(&mut block) {
                    received.fetch_add(len as u64, Ordering::Relaxed);
                }
            }
        });
        let (start, block) = (Instant::now(), vec![0; payload]);
        let mut result = Ok(0);
        while start.elapsed().as_secs_f64() < seconds && result.is_ok() {
            result = left.send(&block);
        }
        // What the queue and the path still hold is drained before it is counted.
        thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        result.map(drop)
    })?;
    let counters = lab.counters();
    let mbit = |bytes: u64| bytes as f64 * 8.0 / seconds / 1e6;
    let way = counters.left_to_right;
    println!("offered {:.0} Mb/s, path delivered {:.0} Mb/s", mbit(way.bytes_in), mbit(way.bytes_delivered));
    println!("program received {:.0} Mb/s of payload", mbit(received.into_inner()));
    println!("{way:#?}\ncpu limited: {}", counters.cpu_limited());
    for (name, busy) in processor_seconds()? {
        println!("{name}: {:.0} % of a processor", busy / seconds * 100.0);
    }
    Ok(())
}

/// What each thread of this program has used.
fn processor_seconds() -> io::Result<Vec<(String, f64)>> {
    let mut threads = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        let name = fs::read_to_string(task.join("comm"))?.trim().to_string();
        let ns: f64 = fs::read_to_string(task.join("schedstat"))?
            .split_whitespace()
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or_default();
        threads.push((name, ns / 1e9));
    }
    Ok(threads)
}
