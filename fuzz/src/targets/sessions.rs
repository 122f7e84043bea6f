//! Both state machines of a session, each against a peer that has the key and says anything in any order: a daemon on
//! loopback and a client that follows a script, a client and a server that does.

use super::files::with_attributes;
use super::streams::{messages, offer, to_bytes};
use super::{Script, put_piece};
use longhaul::daemon::policy::{Access, Policy};
use longhaul::{CopyOptions, FileOptions, Location, Preserve, ServeOptions};
use longhaul_net::control::{self, Control, ServerKey, Stream, psk_of_token};
use longhaul_net::wake::Waker;
use longhaul_proto::session::attributes::Attributes;
use longhaul_proto::session::manifest::{Entry, Kind, Manifest};
use longhaul_proto::session::message::{Answer, FileFailure, Message, Offer, Operation};
use std::fs;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::time::{Duration, Instant};

/// What a script says: which way, the listing before it is compressed, and messages.
struct Said<'a> {
    pulls: bool,
    /// The client only arranges the copy.
    third_party: bool,
    listing: Vec<u8>,
    script: Script<'a>,
}

impl<'a> Said<'a> {
    fn read(bytes: &'a [u8]) -> Option<Said<'a>> {
        let mut script = Script { bytes };
        let kind = script.u8()?;
        let (pulls, third_party) = (kind % 2 == 1, kind % 4 > 1);
        let listing = zstd::bulk::compress(script.piece()?, 1).expect("anything can be compressed");
        Some(Said { pulls, third_party, listing, script })
    }

    /// Say the rest of it, and nothing more.
    fn say(&mut self, control: Control) {
        while let Some(piece) = self.script.piece() {
            if let Ok(message) = postcard::from_bytes::<Message>(piece) {
                control.send(message);
            }
        }
        control.finish();
    }
}

/// A daemon's session ends, whatever a client with the key says, and leaves nothing but what it was sent.
pub fn session_server(bytes: &[u8]) {
    static DAEMON: LazyLock<(SocketAddr, PathBuf)> = LazyLock::new(daemon);
    let Some(mut said) = Said::read(bytes) else { return };
    let (address, top) = &*DAEMON;
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let name = format!("run-{run}");
    let operation = if said.pulls {
        Operation::Pull { sources: vec![b"source".to_vec()] }
    } else {
        Operation::Push { dest: name.clone().into() }
    };
    let head = if said.pulls { vec![] } else { said.listing.clone() };
    let mut early_salt = [0; 32];
    early_salt[..8].copy_from_slice(&run.to_be_bytes());
    let offer = Offer {
        connection_id: run,
        early_salt,
        operation,
        listing_len: head.len() as u64,
        listing_head: head[..head.len().min(control::OFFER_MAX / 2)].to_vec(),
        ticket: None,
        third_party: said.third_party,
        ..offer()
    };
    let socket = TcpStream::connect(address).expect("the daemon lives");
    let (stream, ended) = stream(socket);
    let waker = Waker::new().expect("an event descriptor");
    if let Ok((control, _)) = control::connect(stream, &psk_of_token(TOKEN).into(), &offer, waker) {
        said.say(control);
        ended.recv_timeout(PATIENCE).expect_err("nothing is sent, the stream ends");
    }
    let dest = top.join("root").join(&name);
    check_landed(&dest);
    let _ = fs::remove_dir_all(&dest).or_else(|_| fs::remove_file(&dest));
    assert_eq!(fs::read(top.join("outside")).ok().as_deref(), Some(&b"outside"[..]));
}

/// A copy ends, whatever a server with the key says, and nothing lands that was not sent.
pub fn session_client(bytes: &[u8]) {
    static PLACES: LazyLock<(TcpListener, PathBuf)> =
        LazyLock::new(|| (TcpListener::bind("127.0.0.1:0").expect("a port"), make_top("client")));
    let Some(mut said) = Said::read(bytes) else { return };
    let (listener, top) = &*PLACES;
    let address = listener.local_addr().expect("it is bound");
    let far = Location::parse(&format!("longhaul://{address}/x").into()).expect("a place");
    let dest = top.join("dest");
    let (source, target) = if said.pulls {
        (far, Location::Local(dest.clone()))
    } else {
        (Location::Local(top.join("root/source")), far)
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (stream, _ended) = stream(listener.accept().expect("the client comes").0);
            let find = |_| (ServerKey::from(psk_of_token(TOKEN)), Some(()));
            let accept = |_: &Offer, (): &()| Answer::Accept {
                aes: false,
                udp_secret: [5; 32],
                udp_port: address.port(),
                udp_hosts: vec![],
                honours_ticket: false,
            };
            let waker = Waker::new().expect("an event descriptor");
            let Ok((control, ..)) = control::accept(stream, find, waker, accept) else { return };
            if said.pulls {
                let total = said.listing.len() as u64;
                control.send(Message::ListingPart {
                    base: 0,
                    total,
                    bytes: std::mem::take(&mut said.listing),
                });
            }
            said.say(control);
        });
        let options = CopyOptions {
            token: Some(TOKEN.into()),
            history: None,
            stall_timeout: STALL,
            files: FileOptions {
                preserve: Preserve { devices: false, ..Preserve::ARCHIVE },
                ..CopyOptions::default().files
            },
            ..CopyOptions::default()
        };
        let began = Instant::now();
        let _ = longhaul::copy(&[source], &target, &options, &mut (), Arc::default());
        assert!(began.elapsed() < PATIENCE, "a copy whose server is gone ends");
    });
    check_landed(&dest);
    let _ = fs::remove_dir_all(&dest).or_else(|_| fs::remove_file(&dest));
}

