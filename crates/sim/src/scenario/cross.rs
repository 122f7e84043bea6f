//! Flows that share the path.

use super::Scenario;
use super::checks::{InvalidField, RATE_MAX_MBIT, TIME_MAX_S, not_negative, positive, refuse};
use crate::ids::Side;
use crate::protocol::{ENDLESS, FlowSpec, Protocol};
use crate::quantities::rate;
use crate::traffic::{Arrivals, Distribution, Traffic};
use longhaul_proto::units::{Rate, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Flows that share the path with those under test.
///
/// Without further fields `count` flows begin at `start_s` and go on. `load` makes it a random stream of flows of
/// `bytes`, `on_s` and `off_s` make each of the `count` a source that is on and off in turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CrossTraffic {
    /// By what protocol: a controller's name for an object transfer, `tcp:` and a controller's name for a TCP.
    pub control: String,
    /// How many flows, or sources.
    pub count: u32,
    /// When the first begins, in seconds.
    pub start_s: f64,
    /// Between the beginnings of two, in seconds; for flows that begin once.
    pub stagger_s: f64,
    /// When all end at the latest, in seconds.
    pub stop_s: Option<f64>,
    /// Bytes of each flow (their mean where `bytes_shape` is given); absent: endless.
    pub bytes: Option<u64>,
    /// Lengths are Pareto-distributed with this shape, above 1.
    pub bytes_shape: Option<f64>,
    /// Flows come at random so often that they fill this share of the bottleneck.
    pub load: Option<f64>,
    /// With `load`: gaps are Pareto-distributed with this shape, above 1, instead of exponentially.
    pub gap_shape: Option<f64>,
    /// Mean seconds that a source is on; each time on is a flow.
    pub on_s: Option<f64>,
    /// Mean seconds that a source is off.
    pub off_s: Option<f64>,
    /// On and off times are Pareto-distributed with this shape, above 1, instead of exponentially.
    pub on_off_shape: Option<f64>,
    /// What `fixed` and `rbudp` send at, in 10⁶ bit/s.
    pub rate_mbit: Option<f64>,
    /// The data goes from right to left.
    pub reverse: bool,
}

impl Default for CrossTraffic {
    fn default() -> CrossTraffic {
        CrossTraffic {
            control: String::new(),
            count: 1,
            start_s: 0.0,
            stagger_s: 0.0,
            stop_s: None,
            bytes: None,
            bytes_shape: None,
            load: None,
            gap_shape: None,
            on_s: None,
            off_s: None,
            on_off_shape: None,
            rate_mbit: None,
            reverse: false,
        }
    }
}

impl CrossTraffic {
    /// As traffic over the path of a valid scenario, in the background.
    pub fn traffic(&self, scenario: &Scenario) -> Result<Traffic, InvalidField> {
        let spec = FlowSpec {
            from: if self.reverse { Side::Right } else { Side::Left },
            ..FlowSpec::new(self.protocol()?, self.bytes.unwrap_or(ENDLESS))
        };
        let sizes = self.bytes.zip(self.bytes_shape);
        Ok(Traffic {
            sizes: sizes.map(|(mean, shape)| Distribution::Pareto { shape, mean: mean as f64 }),
            stop: self.stop_s.map(time),
            is_background: true,
            remembers: false,
            ..Traffic::new(spec, self.arrivals(rate(scenario.bottleneck_mbit)))
        })
    }

    fn protocol(&self) -> Result<Protocol, InvalidField> {
        let mut protocol: Protocol = self.control.parse().map_err(|reason| InvalidField {
            entry: None,
            field: "control",
            reason: format!("is unknown: {reason}"),
        })?;
        let named = self.rate_mbit.map(rate);
        match &mut protocol {
            Protocol::Object(flow) => flow.rate = named,
            Protocol::Tcp(flow) => flow.rate = named,
        }
        Ok(protocol)
    }

