//! What networks of science are told of a copy: fireflies to a collector, the flow label of IPv6 packets.

use crate::common::site::{Daemon, Site};
use crate::common::tree::*;
use crate::common::{Running, Server, longhaul, skip, wait_until};
use longhaul::SciTag;
use rustix::process::Signal;
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::net::UdpSocket;
use std::path::Path;
use std::time::SystemTime;

/// Takes what is told by who has ended since.
struct Collector(UdpSocket);

/// What ends a flow has, and its fireflies.
type Told = BTreeMap<String, Vec<Value>>;

impl Collector {
    fn new() -> Collector {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        Collector(socket)
    }

    fn name(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// All that has come, by flow: each begins and ends once.
    fn told(&self) -> Told {
        let (mut told, mut bytes): (Told, _) = (Told::new(), [0; 2048]);
        while let Ok(len) = self.0.recv(&mut bytes) {
            let text = std::str::from_utf8(&bytes[..len]).unwrap();
            let firefly = checked(text);
            told.entry(firefly["flow-id"].to_string()).or_default().push(firefly);
        }
        for (flow, fireflies) in &told {
            let states: Vec<&str> = fireflies
                .iter()
                .map(|firefly| firefly["flow-lifecycle"]["state"].as_str().unwrap())
                .collect();
            assert_eq!((states.first(), states.last()), (Some(&"start"), Some(&"end")), "{flow}");
            assert!(
                states[1..states.len() - 1].iter().all(|state| *state == "ongoing"),
                "{flow}: {states:?}"
            );
            let begun = |firefly: &Value| firefly["flow-lifecycle"]["start-time"].clone();
            assert!(fireflies.iter().all(|firefly| begun(firefly) == begun(&fireflies[0])), "{flow}");
        }
        told
    }
}

/// As it must be by the specification's schema, which allows nothing else.
fn checked(text: &str) -> Value {
    let words: Vec<&str> = text.splitn(8, ' ').collect();
    let ["<134>1", time, host, "longhaul", "-", "firefly-json", "-", json] = words[..] else {
        panic!("{text}")
    };
    assert!(!host.is_empty(), "{text}");
    let firefly: Value = serde_json::from_str(json).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&firefly), "context flow-id flow-lifecycle usage version");
    assert_eq!(firefly["version"], 1);
    let life = &firefly["flow-lifecycle"];
    let is_end = life["state"] == "end";
    let times =
        if is_end { "current-time end-time start-time state" } else { "current-time start-time state" };
    assert_eq!(keys(life), times);
    let time_of = |text: &str| {
        let utc = text.strip_suffix("+00:00").unwrap_or_else(|| panic!("{text}"));
        humantime::parse_rfc3339_weak(utc).unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    let [began, now] = ["start-time", "current-time"].map(|name| time_of(life[name].as_str().unwrap()));
    assert!(began <= now && now <= SystemTime::now() && time_of(time) == now, "{text}");
    assert!(!is_end || life["end-time"] == life["current-time"]);
    let flow = &firefly["flow-id"];
    assert_eq!(keys(flow), "afi dst-ip dst-port protocol src-ip src-port");
    assert!(["tcp", "udp"].contains(&flow["protocol"].as_str().unwrap()));
    for end in ["src-ip", "dst-ip"] {
        let ip: std::net::IpAddr = flow[end].as_str().unwrap().parse().unwrap();
        assert_eq!(flow["afi"], if ip.is_ipv4() { "ipv4" } else { "ipv6" });
    }
    for port in ["src-port", "dst-port"] {
        assert!((1..=65_535).contains(&flow[port].as_u64().unwrap()), "{text}");
    }
    assert_eq!(keys(&firefly["usage"]), "received sent");
    assert!(firefly["usage"]["sent"].is_u64() && firefly["usage"]["received"].is_u64());
    let context = &firefly["context"];
    assert_eq!(keys(context), "activity-id application experiment-id");
    assert!(context["application"].as_str().unwrap().starts_with("longhaul v"));
    firefly
}

/// Bytes from the source of all flows to the other side, as they were told at the end.
fn bytes(told: &Told) -> u64 {
    told.values().map(|fireflies| fireflies.last().unwrap()["usage"]["sent"].as_u64().unwrap()).sum()
}

fn tags(told: &Told) -> Vec<(u64, u64)> {
    let of = |firefly: &Value| {
        let context = &firefly["context"];
        (context["experiment-id"].as_u64().unwrap(), context["activity-id"].as_u64().unwrap())
    };
    let mut tags: Vec<_> = told.values().flatten().map(of).collect();
    tags.dedup();
    tags
}

/// End a daemon, which has told all then.
fn end(daemon: Daemon) {
    daemon.running.signal(Signal::TERM);
    daemon.running.finish().expect_code(0);
}

