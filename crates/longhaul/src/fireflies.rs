//! Fireflies: what tells networks of science of a flow, its beginning, every minute, and its end (SciTags technical
//! specification). Each is a datagram to a collector: a line of syslog (RFC 5424) with an object of JSON.
//!
//! Whichever side was told of a collector tells it, whether it sends the data or receives it. The source of a flow is in any case
//! the side that has the data. Nothing waits for a firefly, and a lost one is not missed.

use crate::authority::host_and_port;
use crate::error::LocationError;
use crate::net::flow::{Flow, Protocol};
use crate::net::marks::Marks;
use crate::net::user::host_name;
use crossbeam_channel::{Receiver, unbounded};
use longhaul_proto::scitag::SciTag;
use longhaul_proto::session::message::Offer;
use longhaul_proto::units::Time;
use serde::Serialize;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// Where a collector is, as it is written: `HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorName {
    host: String,
    port: u16,
}

impl FromStr for CollectorName {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<CollectorName, LocationError> {
        let is_of_host = |letter: char| letter.is_alphanumeric() || "-._:%".contains(letter);
        match host_and_port(text, COLLECTOR_PORT)? {
            (host, port) if !host.is_empty() && host.chars().all(is_of_host) => {
                Ok(CollectorName { host: host.into(), port })
            }
            _ => Err(LocationError::NoCollector(text.into())),
        }
    }
}

impl fmt::Display for CollectorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Takes fireflies. Clones are of the same.
#[derive(Clone, Debug)]
pub struct Collector(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: CollectorName,
    socket: UdpSocket,
    /// This host, as syslog has it.
    host: String,
    /// It was told that one could not be sent.
    is_told: AtomicBool,
}

impl Collector {
    /// Find where it is.
    pub fn open(name: CollectorName) -> io::Result<Collector> {
        let no_address = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let mut last = Err(no_address);
        for address in (name.host.as_str(), name.port).to_socket_addrs()? {
            last = reach(address);
            if last.is_ok() {
                break;
            }
        }
        let mut host: String =
            host_name().chars().filter(char::is_ascii_graphic).take(HOST_LEN_MAX).collect();
        if host.is_empty() {
            host.push('-');
        }
        Ok(Collector(Arc::new(Inner { name, socket: last?, host, is_told: AtomicBool::new(false) })))
    }

    /// Send one. A line if that fails for the first time.
    fn send(&self, now: SystemTime, firefly: &Firefly) -> Option<String> {
        let inner = &self.0;
        let json = serde_json::to_string(firefly).expect("plain data has a JSON");
        let line = format!("<{PRIORITY}>1 {} {} longhaul - firefly-json - {json}", stamp(now), inner.host);
        let error = inner.socket.send(line.as_bytes()).err()?;
        // Perhaps it was the one before that nobody took.
        let _ = inner.socket.send(line.as_bytes());
        if inner.is_told.swap(true, Ordering::Relaxed) {
            return None;
        }
        let line = format!("the collector {} does not take fireflies: {error}", inner.name);
        tracing::warn!("{line}");
        Some(line)
    }
}

