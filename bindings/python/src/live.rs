//! A hand on a copy while it runs.

use crate::options;
use longhaul::schedule::Schedule;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::fmt::Display;
use std::sync::Arc;

/// See the [module](self).
#[pyclass(frozen, module = "longhaul")]
pub struct LiveControl(pub Arc<longhaul::LiveControl>);

#[pymethods]
impl LiveControl {
    #[new]
    #[pyo3(signature = (rate=None))]
    fn new(rate: Option<f64>) -> PyResult<LiveControl> {
        Ok(LiveControl(Arc::new(longhaul::LiveControl::new(schedule(rate)?))))
    }

    #[getter]
    fn rate(&self) -> Option<f64> {
        self.0.pace().rate.map(|rate| rate.0 as f64)
    }

    #[setter]
    fn set_rate(&self, rate: Option<f64>) -> PyResult<()> {
        self.0.change_rates(schedule(rate)?).map_err(refused)
    }

    #[getter]
    fn paused(&self) -> bool {
        self.0.pace().paused
    }

    fn pause(&self) -> PyResult<()> {
        self.0.pause().map_err(refused)
    }

    fn resume(&self) {
        self.0.resume();
    }

    fn __repr__(&self) -> String {
        let rate = self.rate().map_or("none".into(), |bps| format!("{bps} bit/s"));
        format!("<longhaul.LiveControl rate {rate}{}>", if self.paused() { ", paused" } else { "" })
    }
}

fn schedule(rate: Option<f64>) -> PyResult<Schedule> {
    Ok(Schedule::always(rate.map(options::rate).transpose()?))
}

fn refused(error: impl Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