/// No data travels in these sessions. So what has landed is empty, or all of it holes.
fn check_landed(path: &Path) {
    let Ok(about) = fs::symlink_metadata(path) else { return };
    if about.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| check_landed(&entry.path()));
    } else if about.is_file() && !path.to_string_lossy().contains(".longhaul-") {
        let mut head = vec![];
        let read = fs::File::open(path).and_then(|file| file.take(LOOKED_AT).read_to_end(&mut head));
        assert!(
            read.is_err() || head.iter().all(|byte| *byte == 0),
            "{} holds what was never sent",
            path.display()
        );
    }
}

fn daemon() -> (SocketAddr, PathBuf) {
    let top = make_top("server");
    let policy = Policy::one_folder(top.join("root"), TOKEN.into(), Access::ReadWrite);
    let listen = "127.0.0.1:0".parse().expect("an address");
    let options = ServeOptions::new(listen, policy).expect("a policy that makes sense");
    let (told, bound) = mpsc::channel();
    std::thread::spawn(move || {
        longhaul::serve(options, Arc::default(), |at| told.send(at).expect("somebody waits"))
            .expect("it serves");
    });
    (bound.recv().expect("it listens"), top)
}

/// A folder to work in, the same for each process of this kind, so that none are left over in number.
fn make_top(name: &str) -> PathBuf {
    let top = std::env::temp_dir().join(format!("longhaul-fuzz-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&top);
    fs::create_dir_all(top.join("root")).expect("a temporary folder");
    fs::write(top.join("root/source"), [7; 3000]).expect("a file");
    fs::write(top.join("outside"), "outside").expect("a file");
    top
}

/// Both directions of a socket, of which closing ends ours alone: what was said is to be read. The channel closes when the
/// other side has.
fn stream(socket: TcpStream) -> (Stream, mpsc::Receiver<()>) {
    let (ending, ended) = mpsc::channel();
    let [writer, closing] = [(); 2].map(|()| socket.try_clone().expect("a descriptor"));
    let reader = Watched { socket, _ending: ending };
    let closer = Box::new(move || drop(closing.shutdown(Shutdown::Write)));
    let stream = Stream {
        reader: Box::new(reader),
        writer: Box::new(writer),
        closer,
        settled: Box::new(|| {}),
        resumable: None,
        budget: Arc::default(),
    };
    (stream, ended)
}

struct Watched {
    socket: TcpStream,
    _ending: mpsc::Sender<()>,
}

impl Read for Watched {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buf)
    }
}

pub fn session_seeds() -> Vec<Vec<u8>> {
    let entry = |path: &str, kind| Entry { path: path.into(), kind, mode: 0o644, mtime: (1_700_000_000, 5) };
    let file = |size, extents| Kind::File { size, extents, version: None };
    let entries = vec![
        entry("", Kind::Dir),
        entry("holes", file(1 << 20, Some(vec![]))),
        entry("data", file(3000, None)),
        entry("link", Kind::Symlink { target: b"../outside".to_vec() }),
    ];
    let plain = to_bytes(&(Manifest::of(entries), Vec::<FileFailure>::new()));
    let kept = with_attributes();
    let Attributes { told, users, groups, entries } = &kept.attributes;
    let kept = to_bytes(&(&kept, Vec::<FileFailure>::new(), told, users, groups, entries));
    let mut seeds = vec![];
    for (way, listing) in (0..4).map(|way| (way, &plain)).chain((0..2).map(|way| (way, &kept))) {
        let script = |messages: &[Message]| {
            let mut script = vec![way];
            put_piece(&mut script, listing);
            messages.iter().for_each(|message| put_piece(&mut script, &to_bytes(message)));
            script
        };
        let all = messages();
        seeds.push(script(&[]));
        seeds.push(script(&[Message::KeepAlive { taken: 0 }]));
        seeds.extend(all.iter().map(|message| script(&[Message::KeepAlive { taken: 0 }, message.clone()])));
        // What ends a session comes late in this order.
        seeds.push(script(&all));
    }
    seeds
}

static RUNS: AtomicU64 = AtomicU64::new(1);
const TOKEN: &str = "a token that only the fuzzer knows";
/// A peer that has left is noticed in less.
const PATIENCE: Duration = Duration::from_secs(20);
/// So long a client looks for a server that has left. On loopback all has been said in less.
const STALL: Duration = Duration::from_millis(100);
const LOOKED_AT: u64 = 1 << 20;
