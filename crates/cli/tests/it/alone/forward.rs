//! Another program's connection over an emulated path with losses, by itself and through `longhaul forward`.

use crate::common::forwarding::{Forwarding, forward_args};
use crate::common::tree::{folder, write, write_noise};
use crate::common::{LONGHAUL, Server, undisturbed, wait_until};
use longhaul_lab::{Lab, Scenario, Side, Wire};
use longhaul_testing::process::may_build_labs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

#[test]
fn what_carries_much_gets_further_connections_over_a_path_with_losses() {
    if !may_build_labs() {
        return;
    }
    let mut scenario = Scenario::new(100.0, 65.0);
    scenario.loss = 0.001;
    let lab = Lab::start(&scenario).expect("a lab can be made here");
    let sink = lab.enter(Side::Right, || TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap().unwrap();
    let port = sink.local_addr().unwrap().port();
    let root = folder();
    let (_server, forwarding) = forwarding(&lab, root.path(), &[port]);
    let before = forwarding.sockets();
    let mbps = transfer_mbps(&lab, &sink, &forwarding, 20_000_000, || {
        wait_until("it has further connections", || forwarding.sockets() >= before + 4);
    });
    println!("forwarded {mbps:.1} Mb/s");
    assert!(lab.counters().left_to_right.dropped_loss > 0, "nothing was lost");
}

/// A daemon at the right end that connects to these ports there, and at the left end a port that leads to the first of them.
fn forwarding(lab: &Lab, root: &Path, ports: &[u16]) -> (Server, Forwarding) {
    let right = lab.address(Side::Right);
    let places = |port: &u16| ["localhost", &right.to_string()].map(|host| format!("{host}:{port}"));
    let listen = format!("{right}:0");
    let server = undisturbed(lab.command(Side::Right, LONGHAUL));
    let allowed: Vec<String> = ports.iter().flat_map(places).collect();
    let allowed = allowed.iter().flat_map(|place| ["--allow-forward", place]);
    let args: Vec<&str> = ["--listen", &listen].into_iter().chain(allowed).collect();
    let server = Server::start_with(server, root, &args);
    let [to, _] = places(&ports[0]);
    let mut command = undisturbed(lab.command(Side::Left, LONGHAUL));
    // Nothing is known of the path from before.
    command.env("XDG_STATE_HOME", root);
    forward_args(&mut command, server.token_file(), &[to], server.url("").trim_end_matches('/'));
    (server, Forwarding::run(&mut command, 1))
}

/// Until the program at the other end has all, and has said so.
fn transfer_mbps(
    lab: &Lab,
    sink: &TcpListener,
    forwarding: &Forwarding,
    bytes: usize,
    meanwhile: impl FnOnce(),
) -> f64 {
    let began = Instant::now();
    let near = lab.enter(Side::Left, || TcpStream::connect(forwarding.ports[0])).unwrap().unwrap();
    let (far, _) = sink.accept().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&near).write_all(&vec![7; bytes]).unwrap();
            near.shutdown(Shutdown::Write).unwrap();
        });
        let read = scope.spawn(|| {
            let mut got = vec![];
            (&far).read_to_end(&mut got).unwrap();
            got.len()
        });
        meanwhile();
        assert_eq!(read.join().unwrap(), bytes);
        (&far).write_all(&[1]).unwrap();
        (&near).read_exact(&mut [0]).unwrap();
    });
    bytes as f64 * 8e-6 / began.elapsed().as_secs_f64()
}

/// What iperf3, nuttcp and rsync (with a daemon of its own and over ssh), which send, and curl and git, which fetch, reach by themselves
/// over CUBIC, through a forwarded port and under `longhaul run`.
#[test]
#[ignore = "takes minutes, and only prints what it finds"]
fn programs_by_themselves_forwarded_and_under_run() {
    for loss in [0.001, 0.0] {
        let mut scenario = Scenario::new(100.0, 65.0);
        (scenario.loss, scenario.loss_reverse) = (loss, loss);
        let lab = Lab::start(&scenario).expect("a lab can be made here");
        for side in [Side::Left, Side::Right] {
            let cubic =
                "ip route show | while read -r r; do ip route replace $r congctl cubic || exit 1; done";
            assert!(lab.command(side, "sh").args(["-ec", cubic]).status().unwrap().success());
        }
        let files = Files::new(60_000_000);
        let root = folder();
        for (name, program) in files.programs() {
            let mut server = lab.command(Side::Right, "sh");
            let mut server = server.args(["-c", &program.serves]).process_group(0).spawn().unwrap();
            let port = program.ports[0];
            let listens = || lab.listens(Side::Right, Wire::Tcp, Some(port)).unwrap();
            wait_until("the program listens", listens);
            let mbps = |mut by: Command, host: &str, port: u16, run: u32| {
                let asks = program.asks.replace("HOST", host).replace("PORT", &port.to_string());
                by.args(["sh", "-c", &asks.replace("RUN", &run.to_string())]);
                let began = Instant::now();
                let output = by.output().unwrap();
                assert!(output.status.success(), "{asks}: {output:?}");
                files.bytes as f64 * 8e-6 / began.elapsed().as_secs_f64()
            };
            let right = lab.address(Side::Right).to_string();
            let own = mbps(lab.command(Side::Left, "env"), &right, port, 0);
            let (server_of_ours, forwarding) = forwarding(&lab, root.path(), &program.ports);
            let through =
                |run| mbps(lab.command(Side::Left, "env"), "127.0.0.1", forwarding.ports[0].port(), run);
            // A second connection to another port does not go through the first one's.
            let forwarded = if program.ports.len() == 1 { [1, 2].map(through) } else { [f64::NAN; 2] };
            let run = [3, 4].map(|run| {
                let mut by = undisturbed(lab.command(Side::Left, LONGHAUL));
                by.env("XDG_STATE_HOME", root.path().join("run")).args(["run", "--token-file"]);
                by.arg(server_of_ours.token_file())
                    .args(["--via", server_of_ours.url("").trim_end_matches('/')]);
                mbps(by, &right, port, run)
            });
            println!(
                "loss {loss}, {name}: its own {own:.1} Mb/s; forwarded {:.1}, and {:.1} the next time; under run {:.1}, and {:.1}",
                forwarded[0], forwarded[1], run[0], run[1]
            );
            let group = rustix::process::Pid::from_child(&server);
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
            server.wait().unwrap();
        }
    }
}

