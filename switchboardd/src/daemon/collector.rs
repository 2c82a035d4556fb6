//! Tasks that export spans and metrics to a collector. A collector that is down, slow or broken costs only
//! spans, which are counted.

mod otlp_metrics;
mod tls;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, StatusCode};
use switchboard_wire::backoff::Backoff;
use switchboard_wire::event_loop::run_blocking;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::child::remote::{is_loopback, root_cause};
use crate::observe::telemetry::message::{FieldValue, attribute, field, message};
use crate::observe::telemetry::settings::{ExportTarget, OtlpEncoding, TelemetrySettings, TlsFiles};
use crate::observe::telemetry::spans::{self, Spans};
use crate::state::Daemon;
use crate::system::environment::ChildEnvironment;
use otlp_metrics::OtlpMetrics;

/// How often a batch is tried; the pause in between doubles.
const MAX_ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// How long a stopping daemon waits for its last exports.
const LAST_EXPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// The export tasks.
#[derive(Debug)]
pub(super) struct Telemetry {
    tasks: JoinSet<()>,
    closing: watch::Sender<bool>,
}

impl Telemetry {
    /// Starts the exports that the settings ask for.
    pub(super) fn begin(daemon: &Arc<Daemon>, settings: TelemetrySettings) -> Self {
        for warning in &settings.warnings {
            tracing::warn!(target: "telemetry", "{warning}");
        }
        let (closing, closes) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let resource = settings.resource.iter().map(|(key, value)| attribute(key, value)).collect();
        let resource = message([field(1, "attributes", FieldValue::List(resource))]);
        if let Some(target) = settings.traces {
            let spans = Spans::new(settings.sampler, settings.queue, settings.batch);
            daemon.services.metrics.trace(&spans);
            let post = OtlpExporter::new(daemon, target, "spans");
            tasks.spawn(send_spans(spans, post, resource.clone(), settings.delay, closes.clone()));
        }
        if let Some(target) = settings.metrics {
            let post = OtlpExporter::new(daemon, target, "figures");
            tasks.spawn(send_metrics(daemon.clone(), post, resource, settings.interval, closes));
        }
        Self { tasks, closing }
    }

    /// Exports the remaining data, within `LAST_EXPORT_TIMEOUT`.
    pub(super) async fn close(mut self) {
        self.closing.send_replace(true);
        let _ = tokio::time::timeout(LAST_EXPORT_TIMEOUT, async {
            while self.tasks.join_next().await.is_some() {}
        })
        .await;
    }
}

async fn send_spans(
    spans: Arc<Spans>,
    mut post: OtlpExporter,
    resource: FieldValue,
    delay: Duration,
    mut closes: watch::Receiver<bool>,
) {
    loop {
        let closing = tokio::select! {
            () = tokio::time::sleep(delay) => false,
            () = spans.wait_for_batch() => false,
            _ = closes.wait_for(|closing| *closing) => true,
        };
        loop {
            let batch = spans.take();
            if batch.is_empty() {
                break;
            }
            let body = spans::request(&resource, &batch);
            if post.send(&body, &mut closes).await {
                spans.note_sent(batch.len());
            } else {
                spans.note_dropped(batch.len());
            }
        }
        if closing {
            return;
        }
    }
}

async fn send_metrics(
    daemon: Arc<Daemon>,
    mut post: OtlpExporter,
    resource: FieldValue,
    interval: Duration,
    mut closes: watch::Receiver<bool>,
) {
    let figures = OtlpMetrics::new(resource);
    loop {
        let closing = tokio::select! {
            () = tokio::time::sleep(interval) => false,
            _ = closes.wait_for(|closing| *closing) => true,
        };
        let body = figures.request(&daemon).await;
        // A failure loses nothing: the next metrics are cumulative.
        post.send(&body, &mut closes).await;
        if closing {
            return;
        }
    }
}

/// Sends to one endpoint of a collector.
struct OtlpExporter {
    daemon: Arc<Daemon>,
    target: ExportTarget,
    headers: HeaderMap,
    what: &'static str,
    client: Option<Client>,
    /// A failure is logged once, until a send succeeds.
    fails: bool,
}

/// Why an export failed.
struct ExportError {
    why: String,
    /// Whether a retry may succeed.
    later: bool,
}

