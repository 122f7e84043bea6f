//! `longhaul demo` where no network namespaces may be made.

use crate::common::{LONGHAUL_LAB, Running, measured, skip, undisturbed};
use std::process::Command;

/// Become somebody who may make no namespaces: such limits bind all that is inside a user namespace.
const FORBID: &str = "echo 0 > /proc/sys/user/max_net_namespaces && echo 0 > /proc/sys/user/max_user_namespaces && \
                      exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";

/// A program that runs without all privileges, or, where they cannot be taken away, as it is: then there are none, mostly.
fn without_privileges(program: &str) -> Command {
    let begin = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-c", FORBID, "sh"]);
        command
    };
    let is_possible = begin().arg("true").output().is_ok_and(|output| output.status.success());
    let mut command = begin();
    command.arg(program);
    undisturbed(if is_possible { command } else { Command::new(program) })
}

#[test]
fn without_privileges_the_race_is_run_through_a_relay_which_is_said() {
    measured();
    let mut command = without_privileges(LONGHAUL_LAB);
    let ended = Running::start(command.args(["demo", "--megabytes", "1"])).finish().expect_code(0);
    let said = &ended.stdout;
    if !command.get_program().eq("unshare") && !said.contains("relay") {
        return skip("privileges cannot be taken away here (unshare, setpriv)");
    }
    assert!(said.contains("a relay on loopback emulates the path") && said.contains("Why: "), "{said}");
    assert!(said.contains("TCP: in user space over UDP"), "{said}");
    let rows: Vec<&str> = said.lines().filter(|line| line.starts_with("100 Mb/s, 65 ms")).collect();
    let tools = ["longhaul", "TCP cubic", "TCP bbr"];
    assert_eq!(rows.len(), 2 * tools.len(), "{said}");
    for (row, tool) in rows.iter().zip(tools.iter().cycle()) {
        assert!(row.contains(tool) && !row.contains("failed"), "{said}");
        assert_eq!(row.ends_with("yes"), *tool == "longhaul", "{said}");
    }
}
