//! The environment variables that every child inherits. None of them holds a secret.

const ALLOWED: [&str; 24] = [
    "HOME",
    "USER",
    "LOGNAME",
    "PATH",
    "SHELL",
    "LANG",
    "TZ",
    "TERM",
    "TMPDIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSH_AUTH_SOCK",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
const ALLOWED_MORE: [&str; 3] = ["NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];
const ALLOWED_PREFIXES: [&str; 3] = ["LC_", "XDG_", "DOCKER_"];

/// Whether every child gets this variable. None of them is a secret.
pub fn is_inherited(name: &str) -> bool {
    ALLOWED.contains(&name)
        || ALLOWED_MORE.contains(&name)
        || ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
