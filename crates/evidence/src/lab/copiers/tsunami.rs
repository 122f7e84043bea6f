//! Tsunami UDP: blocks at a rate that it is told, which the receiving end fetches and asks for again over TCP.

use super::payload::NAME;
use super::{Absent, Copier, Setting, Started, Wire, said_by, tool};
use crate::ExperimentError;
use crate::lab::copied::CopyError;
use crate::lab::process::Ended;
use std::net::Ipv4Addr;

/// tsunami from a tsunamid.
pub(super) struct Tsunami;

impl Copier for Tsunami {
    fn name(&self) -> &'static str {
        "Tsunami"
    }

    fn setup(&self) -> &'static str {
        "told 95 % of the path's rate (set rate) and blocks of 1400 bytes, which fit a packet (set blocksize); lets up only \
         above 7.5 % of loss, its default; fetched, in clear, nothing checks what arrives"
    }

    fn find(&self) -> Result<String, Absent> {
        said_by(tool(SERVER), &["--help"], REMEDY)?;
        // It says what it is, and that it was a pleasure.
        let said = said_by(tool(CLIENT), &["quit"], REMEDY)?;
        let revision = said.iter().find_map(|line| line.strip_prefix("Revision:"));
        Ok(revision.map_or("version unknown", str::trim).into())
    }

    fn start(&self, setting: &Setting<'_>) -> Result<Started, ExperimentError> {
        // It serves what is in the folder that it is started in.
        let mut server = setting.near(tool(SERVER));
        server.current_dir(setting.payload.source_folder());
        let server = setting.serve_near(SERVER, &mut server, Wire::Tcp, PORT)?;
        Ok(Started::new(self.name(), vec![server], |setting| {
            // And this one stores in the folder that it is started in.
            let mut command = setting.far(tool(CLIENT));
            command.current_dir(setting.payload.arrived_folder());
            command.args(commands(setting.near_address(), setting.mbit));
            command
        })
        .fetched()
        .judged(judge))
    }
}

/// What it would otherwise be told at its prompt. `mbit` is the path's rate.
fn commands(server: Ipv4Addr, mbit: Option<f64>) -> Vec<String> {
    // Bits a second, without headers.
    let mbit = mbit.map_or(MBIT_MAX, |mbit| (mbit * SHARE).min(MBIT_MAX));
    let rate = ((mbit * 1e6) as u64).to_string();
    let server = server.to_string();
    let words = ["set", "rate", &rate, "set", "blocksize", BLOCK, "connect", &server, "get", NAME, "quit"];
    words.map(str::to_owned).into()
}

/// Whatever has come of it, its exit status is 1.
fn judge(ended: &Ended) -> Result<(), CopyError> {
    let has_said = |part| [&ended.said, &ended.complained].into_iter().any(|text| text.contains(part));
    if has_said("Transfer complete") && !has_said("Transfer not successful") {
        return Ok(());
    }
    Err(CopyError::failed(ended.last_words()))
}

const SERVER: &str = "tsunamid";
const CLIENT: &str = "tsunami";
const REMEDY: &str = "get its source from sourceforge.net/projects/tsunami-udp and put tsunami and tsunamid into the PATH, or \
                      into $TOOLS/bin";
/// Where tsunamid waits for connections unless told otherwise.
const PORT: u16 = 46_224;
/// Bytes: with its headers of 34 a packet has room for it; larger ones would travel in pieces.
const BLOCK: &str = "1400";
/// With its headers of 34 bytes for 1400 that is the path's rate nearly.
const SHARE: f64 = 0.95;
/// It counts bits a second in 32 bits.
const MBIT_MAX: f64 = 4_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(said: &str, complained: &str) -> Ended {
        Ended { is_success: false, said: said.into(), complained: complained.into() }
    }

    #[test]
    fn its_commands_follow_one_another_on_one_line() {
        let line = |mbit| commands(Ipv4Addr::new(10, 73, 0, 1), mbit).join(" ");
        let fetch = "connect 10.73.0.1 get payload quit";
        assert_eq!(line(Some(100.0)), format!("set rate 95000000 set blocksize 1400 {fetch}"));
        assert_eq!(line(Some(0.5)), format!("set rate 475000 set blocksize 1400 {fetch}"));
        assert_eq!(line(Some(10_000.0)), line(None));
        assert_eq!(line(None), format!("set rate 4000000000 set blocksize 1400 {fetch}"));
    }

    #[test]
    fn it_is_believed_by_its_words_since_it_always_ends_in_failure() {
        let banner = "Revision: v1.1\n";
        let done = "Transfer complete. Flushing to disk...\nThank you for using Tsunami.\n";
        assert_eq!(judge(&ended(done, banner)), Ok(()));
        let refused = "tsunami: File transfer request failed";
        let said = judge(&ended("Thank you for using Tsunami.\n", &format!("{banner}{refused}\n")));
        assert_eq!(said, Err(CopyError::failed(refused)));
        let broken = format!("{banner}Transfer not successful.\n");
        assert_eq!(judge(&ended(done, &broken)), Err(CopyError::failed("Transfer not successful.")));
    }
}
