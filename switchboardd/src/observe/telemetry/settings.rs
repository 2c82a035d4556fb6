//! Parses the standard `OTEL_…` variables. Nothing is exported unless one of them names an endpoint. Pure.
//!
//! Every unsupported value gives a warning that names its variable. An unsupported exporter, protocol or
//! endpoint turns that export off; any other bad value is ignored or replaced by the default.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::trace::Sampler;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpEncoding {
    Protobuf,
    Json,
}

/// Where one signal (traces or metrics) is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportTarget {
    pub url: Url,
    pub headers: Vec<(String, String)>,
    pub encoding: OtlpEncoding,
    pub timeout: Duration,
    pub gzip: bool,
    pub tls: TlsFiles,
}

/// PEM files for the connection to a collector, each with the variable that names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates to trust instead of the system's.
    pub certificate: Option<NamedFile>,
    /// Our own certificate and its key.
    pub client: Option<(NamedFile, NamedFile)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    pub variable: String,
    pub path: PathBuf,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TelemetrySettings {
    pub traces: Option<ExportTarget>,
    pub metrics: Option<ExportTarget>,
    /// `service.name` and the other attributes of all data.
    pub resource: Vec<(String, String)>,
    pub sampler: Sampler,
    /// Limits for spans that wait, and for spans in one request.
    pub queue: usize,
    pub batch: usize,
    /// How long spans wait for a batch, and how often metrics are sent.
    pub delay: Duration,
    pub interval: Duration,
    pub warnings: Vec<String>,
}

impl TelemetrySettings {
    /// `None` if nothing is to be exported and there are no warnings. An empty variable counts as unset.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let variable = |name: &str| {
            variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return None;
        }
        let mut warnings = Vec::new();
        let mut reader = SettingsReader { variable: &variable, warnings: &mut warnings };
        let traces = reader.target("TRACES", "v1/traces");
        let metrics = reader.target("METRICS", "v1/metrics");
        let sampler = reader.sampler();
        let queue = reader.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048).clamp(1, 65_536);
        let batch = reader.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512).clamp(1, queue);
        let delay = reader.number("OTEL_BSP_SCHEDULE_DELAY", 5000).max(1);
        let interval = reader.number("OTEL_METRIC_EXPORT_INTERVAL", 60_000).max(1);
        let resource = reader.resource();
        if traces.is_none() && metrics.is_none() && warnings.is_empty() {
            return None;
        }
        Some(Self {
            traces,
            metrics,
            resource,
            sampler,
            queue: usize::try_from(queue).unwrap_or(usize::MAX),
            batch: usize::try_from(batch).unwrap_or(usize::MAX),
            delay: Duration::from_millis(delay),
            interval: Duration::from_millis(interval),
            warnings,
        })
    }
}

struct SettingsReader<'a, V: Fn(&str) -> Option<String>> {
    variable: &'a V,
    warnings: &'a mut Vec<String>,
}

