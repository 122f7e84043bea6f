//! How a copy is made: what its call was given by name.

use crate::live::LiveControl;
use crate::options;
use crate::waiting::seconds;
use longhaul::{Collector, CopyOptions, Delta, Fsync, Paths, Preserve, Token, Transport};
use longhaul_stripe::Streams;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// Those that a call was given by name.
pub fn read_options(given: Option<&Bound<'_, PyDict>>) -> PyResult<CopyOptions> {
    // This program is Python, which is nothing to put on the far side as longhaul.
    let mut options = CopyOptions { deploy: false, ..CopyOptions::default() };
    options.token = std::env::var("LONGHAUL_TOKEN").ok().filter(|token| !token.is_empty()).map(Token::from);
    let archive = given.map_or(Ok(None), |given| given.get_item("archive"))?;
    if archive.map_or(Ok(false), |value| value.is_truthy())? {
        options.files.preserve = Preserve::ARCHIVE;
    }
    for (name, value) in given.into_iter().flatten() {
        let name = name.extract::<String>()?;
        // None always stands for what is usual.
        if !value.is_none() {
            read_option(&mut options, &name, &value)?;
        }
    }
    Ok(options)
}

fn read_option(options: &mut CopyOptions, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match name {
        "transport" => options.transport = transport(&value.extract::<String>()?)?,
        "streams" => {
            options.streams = match options::count(value)? {
                Streams::Auto => None,
                // 64 at most.
                Streams::Fixed(streams) => u16::try_from(streams).ok(),
            }
        }
        "congestion" => options.congestion = Some(value.extract()?),
        "rate" => options.rate = Some(options::rate(value.extract()?)?),
        "control" => options.control = named(value)?,
        "select" => options.select = Some(named(value)?),
        "background" => options.background = value.extract()?,
        "ack_every" => options.ack_every = Some(at_least_one(name, value.extract()?)?),
        "batch" => options.batch = Some(at_least_one(name, value.extract()?)?),
        "packet_size" => options.packet_size = Some(value.extract()?),
        "stall_timeout" => {
            let day = Duration::from_secs(86_400);
            options.stall_timeout = seconds(value.extract()?)?.unwrap_or(day).min(day);
        }
        "token" => options.token = Some(Token::from(value.extract::<String>()?)),
        "dest_token" => options.dest_token = Some(Token::from(value.extract::<String>()?)),
        "via_here" => options.via_here = value.extract()?,
        "ports" => {
            let (first, last) = value.extract::<(u16, u16)>()?;
            options.ports = Some(first..=last);
        }
        "ssh" => {
            options.ssh_command = value.extract::<String>()?.split_whitespace().map(OsString::from).collect();
        }
        "files_from" => options.files_from = Some(value.extract()?),
        "exclude" => options.files.exclude = value.extract()?,
        "resume" => options.files.resume = value.extract()?,
        "checksum" => options.files.checksum = value.extract()?,
        "delta" => options.files.delta = delta(&value.extract::<String>()?)?,
        "delete" => options.files.delete = value.extract()?,
        "fsync" => options.files.fsync = if value.extract()? { Fsync::Always } else { Fsync::Never },
        "dry_run" => options.files.dry_run = value.extract()?,
        "live" => options.live = Some(value.cast::<LiveControl>()?.get().0.clone()),
        "dscp" => options.dscp = Some(named(value)?),
        "scitag" => options.scitag = Some(named(value)?),
        "firefly" => options.fireflies = Some(Collector::open(named(value)?)?),
        "bind" => options.bind = options::places(name, value)?,
        "paths" => options.paths = paths(&value.extract::<String>()?)?,
        // It comes before what stands beside it.
        "archive" => {}
        _ => return read_kept(&mut options.files.preserve, name, value),
    }
    Ok(())
}

/// What is kept of files beyond contents, permissions and times.
fn read_kept(preserve: &mut Preserve, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let wanted = match name {
        "hard_links" => &mut preserve.hard_links,
        "xattrs" => &mut preserve.xattrs,
        "acls" => &mut preserve.acls,
        "owner" => &mut preserve.owner,
        "group" => &mut preserve.group,
        "devices" => &mut preserve.devices,
        "specials" => &mut preserve.specials,
        "numeric_ids" => &mut preserve.numeric_ids,
        _ => return Err(PyTypeError::new_err(format!("unexpected keyword argument {name:?}"))),
    };
    *wanted = value.extract()?;
    Ok(())
}

fn paths(name: &str) -> PyResult<Paths> {
    Ok(match name {
        "one" => Paths::One,
        "auto" => Paths::Auto,
        _ => return Err(PyValueError::new_err("paths is \"one\" or \"auto\"")),
    })
}

/// Something that the library knows by its name.
fn named<T: FromStr<Err: Display>>(value: &Bound<'_, PyAny>) -> PyResult<T> {
    value.extract::<String>()?.parse().map_err(|error: T::Err| PyValueError::new_err(error.to_string()))
}

fn delta(name: &str) -> PyResult<Delta> {
    Ok(match name {
        "auto" => Delta::Auto,
        "always" => Delta::Always,
        "never" => Delta::Never,
        _ => return Err(PyValueError::new_err("delta is \"auto\", \"always\" or \"never\"")),
    })
}

fn transport(name: &str) -> PyResult<Transport> {
    Ok(match name {
        "auto" => Transport::Auto,
        "object" => Transport::Object,
        "stripe" => Transport::Stripe,
        "ssh" => Transport::Ssh,
        _ => return Err(PyValueError::new_err("transport is \"auto\", \"object\", \"stripe\" or \"ssh\"")),
    })
}

fn at_least_one(name: &str, value: u32) -> PyResult<u32> {
    if value > 0 { Ok(value) } else { Err(PyValueError::new_err(format!("{name} is at least 1"))) }
}
