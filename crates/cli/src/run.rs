//! `longhaul run`: a program's TCP connections go to another host as `longhaul forward` has them go, without its knowing.
//!
//! Its call of `connect(2)` waits until the other host is connected. Then its own socket is connected to a port of this process on
//! loopback, which passes on what comes.

use crate::args::run::RunArgs;
use crate::descriptors::have_descriptors;
use crate::failure::Failure;
use crate::forward::options;
use crate::log;
use crate::output::{self, Exit};
use crate::signals::Held;
use crate::values::host_of;
use longhaul::{
    Answer, Ask, Cause, Connects, CopyOptions, DEFAULT_PORT, Error, Far, Forwarder, Location, Opened,
    RequestError, Target,
};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_protocol};
use rustix::net::{AddressFamily, getpeername, getsockname, ipproto};
use rustix::process::Pid;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::mem::replace;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Run the command, until it and its connections have ended.
pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    log::start("off")?;
    let stop = Arc::new(AtomicBool::new(false));
    let options = options(&args.reach)?;
    let way = match &args.via {
        Some(host) => {
            let far = Far::reach(&host_of(host).map_err(Failure::Usage)?, &options, &stop)?;
            Way::Via(Forwarder::new(far, output::warn, &stop))
        }
        None => Way::Each { options: Box::new(options), known: Mutex::default() },
    };
    let doors =
        Doors::open().map_err(|error| Failure::Failed(format!("cannot listen on loopback: {error}")))?;
    let run = Arc::new(Run { way, doors, stop: stop.clone() });
    let signals = Held::new()?;
    let (connects, mut child) = start(&args.command)?;
    signals.pass_on(Pid::from_child(&child), stop)?;
    // The command has those that it was given.
    have_descriptors();
    let connects = Arc::new(connects);
    let status = loop {
        match connects.next(LOOK_EVERY) {
            Ok(Some(ask)) => answer(&run, &connects, ask),
            Ok(None) => {}
            Err(error) => {
                output::warn(&format!("no connection goes there any more: {error}"));
                // Whoever is about to connect is not to wait for an answer.
                drop(connects);
                break child.wait();
            }
        }
        // What it has written before it ended is still on its way.
        if let Some(ended) = child.try_wait().transpose().filter(|_| run.is_idle()) {
            break ended;
        }
    };
    let status = status.map_err(|error| Failure::Failed(format!("cannot wait for the command: {error}")))?;
    Ok(Exit::of_command(status))
}

/// By a thread that asks here before it connects, as all do that it starts.
fn start(command: &[String]) -> Result<(Connects, Child), Failure> {
    let (program, args) = command.split_first().expect("clap wants one at least");
    let (program, args) = (program.clone(), args.to_vec());
    let begin = move || {
        let connects = Connects::of_this_thread().map_err(|error| {
            Failure::Failed(format!(
                "this system does not let a program answer another's calls (seccomp: {error}); longhaul forward does without"
            ))
        })?;
        match Command::new(&program).args(args).spawn() {
            Ok(child) => Ok((connects, child)),
            Err(error) => {
                let status = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
                Err(Failure::Command(format!("{program}: {error}"), status))
            }
        }
    };
    let begun = thread::Builder::new().name("run-command".into()).spawn(begin).map_err(Error::Threads)?;
    begun.join().map_err(|_| Error::Panicked)?
}

/// In a thread of its own: to reach another host takes its time.
fn answer(run: &Arc<Run>, connects: &Arc<Connects>, ask: Ask) {
    let serve = {
        let (run, connects) = (run.clone(), connects.clone());
        move || {
            let answer = match connects.look(&ask) {
                Ok(Some((socket, to))) => run.connect(socket, to),
                Ok(None) => Answer::AsItIs,
                Err(error) => {
                    output::warn(&format!("a connection goes its usual way: cannot look at it: {error}"));
                    Answer::AsItIs
                }
            };
            connects.answer(&ask, answer);
        }
    };
    if let Err(error) = thread::Builder::new().name("run-connect".into()).spawn(serve) {
        output::warn(&format!("no thread can be started: {error}"));
        connects.answer(&ask, Answer::Failed(Errno::AGAIN));
    }
}

struct Run {
    way: Way,
    doors: Doors,
    stop: Arc<AtomicBool>,
}

/// Which hosts connections go to.
enum Way {
    /// All to this one.
    Via(Forwarder),
    /// Each to the daemon of the host that it is for, if it has one that allows the port.
    Each { options: Box<CopyOptions>, known: Mutex<HashMap<SocketAddr, Known>> },
}

/// What is known of a host's port, and the connections there.
struct Known {
    forwarder: Forwarder,
    /// It has no daemon that takes it there.
    goes_usual_way: bool,
}

impl Run {
    fn is_idle(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || match &self.way {
                Way::Via(forwarder) => forwarder.under_way() == 0,
                Way::Each { known, .. } => {
                    let known = known.lock().unwrap_or_else(PoisonError::into_inner);
                    known.values().all(|known| known.forwarder.under_way() == 0)
                }
            }
    }

