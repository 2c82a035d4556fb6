//! Reads files: the user's config, the definitions of servers in `.mcp.json` files, and the user's decisions
//! about them. The daemon and its commands both use this crate. It starts no process and opens no connection.

pub mod config;
pub mod definition;
pub mod digest;
pub mod discover;
pub mod document;
pub mod drift;
pub mod env_file;
pub mod expand;
pub mod files;
pub mod inherited_variables;
pub mod mask;
pub mod own_limits;
#[cfg(test)]
mod processor_time;
pub mod suite_name;
pub mod time;
pub mod tool_globs;
pub mod trust;
