//! The kernel's own TCP with nothing around it: a file by `sendfile` over one or several connections, a folder as a
//! tar stream. Both ends are this program: [`crate::lab::plain`].

use super::{Absent, Copier, Setting, Started, Wire};
use crate::ExperimentError;
use socket2::{Domain, Protocol, Socket, Type};

/// Kernel TCP under a congestion control, over so many connections.
pub(crate) struct Kernel {
    name: &'static str,
    setup: &'static str,
    congestion: &'static str,
    streams: u32,
}

impl Kernel {
    /// One connection under what most of the Internet has.
    pub(crate) const CUBIC: Kernel = Kernel {
        name: "TCP CUBIC",
        setup: "one connection, sendfile into it, a plain writer behind it; nothing checks what arrives",
        congestion: CUBIC_NAME,
        streams: 1,
    };

    /// Several.
    pub(crate) const MANY: Kernel = Kernel {
        name: "TCP CUBIC x 8",
        setup: "the same over eight connections, each with an eighth of the file",
        congestion: CUBIC_NAME,
        streams: 8,
    };

    /// One connection under the kernel's best for long paths that lose packets.
    pub(crate) const BBR: Kernel = Kernel {
        name: "TCP BBR",
        setup: "one connection under the congestion control that does not take every loss for a full queue",
        congestion: BBR_NAME,
        streams: 1,
    };

    /// A folder as a tar stream, under the hosts' congestion control.
    pub(crate) const TAR: Kernel = Kernel {
        name: "tar over TCP",
        setup: "tar at both ends of one plain connection: nothing is compared, kept or checked",
        congestion: "",
        streams: 1,
    };
}

impl Copier for Kernel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn setup(&self) -> &'static str {
        self.setup
    }

    fn find(&self) -> Result<String, Absent> {
        if self.congestion.is_empty() || has_congestion_control(self.congestion) {
            let kernel = rustix::system::uname();
            Ok(format!("Linux {}", kernel.release().to_string_lossy()))
        } else {
            Err(Absent::NoCongestionControl { name: self.congestion })
        }
    }

    fn start(&self, setting: &Setting<'_>) -> Result<Started, ExperimentError> {
        let program = setting.bench.options.lab_program;
        let mut command = setting.far(program);
        command.args(["lab-plain", "receive", &format!("{}:{PORT}", setting.address())]);
        command.arg(setting.payload.arrived_folder());
        let server = setting.serve(self.name, &mut command, Wire::Tcp, PORT)?;
        let (streams, congestion) = (self.streams.to_string(), self.congestion);
        Ok(Started::new(self.name, vec![server], move |setting| {
            let mut command = setting.near(setting.bench.options.lab_program);
            command.args(["lab-plain", "send", "--streams", &streams]);
            if !congestion.is_empty() {
                command.args(["--congestion", congestion]);
            }
            command.arg(setting.payload.source()).arg(format!("{}:{PORT}", setting.address()));
            command
        }))
    }
}

/// Whether the kernel has it, or can load it.
fn has_congestion_control(name: &str) -> bool {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
    socket.is_ok_and(|socket| socket.set_tcp_congestion(name.as_bytes()).is_ok())
}

/// What most hosts have.
pub(crate) const CUBIC_NAME: &str = "cubic";
/// The best for long paths that lose packets.
pub(crate) const BBR_NAME: &str = "bbr";
const PORT: u16 = 7100;
