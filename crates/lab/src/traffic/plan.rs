//! Which real flows stand for those of a scenario.

use crate::error::LabError;
use crate::variants::Variant;
use longhaul_proto::control::ControllerKind;
use longhaul_sim::flow::Protocol;
use longhaul_sim::scenario::{CrossTraffic, Scenario};
use longhaul_sim::traffic::Traffic;

/// Flows of one kind.
pub(crate) struct Source {
    pub(crate) carrier: Carrier,
    /// From right to left.
    pub(crate) is_reverse: bool,
    /// When they come, and how long they are.
    pub(crate) traffic: Traffic,
}

impl Source {
    /// What receivers of the kernel's TCP may advertise at most, where the simulator's keep to less than by themselves.
    pub(crate) fn window_bytes_max(&self) -> Option<u32> {
        let Protocol::Tcp(flow) = &self.traffic.spec.protocol else { return None };
        let bytes = flow.config.receive_buffer;
        let is_limited = bytes < longhaul_proto::tcp::Config::default().receive_buffer;
        is_limited.then(|| u32::try_from(bytes).ok()).flatten()
    }
}

/// What carries a flow.
pub(crate) enum Carrier {
    /// Kernel TCP under a congestion control.
    Tcp {
        /// The kernel's name for it.
        control: String,
        /// It is there as long as this; where there is none, as long as whoever asks for it says.
        _variant: Option<Variant>,
    },
    /// UDP at a rate, in 10⁶ bit/s of whole IP packets.
    Udp(f64),
    /// The simulator's own endpoints over UDP.
    Endpoints,
}

/// What is to flow, or why it cannot.
pub(crate) fn plan(scenario: &Scenario) -> Result<Vec<Source>, LabError> {
    let flows = scenario.cross_traffic().map_err(|bad| LabError::Scenario(bad.to_string()))?;
    let sources = scenario.traffic.iter().zip(flows).map(|(asked, traffic)| {
        let carrier = carrier(asked, &traffic.spec.protocol)?;
        Ok(Source { carrier, is_reverse: asked.reverse, traffic })
    });
    sources.collect()
}

fn carrier(asked: &CrossTraffic, protocol: &Protocol) -> Result<Carrier, LabError> {
    match protocol {
        Protocol::Object(flow) if flow.control == ControllerKind::Fixed => {
            Ok(Carrier::Udp(asked.rate_mbit.unwrap_or(FIXED_MBIT)))
        }
        Protocol::Tcp(flow) if KERNEL_TCPS.contains(&flow.control) => {
            let variant = Variant::require(flow.control.name())?;
            Ok(Carrier::Tcp { control: variant.name().into(), _variant: Some(variant) })
        }
        _ => Ok(Carrier::Endpoints),
    }
}

/// Those that kernels have, or that the lab brings along. Whether this one has them is another question.
const KERNEL_TCPS: [ControllerKind; 7] = [
    ControllerKind::NewReno,
    ControllerKind::Cubic,
    ControllerKind::Bbr,
    ControllerKind::Bic,
    ControllerKind::Scalable,
    ControllerKind::HighSpeed,
    ControllerKind::HTcp,
];
/// As in the simulator, where `rate_mbit` is not given.
const FIXED_MBIT: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(traffic: &str) -> Result<Vec<Source>, LabError> {
        plan(&Scenario::parse(&format!("bottleneck_mbit = 10\nrtt_ms = 10\n{traffic}")).unwrap())
    }

    #[test]
    fn names_become_carriers() {
        let sources = planned(
            "[[traffic]]\ncontrol = 'tcp:newreno'\n[[traffic]]\ncontrol = 'fixed'\nrate_mbit = 3\nreverse = true\n\
             [[traffic]]\ncontrol = 'fixed'",
        )
        .unwrap();
        let carriers: Vec<_> = sources
            .iter()
            .map(|source| match &source.carrier {
                Carrier::Tcp { control, .. } => (control.clone(), source.is_reverse),
                Carrier::Udp(mbit) => (mbit.to_string(), source.is_reverse),
                Carrier::Endpoints => unreachable!("each has a carrier of its own"),
            })
            .collect();
        let expected = [("reno", false), ("3", true), ("100", false)];
        assert_eq!(carriers, expected.map(|(name, is_reverse)| (name.to_owned(), is_reverse)));
    }

    #[test]
    fn what_no_kernel_has_goes_over_udp() {
        for control in ["adaptive", "tcp:adaptive", "udt", "tcp:fixed"] {
            let sources = planned(&format!("[[traffic]]\ncontrol = '{control}'")).unwrap();
            assert!(matches!(sources[..], [Source { carrier: Carrier::Endpoints, .. }]), "{control}");
        }
    }
}
