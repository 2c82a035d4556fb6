//! The vocabulary of the Model Context Protocol and the translation between its two eras. Pure: no I/O, no tasks, no
//! clock but the one that is passed in.

pub mod client_capabilities;
pub mod era;
pub mod error_codes;
pub mod header_names;
pub mod log_level;
pub mod methods;
