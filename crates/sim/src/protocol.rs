//! By what protocol a flow moves its bytes, and how many.

use crate::ids::Side;
use longhaul_proto::control::{ControllerKind, PcpPart, Remembered};
use longhaul_proto::ecn::Ecn;
use longhaul_proto::object::Companions;
use longhaul_proto::object::{AckKind, SelectorKind};
use longhaul_proto::suggest::unknown;
use longhaul_proto::tcp;
use longhaul_proto::units::Rate;
use std::fmt;
use std::str::FromStr;

/// A flow to be: how many bytes, by which protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// By which protocol.
    pub protocol: Protocol,
    /// How many bytes; [`ENDLESS`] for a flow that is to be stopped.
    pub bytes: u64,
    /// The side that sends them.
    pub from: Side,
    /// Seed of whatever the protocol leaves to chance.
    pub seed: u64,
}

/// More than any simulated flow comes to send: 220 seconds at 10 Gb/s. The bitmaps of an object of this length take
/// 200 KB, a TCP's state nothing.
pub const ENDLESS: u64 = 1 << 38;

/// How a flow's bytes are moved.
#[derive(Clone, Debug, PartialEq)]
pub enum Protocol {
    /// The object transfer over datagrams.
    Object(ObjectFlow),
    /// A user-level TCP.
    Tcp(TcpFlow),
}

/// By name, with defaults: that of a controller for an object transfer, `tcp:` and that of a controller for a TCP.
impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(name: &str) -> Result<Protocol, UnknownProtocol> {
        let kind = |name: &str| ControllerKind::ALL.iter().copied().find(|kind| kind.name() == name);
        let found = match name.strip_prefix(TCP_PREFIX) {
            Some(name) => kind(name).map(|kind| Protocol::Tcp(TcpFlow::new(kind))),
            None => kind(name).map(|kind| Protocol::Object(ObjectFlow::new(kind))),
        };
        found.ok_or_else(|| UnknownProtocol { name: name.into() })
    }
}

/// A name that no protocol has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProtocol {
    /// What was asked for.
    pub name: String,
}

impl std::error::Error for UnknownProtocol {}

/// With what is meant, perhaps, or else all that there is.
impl fmt::Display for UnknownProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects = ControllerKind::ALL.iter().map(|kind| kind.name().to_owned());
        let tcps = ControllerKind::ALL.iter().map(|kind| format!("{TCP_PREFIX}{}", kind.name()));
        let known: Vec<String> = objects.chain(tcps).collect();
        write!(f, "{}", unknown("control", &self.name, known.iter().map(String::as_str)))
    }
}

/// The name that it is parsed from.
impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Protocol::Object(flow) => f.write_str(flow.control.name()),
            Protocol::Tcp(flow) => write!(f, "{TCP_PREFIX}{}", flow.control.name()),
        }
    }
}

/// An object transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectFlow {
    /// How fast.
    pub control: ControllerKind,
    /// Which packet next.
    pub selector: SelectorKind,
    /// When the receiver acknowledges.
    pub ack: AckKind,
    /// Object bytes in a packet; absent: as many as the path's MTU has room for.
    pub packet_len: Option<u32>,
    /// The rate that the user names: `fixed` sends at it.
    pub rate: Option<Rate>,
    /// Never faster than this.
    pub rate_cap: Option<Rate>,
    /// What an earlier transfer to the same destination found.
    pub remembered: Option<Remembered>,
    /// A part of `pcp` that is switched off, for experiments.
    pub pcp_without: Option<PcpPart>,
    /// What its datagrams say of queues on the way, if the path shows that marks survive.
    pub ecn: Ecn,
    /// Yield to all other traffic.
    pub background: bool,
    /// Windows are spread over the round trip.
    pub paced: bool,
    /// How many flows `multcp` stands for; absent: its default.
    pub streams: Option<u32>,
    /// Round trips between the flow's beginning and its first data: what the two ends need to agree, and where the
    /// sender's first round-trip time comes from.
    pub setup_round_trips: u32,
}

impl ObjectFlow {
    /// With what goes with the controller, all else as `longhaul cp` has it, and a set-up of one round trip, as TCP's.
    pub fn new(control: ControllerKind) -> ObjectFlow {
        let Companions { selector, ack } = control.companions();
        ObjectFlow {
            control,
            selector,
            ack,
            packet_len: None,
            rate: None,
            rate_cap: None,
            remembered: None,
            pcp_without: None,
            ecn: control.ecn(),
            background: false,
            paced: true,
            streams: None,
            setup_round_trips: 1,
        }
    }
}

/// A TCP connection that carries one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFlow {
    /// Its congestion control.
    pub control: ControllerKind,
    /// Stream bytes in a segment; absent: as many as the path's MTU has room for.
    pub mss: Option<u16>,
    /// What both sides can do; `mss` is overruled by that above, `connection` by the flow's seed.
    pub config: tcp::Config,
    /// Windows are spread over the round trip instead of being clocked out by acknowledgements alone.
    pub paced: bool,
    /// Windows that begin with one segment and count acknowledgements, as up to 2006.
    pub classic: bool,
    /// The rate at which `fixed` sends.
    pub rate: Option<Rate>,
    /// How many flows `multcp` stands for; absent: its default.
    pub streams: Option<u32>,
}

impl TcpFlow {
    /// With selective acknowledgements and large windows.
    pub fn new(control: ControllerKind) -> TcpFlow {
        TcpFlow {
            control,
            mss: None,
            config: tcp::Config::default(),
            paced: false,
            classic: false,
            rate: None,
            streams: None,
        }
    }
}

impl FlowSpec {
    /// An object transfer from left to right.
    pub fn object(control: ControllerKind, bytes: u64) -> FlowSpec {
        FlowSpec::new(Protocol::Object(ObjectFlow::new(control)), bytes)
    }

    /// A TCP from left to right.
    pub fn tcp(control: ControllerKind, bytes: u64) -> FlowSpec {
        FlowSpec::new(Protocol::Tcp(TcpFlow::new(control)), bytes)
    }

    /// A flow from left to right.
    pub fn new(protocol: Protocol, bytes: u64) -> FlowSpec {
        FlowSpec { protocol, bytes, from: Side::Left, seed: 1 }
    }

    /// What an earlier flow between the same hosts learnt of the path.
    pub(crate) fn remember(&mut self, learnt: Option<Remembered>) {
        match &mut self.protocol {
            Protocol::Object(flow) => flow.remembered = learnt,
            Protocol::Tcp(_) => {}
        }
    }
}

/// Before the name of a TCP's congestion control.
const TCP_PREFIX: &str = "tcp:";
