//! `longhaul agent`: the far side of a copy over ssh.

use crate::args::AgentArgs;
use crate::failure::Failure;
use crate::output::{self, Exit};
use crate::{log, signals};
use longhaul::daemon::policy::Access;
use longhaul::{AgentOptions, ForwardAgentOptions};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Talk to the client over stdin and stdout.
pub fn run(args: AgentArgs) -> Result<Exit, Failure> {
    log::start("off")?;
    if args.root.is_some() {
        // As a forced command it stands in for the script that the client wanted to run: it says what that would say.
        let asked = std::env::var_os("SSH_ORIGINAL_COMMAND").unwrap_or_default();
        if !asks_for_agent(&asked) {
            return Err(Failure::Failed("this key is for copies with `longhaul cp` alone".into()));
        }
        output::result("ready");
    }
    if args.forward {
        let options = ForwardAgentOptions { ports: args.ports };
        longhaul::forward_agent(options, signals::stop_flag()?)?;
        return Ok(Exit::Done);
    }
    let access = match (args.read_only, args.write_only) {
        (true, _) => Access::ReadOnly,
        (_, true) => Access::WriteOnly,
        _ => Access::ReadWrite,
    };
    let options = AgentOptions {
        ports: args.ports,
        root: args.root,
        access,
        third_party: args.allow_third_party,
        may_set_all: args.allow_super,
    };
    longhaul::agent(options, signals::stop_flag()?)?;
    Ok(Exit::Done)
}

/// Whether the command that a client sent would have begun an agent. What else it says counts for nothing.
fn asks_for_agent(command: &OsStr) -> bool {
    let has = |part: &[u8]| command.as_bytes().windows(part.len()).any(|window| window == part);
    has(b"longhaul") && has(b" agent")
}