fn reach(address: SocketAddr) -> io::Result<UdpSocket> {
    let any = match address {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_nonblocking(true)?;
    socket.connect(address)?;
    Ok(socket)
}

/// Tells a collector of the flows of a session, whose end is theirs too.
pub(crate) struct Fireflies {
    collector: Collector,
    tag: SciTag,
    /// This side has the data.
    sends: bool,
    begun: Receiver<Arc<Flow>>,
    under_way: Vec<UnderWay>,
    looked_at: Time,
}

struct UnderWay {
    flow: Arc<Flow>,
    began: SystemTime,
    told_at: Time,
}

impl Fireflies {
    /// How the packets of a session are to be marked, and what tells `collector` of its flows.
    pub fn begin(offer: &Offer, sends: bool, collector: Option<&Collector>) -> (Marks, Option<Fireflies>) {
        let marks = Marks { dscp: offer.service(), scitag: offer.scitag, flows: None };
        let (Some(collector), Some(tag)) = (collector.cloned(), offer.scitag) else { return (marks, None) };
        let (flows, begun) = unbounded();
        let under_way = vec![];
        let told = Fireflies { collector, tag, sends, begun, under_way, looked_at: Time::ZERO };
        (Marks { flows: Some(flows), ..marks }, Some(told))
    }

    /// Tell what has begun and ended, and from time to time what goes on. A line for the user, if there is one.
    pub fn look(&mut self, now: Time) -> Option<String> {
        let mut problem = None;
        while let Ok(flow) = self.begun.try_recv() {
            let begun = UnderWay { flow, began: SystemTime::now(), told_at: now };
            problem = self.tell(&begun, State::Start).or(problem);
            self.under_way.push(begun);
        }
        if now.since(self.looked_at) < LOOK_EVERY {
            return problem;
        }
        self.looked_at = now;
        let (over, mut under_way): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.under_way).into_iter().partition(UnderWay::is_over);
        for flow in &over {
            problem = self.tell(flow, State::End).or(problem);
        }
        for flow in &mut under_way {
            if now.since(flow.told_at) >= TELL_EVERY {
                flow.told_at = now;
                problem = self.tell(flow, State::Ongoing).or(problem);
            }
        }
        self.under_way = under_way;
        problem
    }

    fn tell(&self, told: &UnderWay, state: State) -> Option<String> {
        let UnderWay { flow, began, .. } = told;
        let now = SystemTime::now();
        let (sent, received) = (flow.sent(), flow.received());
        let ((source, to), [sent, received]) = match self.sends {
            true => ((flow.local, flow.peer), [sent, received]),
            false => ((flow.peer, flow.local), [received, sent]),
        };
        let firefly = Firefly {
            version: 1,
            flow_lifecycle: Lifecycle {
                start_time: stamp(*began),
                current_time: stamp(now),
                end_time: (state == State::End).then(|| stamp(now)),
                state,
            },
            flow_id: FlowId {
                afi: if source.is_ipv4() { "ipv4" } else { "ipv6" },
                src_ip: source.ip(),
                dst_ip: to.ip(),
                protocol: match flow.protocol {
                    Protocol::Tcp => "tcp",
                    Protocol::Udp => "udp",
                },
                src_port: source.port(),
                dst_port: to.port(),
            },
            usage: Usage { received, sent },
            context: Context {
                experiment_id: self.tag.experiment(),
                activity_id: self.tag.activity(),
                application: APPLICATION,
            },
        };
        self.collector.send(now, &firefly)
    }
}

impl Drop for Fireflies {
    fn drop(&mut self) {
        self.look(Time::ZERO);
        for flow in &self.under_way {
            self.tell(flow, State::End);
        }
    }
}

impl UnderWay {
    /// Nobody sends by it any more.
    fn is_over(&self) -> bool {
        Arc::strong_count(&self.flow) == 1
    }
}

