//! The kernel's own TCP with nothing around it: a file by `sendfile` over one or several connections, a folder as a tar
//! stream. Both ends are this program: [`crate::plain`].

use super::{Peer, Scene, Started, Wire};
use crate::experiments::ExperimentError;
use socket2::{Domain, Protocol, Socket, Type};
use std::fs;

/// Kernel TCP under a congestion control, over so many connections.
pub(in crate::experiments) struct Kernel {
    name: &'static str,
    setup: &'static str,
    congestion: &'static str,
    streams: u32,
}

impl Kernel {
    /// One connection under what most of the Internet has.
    pub(in crate::experiments) const CUBIC: Kernel = Kernel {
        name: "TCP CUBIC",
        setup: "one connection, sendfile into it, a plain writer behind it; nothing checks what arrives",
        congestion: CUBIC_NAME,
        streams: 1,
    };

    /// Several.
    pub(in crate::experiments) const MANY: Kernel = Kernel {
        name: "TCP CUBIC x 8",
        setup: "the same over eight connections, each with an eighth of the file",
        congestion: CUBIC_NAME,
        streams: 8,
    };

    /// One connection under the kernel's best for long paths that lose packets.
    pub(in crate::experiments) const BBR: Kernel = Kernel {
        name: "TCP BBR",
        setup: "one connection under the congestion control that does not take every loss for a full queue",
        congestion: BBR_NAME,
        streams: 1,
    };

    /// A folder as a tar stream, under the hosts' congestion control.
    pub(in crate::experiments) const TAR: Kernel = Kernel {
        name: "tar over TCP",
        setup: "tar at both ends of one plain connection: nothing is compared, kept or checked",
        congestion: "",
        streams: 1,
    };
}

impl Peer for Kernel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn setup(&self) -> &'static str {
        self.setup
    }

    fn find(&self) -> Result<String, String> {
        if self.congestion.is_empty() || has_congestion_control(self.congestion) {
            let kernel = rustix::system::uname();
            Ok(format!("Linux {}", kernel.release().to_string_lossy()))
        } else {
            Err(format!("this kernel has no TCP {0}; load it with: modprobe tcp_{0}", self.congestion))
        }
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Started, ExperimentError> {
        let program = scene.bench.options.program;
        let mut command = scene.far(program);
        command.args(["lab-plain", "receive", &format!("{}:{PORT}", scene.address())]);
        command.arg(scene.cargo.arrived_folder());
        let server = scene.serve(self.name, &mut command, Wire::Tcp, PORT)?;
        let (streams, congestion) = (self.streams.to_string(), self.congestion);
        Ok(Started::new(self.name, vec![server], move |scene| {
            let mut command = scene.near(scene.bench.options.program);
            command.args(["lab-plain", "send", "--streams", &streams]);
            if !congestion.is_empty() {
                command.args(["--congestion", congestion]);
            }
            command.arg(scene.cargo.source()).arg(format!("{}:{PORT}", scene.address()));
            command
        }))
    }
}

/// What the lab's hosts give to programs that choose none: this one where a host may be set to it.
///
/// A network namespace may have what its kernel allows to everybody, or what it was made with.
pub(in crate::experiments) fn host_congestion_control(wanted: &str) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    choose(wanted, &read("tcp_allowed_congestion_control"), read("tcp_congestion_control").trim())
}

fn choose(wanted: &str, allowed: &str, default: &str) -> String {
    let is_allowed = allowed.split_whitespace().any(|name| name == wanted);
    if is_allowed { wanted.into() } else { default.into() }
}

/// Whether the kernel has it, or can load it.
fn has_congestion_control(name: &str) -> bool {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
    socket.is_ok_and(|socket| socket.set_tcp_congestion(name.as_bytes()).is_ok())
}

/// What most hosts have.
pub(in crate::experiments) const CUBIC_NAME: &str = "cubic";
/// The best for long paths that lose packets.
pub(in crate::experiments) const BBR_NAME: &str = "bbr";
const PORT: u16 = 7100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_get_what_everybody_may_have_or_keep_what_they_came_with() {
        assert_eq!(choose("bbr", "reno bbr", "cubic"), "bbr");
        assert_eq!(choose("bbr", "reno cubic", "cubic"), "cubic");
        assert_eq!(choose("cubic", "reno bbr", "bbr"), "bbr");
    }
}
