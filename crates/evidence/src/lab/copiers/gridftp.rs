//! GridFTP: `globus-url-copy` to an anonymous `globus-gridftp-server`.

use super::payload::{NAME, no_room};
use super::{Absent, Copier, Setting, Started, Wire, version_of};
use crate::ExperimentError;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// GridFTP over parallel TCP connections.
pub(super) struct GridFtp;

impl Copier for GridFtp {
    fn name(&self) -> &'static str {
        "GridFTP x 8"
    }

    fn setup(&self) -> &'static str {
        "-fast -p 8: extended block mode over eight connections, which the kernel sizes; anonymous, in clear, nothing checks \
         what arrives"
    }

    fn find(&self) -> Result<String, Absent> {
        let remedy = "get it with: apt-get install globus-gass-copy-progs globus-gridftp-server-progs";
        version_of(SERVER, &["-version"], remedy)?;
        version_of(CLIENT, &["-version"], remedy)
    }

    fn start(&self, setting: &Setting<'_>) -> Result<Started, ExperimentError> {
        let address = setting.address().to_string();
        let mut server = setting.far(SERVER);
        server.env(HOSTNAME_ENV, HOSTNAME);
        server.args(["-aa", "-no-detach", "-p", PORT_TEXT]);
        // Told where to listen for logins, it would ask for that address's name too.
        server.args(["-data-interface", &address]);
        if rustix::process::geteuid().is_root() {
            // It refuses to be root for somebody unknown.
            server.args(["-anonymous-user", "nobody"]);
            open_to_all(setting).map_err(|error| no_room(&error))?;
        }
        let server = setting.serve(SERVER, &mut server, Wire::Tcp, PORT)?;
        Ok(Started::new(self.name(), vec![server], |setting| {
            let mut command = setting.near(CLIENT);
            command.env(HOSTNAME_ENV, HOSTNAME);
            command.args(["-fast", "-p", "8"]).arg(format!("file://{}", setting.payload.source().display()));
            let to = setting.payload.arrived_folder().join(NAME);
            command.arg(format!("ftp://{}:{PORT}{}", setting.address(), to.display()));
            command
        }))
    }
}

/// The folder that the copy comes into, for everybody to write to.
fn open_to_all(setting: &Setting<'_>) -> std::io::Result<()> {
    let folder = setting.payload.arrived_folder();
    if let Some(above) = folder.parent() {
        fs::set_permissions(above, Permissions::from_mode(0o711))?;
    }
    fs::set_permissions(folder, Permissions::from_mode(0o777))
}

/// What each side is to call itself: on the lab's hosts there is nobody to ask for names.
const HOSTNAME_ENV: &str = "GLOBUS_HOSTNAME";
const HOSTNAME: &str = "localhost";
const SERVER: &str = "globus-gridftp-server";
const CLIENT: &str = "globus-url-copy";
const PORT: u16 = 2811;
const PORT_TEXT: &str = "2811";
