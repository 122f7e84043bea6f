//! Kernel TCP over an emulated path: `kernel_tcp SCENARIO.toml [CONGESTION_CONTROL [MEGABYTES]]`.

use longhaul_lab::variants::Variant;
use longhaul_lab::{Lab, Scenario, ensure_privileges, tcp};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernel_tcp: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("usage: kernel_tcp SCENARIO.toml [CONGESTION_CONTROL [MEGABYTES]]")?;
    let asked = args.next().unwrap_or_else(|| "cubic".into());
    let megabytes: f64 = args.next().map_or(Ok(40.0), |text| text.parse())?;
    ensure_privileges()?;
    let lab = Lab::start(&Scenario::load(Path::new(&file))?)?;
    let variant = Variant::require(&asked)?;
    let run = tcp::transfer(&lab, (megabytes * 1e6) as u64, variant.name())?;
    println!("{}: {megabytes} MB in {:.2} s, {:.1} Mb/s", variant.name(), run.seconds, run.mbps);
    let counters = lab.counters();
    println!("{counters:#?}");
    if counters.cpu_limited() {
        println!("the emulator was too slow on this machine: do not trust the figure");
    }
    Ok(())
}
