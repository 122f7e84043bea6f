//! The hosts at the ends of the path, and what remains of them.

use super::probe::within;
use super::{measure, wait};
use crate::watched::{check, start};
use longhaul_lab::{Lab, LabError, Scenario, Side, tcp};
use longhaul_testing::process::is_alone;
use std::net::UdpSocket;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

#[test]
fn hosts_are_quiet_and_reachable() {
    measure(|| {
        let lab = start(&Scenario::new(100.0, 10.0))?;
        // Both families at once after the start, so that nobody needs to wait.
        let say = |result: io::Result<()>| result.map_err(|error| error.to_string());
        say(greet(&lab, &lab.address(Side::Left).to_string(), &lab.address(Side::Right).to_string()))?;
        let (left, right) =
            (format!("[{}]", lab.address_v6(Side::Left)), format!("[{}]", lab.address_v6(Side::Right)));
        say(greet(&lab, &left, &right)).map_err(|error| format!("IPv6: {error}"))?;
        let local = lab.enter(Side::Right, || {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.send_to(b"me", socket.local_addr()?).map(drop)
        });
        say(local.map_err(|error| error.to_string())?).map_err(|error| format!("loopback: {error}"))?;
        lab.reset_counters();
        thread::sleep(Duration::from_millis(1500));
        let counters = lab.counters();
        let packets = counters.left_to_right.packets_in + counters.right_to_left.packets_in;
        check(packets == 0, || format!("{packets} packets that nobody had asked for"))
    });
}

#[test]
fn commands_run_on_their_host_and_die_with_us() {
    wait(|| {
        let lab = start(&Scenario::new(100.0, 10.0))?;
        for end in [Side::Left, Side::Right] {
            let output =
                lab.command(end, "cat").arg("/proc/self/net/fib_trie").output().map_err(|e| e.to_string())?;
            let table = String::from_utf8_lossy(&output.stdout).into_owned();
            check(table.contains(&lab.address(end).to_string()), || {
                format!("not on the {end:?} host: {table}")
            })?;
        }
        let orphan =
            thread::scope(|scope| scope.spawn(|| lab.command(Side::Left, "sleep").arg("100").spawn()).join());
        let orphan: Child = orphan.map_err(|_| "panicked")?.map_err(|e| e.to_string())?;
        let status = { orphan }.wait().map_err(|e| e.to_string())?;
        check(status.signal() == Some(9), || format!("the child ended by itself: {status}"))
    });
}

#[test]
fn programs_of_a_crew_end_together() {
    wait(|| {
        let lab = start(&Scenario::new(100.0, 10.0))?;
        let group = lab.process_group().map_err(|e| e.to_string())?;
        let marked = |sleeper: &str| {
            let all = fs::read_dir("/proc").into_iter().flatten().flatten();
            let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
            lines.filter(|line| line == format!("sleep\0{sleeper}\0").as_bytes()).count()
        };
        // A time that nobody else sleeps.
        let sleeper = format!("{}", 3_000_000 + std::process::id());
        for end in [Side::Left, Side::Right] {
            let shell = group.spawn(end, "sh", |sh| {
                sh.arg("-c").arg(format!("setsid sleep {sleeper} & setsid sleep {sleeper} &"));
            });
            let status = shell.map_err(|e| e.to_string())?.wait().map_err(|e| e.to_string())?;
            check(status.success(), || format!("{end:?}: {status}"))?;
            let output = group.spawn(end.other(), "cat", |cat| {
                cat.arg("/proc/self/net/fib_trie").stdout(std::process::Stdio::piped());
            });
            let mut cat = output.map_err(|e| e.to_string())?;
            let table =
                io::read_to_string(cat.stdout.take().ok_or("no output")?).map_err(|e| e.to_string())?;
            check(table.contains(&lab.address(end.other()).to_string()), || format!("not there: {table}"))?;
            drop(cat);
        }
        let patience = Instant::now();
        while marked(&sleeper) != 4 {
            check(patience.elapsed() < Duration::from_secs(2), || {
                format!("{} of 4 sleep", marked(&sleeper))
            })?;
            thread::sleep(Duration::from_millis(10));
        }
        drop(group);
        check(marked(&sleeper) == 0, || format!("{} of 4 still sleep", marked(&sleeper)))
    });
}

