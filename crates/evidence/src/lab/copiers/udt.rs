//! UDT 4, by a small program of ours around Debian's libudt: a file to a receiver that answers when it has it.

use super::payload::NAME;
use super::{Absent, Copier, Setting, Started, Wire};
use crate::ExperimentError;
use crate::lab::temporary::Folder;
use std::cell::OnceCell;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// UDT, compiled when first asked for.
#[derive(Default)]
pub(crate) struct Udt {
    compiled: OnceCell<Result<Folder, Absent>>,
}

impl Udt {
    fn program(&self) -> Result<PathBuf, Absent> {
        let compiled = self.compiled.get_or_init(compile).as_ref();
        compiled.map(|folder| folder.path().join(PROGRAM)).map_err(Absent::clone)
    }
}

impl Copier for Udt {
    fn name(&self) -> &'static str {
        "UDT"
    }

    fn setup(&self) -> &'static str {
        "sendfile to recvfile; buffers of 64 MB and a window of 65 536 packets, as its manual advises for fast long paths; in \
         clear, nothing checks what arrives"
    }

    fn find(&self) -> Result<String, Absent> {
        self.program().map(|_| "UDT 4".into())
    }

    fn start(&self, setting: &Setting<'_>) -> Result<Started, ExperimentError> {
        let failed =
            |why: Absent| ExperimentError::Program { program: "UDT".into(), reason: why.to_string() };
        let program = self.program().map_err(failed)?;
        let mut server = setting.far(&program);
        server.arg("receive").arg(setting.payload.arrived_folder().join(NAME));
        server.args([&setting.address().to_string(), PORT_TEXT]);
        let server = setting.serve("UDT's receiver", &mut server, Wire::Udp, PORT)?;
        Ok(Started::new(self.name(), vec![server], move |setting| {
            let mut command = setting.near(&program);
            command.arg("send").arg(setting.payload.source());
            command.args([&setting.address().to_string(), PORT_TEXT]);
            command
        }))
    }
}

fn compile() -> Result<Folder, Absent> {
    let unwritable = |error: io::Error| Absent::Unwritable { reason: error.to_string() };
    let folder = Folder::new().map_err(unwritable)?;
    let source = folder.path().join("udt.cpp");
    fs::write(&source, SOURCE).map_err(unwritable)?;
    let mut compiler = Command::new("c++");
    compiler.args(["-O2", "-o"]).arg(folder.path().join(PROGRAM)).arg(&source).args(["-ludt", "-pthread"]);
    let is_compiled = compiler.output().is_ok_and(|output| output.status.success());
    if is_compiled { Ok(folder) } else { Err(Absent::NotCompiled) }
}

const SOURCE: &str = include_str!("../../../copiers/udt.cpp");
const PROGRAM: &str = "udt";
const PORT: u16 = 9000;
const PORT_TEXT: &str = "9000";