/// A program that serves, and one that asks it.
struct Program {
    /// The first is where it is asked.
    ports: Vec<u16>,
    serves: String,
    asks: String,
}

/// What they serve.
struct Files {
    folder: tempfile::TempDir,
    bytes: usize,
}

impl Files {
    fn new(bytes: usize) -> Files {
        let folder = folder();
        let at = folder.path().display();
        write_noise(folder.path().join("work/file"), bytes, 1);
        let conf = format!(
            "use chroot = no\nreverse lookup = no\n[m]\npath = {at}/in\nread only = no\nuid = root\ngid = root\n"
        );
        write(folder.path().join("rsyncd.conf"), conf.as_bytes());
        std::fs::create_dir(folder.path().join("in")).unwrap();
        let git = "git -c init.defaultBranch=a init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm a \
                   && touch .git/git-daemon-export-ok";
        let key = format!("ssh-keygen -q -t ed25519 -N '' -f {at}/key && mkdir -p /run/sshd");
        assert!(Command::new("sh").args(["-c", &key]).status().unwrap().success());
        let sshd = format!(
            "HostKey {at}/key\nAuthorizedKeysFile {at}/key.pub\nStrictModes no\nUsePAM no\nPidFile none\n"
        );
        write(folder.path().join("sshd_config"), sshd.as_bytes());
        let ssh = format!(
            "IdentityFile {at}/key\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
        );
        write(folder.path().join("ssh_config"), ssh.as_bytes());
        let work = folder.path().join("work");
        assert!(Command::new("sh").args(["-c", git]).current_dir(work).status().unwrap().success());
        Files { folder, bytes }
    }

    fn programs(&self) -> Vec<(&'static str, Program)> {
        let (at, bytes) = (self.folder.path().display(), self.bytes);
        let program = |port, serves: String, asks: String| Program {
            ports: vec![port],
            serves: format!("exec {serves} >/dev/null 2>&1"),
            asks,
        };
        let mut programs = vec![
            (
                "iperf3",
                program(7801, "iperf3 -s -p 7801".into(), format!("iperf3 -c HOST -p PORT -n {bytes}")),
            ),
            (
                "curl",
                program(
                    7802,
                    format!("python3 -m http.server 7802 -d {at}/work"),
                    "curl -sSf -o /dev/null http://HOST:PORT/file".into(),
                ),
            ),
            (
                "rsync",
                program(
                    7803,
                    format!("rsync --daemon --no-detach --port 7803 --config {at}/rsyncd.conf"),
                    format!("rsync --port PORT {at}/work/file rsync://HOST/m/copy-RUN"),
                ),
            ),
            (
                "git",
                program(
                    7804,
                    format!("git daemon --reuseaddr --port=7804 --base-path={at}"),
                    format!("git clone -q git://HOST:PORT/work/.git {at}/clone-RUN"),
                ),
            ),
            (
                "rsync over ssh",
                program(
                    7805,
                    format!("$(PATH=$PATH:/usr/sbin command -v sshd) -D -p 7805 -f {at}/sshd_config"),
                    format!(
                        "rsync -e 'ssh -p PORT -F {at}/ssh_config' {at}/work/file HOST:{at}/in/over-ssh-RUN"
                    ),
                ),
            ),
        ];
        if Command::new("nuttcp").arg("-V").output().is_ok() {
            let buffers = bytes / NUTTCP_BUFFER;
            let asks = format!("nuttcp -t -l {NUTTCP_BUFFER} -n {buffers} -P PORT -p 7807 HOST");
            let program = program(7806, "nuttcp -S --nofork -P 7806".into(), asks);
            programs.push(("nuttcp", Program { ports: vec![7806, 7807], ..program }));
        }
        programs
    }
}

/// Bytes that nuttcp writes at a time.
const NUTTCP_BUFFER: usize = 65_536;