impl<V: Fn(&str) -> Option<String>> SettingsReader<'_, V> {
    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The variable of this signal, else the one for all signals, with the name of the one that is set.
    fn own_or_all(&self, kind: &str, rest: &str) -> Option<(String, String)> {
        let names = [format!("OTEL_EXPORTER_OTLP_{kind}_{rest}"), format!("OTEL_EXPORTER_OTLP_{rest}")];
        names.into_iter().find_map(|name| (self.variable)(&name).map(|value| (name, value)))
    }

    fn target(&mut self, kind: &str, path: &str) -> Option<ExportTarget> {
        let own = format!("OTEL_EXPORTER_OTLP_{kind}_ENDPOINT");
        let (name, endpoint) = self.own_or_all(kind, "ENDPOINT")?;
        let exporter = format!("OTEL_{kind}_EXPORTER");
        match (self.variable)(&exporter).as_deref() {
            None | Some("otlp") => {}
            Some("none") => return None,
            // `/metrics` is always served.
            Some("prometheus") if kind == "METRICS" => return None,
            Some(other) => {
                self.warn(format!(
                    "`{exporter}` is `{other}`, which Switchboard does not have; use `otlp` or `none`"
                ));
                return None;
            }
        }
        let spelling = match self.own_or_all(kind, "PROTOCOL") {
            None => OtlpEncoding::Protobuf,
            Some((name, protocol)) => match protocol.as_str() {
                "http/protobuf" => OtlpEncoding::Protobuf,
                "http/json" => OtlpEncoding::Json,
                other => {
                    self.warn(format!(
                        "`{name}` is `{other}`, which Switchboard does not speak; use `http/protobuf` or `http/json` (port 4318 of most collectors)"
                    ));
                    return None;
                }
            },
        };
        let gzip = match self.own_or_all(kind, "COMPRESSION") {
            None => false,
            Some((_, value)) if matches!(value.as_str(), "gzip" | "none") => value == "gzip",
            Some((name, other)) => {
                self.warn(format!(
                    "`{name}` is `{other}`, which Switchboard does not have, so nothing is compressed; use `gzip` or `none`"
                ));
                false
            }
        };
        let tls = self.tls_files(kind);
        let url =
            if name == own { endpoint.clone() } else { format!("{}/{path}", endpoint.trim_end_matches('/')) };
        let url =
            Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(url) = url else {
            // The value may contain a password, so it is not shown.
            self.warn(format!(
                "`{name}` is not an `http://` or `https://` address, so nothing is sent there"
            ));
            return None;
        };
        let timeout = match self.own_or_all(kind, "TIMEOUT") {
            None => 10_000,
            Some((name, _)) => self.number(&name, 10_000),
        };
        let headers =
            self.own_or_all(kind, "HEADERS").map(|(name, text)| self.pairs(&name, &text)).unwrap_or_default();
        let timeout = Duration::from_millis(timeout.max(1));
        Some(ExportTarget { url, headers, encoding: spelling, timeout, gzip, tls })
    }

    fn tls_files(&mut self, kind: &str) -> TlsFiles {
        let file = |rest: &str| {
            let (variable, path) = self.own_or_all(kind, rest)?;
            Some(NamedFile { variable, path: path.into() })
        };
        let certificate = file("CERTIFICATE");
        let client = match (file("CLIENT_CERTIFICATE"), file("CLIENT_KEY")) {
            (Some(own), Some(key)) => Some((own, key)),
            (Some(alone), None) | (None, Some(alone)) => {
                self.warn(format!(
                    "`{}` is not used: a certificate needs its key, in `…_CLIENT_CERTIFICATE` and `…_CLIENT_KEY`",
                    alone.variable
                ));
                None
            }
            (None, None) => None,
        };
        TlsFiles { certificate, client }
    }

    fn sampler(&mut self) -> Sampler {
        let usual = Sampler { parent_based: true, ratio: 1.0 };
        let Some(name) = (self.variable)("OTEL_TRACES_SAMPLER") else { return usual };
        let (parent_based, rest) = match name.strip_prefix("parentbased_") {
            Some(rest) => (true, rest),
            None => (false, name.as_str()),
        };
        let ratio = match rest {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => {
                match (self.variable)("OTEL_TRACES_SAMPLER_ARG").map(|ratio| ratio.parse::<f64>()) {
                    None => 1.0,
                    Some(Ok(ratio)) if (0.0..=1.0).contains(&ratio) => ratio,
                    Some(_) => {
                        self.warn(
                            "`OTEL_TRACES_SAMPLER_ARG` must be a number from 0 to 1; all traces are kept"
                                .to_owned(),
                        );
                        1.0
                    }
                }
            }
            _ => {
                self.warn(format!("`OTEL_TRACES_SAMPLER` is `{name}`, which Switchboard does not have; `parentbased_always_on` is used"));
                return usual;
            }
        };
        Sampler { parent_based, ratio }
    }

    fn number(&mut self, name: &str, usual: u64) -> u64 {
        match (self.variable)(name).map(|value| value.parse()) {
            None => usual,
            Some(Ok(number)) => number,
            Some(Err(_)) => {
                self.warn(format!("`{name}` must be a whole number; {usual} is used"));
                usual
            }
        }
    }

    fn resource(&mut self) -> Vec<(String, String)> {
        let name = "OTEL_RESOURCE_ATTRIBUTES";
        let mut all = (self.variable)(name).map(|text| self.pairs(name, &text)).unwrap_or_default();
        if let Some(service) = (self.variable)("OTEL_SERVICE_NAME") {
            all.retain(|(key, _)| key != "service.name");
            all.insert(0, ("service.name".to_owned(), service));
        } else if !all.iter().any(|(key, _)| key == "service.name") {
            all.insert(0, ("service.name".to_owned(), "switchboard".to_owned()));
        }
        for (key, value) in [
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("telemetry.sdk.name", "switchboard"),
            ("telemetry.sdk.language", "rust"),
        ] {
            if !all.iter().any(|(known, _)| known == key) {
                all.push((key.to_owned(), value.to_owned()));
            }
        }
        all
    }

    /// `key=value,…`, with values percent-encoded.
    fn pairs(&mut self, name: &str, text: &str) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            match pair.split_once('=').map(|(key, value)| (key.trim(), decoded(value.trim()))) {
                Some((key, Some(value))) if !key.is_empty() => all.push((key.to_owned(), value)),
                // The part may contain a password, so it is not shown.
                _ => {
                    self.warn(format!("`{name}` must be `key=value,…`; a part of it is not and was left out"))
                }
            }
        }
        all
    }
}

