//! The copies that these experiments are made of: FOBS as the paper has it, and longhaul as it is.

use super::host::{BATCH, Batch};
use crate::experiment::{self, Backend};
use crate::lab::figures::{Better, median, median_of_all};
use longhaul_lab::Scenario;
use serde::{Deserialize, Serialize};

/// A copy by FOBS's rules: greedy, over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fobs {
    /// F: new packets per acknowledgement.
    pub(super) ack_every: u32,
    /// B: packets sent between two looks for an acknowledgement.
    pub(super) batch: Batch,
    /// UDP payload, with the few bytes that longhaul's own header and seal take.
    pub(super) packet_len: u32,
    /// Which unacknowledged packet goes next.
    pub(super) select: &'static str,
}

impl Default for Fobs {
    fn default() -> Fobs {
        Fobs { ack_every: 64, batch: Batch::Packets(BATCH), packet_len: PACKET_LEN, select: CIRCULAR }
    }
}

impl Fobs {
    /// As the program has it.
    ///
    /// # Panics
    /// If B is no number: only the simulator has such senders.
    pub(super) fn args(&self) -> Vec<String> {
        let Batch::Packets(batch) = self.batch else { panic!("the program has no {:?}", self.batch) };
        let numbers =
            [("--ack-every", self.ack_every), ("--batch", batch), ("--packet-size", self.packet_len)];
        let names = [("--transport", "object"), ("--control", "greedy"), ("--select", self.select)];
        let numbers = numbers.into_iter().flat_map(|(flag, number)| [flag.to_owned(), number.to_string()]);
        names.into_iter().flat_map(|(flag, name)| [flag.to_owned(), name.to_owned()]).chain(numbers).collect()
    }
}

/// What a copy takes beside its data: the program's start, the handshake, the check.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub(super) runs: Runs,
    pub(super) rtt_s: f64,
}

impl Session {
    /// No copy of next to nothing was done.
    pub(super) fn is_unknown(&self) -> bool {
        self.seconds().is_none()
    }

    /// What a copy of next to nothing takes, less the round trip in which the data goes there and the word that it has
    /// come goes back: the paper's transfers have that too.
    fn seconds(&self) -> Option<f64> {
        let seconds = median(self.runs.done.iter().map(|copied| copied.seconds).collect());
        seconds.map(|seconds| (seconds - self.rtt_s).max(0.0))
    }
}

/// What came of a copy.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Done {
    /// From program start to verified completion; in the simulator until the sender knows that all is there.
    pub(super) seconds: f64,
    /// 10⁶ bit/s of the file's bytes over these.
    pub(super) goodput_mbps: f64,
    /// (sent − required) / required.
    pub(super) waste: f64,
}

/// Copies of a kind, repeated.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    pub(super) done: Vec<Done>,
    pub(super) failures: Vec<String>,
}

impl Runs {
    /// What all copies came to.
    pub(super) fn of(done: Done) -> Runs {
        Runs { done: vec![done], failures: vec![] }
    }

    /// A simulated copy that never came to its end.
    pub(super) fn without_end(why: impl Into<String>) -> Runs {
        Runs { done: vec![], failures: vec![why.into()] }
    }

    /// A single copy.
    #[cfg(test)]
    pub(super) fn one(goodput_mbps: f64, waste: f64) -> Runs {
        Runs::of(Done { seconds: 1.0, goodput_mbps, waste })
    }

    /// The median; a copy that came to nothing is worse than all that did not.
    fn median(&self, values: Vec<f64>, better: Better) -> Option<f64> {
        median_of_all(values, self.failures.len(), better)
    }

    /// The median of goodputs.
    pub(super) fn goodput_mbps(&self) -> Option<f64> {
        self.median(self.done.iter().map(|copied| copied.goodput_mbps).collect(), Better::More)
    }

    /// The median of goodputs, as a share of this rate.
    pub(super) fn share(&self, mbit: f64) -> Option<f64> {
        self.goodput_mbps().map(|goodput| goodput / mbit)
    }

    /// The median of the rates at which so many bytes moved once the session was there, as a share of `mbit`. A copy that
    /// took no longer than a session says nothing: the host was busy with other things in one of the two.
    pub(super) fn data_share(&self, mbit: f64, bytes: u64, session: &Session) -> Option<f64> {
        let beside_s = session.seconds()?;
        let data_s =
            self.done.iter().map(|copied| copied.seconds - beside_s).filter(|seconds| *seconds > 0.0);
        self.median(data_s.map(|seconds| bytes as f64 * 8e-6 / seconds / mbit).collect(), Better::More)
    }

    /// The median of wastes.
    pub(super) fn waste(&self) -> Option<f64> {
        self.median(self.done.iter().map(|copied| copied.waste).collect(), Better::Less)
    }
}

/// What to say of copies that came to nothing.
pub(super) fn failures<'a>(runs: impl IntoIterator<Item = &'a Runs>) -> Option<String> {
    let failures: Vec<&str> = runs.into_iter().flat_map(|runs| &runs.failures).map(String::as_str).collect();
    (!failures.is_empty())
        .then(|| format!("What came to nothing, and counts as the worst: {}.", failures.join("; ")))
}

/// A share in words; of nothing, too.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or("nothing".into(), |share| format!("{:.1} %", share * 100.0))
}

