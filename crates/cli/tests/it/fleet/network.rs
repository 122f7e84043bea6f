//! The near site: hosts of their own behind one router, which is the left host of a lab. The far site is its right host.
//!
//! ```text
//! mover1 ─┐
//! mover2 ─┼─ bridge in the left host ─ emulated path ─ right host with the daemons' addresses
//! mover3 ─┘
//! ```

use crate::common::{Running, undisturbed, wait_until};
use longhaul_lab::{Lab, Scenario, Side};
use std::path::Path;
use std::process::Command;

/// Both sites and the path between them.
pub struct Network {
    pub lab: Lab,
}

/// A host of the near site with its own network, name and processes. Dropping it is a power cut: the kernel kills all of them
/// at once.
pub struct Mover {
    running: Running,
}

impl Network {
    /// Both sites, without movers.
    pub fn start(scenario: &Scenario) -> Network {
        let lab = Lab::start(scenario).expect("a lab can be made here");
        let network = Network { lab };
        let route = |name, value| network.lab.set_sysctl(Side::Left, name, value).expect("it can be set");
        route("net.ipv4.ip_forward", "1");
        network.ip(Side::Left, &["link", "add", BRIDGE, "type", "bridge"]);
        network.ip(Side::Left, &["address", "add", &format!("{ROUTER}/24"), "dev", BRIDGE]);
        network.ip(Side::Left, &["link", "set", BRIDGE, "up"]);
        let [left, right] = [Side::Left, Side::Right].map(|side| network.lab.address(side).to_string());
        network.ip(Side::Left, &["route", "add", FAR_NETWORK, "via", &right]);
        network.ip(Side::Right, &["route", "add", NEAR_NETWORK, "via", &left]);
        network
    }

    /// The far site's address for its daemon of this number.
    pub fn far_address(&self, number: usize) -> String {
        format!("10.75.0.{}", 10 + number)
    }

    /// Give the far site that address.
    pub fn add_far_address(&self, number: usize) {
        let address = format!("{}/32", self.far_address(number));
        self.ip(Side::Right, &["address", "add", &address, "dev", "lo"]);
    }

    /// Start a mover of this number, on which a program runs. What is in `settings` it finds in `/etc/slurm`.
    pub fn start_mover(&self, number: usize, program: &str, settings: &Path) -> Mover {
        let name = mover_name(number);
        let mut command = self.own_processes(Side::Left, &["--net"]);
        command
            .args(["sh", "-c", MOVER, "sh", &name, &mover_address(number), ROUTER, program])
            .env(SETTINGS, settings);
        let running = Running::start(&mut command);
        wait_until("a mover has its network", || running.said()[0].contains("here"));
        let process = running.id().to_string();
        // That of a mover of this name whose power was cut goes away with its network, a moment later.
        wait_until("its card can be put in", || {
            self.try_ip(
                Side::Left,
                &["link", "add", &name, "type", "veth", "peer", "name", "eth0", "netns", &process],
            )
        });
        self.ip(Side::Left, &["link", "set", &name, "master", BRIDGE, "up"]);
        Mover { running }
    }

    /// A command on that side with host name and processes of its own, which end with it.
    pub fn own_processes(&self, side: Side, more: &[&str]) -> Command {
        let mut command = undisturbed(self.lab.command(side, "unshare"));
        command.args(["--uts", "--pid", "--mount-proc", "--fork", "--kill-child"]).args(more);
        command
    }

    fn ip(&self, side: Side, args: &[&str]) {
        assert!(self.try_ip(side, args), "ip {args:?}");
    }

    fn try_ip(&self, side: Side, args: &[&str]) -> bool {
        self.lab.command(side, "ip").args(args).status().expect("ip comes with iproute2").success()
    }
}

impl Mover {
    /// What its program has said on standard error.
    pub fn said(&self) -> String {
        let [_, stderr] = self.running.said();
        stderr
    }
}

/// Of the mover with this number.
pub fn mover_name(number: usize) -> String {
    format!("mover{number}")
}

/// Of the mover with this number.
pub fn mover_address(number: usize) -> String {
    format!("10.74.0.{}", 10 + number)
}

/// Whether these programs are installed; if not, one that is missing is named.
pub fn has_programs(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| Command::new(program).arg("--help").output().is_err());
    missing
        .inspect(|program| crate::common::skip(&format!("{program} is not installed (make setup-fleet)")))
        .is_none()
}

/// Whether this process may do all that root may: in a user namespace, no daemon can become another user.
pub fn is_root() -> bool {
    let is_root = std::fs::read_to_string(Path::new("/proc/self/setgroups"))
        .is_ok_and(|may| may.trim() == "allow")
        && rustix::process::geteuid().is_root();
    if !is_root {
        crate::common::skip("Slurm's daemons need root");
    }
    is_root
}

/// A mover's first process: it has its name and network set up, then runs the program and collects orphans.
const MOVER: &str = r#"
hostname "$1"
mount --bind "$SETTINGS" /etc/slurm
echo here
until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
ip link set lo up
ip address add "$2/24" dev eth0
ip link set eth0 up
ip route add default via "$3"
$4 &
wait
"#;

/// In the environment of all that runs on a mover: the folder of its settings.
pub const SETTINGS: &str = "SETTINGS";
/// The near site's own network, its router and its bridge.
const NEAR_NETWORK: &str = "10.74.0.0/24";
pub const ROUTER: &str = "10.74.0.1";
const BRIDGE: &str = "near0";
/// The daemons' addresses.
const FAR_NETWORK: &str = "10.75.0.0/24";