/// A site with a collector, and a user whose tag is 3.1; all others have 2.16.
fn site(collector: &Collector) -> Site {
    let site = Site::new(&format!("scitag = \"2.16\"\nfirefly = \"{}\"", collector.name()));
    ["alice", "bob"].iter().for_each(|user| site.add(user, &["both=read-write"]));
    let of_alice = site.text().replacen("[users.alice]\n", "[users.alice]\nscitag = \"3.1\"\n", 1);
    site.write(&of_alice);
    site
}

const LEN: usize = 6_000_000;

#[test]
fn both_collectors_are_told_the_same_flows_whoever_sends_and_over_what() {
    for pull in [false, true] {
        for (transport, protocol, flows) in
            [(&["--transport=object"][..], "udp", 1), (&["--transport=stripe", "--streams=3"], "tcp", 3)]
        {
            let (ours, theirs) = (Collector::new(), Collector::new());
            let (site, here) = (site(&theirs), folder());
            let daemon = site.serve();
            let port: u64 = daemon
                .url("")
                .to_str()
                .unwrap()
                .rsplit(':')
                .next()
                .unwrap()
                .trim_end_matches('/')
                .parse()
                .unwrap();
            let (near, far) = (here.path().join("file"), site.path("both/file"));
            write_noise(if pull { &far } else { &near }, LEN, 1);
            let firefly = format!("--firefly={}", ours.name());
            let mut args = [near.clone().into(), daemon.url("both/file")];
            args[..].rotate_left(pull.into());
            let more =
                ["--scitag=5.7", "--rate=50mbit", &firefly].into_iter().chain(transport.iter().copied());
            let args: Vec<OsString> = args.into_iter().chain(more.map(OsString::from)).collect();
            let json = daemon.cp(&site.path("alice"), &args).expect_code(0).json();
            assert_same_bytes(&near, &far);
            end(daemon);
            let (ours, theirs) = (ours.told(), theirs.told());
            let case = format!("pull {pull}, {protocol}: {json}");
            assert_eq!(ours.len(), flows, "{case}: {ours:?}");
            assert!(ours.keys().eq(theirs.keys()), "{case}: {ours:?} {theirs:?}");
            for (told, id) in [(&ours, "ours"), (&theirs, "theirs")] {
                assert_eq!(tags(told), [(5, 7)], "{case}, {id}: the client's word counts");
                let sent = bytes(told);
                assert!(sent >= LEN as u64 && sent < LEN as u64 * 3 / 2, "{case}, {id}: {sent}");
            }
            for flow in ours.values().map(|fireflies| &fireflies[0]["flow-id"]) {
                assert_eq!((&flow["src-ip"], &flow["dst-ip"]), (&"127.0.0.1".into(), &"127.0.0.1".into()));
                let (daemons, clients) =
                    if pull { ("src-port", "dst-port") } else { ("dst-port", "src-port") };
                assert_eq!(flow[daemons], port, "{case}: {flow}");
                assert_ne!(flow[clients], port, "{case}: {flow}");
                assert_eq!(flow["protocol"], protocol);
            }
        }
    }
}

#[test]
fn a_daemon_tells_of_its_users_by_their_tags_and_reads_them_again() {
    let collector = Collector::new();
    let (site, here) = (site(&collector), folder());
    let daemon = site.serve();
    let copy = |daemon: &Daemon, user: &str, name: &str, more: &[&str]| {
        write_noise(here.path().join(name), 100_000, 1);
        let mut args: Vec<OsString> = vec![here.path().join(name).into(), daemon.url("both/")];
        args.extend(more.iter().map(OsString::from));
        daemon.cp(&site.path(user), &args).expect_code(0);
    };
    copy(&daemon, "alice", "a", &[]);
    copy(&daemon, "bob", "b", &[]);
    copy(&daemon, "bob", "c", &["--scitag=9.9"]);
    site.write(&site.text().replacen("2.16", "2.17", 1));
    daemon.reload("was read again");
    copy(&daemon, "bob", "d", &[]);
    end(daemon);
    let told = collector.told();
    assert_eq!(told.len(), 4, "{told:?}");
    let mut seen = tags(&told);
    seen.sort_unstable();
    assert_eq!(seen, [(2, 16), (2, 17), (3, 1), (9, 9)]);
}

#[test]
fn who_breaks_a_copy_off_tells_its_end() {
    let (ours, theirs) = (Collector::new(), Collector::new());
    let (site, here) = (site(&theirs), folder());
    let daemon = site.serve();
    write_noise(here.path().join("file"), LEN, 1);
    let firefly = format!("--firefly={}", ours.name());
    let args = [here.path().join("file").into(), daemon.url("both/file"), "--rate=10mbit".into()];
    let args: Vec<OsString> = args.into_iter().chain(["--scitag=1.1".into(), firefly.into()]).collect();
    let copy = Running::start(&mut daemon.cp_command(&site.path("bob"), &args));
    wait_until("it has begun", || [&ours, &theirs].iter().all(|told| told.0.peek(&mut [0; 2048]).is_ok()));
    copy.signal(Signal::INT);
    copy.finish().expect_code(130);
    end(daemon);
    let (ours, theirs) = (ours.told(), theirs.told());
    assert!(ours.len() == 1 && ours.keys().eq(theirs.keys()), "{ours:?} {theirs:?}");
    assert!(bytes(&ours) < LEN as u64);
}

