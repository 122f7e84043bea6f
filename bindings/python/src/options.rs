//! How to connect and listen, as keyword arguments say it.

use crate::waiting::seconds;
use longhaul::Rate;
use longhaul_stripe::{LocalEnd, Streams, StripeOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Read `streams`, `key`, `plain`, and the keywords for experts.
pub fn read(
    streams: Option<&Bound<'_, PyAny>>,
    key: Option<&Bound<'_, PyAny>>,
    plain: bool,
    others: Option<&Bound<'_, PyDict>>,
) -> PyResult<StripeOptions> {
    let mut options = StripeOptions::new();
    if let Some(streams) = streams {
        options = options.streams(count(streams)?);
    }
    if let Some(key) = key {
        options = options.key(&secret(key)?);
    }
    if plain {
        options = options.plain();
    }
    for (name, value) in others.into_iter().flatten() {
        options = other(options, &name.extract::<String>()?, &value)?;
    }
    Ok(options)
}

/// `"auto"` or how many.
pub fn count(streams: &Bound<'_, PyAny>) -> PyResult<Streams> {
    if let Ok(text) = streams.extract::<String>()
        && text == "auto"
    {
        return Ok(Streams::Auto);
    }
    match streams.extract() {
        Ok(count @ 1..=64) => Ok(Streams::Fixed(count)),
        _ => Err(PyValueError::new_err("streams is \"auto\" or a number from 1 to 64")),
    }
}

/// Text or bytes, at least one.
fn secret(key: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let bytes = match key.extract::<String>() {
        Ok(text) => text.into_bytes(),
        Err(_) => key
            .extract::<Vec<u8>>()
            .map_err(|_| PyTypeError::new_err("the key is bytes or a str, or None for none"))?,
    };
    if bytes.is_empty() {
        return Err(PyValueError::new_err("an empty key keeps nobody out; None stands for no key"));
    }
    Ok(bytes)
}

/// One place on this host or several, as the option of that name has them.
pub fn places(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<LocalEnd>> {
    let names = match value.extract::<String>() {
        Ok(one) => vec![one],
        Err(_) => value
            .extract::<Vec<String>>()
            .map_err(|_| PyTypeError::new_err(format!("{name} is a str or a sequence of them")))?,
    };
    if names.iter().any(String::is_empty) {
        return Err(PyValueError::new_err("a local end is an address or the name of a network interface"));
    }
    Ok(names.iter().map(|name| LocalEnd::from(name.as_str())).collect())
}

fn other(options: StripeOptions, name: &str, value: &Bound<'_, PyAny>) -> PyResult<StripeOptions> {
    let span = || {
        let missing = || PyValueError::new_err(format!("{name} is a number of seconds"));
        seconds(value.extract()?)?.ok_or_else(missing)
    };
    Ok(match name {
        "window" => options.window(value.extract()?),
        "local_ends" => options.local_ends(places(name, value)?),
        "congestion" => options.congestion(value.extract::<String>()?),
        "nodelay" => options.nodelay(value.extract()?),
        "buffer" => options.buffer(value.extract()?),
        "patience" => options.patience(span()?),
        "stall_timeout" => options.stall_timeout(span()?),
        "remember" => options.remember(value.extract()?),
        _ => return Err(PyTypeError::new_err(format!("unexpected keyword argument {name:?}"))),
    })
}

/// Bits per second.
pub fn rate(bits_per_second: f64) -> PyResult<Rate> {
    if bits_per_second.is_finite() && bits_per_second >= 1.0 {
        return Ok(Rate(bits_per_second as u64));
    }
    Err(PyValueError::new_err("rate is a number of bits per second, at least 1"))
}
