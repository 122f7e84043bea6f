//! Copies that meet one misfortune after another. Whatever it was, each name holds the whole of a version that its source had
//! or of the file that was there before, and the same command, given once more, ends right.

use crate::common::relay::{Relay, Way};
use crate::common::shim::Shim;
use crate::common::sides::Sides;
use crate::common::small::Small;
use crate::common::tree::*;
use crate::common::{Running, Server, longhaul, wait_until};
use fastrand::Rng;
use longhaul_testing::campaign::{self, fresh_seeds};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

#[test]
fn a_campaign_of_misfortunes_makes_no_wrong_file() {
    campaign(0..16);
}

/// `make campaign`; `CAMPAIGN_SEED=N make campaign` begins with that seed.
#[test]
#[ignore = "takes ten minutes"]
fn a_long_campaign_of_misfortunes_makes_no_wrong_file() {
    campaign(fresh_seeds(400));
}

/// A round for each seed, a few at a time.
fn campaign(seeds: std::ops::Range<u64>) {
    let tools = folder();
    let shim = Shim::compile(tools.path());
    let mut tally = Tally::default();
    let rounds = campaign::run(seeds, AT_A_TIME, |seed| CampaignRound::new(seed, shim.as_ref()).run());
    rounds.iter().for_each(|round| tally.add(round));
    println!("{tally:?}");
    let expected = tally.delivered.saturating_sub(tally.tears * UNDER_WAY_MAX) as f64 * KEPT_MIN;
    assert!(tally.tears > 0 && tally.kept as f64 >= expected, "too little was kept: {tally:?}");
}

/// What befalls a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Misfortune {
    ClientKilled,
    ClientInterrupted,
    ServerKilled,
    ServerStopped,
    /// Nothing passes any more, and nobody is told.
    CutForGood,
    DiskFull,
    /// Some calls that read, write or sync files fail, at both ends.
    DiskFaulty,
    /// These the copy outlives.
    CutForAWhile,
    AddressChanged,
    Spoilt,
}

const ALL: [Misfortune; 10] = {
    use Misfortune::*;
    [
        ClientKilled,
        ClientInterrupted,
        ServerKilled,
        ServerStopped,
        CutForGood,
        DiskFull,
        DiskFaulty,
        CutForAWhile,
        AddressChanged,
        Spoilt,
    ]
};

impl Misfortune {
    fn is_survived(self) -> bool {
        self >= Misfortune::CutForAWhile
    }
}

/// What a campaign came to.
#[derive(Debug, Default)]
struct Tally {
    copies: u64,
    misfortunes: BTreeMap<Misfortune, u64>,
    /// Of the copies with faulty disks, those that said so.
    disks_noticed: u64,
    /// Copies that had ended before anything befell them.
    too_late: u64,
    /// Copies that were torn apart, bytes that had arrived of them, and those of them that the next one took over.
    tears: u64,
    delivered: u64,
    kept: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.copies += other.copies;
        for (misfortune, count) in &other.misfortunes {
            *self.misfortunes.entry(*misfortune).or_default() += count;
        }
        self.disks_noticed += other.disks_noticed;
        self.too_late += other.too_late;
        self.tears += other.tears;
        self.delivered += other.delivered;
        self.kept += other.kept;
    }
}

/// A tree that is copied until it is there.
struct CampaignRound<'a> {
    seed: u64,
    rng: Rng,
    sides: Sides,
    /// What a name may hold at the destination.
    allowed: BTreeMap<PathBuf, Vec<Vec<u8>>>,
    /// A source changed, and neither its size nor its time did.
    is_deceptive: bool,
    /// Makes disks faulty; `None` where it cannot be had.
    shim: Option<&'a Shim>,
    tally: Tally,
}

