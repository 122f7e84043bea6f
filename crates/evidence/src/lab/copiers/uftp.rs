//! UFTP: multicast file transfer in rounds, here to a single host and at a rate that it is told.

use super::{Absent, Copier, Setting, Started, Wire, version_of};
use crate::ExperimentError;
use crate::lab::copied::CopyError;
use crate::lab::process::Ended;

/// uftp to a uftpd.
pub(crate) struct Uftp;

impl Copier for Uftp {
    fn name(&self) -> &'static str {
        "uftp"
    }

    fn setup(&self) -> &'static str {
        "told its receiver (-H) and 95 % of the path's rate (-R), as its manual has it without congestion control; blocks of 1400 bytes, buffers of \
         4 MB, the path's round trip (-r); in clear, nothing checks what arrives"
    }

    fn find(&self) -> Result<String, Absent> {
        let remedy = "get it with: apt-get install uftp";
        // It knows no option for that, but says its version before it complains.
        version_of("uftpd", &["-h"], remedy)?;
        version_of("uftp", &["-h"], remedy).map(|_| "UFTP".into())
    }

    fn start(&self, setting: &Setting<'_>) -> Result<Started, ExperimentError> {
        let address = setting.address();
        // The sender waits for this one only, instead of for anybody who might join.
        let member = format!("0x{:08X}", u32::from(address));
        let mut server = setting.far("uftpd");
        server
            .args(["-d", "-q", "-U", &member, "-B", BUFFER, "-I", &address.to_string(), "-D"])
            .arg(setting.payload.arrived_folder());
        let server = setting.serve("uftpd", &mut server, Wire::Udp, PORT)?;
        Ok(Started::new(self.name(), vec![server], move |setting| {
            let mut command = setting.near("uftp");
            let kbit = setting.mbit.map_or(LOOPBACK_KBIT, |mbit| (mbit * 1e3 * SHARE) as i64).to_string();
            // Its least round trip is 10 ms unless told otherwise.
            let rtt_s = (setting.rtt_ms / 1e3).max(RTT_S_MIN);
            let rtt = format!("{rtt_s}:{}:{}", rtt_s.min(0.01), 15.0);
            command.args(["-R", &kbit, "-B", BUFFER, "-b", BLOCK, "-r", &rtt, "-t", "8", "-S", "@LOG"]);
            command.args(["-M", &setting.address().to_string(), "-H", &member]);
            // It would take the first card that can multicast.
            command.args(["-I", &setting.near_address().to_string()]);
            command.arg(setting.payload.source());
            command
        })
        .judged(judge))
    }
}

/// Its exit status says nothing of single hosts; its status lines do.
fn judge(ended: &Ended) -> Result<(), CopyError> {
    let results = ended.said.lines().chain(ended.complained.lines()).filter(|line| line.contains("RESULT;"));
    let mut results = results.peekable();
    if results.peek().is_none() {
        return Err(CopyError::failed(ended.last_words()));
    }
    match results.find(|line| !(line.contains(";copy;") || line.contains(";overwrite;"))) {
        None => Ok(()),
        Some(line) => Err(CopyError::failed(line.trim())),
    }
}

const PORT: u16 = 1044;
/// Bytes: the most that this kernel gives to anybody by default.
const BUFFER: &str = "4194304";
/// 100 bytes below the MTU, as its manual says.
const BLOCK: &str = "1400";
/// With its headers of 56 bytes for 1400 that is the path's rate nearly.
const SHARE: f64 = 0.95;
/// Over loopback: as fast as it can.
const LOOPBACK_KBIT: i64 = -1;
const RTT_S_MIN: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(said: &str) -> Ended {
        Ended { is_success: true, said: said.into(), complained: String::new() }
    }

    #[test]
    fn its_status_lines_tell_what_came_of_it() {
        let copied = "CONNECT;success;0x0A490002\nRESULT;0x0A490002;payload;2929KB;copy;8256.22KB/s\n";
        assert_eq!(judge(&ended(copied)), Ok(()));
        let lost = "RESULT;0x0A490002;payload;0KB;lost;0KB/s\n";
        assert_eq!(judge(&ended(lost)), Err(CopyError::failed("RESULT;0x0A490002;payload;0KB;lost;0KB/s")));
        assert_eq!(judge(&ended("Announce timed out\n")), Err(CopyError::failed("Announce timed out")));
    }
}
