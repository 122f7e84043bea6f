//! Daemons with a configuration.

use super::tree::*;
use super::{Ended, Running, longhaul, run, wait_until};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

/// A place with a configuration: `data`, `in` and `both` are its folders.
pub struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    pub fn new(head: &str) -> Site {
        let folder = folder();
        for name in ["data", "in", "both"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let site = Site { folder };
        site.write(&format!(
            "listen = \"127.0.0.1:0\"\n{head}\n# The folders.\n[folders]\ndata = \"data\"\nin = \"in\"\nboth = \"both\"\n"
        ));
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn config(&self) -> PathBuf {
        self.path("serve.toml")
    }

    pub fn text(&self) -> String {
        fs::read_to_string(self.config()).unwrap()
    }

    pub fn write(&self, text: &str) {
        write(self.config(), text);
        set_mode(self.config(), 0o600);
    }

    /// Add a user and keep the token in a file.
    pub fn add(&self, name: &str, folders: &[&str]) {
        let mut args: Vec<OsString> = ["user", "add", name, "--config"].map(Into::into).into();
        args.push(self.config().into());
        folders.iter().for_each(|folder| args.push(format!("--folder={folder}").into()));
        let token = run(args).expect_code(0).stdout;
        assert_eq!(token.lines().count(), 1, "{token}");
        write(self.path(name), token);
        set_mode(self.path(name), 0o600);
    }

    pub fn serve(&self) -> Daemon {
        Daemon::start(&self.config(), &[])
    }
}

/// A `longhaul serve --config`. Dropping it kills it.
pub struct Daemon {
    pub running: Running,
    url: String,
}

impl Daemon {
    pub fn start(config: &Path, more: &[&str]) -> Daemon {
        let mut running = Running::start(longhaul().args(["serve", "--config"]).arg(config).args(more));
        wait_until("it serves", || running.said()[0].contains('\n') || !running.is_running());
        let [line, stderr] = running.said();
        let words: Vec<&str> = line.lines().next().unwrap_or_default().split(' ').collect();
        assert_eq!(words.get(..2), Some(&["serving", "at"][..]), "{line}{stderr}");
        let url = format!("longhaul://{}/", words[2]);
        Daemon { running, url }
    }

    /// What its metrics say.
    pub fn metrics(&self) -> String {
        let said = self.said();
        let address =
            said.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("it says where");
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text
    }

    /// On standard error.
    pub fn said(&self) -> String {
        let [_, said] = self.running.said();
        said
    }

    pub fn reload(&self, says: &str) {
        self.running.signal(Signal::HUP);
        self.running.await_line(says);
    }

    pub fn url(&self, path: &str) -> OsString {
        format!("{}{path}", self.url).into()
    }

    /// `cp --json` with somebody's token, not yet started.
    pub fn cp_command(&self, token: &Path, args: &[OsString]) -> std::process::Command {
        let mut command = longhaul();
        command.args(["cp", "--json", "--token-file"]).arg(token).args(args);
        command
    }

    pub fn cp(&self, token: &Path, args: &[OsString]) -> Ended {
        Running::start(&mut self.cp_command(token, args)).finish()
    }
}