#[test]
fn a_collector_that_is_away_holds_up_nothing() {
    let (here, there) = (folder(), folder());
    let server = Server::start(there.path(), &[]);
    let nobodys = Collector::new().name();
    write_noise(here.path().join("file"), LEN, 1);
    let file = here.path().join("file").into_os_string().into_string().unwrap();
    let firefly = format!("--firefly={nobodys}");
    server.cp([&file, &server.url(""), "--scitag=2.16", &firefly]).expect_code(0);
    assert_same_bytes(here.path().join("file"), there.path().join("file"));
}

#[test]
fn a_daemon_whose_collector_is_not_found_says_so_and_serves() {
    let site = Site::new("firefly = \"no.such.host.invalid\"");
    site.add("bob", &["both=read-write"]);
    let (daemon, here) = (site.serve(), folder());
    assert!(
        daemon.said().contains("no fireflies until the next start: no.such.host.invalid:10514"),
        "{}",
        daemon.said()
    );
    write(here.path().join("a"), b"a");
    let args = [here.path().join("a").into(), daemon.url("both/")];
    daemon.cp(&site.path("bob"), &args).expect_code(0);
}

/// The labels of the IPv6 packets with data that went from and to this port since `capture` was opened: with the data, and back.
fn labels(capture: &Socket, port: u16) -> [Vec<u32>; 2] {
    let (mut labels, mut frame) = ([vec![], vec![]], vec![0; 1 << 17]);
    while let Ok(len) = (&*capture).read(&mut frame) {
        // Ethernet, IPv6, and the ports that TCP and UDP begin with.
        let packet = &frame[..len];
        if len < 14 + 40 + 4 || packet[12..14] != [0x86, 0xdd] || ![6, 17].contains(&packet[20]) {
            continue;
        }
        let [from, to] = [54, 56].map(|at| u16::from_be_bytes([packet[at], packet[at + 1]]));
        let label = u32::from_be_bytes([0, packet[15] & 0xf, packet[16], packet[17]]);
        if len > 1000 && to == port {
            labels[0].push(label);
        } else if len > 1000 && from == port {
            labels[1].push(label);
        }
    }
    labels
}

/// Each packet is seen twice on loopback, which does not matter here.
fn capture() -> Option<Socket> {
    let all = i32::from((libc::ETH_P_IPV6 as u16).to_be());
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(all))).ok()?;
    socket.set_nonblocking(true).unwrap();
    socket.set_recv_buffer_size(64 << 20).unwrap();
    Some(socket)
}

#[test]
fn packets_by_ipv6_have_the_label_of_the_tag() {
    if fs::read_to_string("/proc/net/if_inet6").unwrap_or_default().is_empty() {
        return skip("this host has no IPv6");
    }
    let Some(first) = capture() else { return skip("packets cannot be captured without privileges") };
    drop(first);
    let tag: SciTag = "2.16".parse().unwrap();
    let is_tags = |label: &u32| label & !NOISE == tag.flow_label(0);
    for (pull, transport) in [(false, "object"), (false, "stripe"), (true, "object")] {
        let (here, there) = (folder(), folder());
        let mut command = longhaul();
        command.env("XDG_CACHE_HOME", here.path());
        let server = Server::start_with(command, there.path(), &["--listen", "[::1]:0"]);
        let collector = Collector::new();
        let capture = capture().unwrap();
        let (from, to): (&Path, &Path) =
            if pull { (there.path(), here.path()) } else { (here.path(), there.path()) };
        write_noise(from.join("file"), 2_000_000, 1);
        let mut args = [here.path().join("file").into_os_string().into_string().unwrap(), server.url("file")];
        args.rotate_left(pull.into());
        let more = [
            "--why".into(),
            "--scitag=2.16".into(),
            format!("--firefly={}", collector.name()),
            format!("--transport={transport}"),
        ];
        let ended = server.cp(args.iter().chain(&more)).expect_code(0);
        assert_same_bytes(from.join("file"), to.join("file"));
        assert!(!ended.stderr.contains("flow label"), "{}", ended.stderr);
        let told = collector.told();
        assert!(told.values().flatten().all(|firefly| firefly["flow-id"]["afi"] == "ipv6"), "{told:?}");
        let labels = labels(&capture, server.address().port());
        let with_data = &labels[usize::from(pull)];
        let marked = with_data.iter().filter(|label| is_tags(label)).count();
        // What the daemon sends before it knows the offer has none.
        assert!(marked > 10 && marked * 10 > with_data.len() * 9, "pull {pull}, {transport}: {with_data:x?}");
    }
}

/// The bits of a flow label that say nothing.
const NOISE: u32 = 0xc_0103;
