//! What files say: the user's config, the definitions of servers in `.mcp.json` files, and the user's decisions about
//! them. The daemon and its commands both read files through this crate. It starts nothing and speaks to nobody.

pub mod config;
pub mod definition;
pub mod digest;
pub mod discover;
pub mod document;
pub mod env_file;
pub mod event_loop;
pub mod expand;
pub mod files;
pub mod inherited_variables;
pub mod mask;
pub mod suite_name;
pub mod time;
pub mod trust;
