//! `longhaul forward` and `longhaul connect`.

use super::reach::ReachArgs;
use clap::Args;
use longhaul::Target;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Take other programs' TCP connections to another host
///
/// Listens here, as ssh -L does, and has each connection go to HOST as a sealed stream over as many
/// TCP connections as the path needs. HOST connects it to where it leads. HOST is [user@]host,
/// reached over your own ssh, or longhaul://host[:port] behind a longhaul serve --allow-forward.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_help = FORWARD_EXAMPLES)]
pub struct ForwardArgs {
    /// Listen at PORT of this host (0: any, which is printed) for TARGET, as HOST sees it
    #[arg(short = 'L', value_name = "[BIND:]PORT:TARGET:PORT", required = true)]
    pub listen: Vec<LocalPort>,
    /// Which host connects
    #[arg(value_name = "HOST")]
    pub host: String,

    /// How to reach the other host.
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// Be one connection to a port of another host
///
/// Standard input goes there, and what comes from there to standard output: for ssh's ProxyCommand,
/// git and rsync. HOST:PORT is a port of HOST itself (its localhost); HOST is [user@]host, reached
/// over your own ssh, or longhaul://host[:port] behind a longhaul serve --allow-forward.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_help = CONNECT_EXAMPLES)]
pub struct ConnectArgs {
    /// Where to; with --via as that host sees it
    #[arg(value_name = "HOST:PORT")]
    pub to: String,
    /// Have this host connect to HOST:PORT
    #[arg(long, value_name = "HOST")]
    pub via: Option<String>,

    /// How to reach the other host.
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// A port of this host, and where its connections lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPort {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where to, as the other host sees it.
    pub target: Target,
}

impl std::str::FromStr for LocalPort {
    type Err = String;

    fn from_str(text: &str) -> Result<LocalPort, String> {
        let wanted = || "[BIND:]PORT:TARGET:PORT is wanted, such as 8080:localhost:80".to_string();
        let fields = fields(text).ok_or_else(wanted)?;
        let (bind, [port, host, far_port]) = match fields[..] {
            [port, host, far_port] => ("localhost", [port, host, far_port]),
            [bind, port, host, far_port] => (bind, [port, host, far_port]),
            _ => return Err(wanted()),
        };
        let ip = match bind {
            "localhost" => Ipv4Addr::LOCALHOST.into(),
            "*" | "" => IpAddr::from(Ipv6Addr::UNSPECIFIED),
            bind => bind
                .parse()
                .map_err(|_| format!("{bind:?} is no address of this host; write one, localhost or *"))?,
        };
        let port: u16 = port.parse().map_err(|_| wanted())?;
        let far_port = far_port.parse().map_err(|_| wanted())?;
        let target = Target::new(host, far_port).ok_or_else(wanted)?;
        Ok(LocalPort { listen: SocketAddr::new(ip, port), target })
    }
}

/// What stands between colons; an address in brackets is one field.
fn fields(text: &str) -> Option<Vec<&str>> {
    let (mut fields, mut rest) = (vec![], text);
    loop {
        let (field, after) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']')?,
            None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        fields.push(field);
        match after.strip_prefix(':') {
            Some(more) => rest = more,
            None => return after.is_empty().then_some(fields),
        }
    }
}

const FORWARD_EXAMPLES: &str = "\
Examples:
  longhaul forward -L 8080:localhost:80 far.example.org
  longhaul forward -L 5201:localhost:5201 -L 0:db:5432 longhaul://far.example.org

Prints a line for each port once it listens.";

const CONNECT_EXAMPLES: &str = "\
Examples:
  rsync -e \"ssh -o ProxyCommand='longhaul connect longhaul://%h:%p'\" -a run7 far.example.org:
  longhaul connect --via longhaul://far.example.org db:5432

Exit status: 0 both sides have ended the connection, 1 it came to nothing or broke.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_written_as_for_ssh() {
        let read = |text: &str| {
            text.parse().map(|LocalPort { listen, target }| (listen.to_string(), target.to_string()))
        };
        let is = |text: &str, listen: &str, target: &str| {
            assert_eq!(read(text), Ok((listen.into(), target.into())), "{text}");
        };
        is("8080:db:80", "127.0.0.1:8080", "db:80");
        is("0:[2001:db8::1]:22", "127.0.0.1:0", "[2001:db8::1]:22");
        is("localhost:1:db:2", "127.0.0.1:1", "db:2");
        is("[::1]:8080:db:80", "[::1]:8080", "db:80");
        is("192.0.2.7:8080:db:80", "192.0.2.7:8080", "db:80");
        is("*:8080:db:80", "[::]:8080", "db:80");
        for text in [
            "",
            "8080",
            "8080:db",
            "x:db:80",
            "8080:db:x",
            "8080:db:0",
            "8080:db:80:",
            "name:1:db:80",
            "[::1:1:db:2",
        ] {
            let line = read(text).unwrap_err();
            assert!(line.contains("wanted") || line.contains("no address"), "{text}: {line}");
        }
    }
}
