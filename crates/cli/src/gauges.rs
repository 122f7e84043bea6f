//! The figures of single transfers as metrics: of those that a daemon serves, and of a copy for its own file.

use longhaul::{Limit, Progress};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

/// Which transfer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Transfer {
    transfer: String,
}

impl Transfer {
    /// Told by this.
    pub fn named(name: &str) -> Transfer {
        Transfer { transfer: name.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Limited {
    transfer: String,
    limit: &'static str,
}

type Count = Family<Transfer, Gauge>;
type Measure = Family<Transfer, Gauge<f64, AtomicU64>>;

/// What is told of each transfer.
#[derive(Default)]
pub struct TransferGauges {
    done_bytes: Count,
    size_bytes: Count,
    done_files: Count,
    files: Count,
    rate: Count,
    rtt: Measure,
    loss: Measure,
    limited: Family<Limited, Gauge<f64, AtomicU64>>,
}

impl TransferGauges {
    /// Under names that the registry's prefix stands before.
    pub fn register(registry: &mut Registry) -> TransferGauges {
        let all = TransferGauges::default();
        registry.register("done_bytes", "Data bytes that the receiver has", all.done_bytes.clone());
        let help = "Data bytes in all, as far as they are listed; of a pipe nobody knows";
        registry.register("size_bytes", help, all.size_bytes.clone());
        registry.register("done_files", "Regular files that are in place", all.done_files.clone());
        registry.register("files", "Regular files in all, as far as they are listed", all.files.clone());
        let help = "Data moved at present, bits per second";
        registry.register("rate_bits_per_second", help, all.rate.clone());
        registry.register("rtt_seconds", "Smoothed round trip", all.rtt.clone());
        registry.register("loss_ratio", "Share of datagrams lost lately, 0 to 1", all.loss.clone());
        registry.register("limited_seconds", "For how long each limit has held it back", all.limited.clone());
        all
    }

    /// How far a transfer is.
    pub fn set(&self, transfer: &Transfer, progress: &Progress) {
        let count = |family: &Count, value: u64| {
            family.get_or_create(transfer).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        count(&self.done_bytes, progress.bytes_done);
        if progress.bytes_total > 0 {
            count(&self.size_bytes, progress.bytes_total);
        }
        progress.files_done.into_iter().for_each(|files| count(&self.done_files, files));
        count(&self.files, progress.files_total);
        count(&self.rate, progress.goodput.0);
        self.rtt.get_or_create(transfer).set(progress.rtt.as_secs_f64());
        self.loss.get_or_create(transfer).set(progress.loss);
        for (limit, span) in progress.limits.iter() {
            self.limited.get_or_create(&transfer.limited_by(limit)).set(span.as_secs_f64());
        }
    }

    /// It is over.
    pub fn remove(&self, transfer: &Transfer) {
        for family in [&self.done_bytes, &self.size_bytes, &self.done_files, &self.files, &self.rate] {
            family.remove(transfer);
        }
        self.rtt.remove(transfer);
        self.loss.remove(transfer);
        for limit in Limit::ALL {
            self.limited.remove(&transfer.limited_by(limit));
        }
    }
}

impl Transfer {
    fn limited_by(&self, limit: Limit) -> Limited {
        Limited { transfer: self.transfer.clone(), limit: limit.name() }
    }
}
