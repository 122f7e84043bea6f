//! TCP as an experiment wants it on a host, and as it then was.

use crate::error::LabError;
use crate::lab::Lab;
use crate::place::Place;

/// How the kernel's TCP is to behave on a host; what is `None` stays as it is. Holds for connections made from then on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpSettings {
    /// Congestion control of programs that choose none.
    pub congestion_control: Option<String>,
    /// Selective acknowledgements (RFC 2018). One host without them suffices.
    pub sack: Option<bool>,
    /// Windows above 65 535 bytes (RFC 7323, window scaling). Without them both ways have the papers' "64 KB window"; one
    /// host suffices.
    pub large_windows: Option<bool>,
    /// Explicit congestion notification, asked for and granted (RFC 3168). Both hosts need it.
    pub ecn: Option<bool>,
    /// How large the kernel may make the buffers of a connection, each way. What share of it becomes window the
    /// kernel learns from the packets that come: half of it at first. A flow of [`Lab::flows`] keeps to a window by itself.
    pub buffer_bytes_max: Option<u32>,
}

/// A kernel setting and its value, for the record of what was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its dotted name.
    pub name: &'static str,
    /// As the kernel tells it, with single spaces.
    pub value: String,
}

impl Lab {
    /// Set TCP up on that host.
    pub fn set_tcp(&self, on: impl Into<Place>, settings: &TcpSettings) -> Result<(), LabError> {
        let place = on.into();
        let set = |name: &str, value: &str| self.set_sysctl(place, name, value);
        if let Some(control) = &settings.congestion_control {
            set(CONGESTION_CONTROL, control)?;
        }
        for (name, wanted) in [
            (SACK, settings.sack),
            (DSACK, settings.sack),
            (SCALING, settings.large_windows),
            (ECN, settings.ecn),
        ] {
            if let Some(on) = wanted {
                set(name, if on { "1" } else { "0" })?;
            }
        }
        if let Some(bytes_max) = settings.buffer_bytes_max {
            for name in [RECEIVE_BUFFER, SEND_BUFFER] {
                set(name, &with_most(&self.sysctl(place, name)?, bytes_max))?;
            }
        }
        Ok(())
    }

    /// How TCP is set up on that host: all that [`TcpSettings`] can change, changed or not.
    pub fn tcp_settings(&self, of: impl Into<Place>) -> Result<Vec<Setting>, LabError> {
        let place = of.into();
        let read = |name: &'static str| Ok(Setting { name, value: self.sysctl(place, name)? });
        [CONGESTION_CONTROL, SACK, DSACK, SCALING, ECN, RECEIVE_BUFFER, SEND_BUFFER]
            .into_iter()
            .map(read)
            .collect()
    }
}

/// A buffer's least, first and greatest size with another greatest one.
fn with_most(sizes: &str, bytes_max: u32) -> String {
    let below = sizes.split_whitespace().take(2).filter_map(|size| size.parse::<u32>().ok());
    let sizes: Vec<String> =
        below.map(|size| size.min(bytes_max)).chain([bytes_max]).map(|size| size.to_string()).collect();
    sizes.join(" ")
}

const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";
const SACK: &str = "net.ipv4.tcp_sack";
const DSACK: &str = "net.ipv4.tcp_dsack";
const SCALING: &str = "net.ipv4.tcp_window_scaling";
const ECN: &str = "net.ipv4.tcp_ecn";
const RECEIVE_BUFFER: &str = "net.ipv4.tcp_rmem";
const SEND_BUFFER: &str = "net.ipv4.tcp_wmem";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_sizes_follow_a_small_greatest_one() {
        assert_eq!(with_most("4096\t131072\t6291456", 16_000_000), "4096 131072 16000000");
        assert_eq!(with_most("4096\t131072\t6291456", 65_536), "4096 65536 65536");
    }
}