impl<'a> CampaignRound<'a> {
    fn new(seed: u64, shim: Option<&'a Shim>) -> CampaignRound<'a> {
        let mut rng = Rng::with_seed(seed);
        let sides = Sides::new(rng.bool());
        let mut round = CampaignRound {
            seed,
            rng,
            sides,
            allowed: BTreeMap::new(),
            is_deceptive: false,
            shim,
            tally: Tally::default(),
        };
        round.set("file", LARGE_LEN - round.rng.clone().usize(..LARGE_LEN / 4));
        for index in 0..round.rng.usize(..20) {
            let len = round.rng.usize(..5000);
            round.set(&format!("small/{index}"), len);
        }
        if round.rng.bool() {
            let older = noise(round.rng.usize(..LARGE_LEN), seed + 1);
            write(round.sides.target(), &older);
            set_mtime(round.sides.target(), 1_000_000_000, 0);
            round.allowed.get_mut(Path::new("file")).expect("it was set").push(older);
        }
        // A file that was written this very moment has no version yet.
        thread::sleep(Duration::from_millis(50));
        round
    }

    /// Give a source new contents, and its destination leave to hold them.
    fn set(&mut self, name: &str, len: usize) {
        let bytes = noise(len, self.rng.u64(..));
        write(self.sides.from().join(name), &bytes);
        self.allowed.entry(name.into()).or_default().push(bytes);
    }

    fn run(mut self) -> Tally {
        // As many torn as survived, so that a seed tells little of the next one.
        for _ in 0..self.rng.usize(1..=3) {
            let misfortune = ALL[self.rng.usize(..ALL.len())];
            let arrived = if misfortune == Misfortune::DiskFull && !self.sides.pull {
                self.fill_the_disk();
                None
            } else {
                self.meet(misfortune)
            };
            self.assert_whole(self.sides.to(), misfortune);
            if self.rng.u32(..3) == 0 {
                self.change_the_source();
            } else if let Some(arrived) = arrived {
                self.count_kept(arrived);
                break;
            }
        }
        self.end_well();
        std::mem::take(&mut self.tally)
    }

    /// One copy that meets it. Returns what had arrived if it ended early.
    fn meet(&mut self, misfortune: Misfortune) -> Option<u64> {
        let faults = self.shim.filter(|_| misfortune == Misfortune::DiskFaulty);
        let of_10000 = 1 << self.rng.u32(..9);
        let disturb = |command: &mut Command| {
            if let Some(shim) = faults {
                shim.faults(command, of_10000, self.seed);
            }
        };
        let mut serve = longhaul();
        disturb(&mut serve);
        let mut server = Server::start_with(serve, self.sides.there.path(), &["--listen", "127.0.0.1:0"]);
        let relay = Relay::start(server.address());
        let way = if self.sides.pull { Way::ToClient } else { Way::ToServer };
        let args = self.args(relay.url(""), &["--rate=400mbit", "--transport=object", "--stall-timeout=2s"]);
        if misfortune == Misfortune::Spoilt {
            relay.spoil(60);
        }
        let mut command = server.cp_command(args);
        disturb(&mut command);
        let mut copy = Running::start(&mut command);
        self.tally.copies += 1;
        let until = (LARGE_LEN as f64 * 0.9 * self.rng.f64()) as u64;
        wait_until("enough arrives", || relay.bytes(way) >= until || !copy.is_running());
        let arrived = relay.bytes(way);
        if copy.is_running() {
            *self.tally.misfortunes.entry(misfortune).or_default() += 1;
        } else {
            self.tally.too_late += 1;
        }
        match misfortune {
            _ if !copy.is_running() => {}
            Misfortune::ClientKilled => copy.signal(Signal::KILL),
            Misfortune::ClientInterrupted => copy.signal(Signal::INT),
            Misfortune::ServerKilled => server.kill(),
            Misfortune::ServerStopped => drop(server.stop(Signal::TERM)),
            Misfortune::CutForGood => relay.cut(true),
            Misfortune::CutForAWhile => {
                relay.cut(true);
                thread::sleep(Duration::from_millis(300));
                relay.cut(false);
            }
            Misfortune::AddressChanged => relay.move_to(Ipv4Addr::LOCALHOST),
            Misfortune::DiskFull | Misfortune::DiskFaulty | Misfortune::Spoilt => {}
        }
        let ended = copy.finish();
        let (seed, says) = (self.seed, &ended.stderr);
        if misfortune.is_survived() {
            assert_eq!(ended.code, 0, "seed {seed}, {misfortune:?}: {says}\n{}", ended.stdout);
            return None;
        }
        if misfortune == Misfortune::DiskFaulty && ended.code != 0 {
            self.tally.disks_noticed += 1;
        }
        let lines = says.lines().filter(|line| line.starts_with("longhaul: error")).count();
        assert!(lines <= 1, "seed {seed}, {misfortune:?}: more than a line: {says}");
        // Whoever holds the part file lets go of it, killed or not.
        if server_lives(misfortune) {
            wait_until("the server lets go of the part file", || !server.holds_part());
        }
        (ended.code != 0).then_some(arrived)
    }

    /// A push to a disk on which somebody else takes the room that was there, and again when there is room.
    fn fill_the_disk(&mut self) {
        let Some(small) = Small::start(LARGE_LEN as u64 * 2) else { return };
        let args = |more: &[&str]| self.args(small.server.url(""), more);
        let copy = Running::start(&mut small.server.cp_command(args(&["--rate=400mbit"])));
        wait_until("it begins", || fs::read_dir(&small.root).is_ok_and(|mut items| items.next().is_some()));
        let mut other = fs::File::create(small.root.join("other")).expect("it can be made");
        while other.write_all(&[1; 4096]).is_ok() {}
        drop(other);
        let ended = copy.finish();
        fs::remove_file(small.root.join("other")).expect("it is there");
        self.assert_whole(&small.root, Misfortune::DiskFull);
        let says = format!("seed {}: {} {}", self.seed, ended.stdout, ended.stderr);
        assert!(ended.code == 0 || says.contains("no space left"), "{says}");
        small.server.cp(args(&[])).expect_code(0);
        for name in self.allowed.keys() {
            assert_same_bytes(self.sides.from().join(name), small.root.join(name));
        }
        self.tally.copies += 2;
        *self.tally.misfortunes.entry(Misfortune::DiskFull).or_default() += 1;
    }

    /// Other contents, in all the ways that an editor, a database and a forger have.
    fn change_the_source(&mut self) {
        let name = Path::new("file");
        let source = self.sides.from().join(name);
        let before = fs::metadata(&source).expect("it is there").modified().expect("it has a time");
        let mut bytes = read(&source);
        let at = self.rng.usize(..bytes.len());
        match self.rng.u32(..3) {
            0 => bytes[at] ^= 1,
            1 => bytes.truncate(at),
            _ => bytes.extend(noise(at / 8, self.rng.u64(..))),
        }
        let is_deceptive = self.rng.bool();
        self.is_deceptive |= is_deceptive;
        write(&source, &bytes);
        if is_deceptive {
            let file = fs::File::options().write(true).open(&source).expect("it is there");
            file.set_modified(before).expect("its time can be set");
        }
        self.allowed.get_mut(name).expect("it was set").push(bytes);
        thread::sleep(Duration::from_millis(50));
    }

    /// The next copy takes over what had arrived.
    fn count_kept(&mut self, arrived: u64) {
        let server = self.sides.serve();
        let json = server.cp(self.args(server.url(""), &[])).expect_code(0).json();
        let kept = json["resumed_bytes"].as_u64().unwrap() + json["skipped_bytes"].as_u64().unwrap();
        self.tally.copies += 1;
        self.tally.tears += 1;
        self.tally.delivered += arrived;
        self.tally.kept += kept.min(arrived);
    }

    /// Nothing befalls this one. Where a source may have changed behind the back of its time, it must be asked to look.
    fn end_well(&mut self) {
        let server = self.sides.serve();
        let more: &[&str] = if self.is_deceptive { &["--checksum"] } else { &[] };
        server.cp(self.args(server.url(""), more)).expect_code(0);
        self.tally.copies += 1;
        self.sides.assert_complete();
    }

    fn args(&self, url: String, more: &[&str]) -> Vec<OsString> {
        self.sides.args(url, more)
    }

    /// Every name at the destination holds the whole of something that it may hold.
    fn assert_whole(&self, destination: &Path, after: Misfortune) {
        for name in names(destination).iter().filter(|name| !name.ends_with('/')) {
            let file = Path::new(name);
            if name.contains(".longhaul-") || name == "other" {
                continue;
            }
            let allowed = &self.allowed[file];
            let bytes = read(destination.join(file));
            assert!(
                allowed.contains(&bytes),
                "seed {}: after {after:?} {name} is none of its {} versions",
                self.seed,
                allowed.len()
            );
        }
    }
}

impl Drop for CampaignRound<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("it was seed {}, after {:?}", self.seed, self.tally);
        }
    }
}

fn server_lives(misfortune: Misfortune) -> bool {
    !matches!(misfortune, Misfortune::ServerKilled | Misfortune::ServerStopped)
}

/// Rounds side by side.
const AT_A_TIME: usize = 3;
/// Half a second at the rate of these copies.
const LARGE_LEN: usize = 24_000_000;
/// The groups of 1 MiB that were not complete yet, or not verified, and what a busy receiver had not taken in.
const UNDER_WAY_MAX: u64 = 3 << 20;
/// Of what had been delivered before them.
const KEPT_MIN: f64 = 0.95;
