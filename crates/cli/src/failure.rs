//! How a program ends before its time. The library's errors speak of no flags: here they learn which one helps.

use crate::config::ConfigError;
use crate::output::Exit;
use crate::values::TOKEN_ENV;
use longhaul::{Cause, ControllerKind, Error, PlanError, PolicyError, RequestError, SshError, Transport};

/// Why a command was not done: a line for the user, and with it the exit status.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// It failed.
    #[error("{0}")]
    Failed(String),
    /// A command that was to be run could not be; the status is the one that shells give.
    #[error("{0}")]
    Command(String, u8),
    /// The user stopped it.
    #[error("interrupted; run the same command again to continue")]
    Interrupted,
    /// The user stopped what went through a pipe.
    #[error("interrupted; what went through a pipe has to go again from its beginning")]
    PipeInterrupted,
}

impl From<&Failure> for Exit {
    fn from(failure: &Failure) -> Exit {
        match failure {
            Failure::Usage(_) => Exit::Usage,
            Failure::Failed(_) => Exit::Failed,
            Failure::Command(_, status) => Exit::Command(*status),
            Failure::Interrupted | Failure::PipeInterrupted => Exit::Interrupted,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Interrupted | Error::Plan(PlanError::Interrupted) => Failure::Interrupted,
            Error::Plan(error @ (PlanError::Pattern(_) | PlanError::Uncuttable(_))) => {
                Failure::Usage(error.to_string())
            }
            Error::Request(request) => Failure::Usage(request_line(&request)),
            Error::Policy(error) => error.into(),
            error => Failure::Failed(match advice(&error) {
                Some(advice) => format!("{error}; {advice}"),
                None => error.to_string(),
            }),
        }
    }
}

impl From<PolicyError> for Failure {
    fn from(error: PolicyError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

/// Which flag helps, whichever side the error is from.
fn advice(error: &Error) -> Option<&'static str> {
    match (error, error.cause()) {
        (Error::NoWay { .. }, _) => Some("--via here does that"),
        (Error::NobodyConnects, _) => {
            Some("`longhaul serve --allow-third-party` does the one, --via here the other")
        }
        (Error::Ssh(SshError::Start { .. }), _) => Some("--ssh names the one to take"),
        (_, Cause::UdpBlocked) => Some("with --transport auto it does"),
        (_, Cause::SizeBlocked) => Some("so leave out --packet-size"),
        (_, Cause::NoPort) => Some("name others with --ports"),
        _ => None,
    }
}

fn request_line(request: &RequestError) -> String {
    match request {
        RequestError::Congestion(error) => format!("--congestion: {error}"),
        RequestError::NoSshBetween => {
            "--transport ssh: between two other hosts no ssh carries the data; --via here has it go through this one".into()
        }
        RequestError::TransportOfRelay => {
            "--via here: what goes through this host goes inside the connections to the two hosts; leave out --transport, \
             --streams and --congestion"
                .into()
        }
        RequestError::EndsOfBetween => {
            "--bind and --paths name ways out of this host, and the data of a copy between two other hosts goes directly".into()
        }
        RequestError::FlowsOfBetween => {
            "--firefly tells of the flows of this host, and a copy between two other hosts has none here; their daemons tell of \
             them"
                .into()
        }
        RequestError::NothingToRelay => "--via here is for a copy between two other hosts".into(),
        RequestError::NoOtherDaemon => {
            "--dest-token-file is for a copy from one other host to a longhaul:// on another".into()
        }
        RequestError::NoSsh => "--transport ssh needs a host reached by ssh, as in host:path".into(),
        RequestError::NeedsRate(control) => {
            format!("--control {} needs the rate to keep, such as --rate 800mbit", control.name())
        }
        RequestError::NeverYields(control) => format!(
            "--control {} yields to nobody; with --background use {}, or leave one of the two out",
            control.name(),
            ControllerKind::yielding()
        ),
        RequestError::DeleteWithList => {
            "--delete removes what a whole tree has not, and --files-from names a part of one; leave one of the two out".into()
        }
        RequestError::NotWithPipe(option) => {
            format!("--{} goes with files only; leave it out with -, which is a stream of bytes", option.replace('_', "-"))
        }
        RequestError::PacketSize => format!("--packet-size: {request}"),
        RequestError::NoTcp { transport, is_number } => {
            let flag = if *is_number { "--streams" } else { "--congestion" };
            let without = if *transport == Transport::Ssh { "ssh" } else { "object" };
            format!(
                "{flag} is about TCP connections, and --transport {without} opens none; leave one of the two out"
            )
        }
        RequestError::NoToken => {
            format!("longhaul:// needs the server's token: give --token-file FILE or set {TOKEN_ENV}")
        }
        RequestError::NoSshCommand => "--ssh needs a command, for example --ssh 'ssh -p 2222'".into(),
        RequestError::Pattern(error) => format!("--exclude {error}"),
        request => request.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul::Reason;

    #[test]
    fn the_flag_that_helps_is_named_whichever_side_failed() {
        let here = Failure::from(Error::NoPort { ports: Some(7700..=7710) });
        let there = Failure::from(Error::Peer(Reason::new(Cause::NoPort, "no UDP port is free")));
        for failure in [here, there] {
            assert!(failure.to_string().ends_with("is free; name others with --ports"), "{failure}");
        }
        let usage = Failure::from(Error::Request(RequestError::NeedsRate(ControllerKind::Rbudp)));
        assert!(matches!(&usage, Failure::Usage(line) if line.contains("--rate")), "{usage}");
        assert_eq!(Exit::from(&usage).code(), 2);
    }
}
