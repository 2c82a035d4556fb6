//! Login to a remote child, and logout. The command opens the browser: the daemon has no display.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use crate::catalog::Catalog;
use crate::http::errors::{HttpError, json_response};
use crate::oauth::Login;
use crate::oauth::login::LogoutOutcome;

type SuiteInCatalog = (Arc<Catalog>, usize);

/// Starts a login and returns the page that the user must open.
pub(super) async fn begin(place: &SuiteInCatalog) -> Result<Response, HttpError> {
    let (login, child) = login_of(place).await?;
    let attempt = login.begin(true).await.map_err(|error| refused(&child, &error))?;
    let answer = json!({ "child": child, "open": attempt.url.as_str(), "issuer": attempt.issuer });
    Ok(json_response(StatusCode::OK, answer.to_string()))
}

/// Waits until the user has finished the login.
pub(super) async fn done(place: &SuiteInCatalog) -> Result<Response, HttpError> {
    let (login, child) = login_of(place).await?;
    let attempt =
        login.latest().await.ok_or_else(|| HttpError::BadRequest("no login was begun".to_owned()))?;
    attempt.wait_done().await.map_err(|why| refused(&child, &format!("could not be logged in to: {why}")))?;
    Ok(json_response(StatusCode::OK, json!({ "child": child, "kept": login.location().await }).to_string()))
}

pub(super) async fn end(place: &SuiteInCatalog) -> Result<Response, HttpError> {
    let (login, child) = login_of(place).await?;
    let gone = login.log_out().await.map_err(|why| refused(&child, &why))?;
    let (word, why) = match gone {
        LogoutOutcome::Nothing => ("nothing", None),
        LogoutOutcome::Revoked => ("revoked", None),
        LogoutOutcome::Deleted(why) => ("deleted", Some(why)),
    };
    Ok(json_response(StatusCode::OK, json!({ "child": child, "gone": word, "why": why }).to_string()))
}

async fn login_of((catalog, at): &SuiteInCatalog) -> Result<(Arc<Login>, String), HttpError> {
    let suite = &catalog.suites[*at];
    let child = suite.child_name().to_owned();
    let pool = suite.pool.as_ref().ok_or_else(|| {
        if suite.is_held() { super::held(&child) } else { refused(&child, &"cannot be reached") }
    })?;
    match pool.login().await {
        Ok(Some(login)) => Ok((login, child)),
        Ok(None) => {
            let why = "has no login: it runs on this machine, or its file sets `Authorization`";
            Err(refused(&child, &why))
        }
        Err(unready) => Err(refused(&child, &unready)),
    }
}

fn refused(child: &str, why: &dyn std::fmt::Display) -> HttpError {
    HttpError::BadRequest(format!("server `{child}` {why}"))
}