    fn arrivals(&self, bottleneck: Rate) -> Arrivals {
        let from = time(self.start_s);
        let until = self.stop_s.map_or(Time::MAX, time);
        let random = |mean: f64, shape: Option<f64>| match shape {
            Some(shape) => Distribution::Pareto { shape, mean },
            None => Distribution::Exponential { mean },
        };
        if let (Some(load), Some(bytes)) = (self.load, self.bytes) {
            let mean_gap_s = bytes as f64 * 8.0 / (load * bottleneck.0 as f64);
            return Arrivals::Random { from, until, gap_s: random(mean_gap_s, self.gap_shape), batch: 1 };
        }
        let sources = u64::from(self.count);
        if let (Some(on_s), Some(off_s)) = (self.on_s, self.off_s) {
            let [on_s, off_s] = [on_s, off_s].map(|mean| random(mean, self.on_off_shape));
            return Arrivals::OnOff { from, until, on_s, off_s, sources };
        }
        Arrivals::Staggered { from, gap: Duration::from_secs_f64(self.stagger_s), count: sources }
    }

    pub(super) fn validate(&self) -> Result<(), InvalidField> {
        if self.control.is_empty() {
            return refuse("control", "is missing; name a controller, or tcp: and a controller");
        }
        let control = match self.protocol()? {
            Protocol::Object(flow) => flow.control,
            Protocol::Tcp(flow) => flow.control,
        };
        if self.count == 0 {
            return refuse("count", "must be at least 1");
        }
        not_negative("start_s", self.start_s, TIME_MAX_S)?;
        not_negative("stagger_s", self.stagger_s, TIME_MAX_S)?;
        if let Some(stop_s) = self.stop_s
            && !(stop_s > self.start_s && stop_s <= TIME_MAX_S)
        {
            return refuse("stop_s", format!("must come after start_s, not at {stop_s}"));
        }
        if let Some(mbit) = self.rate_mbit {
            positive("rate_mbit", mbit, RATE_MAX_MBIT)?;
            if !control.needs_rate() {
                let reason = format!("goes with fixed or rbudp; {} finds its rate by itself", self.control);
                return refuse("rate_mbit", reason);
            }
        }
        if self.bytes == Some(0) {
            return refuse("bytes", "must be at least 1; leave it out for endless flows");
        }
        self.validate_random()
    }

    fn validate_random(&self) -> Result<(), InvalidField> {
        if let Some(load) = self.load {
            positive("load", load, LOAD_MAX)?;
            if self.bytes.is_none() {
                return refuse("load", "needs bytes, the length of a flow");
            }
            if self.count != 1 {
                return refuse("count", "cannot stand beside load, which says how many flows come");
            }
        }
        if self.stagger_s > 0.0 && (self.load.is_some() || self.on_s.is_some()) {
            return refuse("stagger_s", "cannot stand beside load or on_s, which say when flows begin");
        }
        for (field, mean_s, other) in [("on_s", self.on_s, self.off_s), ("off_s", self.off_s, self.on_s)] {
            let Some(mean_s) = mean_s else { continue };
            positive(field, mean_s, TIME_MAX_S)?;
            if other.is_none() {
                return refuse(field, "stands alone; give both on_s and off_s");
            }
            if self.load.is_some() {
                return refuse(field, "cannot stand beside load; give one of the two");
            }
        }
        for (field, shape, needs, is_there) in [
            ("bytes_shape", self.bytes_shape, "bytes", self.bytes.is_some()),
            ("gap_shape", self.gap_shape, "load", self.load.is_some()),
            ("on_off_shape", self.on_off_shape, "on_s and off_s", self.on_s.is_some()),
        ] {
            let Some(shape) = shape else { continue };
            if !(shape > 1.0 && shape <= SHAPE_MAX) {
                let reason =
                    format!("must be above 1 (or there is no mean) and at most {SHAPE_MAX}, not {shape}");
                return refuse(field, reason);
            }
            if !is_there {
                return refuse(field, format!("needs {needs}"));
            }
        }
        Ok(())
    }
}

fn time(seconds: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(seconds)
}

/// Ten times what the bottleneck carries: more would only pile up flows.
const LOAD_MAX: f64 = 10.0;
/// Where a Pareto distribution is all but constant.
const SHAPE_MAX: f64 = 1000.0;
