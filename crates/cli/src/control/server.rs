//! The side of the copy.

use super::{REQUEST_MAX, Reply, Request, clear_stale, folder, open_folder, socket_of};
use crate::hours::{parse_rates, rates_text};
use crate::watch::{Board, Figures};
use longhaul::CopyOptions;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use serde::Serialize;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A socket at which a copy is steered; gone when this is dropped.
pub struct ControlSocket {
    path: PathBuf,
}

/// How far the copy is, for who asks.
#[derive(Serialize)]
struct Status {
    pid: u32,
    /// As `--rate` takes it.
    rate: String,
    #[serde(flatten)]
    figures: Figures,
}

impl ControlSocket {
    /// Have a copy with these options follow the board, and listen in this user's folder. Who cannot be steered copies all the
    /// same.
    pub fn open(board: &Arc<Board>, options: &mut CopyOptions) -> Option<ControlSocket> {
        ControlSocket::adopt_in(folder().as_deref(), board, options)
    }

    fn adopt_in(
        folder: Option<&Path>,
        board: &Arc<Board>,
        options: &mut CopyOptions,
    ) -> Option<ControlSocket> {
        // Before anybody can ask: what is asked for stands against what was given.
        board.adopt(options);
        let opened = ControlSocket::open_in(folder?, board.clone(), options.control.needs_rate());
        opened.inspect_err(|error| tracing::debug!("the copy cannot be steered: {error}")).ok()
    }

    fn open_in(folder: &Path, board: Arc<Board>, needs_rate: bool) -> io::Result<ControlSocket> {
        open_folder(folder)?;
        clear_stale(folder);
        let path = socket_of(folder, std::process::id());
        // Who sees it may connect: between bind and listen he would be refused.
        let unseen = path.with_extension("new");
        let _ = fs::remove_file(&unseen);
        let listener = UnixListener::bind(&unseen)?;
        fs::rename(&unseen, &path)?;
        let socket = ControlSocket { path };
        let serve = move || {
            for stream in listener.incoming() {
                match stream {
                    // Who asks and leaves is not told.
                    Ok(stream) => drop(answer(&stream, &board, needs_rate)),
                    // There may be descriptors again later.
                    Err(_) => thread::sleep(PATIENCE),
                }
            }
        };
        thread::Builder::new().name("ctl".into()).spawn(serve)?;
        Ok(socket)
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // What stays there is cleared by the next copy.
        let _ = fs::remove_file(&self.path);
    }
}

fn answer(mut stream: &UnixStream, board: &Board, needs_rate: bool) -> io::Result<()> {
    if socket_peercred(stream)?.uid != geteuid() {
        return Ok(());
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_MAX)).read_line(&mut line)?;
    if line.is_empty() {
        return Ok(());
    }
    let heeded = match serde_json::from_str(&line) {
        Ok(request) => heed(&request, board, needs_rate),
        Err(error) => Err(format!("not understood: {error}")),
    };
    let reply = match heeded {
        Ok(()) => Reply { error: None, status: Some(serde_json::to_value(status(board))?) },
        Err(error) => Reply { error: Some(error), status: None },
    };
    stream.write_all(&[serde_json::to_vec(&reply)?, b"\n".into()].concat())
}

pub(super) fn heed(request: &Request, board: &Board, needs_rate: bool) -> Result<(), String> {
    let live = board.live();
    match request {
        Request::Status => {}
        Request::Pause => live.pause().map_err(|error| error.to_string())?,
        Request::Resume => live.resume(),
        Request::Rate { rate } => {
            let rates = parse_rates(rate).map_err(|error| format!("{rate:?}: {error}"))?;
            if needs_rate && rates.always.is_none() {
                return Err(
                    "this controller sends at the rate that it is given: it needs one at any time".into()
                );
            }
            live.change_rates(rates).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn status(board: &Board) -> Status {
    Status { pid: std::process::id(), rate: rates_text(&board.live().rates()), figures: board.figures() }
}

/// Both ends are on this host.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul::schedule::Schedule;
    use longhaul::{ControllerKind, LiveControl, Pace, Rate};

    fn ask(path: &Path, line: &str) -> serde_json::Value {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    #[test]
    fn wishes_are_heeded_and_nonsense_is_named() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("ctl");
        let board = Arc::new(Board::default());
        let socket = ControlSocket::open_in(&folder, board.clone(), true).unwrap();
        let path = socket.path.clone();
        assert_eq!(ask(&path, "{\"command\":\"pause\"}\n")["status"]["paused"], true);
        let told = ask(&path, "{\"command\":\"rate\",\"rate\":\"8mbit\"}\n");
        assert_eq!(
            (&told["status"]["rate"], &told["status"]["rate_limit_mbps"]),
            (&"8mbit".into(), &8.0.into())
        );
        assert_eq!(board.live().pace(), Pace { rate: Some(Rate(8_000_000)), paused: true });
        for (line, part) in [
            ("{\"command\":\"rate\",\"rate\":\"fast\"}\n", "not a rate"),
            ("{\"command\":\"rate\",\"rate\":\"none\"}\n", "needs one"),
            ("{\"command\":\"dance\"}\n", "not understood"),
            ("\u{1}\n", "not understood"),
        ] {
            let told = ask(&path, line);
            assert!(told["error"].as_str().is_some_and(|text| text.contains(part)), "{line}: {told}");
        }
        assert_eq!(ask(&path, "{\"command\":\"resume\"}\n")["status"]["paused"], false);
        assert_eq!(board.live().pace().rate, Some(Rate(8_000_000)), "what was refused changed nothing");
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_copy_goes_by_its_options_until_it_is_asked() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("ctl");
        let board = Arc::new(Board::default());
        let given = LiveControl::new(Schedule::always(Some(Rate(2_000_000))));
        let mut options = CopyOptions {
            control: ControllerKind::Fixed,
            live: Some(Arc::new(given)),
            ..CopyOptions::default()
        };
        let socket = ControlSocket::adopt_in(Some(&folder), &board, &mut options).unwrap();
        let live = options.live.unwrap();
        assert_eq!(ask(&socket.path, "{\"command\":\"status\"}\n")["status"]["rate"], "2mbit");
        let told = ask(&socket.path, "{\"command\":\"rate\",\"rate\":\"none\"}\n");
        assert!(told["error"].as_str().is_some_and(|text| text.contains("needs one")), "{told}");
        ask(&socket.path, "{\"command\":\"rate\",\"rate\":\"8mbit\"}\n");
        assert_eq!(live.pace().rate, Some(Rate(8_000_000)));
        let mut options = CopyOptions::default();
        assert!(ControlSocket::adopt_in(None, &board, &mut options).is_none());
        assert!(options.live.is_some(), "the board shows its rate all the same");
    }

    #[test]
    fn what_a_killed_copy_left_is_in_nobodys_way() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("ctl");
        open_folder(&folder).unwrap();
        drop(UnixListener::bind(socket_of(&folder, std::process::id())).unwrap());
        let socket = ControlSocket::open_in(&folder, Arc::default(), false).unwrap();
        assert!(ask(&socket.path, "{\"command\":\"status\"}\n")["status"].is_object());
    }
}
