//! `longhaul forward` and `longhaul connect`.

use crate::args::forward::{ConnectArgs, ForwardArgs};
use crate::args::reach::ReachArgs;
use crate::failure::Failure;
use crate::output::{self, Exit};
use crate::values::{find_token, host_of, words};
use crate::{log, signals};
use longhaul::{CopyOptions, Far, Forwarded, Paths, Target, standard_streams};

/// Listen until a signal comes.
pub fn forward(args: &ForwardArgs) -> Result<Exit, Failure> {
    log::start("off")?;
    let stop = signals::stop_flag()?;
    let far = Far::reach(&host_of(&args.host).map_err(Failure::Usage)?, &options(&args.reach)?, &stop)?;
    let mut ports = vec![];
    for port in &args.listen {
        // What is refused is told now, and not to each program that connects.
        far.ask(&port.target)?;
        ports.push(Forwarded::bind(port.listen, port.target.clone())?);
    }
    for port in &ports {
        let at = port.local_addr().map_err(longhaul::Error::from)?;
        output::result(&format!("{at} leads to {} from {}", port.target, far.name()));
    }
    longhaul::forward(far, ports, output::warn, &stop)?;
    Ok(Exit::Done)
}

/// Be one connection.
pub fn connect(args: &ConnectArgs) -> Result<Exit, Failure> {
    log::start("off")?;
    let stop = signals::stop_flag()?;
    let (host, target) = match &args.via {
        Some(via) => (
            via.as_str(),
            args.to.parse().map_err(|error| Failure::Usage(format!("{:?}: {error}", args.to)))?,
        ),
        None => port_of(&args.to)?,
    };
    let far = Far::reach(&host_of(host).map_err(Failure::Usage)?, &options(&args.reach)?, &stop)?;
    match standard_streams(&far, &target, &stop) {
        Ok(()) => Ok(Exit::Done),
        Err(longhaul::Error::Interrupted) => Ok(Exit::Interrupted),
        Err(error) => Err(error.into()),
    }
}

/// A host, and a port of its own.
fn port_of(to: &str) -> Result<(&str, Target), Failure> {
    let wrong = || {
        Failure::Usage(format!(
            "{to:?}: HOST:PORT is wanted, such as far.example.org:22 or longhaul://far.example.org:22"
        ))
    };
    let (host, port) = to.rsplit_once(':').ok_or_else(wrong)?;
    let target = port.parse().ok().and_then(|port| Target::new("localhost", port)).ok_or_else(wrong)?;
    if host.is_empty() || host.ends_with(['/', ':']) || host == "longhaul" {
        return Err(wrong());
    }
    Ok((host, target))
}

/// How the other host is reached.
pub fn options(reach: &ReachArgs) -> Result<CopyOptions, Failure> {
    if reach.over_paths != Paths::One {
        return Err(Failure::Usage("--paths is for copies; name the ways with --bind".into()));
    }
    let token = find_token(reach.token_file.as_deref()).map_err(Failure::Usage)?;
    Ok(CopyOptions {
        token: token.map(|token| token.secret),
        ports: reach.ports.clone(),
        ssh_command: words(reach.ssh.as_deref()),
        deploy: !reach.no_deploy,
        bind: reach.bind.clone(),
        ..CopyOptions::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_colon_ends_the_host() {
        let read = |to: &str| port_of(to).map(|(host, target)| (host.to_string(), target.to_string())).ok();
        let is = |to: &str, host: &str, port: u16| {
            assert_eq!(read(to), Some((host.into(), format!("localhost:{port}"))), "{to}");
        };
        is("me@far.example.org:22", "me@far.example.org", 22);
        is("longhaul://far:22", "longhaul://far", 22);
        is("longhaul://far:7701:22", "longhaul://far:7701", 22);
        is("longhaul://[2001:db8::1]:7701:22", "longhaul://[2001:db8::1]:7701", 22);
        for to in ["", "far", "far:", "far:0", ":22", "longhaul://:22", "longhaul://far", "far:http"] {
            assert_eq!(read(to), None, "{to}");
        }
    }
}
