//! Hosts that hand over many packets as one: the path is the same, packet by packet.

use super::impairments::dice;
use super::measure;
use super::probe::{self, within};
use crate::watched::{check, start};
use longhaul_lab::{Lab, Scenario, Side, tcp};
use longhaul_net::option;
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use std::{fs, thread};

#[test]
fn super_packets_carry_the_same_bytes() {
    measure(|| {
        let scenario = Scenario { loss: 0.002, super_packets: true, ..Scenario::new(400.0, 2.0) };
        let lab = start(&scenario)?;
        let addresses = [IpAddr::from(lab.address(Side::Right)), IpAddr::from(lab.address_v6(Side::Right))];
        for address in addresses {
            lab.reset_counters();
            let before = handed_over(&lab)?;
            carry(&lab, address).map_err(|error| format!("{address}: {error}"))?;
            let way = lab.counters().left_to_right;
            check(way.dropped_loss > 0, || format!("nothing was lost, so nothing was cut: {way:?}"))?;
            let reads = handed_over(&lab)? - before;
            check(way.packets_in > 3 * reads, || format!("{} packets, {reads} handed over", way.packets_in))?;
        }
        Ok(())
    });
}

#[test]
fn super_packets_lose_the_seeded_packets() {
    measure(|| {
        let (runs, run) = (500, 20);
        let scenario = Scenario {
            loss: 0.1,
            seed: 11,
            super_packets: true,
            queue_kb: Some(4000.0),
            ..Scenario::new(900.0, 2.0)
        };
        let lab = start(&scenario)?;
        let received = datagrams(&lab, runs, run).map_err(|error| error.to_string())?;
        let mut dice = dice(&scenario, Side::Left);
        let expected: BTreeSet<u32> = (0..runs * run).filter(|_| !dice.roll().lost).collect();
        check(received == expected, || format!("{} arrived instead of {}", received.len(), expected.len()))?;
        let way = lab.counters().left_to_right;
        check(way.bytes_in == u64::from(runs * run) * (PAYLOAD + 28) as u64, || format!("{way:?}"))
    });
}

#[test]
fn super_packets_keep_the_rate() {
    measure(|| {
        let lab = start(&Scenario { super_packets: true, ..Scenario::new(200.0, 10.0) })?;
        let run = tcp::transfer(&lab, 50_000_000, "cubic").map_err(|error| error.to_string())?;
        within("Mb/s", run.mbps, 200.0 * 1448.0 / 1500.0, 0.1)
    });
}

/// Send bytes over TCP from left to right, and compare them.
fn carry(lab: &Lab, address: IpAddr) -> io::Result<()> {
    let inside = |error| io::Error::other(format!("{error}"));
    let listener = lab.enter(Side::Right, || TcpListener::bind((address, 0))).map_err(inside)??;
    let to = listener.local_addr()?;
    let mut sender = lab.enter(Side::Left, || TcpStream::connect(to)).map_err(inside)??;
    let mut receiver = listener.accept()?.0;
    receiver.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut sent = vec![0; 20_000_000];
    fastrand::Rng::with_seed(5).fill(&mut sent);
    let mut came = Vec::with_capacity(sent.len());
    thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.read_to_end(&mut came));
        sender.write_all(&sent)?;
        drop(sender);
        receiving.join().map_err(|_| io::Error::other("the receiver panicked"))?
    })?;
    if came == sent { Ok(()) } else { Err(io::Error::other("other bytes came than were sent")) }
}

/// What the left host's device took since it was made.
fn handed_over(lab: &Lab) -> Result<u64, String> {
    let table = lab.enter(Side::Left, || fs::read_to_string("/proc/thread-self/net/dev"));
    let table = table.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let line = table.lines().find_map(|line| line.trim().strip_prefix("path0:"));
    // Eight columns of what was received, then bytes and packets of what was sent.
    let packets = line.and_then(|line| line.split_whitespace().nth(9)?.parse().ok());
    packets.ok_or_else(|| format!("no such device: {table}"))
}

/// Send numbered datagrams, `run` with each call; returns those that came.
fn datagrams(lab: &Lab, runs: u32, run: u32) -> io::Result<BTreeSet<u32>> {
    let bind = |end| {
        let bound = lab.enter(end, || probe::bind(lab.address(end)));
        bound.map_err(|error| io::Error::other(format!("{error}")))?.map(UdpSocket::from)
    };
    let (sender, receiver) = (bind(Side::Left)?, bind(Side::Right)?);
    sender.connect(receiver.local_addr()?)?;
    receiver.set_read_timeout(Some(Duration::from_millis(500)))?;
    option::set(&sender, libc::SOL_UDP, libc::UDP_SEGMENT, PAYLOAD as i32)?;
    let (mut came, mut datagram) = (BTreeSet::new(), [0; PAYLOAD]);
    for first in (0..runs).map(|n| n * run) {
        let numbered = |n: u32| [&n.to_le_bytes()[..], &[0; PAYLOAD - 4]].concat();
        sender.send(&(first..first + run).flat_map(numbered).collect::<Vec<u8>>())?;
        // Read now and then, so that the socket's buffer holds what comes.
        thread::sleep(Duration::from_micros(300));
        receiver.set_nonblocking(true)?;
        while receiver.recv(&mut datagram).is_ok() {
            came.insert(number_of(&datagram));
        }
    }
    receiver.set_nonblocking(false)?;
    while receiver.recv(&mut datagram).is_ok() {
        came.insert(number_of(&datagram));
    }
    Ok(came)
}

fn number_of(datagram: &[u8; PAYLOAD]) -> u32 {
    datagram.first_chunk().map_or(0, |number| u32::from_le_bytes(*number))
}

const PAYLOAD: usize = 1000;
