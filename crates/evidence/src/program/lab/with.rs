//! `longhaul lab run --with`: anybody's command over a path.

use super::path::{OpenPath, failed};
use crate::program::args::LabRunArgs;
use crate::program::output::{self, Exit};
use crate::program::values::describe;
use longhaul_cli::failure::Failure;
use longhaul_lab::{GroupProcess, Lab, ProcessGroup, Side, Wire};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Run it, and tell what the path did.
pub fn run(args: &LabRunArgs, command: &str, scenario: &Path) -> Result<Exit, Failure> {
    let path = OpenPath::open(scenario, &args.pcap)?;
    let status = {
        let group = path.lab.process_group().map_err(failed)?;
        let server =
            args.server.as_deref().map(|server| start(&path, &group, Side::Right, server, args.json));
        let mut server = server.transpose()?;
        if let Some(server) = &mut server {
            wait_for_server(&path.lab, server, &path.stop)?;
        }
        if path.stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        path.begin()?;
        let command = start(&path, &group, Side::Left, command, args.json)?;
        wait(command, &path.stop)?
    };
    let was_stopped = path.stop.load(Ordering::Relaxed);
    let exit = match was_stopped {
        true => Exit::Interrupted,
        false => Exit::of_command(status),
    };
    let record = path.close()?;
    if args.json {
        output::result(&record.json(command, exit.code()).to_string());
    } else {
        record.say();
    }
    Ok(exit)
}

fn start<'group>(
    path: &OpenPath,
    group: &'group ProcessGroup<'_>,
    end: Side,
    command: &str,
    is_aside: bool,
) -> Result<GroupProcess<'group>, Failure> {
    let unstartable =
        |error: io::Error| Failure::Failed(format!("sh: cannot be started: {}", describe(&error)));
    // Standard output is kept for the result.
    let aside =
        is_aside.then(|| io::stderr().as_fd().try_clone_to_owned()).transpose().map_err(unstartable)?;
    let started = group.spawn(end, "sh", |sh| {
        sh.arg("-c").arg(command);
        if end == Side::Right {
            sh.stdin(Stdio::null());
        }
        if let Some(aside) = aside {
            sh.stdout(aside);
        }
        path.furnish(sh, end);
    });
    started.map_err(unstartable)
}

/// Until it has opened a socket that others can speak to, or for a moment, where it opens none that can be seen.
fn wait_for_server(lab: &Lab, server: &mut GroupProcess<'_>, stop: &AtomicBool) -> Result<(), Failure> {
    let deadline = Instant::now() + SERVER_START_MAX;
    while Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
        if let Some(status) = server.try_wait().map_err(lost)? {
            let reason = format!("--server ended before the command began ({status}); try it alone");
            return Err(Failure::Failed(reason));
        }
        for wire in [Wire::Tcp, Wire::Udp] {
            if lab.listens(Side::Right, wire, None).map_err(failed)? {
                return Ok(());
            }
        }
        sleep(POLL);
    }
    Ok(())
}

/// Ctrl-C reaches the command by itself; it has a moment to end in its own way.
pub fn wait(mut member: GroupProcess<'_>, stop: &AtomicBool) -> Result<ExitStatus, Failure> {
    let mut stopped = None;
    loop {
        if let Some(status) = member.try_wait().map_err(lost)? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) {
            let stopped = *stopped.get_or_insert_with(Instant::now);
            if stopped.elapsed() > LAST_WORDS_MAX {
                // It ends, and with it all others.
                let _ = member.kill();
            }
        }
        sleep(POLL);
    }
}

fn lost(error: io::Error) -> Failure {
    Failure::Failed(format!("cannot wait for a command: {}", describe(&error)))
}

const POLL: Duration = Duration::from_millis(10);
const SERVER_START_MAX: Duration = Duration::from_secs(2);
const LAST_WORDS_MAX: Duration = Duration::from_millis(500);
