//! Writes metrics as text for Prometheus: its own format 0.0.4, or OpenMetrics 1.0.0 on request.
//!
//! Written by hand because a library would keep the values in its own registry, and ours live in bounded
//! tables. Pure.

use std::fmt::{Display, Write};

use super::series::Histogram;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    Prometheus,
    OpenMetrics,
}

impl MetricsFormat {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    Counter,
    Gauge,
    Histogram,
}

/// Names and values of a sample's labels.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

/// Metrics text under construction. All samples of a family must follow each other.
#[derive(Debug)]
pub struct MetricsText {
    format: MetricsFormat,
    out: String,
    name: &'static str,
    sort: MetricType,
}

impl MetricsText {
    pub fn new(format: MetricsFormat) -> Self {
        Self { format, out: String::with_capacity(16 * 1024), name: "", sort: MetricType::Gauge }
    }

    /// Begins a family. A counter's name is given without `_total`.
    pub fn family(&mut self, name: &'static str, sort: MetricType, help: &str) -> &mut Self {
        (self.name, self.sort) = (name, sort);
        // Prometheus puts `_total` into the family's name, OpenMetrics only into the samples' names.
        let suffix = if self.format == MetricsFormat::Prometheus { self.suffix() } else { "" };
        let word = match sort {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        let _ = writeln!(self.out, "# HELP {name}{suffix} {help}");
        let _ = writeln!(self.out, "# TYPE {name}{suffix} {word}");
        self
    }

    /// A sample of a counter or a gauge.
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) -> &mut Self {
        let suffix = self.suffix();
        self.line(suffix, labels, None, value)
    }

    pub fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) -> &mut Self {
        let mut count = 0;
        for (bound, within) in histogram.bounds.iter().zip(&histogram.buckets) {
            count += within;
            self.line("_bucket", labels, Some(&number(*bound)), count);
        }
        count += histogram.buckets.last().copied().unwrap_or_default();
        self.line("_bucket", labels, Some("+Inf"), count);
        self.line("_sum", labels, None, number(histogram.sum.as_secs_f64()));
        self.line("_count", labels, None, count)
    }

    pub fn finish(mut self) -> String {
        if self.format == MetricsFormat::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    fn suffix(&self) -> &'static str {
        if self.sort == MetricType::Counter { "_total" } else { "" }
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: Labels<'_>,
        bound: Option<&str>,
        value: impl Display,
    ) -> &mut Self {
        self.out.push_str(self.name);
        self.out.push_str(suffix);
        // Both formats treat an empty value like a missing label.
        let labels = labels.iter().filter(|(_, value)| !value.is_empty()).copied();
        let mut sign = '{';
        for (name, value) in labels.chain(bound.map(|bound| ("le", bound))) {
            self.out.push(sign);
            let _ = write!(self.out, "{name}=\"");
            push_escaped(value, &mut self.out);
            self.out.push('"');
            sign = ',';
        }
        if sign == ',' {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
        self
    }
}

/// Both formats escape these three characters and no others.
fn push_escaped(value: &str, out: &mut String) {
    for letter in value.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            letter => out.push(letter),
        }
    }
}

/// Always with a decimal point: OpenMetrics requires it for bounds, and both formats should agree.
pub fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.1}") } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn written(format: MetricsFormat) -> String {
        let mut text = MetricsText::new(format);
        text.family("calls", MetricType::Counter, "Calls.")
            .sample(&[], 3)
            .sample(&[("a", "x"), ("b", "")], 4);
        text.family("up", MetricType::Gauge, "Up.").sample(&[("name", "a\"b\\c\nd{}é")], 1);
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        for millis in [100, 1000, 3000] {
            histogram.add(Duration::from_millis(millis));
        }
        text.family("took_seconds", MetricType::Histogram, "Time.").histogram(&[("m", "x")], &histogram);
        text.finish()
    }

    #[test]
    fn samples_are_written_as_prometheus_reads_them() {
        let wanted = r#"# HELP calls_total Calls.
# TYPE calls_total counter
calls_total 3
calls_total{a="x"} 4
# HELP up Up.
# TYPE up gauge
up{name="a\"b\\c\nd{}é"} 1
# HELP took_seconds Time.
# TYPE took_seconds histogram
took_seconds_bucket{m="x",le="0.5"} 1
took_seconds_bucket{m="x",le="1.0"} 2
took_seconds_bucket{m="x",le="+Inf"} 3
took_seconds_sum{m="x"} 4.1
took_seconds_count{m="x"} 3
"#;
        assert_eq!(written(MetricsFormat::Prometheus), wanted);
        let open = wanted
            .replace("# HELP calls_total", "# HELP calls")
            .replace("# TYPE calls_total", "# TYPE calls");
        assert_eq!(written(MetricsFormat::OpenMetrics), format!("{open}# EOF\n"));
    }
}