/// A `%` that begins no code stays as it is.
fn decoded(text: &str) -> Option<String> {
    percent_encoding::percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Option<TelemetrySettings> {
        TelemetrySettings::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    const ALL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318/base/");

    #[test]
    fn nothing_is_exported_without_an_endpoint() {
        for nothing in [
            &[][..],
            &[("OTEL_SERVICE_NAME", "x"), ("OTEL_TRACES_SAMPLER", "always_on")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
            &[ALL, ("OTEL_SDK_DISABLED", "TRUE")],
            &[ALL, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")],
        ] {
            assert_eq!(read(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn variables_mean_what_the_specification_says() {
        let settings = read(&[
            ALL,
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://else.example/in?x=1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc%3D, x-a = b"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "k=v"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=from-attributes,team=a%2Cb"),
            ("OTEL_SERVICE_NAME", "mine"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "10"),
        ])
        .unwrap();
        assert_eq!(settings.warnings, [""; 0]);
        let traces = settings.traces.unwrap();
        assert_eq!(traces.url.as_str(), "http://localhost:4318/base/v1/traces");
        assert_eq!((traces.encoding, traces.timeout), (OtlpEncoding::Json, Duration::from_millis(2500)));
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(traces.headers, [pair("authorization", "Basic abc="), pair("x-a", "b")]);
        let metrics = settings.metrics.unwrap();
        assert_eq!(metrics.url.as_str(), "https://else.example/in?x=1");
        assert_eq!((metrics.encoding, metrics.headers), (OtlpEncoding::Protobuf, vec![pair("k", "v")]));
        assert_eq!(settings.resource[..2], [pair("service.name", "mine"), pair("team", "a,b")]);
        assert_eq!(settings.sampler, Sampler { parent_based: true, ratio: 0.25 });
        assert_eq!((settings.queue, settings.batch), (10, 10));
        assert_eq!(settings.delay, Duration::from_secs(5));
    }

    #[test]
    fn compression_and_certificates_are_those_of_the_signal_or_of_all() {
        let settings = read(&[
            ALL,
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "none"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
            ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/traces.pem"),
            ("OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE", "/me.pem"),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/all.pem"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/me.key"),
        ])
        .unwrap();
        assert_eq!(settings.warnings, [""; 0]);
        let (traces, metrics) = (settings.traces.unwrap(), settings.metrics.unwrap());
        assert!(traces.gzip && !metrics.gzip);
        let named = |rest: &str, path: &str| NamedFile {
            variable: format!("OTEL_EXPORTER_OTLP_{rest}"),
            path: path.into(),
        };
        assert_eq!(traces.tls.certificate, Some(named("TRACES_CERTIFICATE", "/traces.pem")));
        assert_eq!(metrics.tls.certificate, Some(named("CERTIFICATE", "/ca.pem")));
        let key = named("CLIENT_KEY", "/me.key");
        assert_eq!(traces.tls.client, Some((named("CLIENT_CERTIFICATE", "/all.pem"), key.clone())));
        assert_eq!(metrics.tls.client, Some((named("METRICS_CLIENT_CERTIFICATE", "/me.pem"), key)));
    }

    #[test]
    fn unsupported_values_give_a_warning() {
        for (variable, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/xml"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "localhost:4317"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://user:hunter2@x"),
        ] {
            let settings = read(&[ALL, (variable, value)]).unwrap();
            assert_eq!(settings.traces, None, "{variable}");
            assert_eq!(settings.warnings.len(), 1, "{settings:?}");
            let warning = &settings.warnings[0];
            assert!(warning.contains(&format!("`{variable}`")) && !warning.contains("hunter2"), "{warning}");
        }
        for (variable, value) in [
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/x.pem"),
            ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "/x.key"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization:hunter2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_BSP_SCHEDULE_DELAY", "-1"),
        ] {
            let settings = read(&[ALL, (variable, value)]).unwrap();
            assert!(settings.traces.is_some(), "{variable}");
            let warning = &settings.warnings[0];
            assert!(
                warning.contains(&format!("`{variable}`")) && !warning.contains("hunter2"),
                "{settings:?}"
            );
        }
        let ratio =
            read(&[ALL, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "7")]).unwrap();
        assert!(ratio.warnings[0].contains("`OTEL_TRACES_SAMPLER_ARG`"), "{ratio:?}");
    }
}
