//! Tests that need a process of their own: because they look at all of it, or because it must enter a user
//! namespace, which a process with several threads cannot.

use crate::skip;
use longhaul_lab::{Lab, LabError, Scenario};
use std::process::Command;
use std::sync::LazyLock;
use std::{env, thread};

/// Whether the test that asks has its process to itself. If not, it has been run, and has passed, in one that it had.
pub fn is_alone() -> bool {
    let alone = env::var_os(ALONE).is_some();
    if !alone {
        run_again(&[], ALONE);
    }
    alone
}

/// Whether the test that asks may build labs. If not, either none can be built here, which is said, or it has been run,
/// and has passed, in a user namespace.
pub fn may_build_labs() -> bool {
    // This thread makes two: the process, whose other tests are to stay who they are, enters no namespace.
    let asked = thread::spawn(longhaul_lab::ensure_privileges).join().expect("asking does not panic");
    match asked {
        // To be allowed user namespaces is not always to be allowed anything in them.
        Ok(()) => LAB_REFUSED.as_ref().is_none_or(|why| {
            skip(why);
            false
        }),
        Err(LabError::ThreadsRunning) if env::var_os(IN_NAMESPACE).is_none() => {
            let can = Command::new(UNSHARE[0]).args(&UNSHARE[1..]).arg("true").output();
            if can.is_ok_and(|output| output.status.success()) {
                run_again(UNSHARE, IN_NAMESPACE);
            } else {
                skip("no user namespace can be made here (unshare --user)");
            }
            false
        }
        Err(error) => {
            skip(&error.to_string());
            false
        }
    }
}

/// Whether the test that asks has a network of its own: a loopback alone, which has these addresses too. If not, either none can
/// be made here, which is said, or it has been run, and has passed, in one.
pub fn has_network(addresses: &[&str]) -> bool {
    if env::var_os(IN_NETWORK).is_some() {
        return true;
    }
    let add = |address: &&str| format!(" && ip addr add {address} dev lo");
    let script = format!("ip link set lo up{} && exec \"$@\"", addresses.iter().map(add).collect::<String>());
    let wrapper = [UNSHARE, &["--net", "sh", "-c", &script, "sh"]].concat();
    let can = Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").output();
    if can.is_ok_and(|output| output.status.success()) {
        run_again(&wrapper, IN_NETWORK);
    } else {
        skip("no network with such addresses can be made here (unshare --net, ip)");
    }
    false
}

/// Run the test that asks in a process of its own, which `wrapper` starts and `mark` tells that it is one.
fn run_again(wrapper: &[&str], mark: &str) {
    let program = env::current_exe().expect("a process knows its program");
    let name =
        thread::current().name().filter(|name| *name != "main").expect("a thread for each test").to_owned();
    let words = wrapper.iter().map(Into::into).chain([program.into_os_string()]).collect::<Vec<_>>();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["--exact", &name, "--include-ignored", "--nocapture"]).env(mark, "1");
    let output = command.output().expect("it starts");
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let passed = output.status.success() && stdout.contains("1 passed");
    assert!(passed, "{name} in a process of its own:\n{stdout}{stderr}");
    let skipped = stderr.lines().filter_map(|line| line.strip_prefix("skipped: ")?.split_once(": "));
    skipped.for_each(|(_, why)| skip(why));
}

/// Why no lab can be built by who may build labs.
static LAB_REFUSED: LazyLock<Option<String>> =
    LazyLock::new(|| Lab::start(&Scenario::new(100.0, 1.0)).err().map(|error| error.to_string()));
/// Set in a process that is there for one test, and in one that is in a user namespace for it.
const ALONE: &str = "LONGHAUL_TEST_ALONE";
const IN_NAMESPACE: &str = "LONGHAUL_TEST_IN_NAMESPACE";
const IN_NETWORK: &str = "LONGHAUL_TEST_IN_NETWORK";
const UNSHARE: &[&str] = &["unshare", "--user", "--map-root-user"];