#[test]
fn settings_belong_to_one_host() {
    wait(|| {
        let lab = start(&Scenario::new(100.0, 10.0))?;
        let name = "net.ipv4.tcp_congestion_control";
        let path = "/proc/sys/net/ipv4/tcp_congestion_control";
        let read = |end| lab.enter(end, || fs::read_to_string(path).unwrap_or_default()).unwrap_or_default();
        let before = (fs::read_to_string(path).unwrap_or_default(), read(Side::Right));
        lab.set_sysctl(Side::Left, name, "reno").map_err(|e| e.to_string())?;
        check(read(Side::Left).trim() == "reno", || "it was not set".into())?;
        let after = (fs::read_to_string(path).unwrap_or_default(), read(Side::Right));
        check(before == after, || "it was set elsewhere too".into())?;
        match lab.set_sysctl(Side::Left, "net.ipv4.no_such_thing", "1") {
            Err(LabError::Sysctl { name, .. }) if name == "net.ipv4.no_such_thing" => Ok(()),
            other => Err(format!("a setting that does not exist: {other:?}")),
        }
    });
}

#[test]
fn kernel_tcp_fills_the_path() {
    measure(|| {
        let lab = start(&Scenario::new(50.0, 20.0))?;
        let run = tcp::transfer(&lab, 10_000_000, "cubic").map_err(|e| e.to_string())?;
        // Slow start and headers take their part; 1448 of 1500 bytes are payload.
        within("Mb/s", run.mbps, 50.0 * 1448.0 / 1500.0, 0.1)?;
        within("Mb/s by the clock", 80.0 / run.seconds, run.mbps, 0.001)
    });
}

#[test]
fn kernel_tcp_says_what_is_wrong() {
    wait(|| {
        let lab = start(&Scenario::new(10.0, 20.0))?;
        match tcp::transfer(&lab, 1000, "nosuch") {
            Err(LabError::NoCongestionControl { available, .. }) if available.contains("reno") => {}
            other => return Err(format!("a congestion control that does not exist: {other:?}")),
        }
        match tcp::transfer_within(&lab, 100_000_000, "reno", Duration::from_millis(600)) {
            Err(LabError::TooSlow { bytes_received, .. }) if bytes_received > 0 => {}
            other => return Err(format!("a transfer without enough time: {other:?}")),
        }
        lab.cut(true);
        match tcp::transfer_within(&lab, 1000, "reno", Duration::from_millis(300)) {
            Err(LabError::TooSlow { bytes_received: 0, .. }) => Ok(()),
            other => Err(format!("a transfer over a cut path: {other:?}")),
        }
    });
}

#[test]
fn nothing_is_left_behind() {
    // Of this process.
    if !is_alone() {
        return;
    }
    wait(|| {
        let before = belongings();
        let lab = start(&Scenario { nic_mbit: Some(50.0), ..Scenario::new(100.0, 10.0) })?;
        check(belongings().1 > before.1, || "a lab without threads".into())?;
        tcp::transfer(&lab, 100_000, "cubic").map_err(|e| e.to_string())?;
        drop(lab);
        // A thread that was joined may take a moment to leave the list.
        let patience = Instant::now();
        while belongings() != before {
            if patience.elapsed() > Duration::from_secs(2) {
                return Err(format!("left behind: {:?}, before: {before:?}", belongings()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    });
}

/// Open descriptors (what each is) and the number of threads of this process.
fn belongings() -> (Vec<String>, usize) {
    let entries = |path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut descriptors: Vec<String> = entries("/proc/self/fd")
        .filter_map(|path| fs::read_link(path).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .filter(|target| !target.starts_with("/proc/")) // the list being read
        .collect();
    descriptors.sort();
    (descriptors, entries("/proc/self/task").count())
}

fn greet(lab: &Lab, left: &str, right: &str) -> io::Result<()> {
    let bind = |end, host: &str| {
        lab.enter(end, || UdpSocket::bind(format!("{host}:0"))).map_err(io::Error::other)?
    };
    let (left, right) = (bind(Side::Left, left)?, bind(Side::Right, right)?);
    left.send_to(b"hello", right.local_addr()?)?;
    right.set_read_timeout(Some(Duration::from_secs(2)))?;
    right.recv(&mut [0; 16]).map(drop)
}
