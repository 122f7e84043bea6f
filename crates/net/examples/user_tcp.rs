//! One stream by user-level TCP over UDP. Prints one line of JSON when done.
//!
//! ```text
//! user_tcp recv ADDRESS:PORT [OPTION=VALUE]...
//! user_tcp send ADDRESS:PORT BYTES CONTROLLER [OPTION=VALUE]...
//! ```
//!
//! Options: `mss=1448`, `sack=on|off`, `scaling=on|off`, `buffer=BYTES`, `paced=on|off`, `limit=SECONDS`.

use longhaul_net::plain::{Driver, Ran};
use longhaul_proto::control::{ControlConfig, ControllerKind};
use longhaul_proto::endpoint::{Full, NotReady, Sink, Source};
use longhaul_proto::tcp::{Config, Receiver, ReceiverEvent, Sender, SenderEvent};
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["recv", address, ref options @ ..] => receive(address, options),
        ["send", address, bytes, controller, ref options @ ..] => send(address, bytes, controller, options),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("user_tcp: {error}");
            ExitCode::FAILURE
        }
    }
}

const USAGE: &str = "usage: user_tcp recv ADDRESS:PORT [OPTION=VALUE]... | \
                     user_tcp send ADDRESS:PORT BYTES CONTROLLER [OPTION=VALUE]...";

/// What the options say.
struct Choices {
    config: Config,
    is_paced: bool,
    limit: Duration,
}

fn choices(options: &[&str]) -> Result<Choices, Box<dyn Error>> {
    let mut choices =
        Choices { config: Config::default(), is_paced: false, limit: Duration::from_secs(3600) };
    for option in options {
        let (name, value) = option.split_once('=').ok_or_else(|| format!("{option} is no OPTION=VALUE"))?;
        let is_on = value == "on";
        match name {
            "mss" => choices.config.mss = value.parse()?,
            "sack" => choices.config.sack = is_on,
            "scaling" => choices.config.window_scaling = is_on,
            "buffer" => choices.config.receive_buffer = value.parse()?,
            "paced" => choices.is_paced = is_on,
            "limit" => choices.limit = Duration::from_secs_f64(value.parse()?),
            _ => return Err(format!("there is no option {name}").into()),
        }
    }
    Ok(choices)
}

fn receive(address: &str, options: &[&str]) -> Result<(), Box<dyn Error>> {
    let Choices { config, limit, .. } = choices(options)?;
    let mut driver = Driver::listen(Receiver::new(config, Nowhere), address.parse()?)?;
    // Whoever starts the sender waits for this line.
    println!("{{\"listening\":\"{}\"}}", driver.local_addr()?);
    std::io::stdout().flush()?;
    let mut start = None;
    let ran = driver.run(limit, |event| {
        start.get_or_insert_with(Instant::now);
        event == ReceiverEvent::Complete
    })?;
    let seconds = start.map_or(0.0, |start| start.elapsed().as_secs_f64());
    let (bytes, stats) = (driver.endpoint().delivered_bytes(), driver.endpoint().stats());
    println!(
        "{{\"ok\":{},\"bytes\":{bytes},\"seconds\":{seconds:.6},\"segments\":{},\"out_of_order\":{},\
         \"repeats\":{},\"acks\":{},\"host_drops\":{}}}",
        ran == Ran::Stopped,
        stats.segments,
        stats.out_of_order,
        stats.repeats,
        stats.acks,
        driver.drops(),
    );
    if ran == Ran::TimedOut {
        return Err(format!("only {bytes} bytes came within {} s", limit.as_secs_f64()).into());
    }
    driver.run(LINGER, |_| false)?;
    Ok(())
}

fn send(address: &str, bytes: &str, controller: &str, options: &[&str]) -> Result<(), Box<dyn Error>> {
    let Choices { config, is_paced, limit } = choices(options)?;
    let bytes: u64 = bytes.parse()?;
    let kind: ControllerKind = controller.parse()?;
    let config = Config { connection: std::process::id(), ..config };
    let control = ControlConfig::new(config.datagram_len(), Duration::from_secs(1));
    let controller = kind.build(ControlConfig { paced: is_paced, ..control });
    let mut driver = Driver::connect(Sender::new(config, bytes, Nowhere, controller), address.parse()?)?;
    let start = Instant::now();
    let ran = driver.run(limit, |event| event == SenderEvent::Complete)?;
    let seconds = start.elapsed().as_secs_f64();
    let (stats, rtt) = (driver.endpoint().stats(), driver.endpoint().rtt());
    println!(
        "{{\"ok\":{},\"control\":\"{}\",\"bytes\":{},\"seconds\":{seconds:.6},\"goodput_mbps\":{:.3},\
         \"segments_sent\":{},\"retransmitted\":{},\"spurious\":{},\"fast_recoveries\":{},\"timeouts\":{},\
         \"rtt_ms_min\":{:.3},\"rtt_ms_mean\":{:.3}}}",
        ran == Ran::Stopped,
        kind.name(),
        stats.bytes_acked,
        stats.bytes_acked as f64 * 8e-6 / seconds,
        stats.segments_sent,
        stats.retransmitted,
        stats.spurious,
        stats.fast_recoveries,
        stats.timeouts,
        rtt.min().as_secs_f64() * 1e3,
        rtt.mean().as_secs_f64() * 1e3,
    );
    match ran {
        Ran::Stopped => Ok(()),
        Ran::TimedOut => {
            Err(format!("only {} bytes within {} s", stats.bytes_acked, limit.as_secs_f64()).into())
        }
    }
}

/// A stream of zeros that nobody keeps.
struct Nowhere;

impl Source for Nowhere {
    fn read_at(&mut self, _: u64, buf: &mut [u8]) -> Result<(), NotReady> {
        buf.fill(0);
        Ok(())
    }
}

impl Sink for Nowhere {
    fn write_at(&mut self, _: u64, _: &[u8]) -> Result<(), Full> {
        Ok(())
    }
}

/// A sender that lost the last acknowledgement asks again within a few timeouts.
const LINGER: Duration = Duration::from_secs(2);
