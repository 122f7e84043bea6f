//! Daemons with a configuration.

use super::tree::*;
use super::{Ended, Running, longhaul, run, send_to, wait_until};
use longhaul_testing::machine::{Hold, share};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

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
    pub child: Child,
    url: String,
    said: Arc<Mutex<String>>,
    _machine: Hold,
}

impl Daemon {
    pub fn start(config: &Path, more: &[&str]) -> Daemon {
        let machine = share();
        let mut command = longhaul();
        command.args(["serve", "--config"]).arg(config).args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (into, mut from) = (said.clone(), BufReader::new(child.stderr.take().unwrap()));
        thread::spawn(move || {
            let mut line = String::new();
            while let Ok(1..) = from.read_line(&mut line) {
                into.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words.get(..2), Some(&["serving", "at"][..]), "{line}{}", said.lock().unwrap());
        let url = format!("longhaul://{}/", words[2]);
        Daemon { child, url, said, _machine: machine }
    }

    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub fn await_line(&self, part: &str) {
        wait_until(part, || self.said().contains(part));
    }

    pub fn reload(&self, says: &str) {
        send_to(self.child.id(), Signal::HUP);
        self.await_line(says);
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

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
