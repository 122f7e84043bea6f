//! TCP of a host as an experiment wants it, seen from its connections.

use super::measure;
use super::trace;
use crate::watched::{check, side_by_side};
use longhaul_lab::{Lab, LabError, Scenario, Side, TcpSettings};

#[test]
fn windows_without_scaling_are_64_kb() {
    measure(|| {
        let small = TcpSettings { large_windows: Some(false), ..TcpSettings::default() };
        let rate = |settings: &TcpSettings| {
            let lab = lab(settings)?;
            let samples = trace::record(&lab, Some("cubic"), 2.5)?;
            let late = &samples[samples.len() / 2..];
            let (first, last) = (late[0], late[late.len() - 1]);
            let segments = (last.acked - first.acked) / (last.at_s - first.at_s);
            Ok::<f64, String>(segments * 1448.0 * 8e-6)
        };
        // 65 535 bytes each 100 ms.
        let [capped, large] = side_by_side([small, TcpSettings::default()], |settings| rate(&settings))?;
        check((4.5..5.25).contains(&capped), || format!("{capped:.2} Mb/s with small windows"))?;
        check(large > 2.0 * capped, || {
            format!("{large:.2} Mb/s with large ones, {capped:.2} with small ones")
        })
    });
}

#[test]
fn connections_can_be_without_sack() {
    measure(|| {
        for on in [true, false] {
            let lab = lab(&TcpSettings { sack: Some(on), ..TcpSettings::default() })?;
            let samples = trace::record(&lab, None, 0.2)?;
            check(samples.iter().all(|sample| sample.has_sack == on), || format!("asked for {on}"))?;
        }
        Ok(())
    });
}

#[test]
fn buffers_can_be_raised() {
    measure(|| {
        let wanted = TcpSettings {
            congestion_control: Some("reno".into()),
            buffer_bytes_max: Some(50_000_000),
            ..TcpSettings::default()
        };
        let lab = lab(&wanted)?;
        let record = |end| lab.tcp_settings(end).map_err(|error: LabError| error.to_string());
        let (left, right) = (record(Side::Left)?, record(Side::Right)?);
        let value = |name: &str| left.iter().find(|one| one.name == name).map(|one| one.value.clone());
        for name in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
            check(value(name).is_some_and(|sizes| sizes.ends_with(" 50000000")), || format!("{left:?}"))?;
        }
        check(value("net.ipv4.tcp_congestion_control").as_deref() == Some("reno"), || format!("{left:?}"))?;
        check(right.iter().all(|one| !one.value.ends_with("50000000")), || {
            format!("the right host too: {right:?}")
        })
    });
}

/// 50 Mb/s, 100 ms; the settings are the left host's.
fn lab(settings: &TcpSettings) -> Result<Lab, String> {
    let lab = Lab::start(&Scenario::new(50.0, 100.0)).map_err(|error| error.to_string())?;
    lab.set_tcp(Side::Left, settings).map_err(|error| error.to_string())?;
    Ok(lab)
}