/// What keeps a path from being one's own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Contention {
    /// A share of packets is lost at random, over emulated paths.
    Loss,
    /// Others ask for a share of the network, in the simulator.
    Load,
}

impl Contention {
    pub(super) fn of(backend: &Backend<'_>) -> Contention {
        backend.choose(Contention::Load, Contention::Loss)
    }

    /// What its column is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Contention::Loss => "loss",
            Contention::Load => "others",
        }
    }

    /// So much of it, in words.
    pub(super) fn text(self, share: f64) -> String {
        match self {
            Contention::Loss => format!("{} loss", loss_text(share)),
            Contention::Load => format!("others asking for {:.0} %", share * 100.0),
        }
    }
}

/// A share of packets that are lost, with as many digits as it was given with.
pub(super) fn loss_text(share: f64) -> String {
    format!("{} %", (share * 1e8).round() / 1e6)
}

/// From ANL's desktop computer: its 100 Mb/s card is the narrowest place (FOBS §4, §5). Behind it an OC-3, which a sender
/// of 100 Mb/s cannot fill.
pub(super) fn desktop_path(haul: &str, rtt_ms: f64) -> Scenario {
    Scenario { name: format!("{haul} haul"), rtt_ms, ..experiment::path("fobs-nic") }
}

/// What these paths and copies have in common, for a report's method.
pub(super) fn method(backend: &Backend<'_>, bytes: u64) -> Vec<String> {
    let path = format!(
        "{:.1} MB; the sending host's card of {CARD_MBIT} Mb/s is the narrowest place and holds a greedy sender back, the \
         network behind it is an OC-3 ({OC3_MBIT} Mb/s). Shares are of the {CARD_MBIT} Mb/s that the card carries of whole IP \
         packets. Waste: (sent − required) / required.",
        bytes as f64 / 1e6
    );
    let how = backend.choose(
        "Hosts are ours, the paper gives no costs: 40 µs and 10 ns a byte for a datagram, 10 µs for a look, which takes in all \
         acknowledgements that have come, 500 µs to make an acknowledgement, receive buffers of 8 KiB."
            .to_owned(),
        format!(
            "A file; goodput: its bytes over the time from program start to verified completion; sealed. FOBS is longhaul cp \
             {}: of the {PACKET_LEN} bytes of UDP payload the header and seal are longhaul's.",
            Fobs::default().args().join(" ")
        ),
    );
    vec![path, how]
}

/// Why nothing is said of a claim on longhaul's default.
pub(super) const NO_DEFAULT: &str = "only over real sockets";
/// The card of the paper's sending host, 10⁶ bit/s.
pub(super) const CARD_MBIT: f64 = 100.0;
/// OC-3, 10⁶ bit/s.
pub(super) const OC3_MBIT: f64 = 155.52;
/// ANL–LCSE and ANL–CACR (FOBS §4).
pub(super) const SHORT: (&str, f64) = ("short", 26.0);
pub(super) const LONG: (&str, f64) = ("long", 65.0);
/// 40 MB (FOBS §4).
pub(super) const OBJECT_BYTES: u64 = 40 << 20;
/// FOBS §4.
pub(super) const PACKET_LEN: u32 = 1024;
/// FOBS §3.1.1: nothing twice before all else went once.
pub(super) const CIRCULAR: &str = "circular-strict";
/// A copy of next to nothing.
pub(super) const EMPTY_BYTES: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fobs_is_told_apart_from_the_default_by_its_options_alone() {
        let args = Fobs { ack_every: 16, ..Fobs::default() }.args().join(" ");
        assert_eq!(
            args,
            "--transport object --control greedy --select circular-strict --ack-every 16 --batch 2 --packet-size 1024"
        );
    }

    #[test]
    fn the_data_alone_moves_in_what_is_left_beside_the_session() {
        let mut session = Session { rtt_s: 0.05, ..Session::default() };
        let copy =
            |seconds| Runs { done: vec![Done { seconds, ..Runs::one(0.0, 0.0).done[0] }], failures: vec![] };
        assert_eq!(copy(1.3).data_share(100.0, 10_000_000, &session), None, "no session was measured");
        session.runs = copy(0.35);
        let share = copy(1.3).data_share(100.0, 10_000_000, &session);
        assert!(share.is_some_and(|share| (share - 0.8).abs() < 1e-9), "{share:?}");
        assert_eq!(copy(0.25).data_share(100.0, 10_000_000, &session), None, "not a negative rate");
    }

    #[test]
    fn what_failed_is_named_and_counts_as_the_worst() {
        let mut runs = Runs::default();
        assert_eq!((runs.goodput_mbps(), runs.share(100.0), failures([&runs])), (None, None, None));
        runs.failures.push("longhaul cp: no".into());
        assert_eq!(runs.waste(), None);
        assert_eq!(
            failures([&runs, &runs]).as_deref(),
            Some("What came to nothing, and counts as the worst: longhaul cp: no; longhaul cp: no.")
        );
        let lucky = Runs { failures: vec!["no".into(); 2], ..Runs::one(90.0, 0.01) };
        assert_eq!((lucky.goodput_mbps(), lucky.waste()), (None, None), "one of three");
        let mut two = Runs { failures: vec!["no".into()], ..Runs::one(90.0, 0.01) };
        two.done.extend(Runs::one(80.0, 0.05).done);
        assert_eq!((two.goodput_mbps(), two.waste()), (Some(80.0), Some(0.05)), "two of three");
    }
}
