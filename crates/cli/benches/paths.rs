//! What `longhaul cp` reaches over emulated paths: `cargo bench -p longhaul-cli --bench paths [-- FILTER…]`.
//!
//! Every row runs the real program in two network namespaces, compares the files afterwards and prints one line. The
//! payload limit is bottleneck × 1448/1500, what a perfect TCP stream would carry.

use longhaul_lab::{End, Lab, ensure_privileges, tcp};
use longhaul_sim::scenario::Scenario;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn main() {
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if let Err(error) = ensure_privileges() {
        println!("no emulated paths here: {error}");
        return;
    }
    println!(
        "{:<34} {:>8} {:>8} {:>7} {:>7} {:>7}  limited by",
        "path", "seconds", "Mb/s", "limit", "waste", "queue"
    );
    for row in rows() {
        if filters.is_empty() || filters.iter().any(|f| row.name.contains(f.as_str())) {
            row.run();
        }
    }
}

/// What to copy.
#[derive(Clone)]
enum Load {
    /// One file of so many bytes.
    File(u64),
    /// So many files of about so many bytes.
    Files(u64, u64),
}

struct Row {
    name: String,
    scenario: Scenario,
    load: Load,
    flags: Vec<&'static str>,
    /// Others over the same path in the same run.
    peers: Vec<Peer>,
}

