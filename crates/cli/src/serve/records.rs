//! Everything that is kept of what a server does.

use super::audit::Audit;
use super::metrics::{Exporter, Metrics};
use crate::failure::Failure;
use longhaul::daemon::records::{Event, Records};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// What was asked for.
pub struct Kept {
    all: Arc<All>,
    exporter: Option<Exporter>,
}

struct All {
    metrics: Option<Arc<Metrics>>,
    audit: Option<Audit>,
}

impl Kept {
    /// Open what records go to. Starts no thread.
    pub fn open(audit: Option<&Path>, metrics: Option<SocketAddr>) -> Result<Kept, Failure> {
        let exporter = metrics.map(Exporter::bind).transpose()?;
        let audit = audit.map(Audit::open).transpose()?;
        let metrics = exporter.as_ref().map(|exporter| exporter.metrics().clone());
        Ok(Kept { all: Arc::new(All { metrics, audit }), exporter })
    }

    /// Where the server is to tell what it does.
    pub fn records(&self) -> Arc<dyn Records> {
        self.all.clone()
    }

    /// Tell metrics to whoever asks, from now on.
    pub fn start(&self) -> Result<(), Failure> {
        if let Some(exporter) = &self.exporter {
            exporter.start()?;
        }
        if let Some(audit) = &self.all.audit {
            audit.start()?;
        }
        Ok(())
    }

    /// The server has ended: let all that was told be written.
    pub fn close(&self) {
        if let Some(audit) = &self.all.audit {
            audit.close();
        }
    }
}

impl Records for All {
    fn note(&self, event: &Event<'_>) {
        if let Some(metrics) = &self.metrics {
            metrics.note(event);
        }
        match (&self.audit, event) {
            (Some(audit), Event::File { who, file }) => audit.note(who, file),
            (Some(audit), Event::Forwarded(forward)) => audit.note_forward(forward),
            _ => {}
        }
    }

    fn wants_files(&self) -> bool {
        self.metrics.is_some() || self.audit.is_some()
    }
}