    fn connect(&self, socket: OwnedFd, to: SocketAddr) -> Answer {
        let ip = to.ip().to_canonical();
        let is_tcp = socket_protocol(&socket).is_ok_and(|protocol| protocol == Some(ipproto::TCP));
        // A second call is to hear from the kernel how the first one went.
        if !is_tcp || is_near(ip) || to.port() == 0 || getpeername(&socket).is_ok() {
            return Answer::AsItIs;
        }
        let forwarder = match self.forwarder_to(to) {
            Ok(Some(forwarder)) => forwarder,
            Ok(None) => return Answer::AsItIs,
            Err(error) => return Answer::Failed(told(to, &error)),
        };
        match (self.open(&forwarder, ip, to.port()), &self.way) {
            (Ok(opened), _) => self.join(&forwarder, &socket, opened),
            (Err(error), Way::Via(_)) => Answer::Failed(told(to, &error)),
            (Err(error), Way::Each { known, .. }) => {
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                if known.get_mut(&to).is_some_and(|known| !replace(&mut known.goes_usual_way, true)) {
                    output::warn(&format!("connections to {to} go their usual way: {error}"));
                }
                Answer::AsItIs
            }
        }
    }

    /// What takes connections there; `None`: they go their usual way.
    fn forwarder_to(&self, to: SocketAddr) -> Result<Option<Forwarder>, Error> {
        let (options, known) = match &self.way {
            Way::Via(forwarder) => return Ok(Some(forwarder.clone())),
            Way::Each { options, known } => (options, known),
        };
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&to) {
            return Ok((!known.goes_usual_way).then(|| known.forwarder.clone()));
        }
        let forwarder = self.daemon_of(to.ip().to_canonical(), options)?;
        known.insert(to, Known { forwarder: forwarder.clone(), goes_usual_way: false });
        Ok(Some(forwarder))
    }

    fn daemon_of(&self, ip: IpAddr, options: &CopyOptions) -> Result<Forwarder, Error> {
        let at = Location::Daemon { host: ip.to_string(), port: DEFAULT_PORT, path: vec![] };
        Ok(Forwarder::new(Far::reach(&at, options, &self.stop)?, output::warn, &self.stop))
    }

    /// A stream that leads there. What a host has on its loopback its daemon may allow under that name alone.
    fn open(&self, forwarder: &Forwarder, ip: IpAddr, port: u16) -> Result<Opened, Error> {
        let named = |host: &str| Target::new(host, port).ok_or(RequestError::NoHost);
        match forwarder.open(named(&ip.to_string())?) {
            Err(error) if error.cause() == Cause::Refused && forwarder.far().has(ip) => {
                // The one that the program asked for is told of.
                forwarder.open(named("localhost")?).map_err(|_| error)
            }
            opened => opened,
        }
    }

    fn join(&self, forwarder: &Forwarder, socket: &OwnedFd, opened: Opened) -> Answer {
        match self.doors.join(socket) {
            Ok((near, answer)) => {
                forwarder.pass_on(near, opened);
                answer
            }
            Err(error) => {
                output::warn(&format!("a program's socket cannot be connected: {error}"));
                Answer::Failed(Errno::from_io_error(&error).unwrap_or(Errno::IO))
            }
        }
    }
}

/// Ports of loopback that programs' sockets are connected to.
struct Doors {
    v4: TcpListener,
    /// Where loopback has it.
    v6: Option<TcpListener>,
    /// One at a time.
    joining: Mutex<()>,
}

impl Doors {
    fn open() -> io::Result<Doors> {
        let listen = |ip: IpAddr| -> io::Result<TcpListener> {
            let listener = TcpListener::bind((ip, 0))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let v6 = listen(Ipv6Addr::LOCALHOST.into()).ok();
        Ok(Doors { v4: listen(Ipv4Addr::LOCALHOST.into())?, v6, joining: Mutex::default() })
    }

    /// The other end of a socket that is connected here, and what its program is told of that.
    fn join(&self, socket: &OwnedFd) -> io::Result<(TcpStream, Answer)> {
        let _alone = self.joining.lock().unwrap_or_else(PoisonError::into_inner);
        let is_v6 = socket_domain(socket)? == AddressFamily::INET6;
        let door = if is_v6 { self.v6.as_ref().unwrap_or(&self.v4) } else { &self.v4 };
        let mut at = door.local_addr()?;
        if let (true, IpAddr::V4(ip)) = (is_v6, at.ip()) {
            at.set_ip(ip.to_ipv6_mapped().into());
        }
        let connected = rustix::net::connect(socket, &at);
        let answer = match connected {
            Ok(()) => Answer::Done,
            // It does not want to wait, and asks how it went later.
            Err(error @ Errno::INPROGRESS) => Answer::Failed(error),
            Err(error) => return Err(error.into()),
        };
        let name = SocketAddr::try_from(getsockname(socket)?)?;
        let name = SocketAddr::new(name.ip().to_canonical(), name.port());
        for _ in 0..JOIN_LOOKS {
            match door.accept() {
                Ok((near, from)) if from == name => return Ok((near, answer)),
                // Somebody else's.
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(JOIN_LOOK_EVERY),
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::TimedOut.into())
    }
}

/// Whether nothing leaves this host, or its link, on the way there.
fn is_near(ip: IpAddr) -> bool {
    let is_of_link = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || is_of_link
}

/// What comes to nothing is told here, and the program.
fn told(to: SocketAddr, error: &Error) -> Errno {
    output::warn(&format!("{to}: {error}"));
    match error {
        Error::Peer(_) => Errno::CONNREFUSED,
        Error::Interrupted => Errno::CONNABORTED,
        _ => Errno::HOSTUNREACH,
    }
}

/// How shells end where there is no such command, and where it may not be run (POSIX, Shell & Utilities §2.8.2).
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// How often it is seen whether the command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// On loopback both ends of a connection are there at once; a second is far more than that.
const JOIN_LOOKS: usize = 1000;
const JOIN_LOOK_EVERY: Duration = Duration::from_millis(1);
