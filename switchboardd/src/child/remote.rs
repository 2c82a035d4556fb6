//! A child that runs elsewhere, reached by HTTP.

pub mod auth;