impl OtlpExporter {
    fn new(daemon: &Arc<Daemon>, target: ExportTarget, what: &'static str) -> Self {
        let mut headers = HeaderMap::new();
        for (name, value) in &target.headers {
            match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                (Ok(name), Ok(mut value)) => {
                    value.set_sensitive(true);
                    headers.insert(name, value);
                }
                _ => {
                    tracing::warn!(target: "telemetry", "`{name}` of `OTEL_EXPORTER_OTLP_HEADERS` is not a header and is left out")
                }
            }
        }
        let kind = match target.encoding {
            OtlpEncoding::Protobuf => "application/x-protobuf",
            OtlpEncoding::Json => "application/json",
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if target.gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        Self { daemon: daemon.clone(), target, headers, what, client: None, fails: false }
    }

    /// True if the collector accepted it.
    async fn send(&mut self, body: &FieldValue, closes: &mut watch::Receiver<bool>) -> bool {
        let body: bytes::Bytes = match self.target.encoding {
            OtlpEncoding::Protobuf => body.protobuf(),
            OtlpEncoding::Json => body.json(),
        }
        .into();
        let body = if self.target.gzip { run_blocking(move || compressed(&body)).await } else { body };
        let mut backoff = Backoff::new(FIRST_PAUSE, Duration::MAX);
        for last in (0..MAX_ATTEMPTS).map(|number| number + 1 == MAX_ATTEMPTS) {
            let refused = match self.try_once(body.clone()).await {
                Ok(()) => {
                    if std::mem::take(&mut self.fails) {
                        tracing::info!(target: "telemetry", "`{}` takes {} again", self.shown(), self.what);
                    }
                    return true;
                }
                Err(refused) => refused,
            };
            if !std::mem::replace(&mut self.fails, true) {
                tracing::warn!(target: "telemetry", "`{}` takes no {}: {}", self.shown(), self.what, refused.why);
            }
            if last || !refused.later || *closes.borrow() {
                return false;
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.next_pause()) => {}
                // One more try, without a pause.
                _ = closes.wait_for(|closing| *closing) => {}
            }
        }
        false
    }

    async fn try_once(&mut self, body: bytes::Bytes) -> Result<(), ExportError> {
        let timeout = self.target.timeout;
        let attempt = async {
            let client = self.client().await?;
            let request = client.post(self.target.url.clone()).headers(self.headers.clone()).body(body);
            let answer = request.send().await;
            if answer.is_err() && self.target.tls != TlsFiles::default() {
                // The next attempt reads the certificates again: they may have been replaced.
                self.client = None;
            }
            let status =
                answer.map_err(|error| ExportError { why: root_cause(&error), later: true })?.status();
            if status.is_success() {
                return Ok(());
            }
            let later = matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            Err(ExportError { why: format!("it answers with {status}"), later })
        };
        let late =
            || ExportError { why: format!("no answer within {} ms", timeout.as_millis()), later: true };
        tokio::time::timeout(timeout, attempt).await.unwrap_or_else(|_| Err(late()))
    }

    /// Created for the first export.
    async fn client(&mut self) -> Result<Client, ExportError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let services = &self.daemon.services;
        // A local collector needs neither a proxy nor certificates, so no login shell.
        let is_near = is_loopback(&self.target.url) && self.target.url.scheme() == "http";
        let later = |why: String| ExportError { why, later: true };
        let client = if is_near {
            services.http_clients.client(&self.target.url, &ChildEnvironment::default()).await
        } else {
            let shell = services.value_resolver.shell_environment().await;
            if self.target.tls != TlsFiles::default() {
                let client = tls::client(&self.target.tls, &shell.variables).await.map_err(later)?;
                // As below.
                if services.value_resolver.has_shell() {
                    self.client = Some(client.clone());
                }
                return Ok(client);
            }
            services.http_clients.client(&self.target.url, &shell.variables).await
        };
        let client = client.map_err(|error| later(error.to_string()))?;
        // Without the login shell's environment the proxy may be missing: then the client is not cached.
        if is_near || services.value_resolver.has_shell() {
            self.client = Some(client.clone());
        }
        Ok(client)
    }

    /// The endpoint without what may be secret.
    fn shown(&self) -> String {
        let url = &self.target.url;
        let port = url.port_or_known_default().map_or(String::new(), |port| format!(":{port}"));
        let path = switchboard_definitions::mask::masked_path(url.path());
        format!("{}://{}{port}{path}", url.scheme(), url.host_str().unwrap_or_default())
    }
}

fn compressed(body: &[u8]) -> bytes::Bytes {
    let mut out = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    let whole = out.write_all(body).and_then(|()| out.finish());
    whole.expect("BUG: memory takes every write").into()
}
