//! What the kernel's tables tell of a host's sockets: whether programs wait for others, and what they were too late for.

use std::fs;

/// By what a program is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Whether a socket of this thread's host waits for anybody: at that port, or at any.
pub(crate) fn listens(wire: Wire, port: Option<u16>) -> bool {
    let name = if wire == Wire::Tcp { "tcp" } else { "udp" };
    let read = |family| fs::read_to_string(format!("/proc/thread-self/net/{name}{family}"));
    ["", "6"].into_iter().filter_map(|family| read(family).ok()).any(|table| has(&table, wire, port))
}

/// Whether such a table has one.
fn has(table: &str, wire: Wire, port: Option<u16>) -> bool {
    let state = if wire == Wire::Tcp { LISTENING } else { WITHOUT_PEER };
    let port = port.map_or(":".into(), |port| format!(":{port:04X}"));
    table.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_there = fields.get(1).is_some_and(|local| local.contains(&port));
        is_there && fields.get(3) == Some(&state)
    })
}

/// Datagrams that were dropped because the socket at that port of this thread's host had no room; none where the kernel does
/// not tell.
pub(crate) fn datagrams_dropped(port: u16) -> u64 {
    let table = fs::read_to_string("/proc/thread-self/net/udp").unwrap_or_default();
    dropped(&table, port)
}

fn dropped(table: &str, port: u16) -> u64 {
    let port = format!(":{port:04X}");
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_port = lines.filter(|fields| fields.get(1).is_some_and(|local| local.ends_with(&port)));
    of_port.filter_map(|fields| fields.get(DROPS)?.parse::<u64>().ok()).sum()
}

/// Its place in a line.
const DROPS: usize = 12;
/// `TCP_LISTEN` in the kernel's tables (include/net/tcp_states.h).
const LISTENING: &str = "0A";
/// `TCP_CLOSE`, which is that of a UDP socket that is connected to nobody.
const WITHOUT_PEER: &str = "07";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_found_in_the_kernels_tables() {
        let tcp = "  sl  local_address rem_address   st\n   0: 0200490A:0016 00000000:0000 0A 00000000:00000000\n   \
                   1: 0200490A:0369 0100490A:9C40 01 00000000:00000000\n";
        assert!(has(tcp, Wire::Tcp, Some(22)) && has(tcp, Wire::Tcp, None));
        assert!(!has(tcp, Wire::Tcp, Some(873)), "that one is a connection");
        assert!(!has(tcp, Wire::Tcp, Some(2)));
        let udp =
            "  sl  local_address rem_address   st\n  99: 00000000:0414 00000000:0000 07 00000000:00000000\n";
        assert!(has(udp, Wire::Udp, Some(1044)) && has(udp, Wire::Udp, None));
        assert!(!has(udp.lines().next().unwrap(), Wire::Udp, None), "there is but the headline");
    }

    #[test]
    fn drops_are_those_of_the_port() {
        let line = |port: &str, drops: u64| {
            format!(
                "  12: 0100007F:{port} 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1893 2 \
                 0000000000000000 {drops}\n"
            )
        };
        let table = "  sl  local_address rem_address   st\n".to_owned() + &line("0414", 7) + &line("1414", 9);
        assert_eq!([1044, 5140, 1].map(|port| dropped(&table, port)), [7, 9, 0]);
    }
}
