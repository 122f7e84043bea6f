//! How the hosts that programs copy between are set up.

use std::fs;

/// What the lab's hosts give to programs that choose none: this one where a host may be set to it.
///
/// A network namespace may have what its kernel allows to everybody, or what it was made with.
pub(crate) fn host_congestion_control(wanted: &str) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    choose(wanted, &read("tcp_allowed_congestion_control"), read("tcp_congestion_control").trim())
}

fn choose(wanted: &str, allowed: &str, default: &str) -> String {
    let is_allowed = allowed.split_whitespace().any(|name| name == wanted);
    if is_allowed { wanted.into() } else { default.into() }
}

/// More than two bandwidth-delay products of every path here.
pub(crate) const TCP_BUFFER_BYTES_MAX: u32 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_get_what_everybody_may_have_or_keep_what_they_came_with() {
        assert_eq!(choose("bbr", "reno bbr", "cubic"), "bbr");
        assert_eq!(choose("bbr", "reno cubic", "cubic"), "cubic");
        assert_eq!(choose("cubic", "reno bbr", "bbr"), "bbr");
    }
}