#[derive(Clone, Copy)]
enum Peer {
    Tcp(&'static str),
    Uftp,
}

const MB: u64 = 1_000_000;

fn rows() -> Vec<Row> {
    let row = |name: &str, rate, rtt, loss, load| Row {
        name: name.into(),
        scenario: Scenario { loss, ..Scenario::new(rate, rtt) },
        load,
        flags: vec![],
        peers: vec![],
    };
    let mut rows = vec![
        row("short 100M 26ms 0", 100.0, 26.0, 0.0, Load::File(40 * MB)),
        row("long 100M 65ms 0", 100.0, 65.0, 0.0, Load::File(40 * MB)),
        row("long 100M 65ms 0.1%", 100.0, 65.0, 0.001, Load::File(40 * MB)),
        row("long 100M 65ms 1%", 100.0, 65.0, 0.01, Load::File(40 * MB)),
        row("long 100M 65ms 5%", 100.0, 65.0, 0.05, Load::File(40 * MB)),
        row("fast 500M 65ms 0", 500.0, 65.0, 0.0, Load::File(200 * MB)),
        row("fast 500M 65ms 0.1%", 500.0, 65.0, 0.001, Load::File(200 * MB)),
        row("giga 1000M 65ms 0", 1000.0, 65.0, 0.0, Load::File(400 * MB)),
        row("queue 100M 65ms 200MB", 100.0, 65.0, 0.0, Load::File(200 * MB)),
    ];
    for (rtt, every) in [(26.0, "8"), (26.0, "32"), (26.0, "128"), (65.0, "8"), (65.0, "32"), (65.0, "128")] {
        let mut fobs =
            row(&format!("fobs nic 100M {rtt}ms F={every}"), 1000.0, rtt, 0.0, Load::File(40 * MB));
        fobs.scenario.nic_mbit = Some(100.0);
        fobs.flags = vec![
            "--control",
            "greedy",
            "--select",
            "circular-strict",
            "--packet-size",
            "1062",
            "--batch",
            "2",
        ];
        fobs.flags.extend(["--ack-every", every]);
        rows.push(fobs);
    }
    for rate in [50.0, 100.0] {
        let mut pcp = row(&format!("pcp {rate}M 40ms"), rate, 40.0, 0.0, Load::File(40 * MB));
        pcp.flags = vec!["--control", "pcp"];
        rows.push(pcp);
    }
    rows.push(row("many one 160MB 100M 65ms", 100.0, 65.0, 0.0, Load::File(160 * MB)));
    rows.push(row("many 20000x8K 100M 65ms", 100.0, 65.0, 0.0, Load::Files(20_000, 8000)));
    rows.push(row("small 1000x4K 200M 100ms", 200.0, 100.0, 0.0, Load::Files(1000, 4096)));
    for loss in [0.0, 0.001, 0.01] {
        let mut versus =
            row(&format!("versus 200M 100ms {}%", loss * 100.0), 200.0, 100.0, loss, Load::File(64 * MB));
        versus.peers = vec![Peer::Tcp("bbr"), Peer::Uftp];
        rows.push(versus);
    }
    rows
}

impl Row {
    fn run(&self) {
        let folder =
            tempfile::Builder::new().prefix("longhaul-bench-").tempdir_in(memory()).expect("a folder");
        let (source, served) = (folder.path().join("source"), folder.path().join("served"));
        fs::create_dir(&served).expect("a folder");
        let bytes = make(&source, &self.load);
        let lab = Lab::start(&self.scenario).expect("the path");
        let copied = copy(&lab, &source, &served, &self.flags, self.scenario.rtt_ms);
        let limit_mbps = self.scenario.nic_mbit.unwrap_or(self.scenario.bottleneck_mbit) * 1448.0 / 1500.0;
        let queue = copied.queue_bytes / (self.scenario.bdp_bytes() as f64).max(1.0);
        let field = |name: &str| copied.json[name].as_f64().unwrap_or(f64::NAN);
        let seconds = field("seconds");
        let mbps = bytes as f64 * 8e-6 / seconds;
        println!(
            "{:<34} {seconds:>8.3} {mbps:>8.1} {:>6.1}% {:>6.2}% {:>6.1}%  {} {}",
            self.name,
            100.0 * mbps / limit_mbps,
            100.0 * field("waste"),
            100.0 * queue,
            copied.json["limited_by"].as_str().unwrap_or("?"),
            copied.remark,
        );
        for peer in &self.peers {
            let (name, seconds) = match peer {
                Peer::Tcp(control) => {
                    let limit = Duration::from_secs(60);
                    let run = tcp::transfer_within(&lab, bytes, control, limit);
                    (format!("  kernel {control}"), run.map_or(f64::INFINITY, |run| run.seconds))
                }
                Peer::Uftp => {
                    ("  uftp".into(), uftp(&lab, &source, folder.path(), self.scenario.bottleneck_mbit))
                }
            };
            let mbps = bytes as f64 * 8e-6 / seconds;
            println!("{name:<34} {seconds:>8.3} {mbps:>8.1} {:>6.1}%", 100.0 * mbps / limit_mbps);
        }
    }
}

fn memory() -> PathBuf {
    let shm = PathBuf::from("/dev/shm");
    if shm.is_dir() { shm } else { std::env::temp_dir() }
}

fn make(source: &Path, load: &Load) -> u64 {
    let mut random = fastrand::Rng::with_seed(7);
    let mut write = |path: &Path, len: u64| {
        let mut data = vec![0; len as usize];
        random.fill(&mut data);
        fs::write(path, data).expect("room for the file");
        len
    };
    match load {
        Load::File(len) => write(source, *len),
        Load::Files(count, len) => {
            (0..*count)
                .map(|i| {
                    let dir = source.join(format!("d{:03}", i / 100));
                    fs::create_dir_all(&dir).expect("a folder");
                    // Half to one and a half of the mean.
                    write(&dir.join(format!("f{i:05}.dat")), len / 2 + (i * 7919) % (len + 1))
                })
                .sum()
        }
    }
}

struct Copied {
    json: Value,
    queue_bytes: f64,
    remark: String,
}

fn copy(lab: &Lab, source: &Path, served: &Path, flags: &[&str], rtt_ms: f64) -> Copied {
    let program = env!("CARGO_BIN_EXE_longhaul");
    let token = "a token for measurements, long enough";
    let mut server = lab.command(End::Right, program);
    server.args(["serve", "--listen", "0.0.0.0:7700", "--root"]).arg(served).env("LONGHAUL_TOKEN", token);
    let mut server = Killed(server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a server"));
    let stdout = BufReader::new(server.0.stdout.take().expect("its output"));
    stdout
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains("longhaul://"))
        .expect("the server listens");
    let mut cp = lab.command(End::Left, program);
    let target = format!("longhaul://{}/", lab.address(End::Right));
    cp.args(["cp", "--json", if std::env::var_os("LONGHAUL_LOG").is_some() { "--why" } else { "--quiet" }])
        .args(flags)
        .arg(source)
        .arg(target)
        .env("LONGHAUL_TOKEN", token);
    if std::env::var_os("LONGHAUL_LOG").is_none() {
        cp.stderr(Stdio::null());
    }
    let mut cp = Killed(cp.stdout(Stdio::piped()).spawn().expect("a copy"));
    // The start is not counted: handshake, train and the first round trips.
    std::thread::sleep(Duration::from_secs_f64(rtt_ms / 1e3 * 6.0));
    lab.reset_counters();
    let began = Instant::now();
    let mut text = String::new();
    cp.0.stdout.take().expect("its output").read_to_string(&mut text).expect("its result");
    let counters = lab.counters();
    let json: Value =
        text.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or(Value::Null);
    let mut remark = String::new();
    if lab.cpu_limited() {
        remark += "(the emulator was late at times) ";
    }
    if json["ok"] != true {
        remark += &format!("FAILED: {} after {:.1} s", json["error"], began.elapsed().as_secs_f64());
    } else if !same(source, &served.join("source")) {
        remark += "FILES DIFFER";
    }
    Copied { json, queue_bytes: counters.left_to_right.waiting_bytes.mean, remark }
}

fn same(a: &Path, b: &Path) -> bool {
    Command::new("diff").arg("-rq").args([a, b]).stdout(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// uftp, told almost the path's rate, as its users must; infinite if it fails or is not installed.
fn uftp(lab: &Lab, source: &Path, folder: &Path, bottleneck_mbit: f64) -> f64 {
    let (into, logs) = (folder.join("uftp"), folder.join("uftpd.log"));
    fs::create_dir_all(&into).expect("a folder");
    let mut daemon = lab.command(End::Right, "uftpd");
    daemon.args(["-d", "-t", "-I", "10.73.0.2", "-M", "230.4.4.1", "-D"]).arg(&into).arg("-L").arg(&logs);
    let Ok(daemon) = daemon.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else { return f64::INFINITY };
    let _daemon = Killed(daemon);
    std::thread::sleep(Duration::from_millis(300));
    let rate_kbit = (bottleneck_mbit * 950.0) as u64;
    let mut client = lab.command(End::Left, "uftp");
    client.args(["-R", &rate_kbit.to_string(), "-I", "10.73.0.1", "-M", "10.73.0.2", "-t", "8"]).arg(source);
    let began = Instant::now();
    let done =
        client.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if done { began.elapsed().as_secs_f64() } else { f64::INFINITY }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
