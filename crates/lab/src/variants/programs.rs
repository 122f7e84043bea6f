//! Our congestion controls: their names and sources.

/// What the names of our programs begin with, so that they are told from the kernel's own.
pub const PREFIX: &str = "lh_";

/// A congestion control as a BPF program.
#[derive(Debug)]
pub(super) struct Program {
    /// As the kernel will list it.
    pub(super) name: &'static str,
    /// What the kernel calls its own.
    pub(super) kernel_name: &'static str,
    /// What the simulator calls it.
    simulator_name: &'static str,
    pub(super) source: &'static str,
}

/// What all sources include.
pub(super) const HEADER: Source = Source { file: "lh.h", text: include_str!("../../bpf/lh.h") };

/// A source and the name under which others include it.
pub(super) struct Source {
    pub(super) file: &'static str,
    pub(super) text: &'static str,
}

const PROGRAMS: [Program; 3] = [
    Program {
        name: "lh_scalable",
        kernel_name: "scalable",
        simulator_name: "scalable",
        source: include_str!("../../bpf/scalable.c"),
    },
    Program {
        name: "lh_hstcp",
        kernel_name: "highspeed",
        simulator_name: "hstcp",
        source: include_str!("../../bpf/hstcp.c"),
    },
    Program {
        name: "lh_htcp",
        kernel_name: "htcp",
        simulator_name: "htcp",
        source: include_str!("../../bpf/htcp.c"),
    },
];

/// By any of its names.
pub(super) fn find(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|one| [one.name, one.kernel_name, one.simulator_name].contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ours_and_fit_the_kernel() {
        for program in &PROGRAMS {
            // The kernel cuts names of BPF maps at 15 characters; bpftool finds the program by it.
            assert!(program.name.starts_with(PREFIX) && program.name.len() <= 15, "{}", program.name);
            assert!(program.source.contains(&format!(".name = \"{}\"", program.name)), "{}", program.name);
            for name in [program.name, program.kernel_name, program.simulator_name] {
                assert_eq!(find(name).map(|one| one.name), Some(program.name));
            }
        }
    }

    /// Rows of the table in the source of HighSpeed TCP, unscaled.
    fn table() -> Vec<(f64, f64)> {
        let source = find("hstcp").unwrap().source;
        let (_, rest) = source.split_once("table[] = {").unwrap();
        let (rows, _) = rest.split_once("};").unwrap();
        let numbers: Vec<f64> = rows
            .split(|c: char| !c.is_ascii_digit())
            .filter(|text| !text.is_empty())
            .map(|text| text.parse::<f64>().unwrap() / 1024.0)
            .collect();
        numbers.chunks_exact(2).map(|row| (row[0], row[1])).collect()
    }

    /// RFC 3649, Appendix B: window, a(w), b(w) to two places.
    const APPENDIX_B: [(f64, f64, f64); 12] = [
        (38.0, 1.0, 0.50),
        (118.0, 2.0, 0.44),
        (221.0, 3.0, 0.41),
        (495.0, 5.0, 0.37),
        (1058.0, 8.0, 0.33),
        (2378.0, 13.0, 0.28),
        (5036.0, 20.0, 0.25),
        (10_661.0, 30.0, 0.21),
        (24_402.0, 45.0, 0.16),
        (38_992.0, 55.0, 0.14),
        (61_799.0, 65.0, 0.12),
        (79_517.0, 70.0, 0.10),
    ];

    #[test]
    fn table_of_highspeed_tcp_agrees_with_the_rfcs() {
        let table = table();
        assert_eq!(table.len(), 49);
        // As the program looks it up: four rows for each doubling from 32 on.
        let look_up = |window: f64| {
            let doublings = (window / 32.0).log2().floor();
            let whole = 8.0 * doublings.exp2();
            let at = (doublings * 4.0 + (window / whole).floor() - 4.0) as usize;
            let way = window % whole / whole;
            let between =
                |of: fn(&(f64, f64)) -> f64| of(&table[at]) * (1.0 - way) + of(&table[at + 1]) * way;
            (between(|row| row.0), between(|row| row.1))
        };
        for (window, a, b) in APPENDIX_B {
            let (increase, decrease) = look_up(window);
            assert!((increase / a - 1.0).abs() < 0.02, "a({window}) = {increase}");
            assert!((decrease - b).abs() < 0.0055, "b({window}) = {decrease}");
        }
    }
}
