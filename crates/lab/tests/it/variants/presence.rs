//! Programs are there while somebody uses them, and gone afterwards.

use super::measure_programs;
use crate::watched::{Verdict, check};
use longhaul_lab::variants::{self, Origin, Variant};
use longhaul_lab::{Lab, Scenario, Side, TcpSettings};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

/// No test of its own: another process, which uses the congestion control until it is killed.
#[test]
#[ignore = "other tests start it"]
fn holder() {
    if env::var_os(HOLD).is_none() {
        return;
    }
    let variant = Variant::require(NAME);
    let said = variant.as_ref().map_or_else(|error| error.to_string(), |variant| variant.name().to_owned());
    println!("\n{HELD}{said}");
    // Ends with the parent at the latest.
    let _ = io::stdin().read_line(&mut String::new());
}

#[test]
fn programs_can_be_a_hosts_default() {
    measure_programs(|| {
        let variant = require("htcp")?;
        let lab = Lab::start(&Scenario::new(20.0, 20.0)).map_err(|error| error.to_string())?;
        let settings =
            TcpSettings { congestion_control: Some(variant.name().into()), ..TcpSettings::default() };
        lab.set_tcp(Side::Left, &settings).map_err(|error| error.to_string())?;
        let record = lab.tcp_settings(Side::Left).map_err(|error| error.to_string())?;
        check(record[0].value == "lh_htcp" && variant.origin() == Origin::Program, || format!("{record:?}"))
    });
}

#[test]
fn last_user_removes_it() {
    measure_programs(|| {
        check(!is_there(NAME), || "it is there before it is asked for".into())?;
        let (one, other) = (require(NAME)?, require(NAME)?);
        check(is_there(NAME), || "it is not there".into())?;
        drop(one);
        check(is_there(NAME), || "it went with the first user".into())?;
        drop(other);
        check(!is_there(NAME), || "it stayed after the last user".into())
    });
}

#[test]
fn killed_users_leave_nothing() {
    measure_programs(|| {
        for signal in [Signal::INT, Signal::KILL] {
            let mut holder = start_holder()?;
            send(Pid::from_child(&holder), signal)?;
            holder.wait().map_err(|error| error.to_string())?;
            wait_until(|| !is_there(NAME)).map_err(|_| format!("it stayed after {signal:?}"))?;
        }
        Ok(())
    });
}

#[test]
fn what_was_left_behind_is_removed() {
    measure_programs(|| {
        let leave_behind = || {
            let mut holder = start_holder()?;
            for keeper in children(&holder)? {
                // Its `cat` ends with the holder, but nobody is left to act on that.
                send(keeper, Signal::KILL)?;
            }
            holder.kill().and_then(|()| holder.wait()).map_err(|error| error.to_string())?;
            thread::sleep(Duration::from_millis(200));
            check(is_there(NAME), || "somebody else removed it".into())
        };
        let remove_all = || variants::remove_all().map_err(|error| error.to_string());
        leave_behind()?;
        let removed = remove_all()?;
        check(removed == [NAME] && !is_there(NAME), || format!("removed: {removed:?}"))?;
        // Who comes next does not mind, and what is in use is not removed.
        leave_behind()?;
        let user = require(NAME)?;
        let removed = remove_all()?;
        check(removed.is_empty() && is_there(NAME), || format!("removed while in use: {removed:?}"))?;
        drop(user);
        check(!is_there(NAME), || "it stayed".into())
    });
}

fn require(name: &str) -> Result<Variant, String> {
    Variant::require(name).map_err(|error| error.to_string())
}

/// This program as another process that uses the congestion control.
fn start_holder() -> Result<Child, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut holder = Command::new(program);
    holder.args(["--exact", "variants::presence::holder", "--ignored", "--nocapture"]).env(HOLD, "1");
    let mut holder =
        holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    // Behind what the harness says.
    let mut lines = BufReader::new(holder.stdout.take().ok_or("no output")?).lines().map_while(Result::ok);
    let said = lines.find_map(|line| line.strip_prefix(HELD).map(str::to_owned));
    check(said.as_deref() == Some(NAME) && is_there(NAME), || format!("the other process says {said:?}"))?;
    Ok(holder)
}

fn children(parent: &Child) -> Result<Vec<Pid>, String> {
    let pid = parent.id();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_err(|error| error.to_string())?;
    let lists = threads.flatten().map(|thread| fs::read_to_string(thread.path().join("children")));
    let list = lists.map(Result::unwrap_or_default).collect::<Vec<_>>().join(" ");
    let pids: Vec<Pid> = list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect();
    check(!pids.is_empty(), || "it has no keeper".into())?;
    Ok(pids)
}

fn send(to: Pid, signal: Signal) -> Verdict {
    kill_process(to, signal).map_err(|error| error.to_string())
}

fn is_there(name: &str) -> bool {
    let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    list.split_whitespace().any(|one| one == name)
}

fn wait_until(holds: impl Fn() -> bool) -> Result<(), ()> {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > Duration::from_secs(10) {
            return Err(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

const NAME: &str = "lh_scalable";
/// In the environment of a process that is to use the congestion control.
const HOLD: &str = "LONGHAUL_TEST_HOLD";
/// Before what such a process says.
const HELD: &str = "held: ";
