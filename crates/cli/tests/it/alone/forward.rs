//! Another program's connection over an emulated path with losses, by itself and through `longhaul forward`.

use crate::common::forwarding::{Forwarding, forward_args};
use crate::common::lab::repeat;
use crate::common::tree::folder;
use crate::common::{LONGHAUL, Server, undisturbed};
use longhaul_lab::{Lab, Scenario, Side, tcp};
use longhaul_testing::machine;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::Instant;

#[test]
fn a_forwarded_connection_fills_a_path_on_which_its_own_does_not() {
    let Some(_in_pairs) = machine::measure_in_pairs() else { return };
    let mut scenario = Scenario::new(100.0, 65.0);
    scenario.loss = 0.001;
    let lab = Lab::start(&scenario).expect("a lab can be made here");
    let sink = lab.enter(Side::Right, || TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap().unwrap();
    let port = sink.local_addr().unwrap().port();
    let root = folder();
    let (_server, forwarding) = forwarding(&lab, root.path(), port);
    repeat(&lab, || {
        let own = tcp::transfer(&lab, 6_000_000, "cubic").expect("cubic is there").mbps;
        let forwarded = transfer_mbps(&lab, &sink, &forwarding, 20_000_000);
        println!("its own {own:.1} Mb/s, forwarded {forwarded:.1} Mb/s");
        if forwarded > 3.0 * own { Ok(()) } else { Err(format!("{forwarded} against {own}")) }
    });
}

/// A daemon at the right end, and at the left one a port that leads to one of it.
fn forwarding(lab: &Lab, root: &Path, port: u16) -> (Server, Forwarding) {
    let to = format!("localhost:{port}");
    let listen = format!("{}:0", lab.address(Side::Right));
    let server = undisturbed(lab.command(Side::Right, LONGHAUL));
    let server = Server::start_with(server, root, &["--listen", &listen, "--allow-forward", &to]);
    let mut command = undisturbed(lab.command(Side::Left, LONGHAUL));
    // Nothing is known of the path from before.
    command.env("XDG_STATE_HOME", root);
    forward_args(&mut command, server.token_file(), &[to], server.url("").trim_end_matches('/'));
    (server, Forwarding::run(&mut command, 1))
}

/// Until the program at the other end has all, and has said so.
fn transfer_mbps(lab: &Lab, sink: &TcpListener, forwarding: &Forwarding, bytes: usize) -> f64 {
    let began = Instant::now();
    let near = lab.enter(Side::Left, || TcpStream::connect(forwarding.ports[0])).unwrap().unwrap();
    let (mut far, _) = sink.accept().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&near).write_all(&vec![7; bytes]).unwrap();
            near.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = vec![];
        far.read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), bytes);
        far.write_all(&[1]).unwrap();
        (&near).read_exact(&mut [0]).unwrap();
    });
    bytes as f64 * 8e-6 / began.elapsed().as_secs_f64()
}