/// In UTC, as others write it.
fn stamp(time: SystemTime) -> String {
    format!("{}+00:00", humantime::format_rfc3339_micros(time).to_string().trim_end_matches('Z'))
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Firefly {
    version: u8,
    flow_lifecycle: Lifecycle,
    flow_id: FlowId,
    usage: Usage,
    context: Context,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Lifecycle {
    state: State,
    start_time: String,
    current_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Start,
    Ongoing,
    End,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct FlowId {
    afi: &'static str,
    src_ip: IpAddr,
    dst_ip: IpAddr,
    protocol: &'static str,
    src_port: u16,
    dst_port: u16,
}

/// From where the source stands.
#[derive(Serialize)]
struct Usage {
    received: u64,
    sent: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Context {
    experiment_id: u16,
    activity_id: u8,
    application: &'static str,
}

/// Where collectors listen unless it is said.
const COLLECTOR_PORT: u16 = 10_514;
/// Facility local0, for information (RFC 5424 §6.2.1), as all who send fireflies have it.
const PRIORITY: u8 = 16 * 8 + 6;
/// Characters of a host's name at most (RFC 5424 §6).
const HOST_LEN_MAX: usize = 255;
const APPLICATION: &str = concat!("longhaul v", env!("CARGO_PKG_VERSION"));
/// What goes on is told so often.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// Ends are looked for so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_collector_is_a_host_and_perhaps_a_port() {
        for (text, shown) in [
            ("collector.example.org", "collector.example.org:10514"),
            ("192.0.2.1:514", "192.0.2.1:514"),
            ("2001:db8::1", "[2001:db8::1]:10514"),
            ("[2001:db8::1]:514", "[2001:db8::1]:514"),
        ] {
            let name: CollectorName = text.parse().unwrap();
            assert_eq!(name.to_string(), shown);
            assert_eq!(shown.parse(), Ok(name));
        }
        for bad in ["", ":514", "host:", "host:0", "host:65536", "host:syslog", "[]:514", "08:]0", "a b"] {
            assert!(bad.parse::<CollectorName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_flow_is_told_when_it_begins_goes_on_and_ends() {
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        there.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let collector = Collector::open(there.local_addr().unwrap().to_string().parse().unwrap()).unwrap();
        let next = || {
            let mut bytes = [0; 2048];
            let len = there.recv(&mut bytes).unwrap();
            let text = std::str::from_utf8(&bytes[..len]).unwrap();
            let (head, json) = text.split_once(" longhaul - firefly-json - ").unwrap();
            assert!(head.starts_with("<134>1 20"), "{head}");
            serde_json::from_str::<Value>(json).unwrap()
        };
        let (flows, begun) = unbounded();
        let tag = SciTag::new(2, 16).unwrap();
        let mut told =
            Fireflies { collector, tag, sends: false, begun, under_way: vec![], looked_at: Time::ZERO };
        let [here, peer] = ["[::ffff:192.0.2.1]:5", "[::ffff:192.0.2.2]:6"].map(|end| end.parse().unwrap());
        let [one, other] = [Protocol::Udp, Protocol::Tcp].map(|protocol| Flow::new(protocol, here, peer));
        [&one, &other].iter().for_each(|flow| flows.send((*flow).clone()).unwrap());
        let state = |firefly: &Value| firefly["flow-lifecycle"]["state"].as_str().unwrap().to_owned();
        let minute = |minutes: u64| Time::from_millis(minutes * 60_000 + 1000);
        assert_eq!(told.look(minute(0)), None);
        let began = [next(), next()];
        assert_eq!(began.each_ref().map(state), ["start", "start"]);
        let id = &began[0]["flow-id"];
        assert_eq!((&id["src-ip"], &id["src-port"]), (&"192.0.2.2".into(), &6.into()), "who has the data");
        assert_eq!((&id["afi"], &id["protocol"]), (&"ipv4".into(), &"udp".into()));
        one.note_received(1000);
        one.note_sent(10);
        drop(other);
        told.look(minute(1));
        let went = [next(), next()];
        assert_eq!(went.each_ref().map(state), ["end", "ongoing"]);
        assert_eq!(went[0]["flow-id"]["protocol"], "tcp");
        assert_eq!(
            went[1]["usage"],
            serde_json::json!({"received": 10, "sent": 1000}),
            "as the source sees it"
        );
        told.look(minute(1));
        told.look(minute(2));
        assert_eq!(state(&next()), "ongoing");
        drop(told);
        let over = next();
        assert_eq!(state(&over), "end");
        let times = &over["flow-lifecycle"];
        assert_eq!(
            (&times["start-time"], &times["end-time"]),
            (&began[0]["flow-lifecycle"]["start-time"], &times["current-time"])
        );
        assert!(there.set_nonblocking(true).is_ok() && there.recv(&mut [0; 8]).is_err(), "no more");
    }

    #[test]
    fn what_cannot_be_sent_is_told_once() {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let collector = Collector::open(free.to_string().parse().unwrap()).unwrap();
        let (flows, begun) = unbounded();
        let (under_way, looked_at) = (vec![], Time::ZERO);
        let tag = SciTag::new(1, 1).unwrap();
        let mut told = Fireflies { collector, tag, sends: true, begun, under_way, looked_at };
        let mut lines = vec![];
        // The system tells with the second that nobody took the first.
        for _ in 0..8 {
            let flow =
                Flow::new(Protocol::Udp, "192.0.2.1:5".parse().unwrap(), "192.0.2.2:6".parse().unwrap());
            flows.send(flow).unwrap();
            lines.extend(told.look(Time::from_millis(1)));
        }
        assert!(lines.len() == 1 && lines[0].contains(&free.to_string()), "{lines:?}");
    }
}
