//! Answers and errors, as Flink's clients read them.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

/// An answer: a status and JSON.
#[derive(Debug)]
pub(crate) struct Reply(pub StatusCode, pub Value);

impl Reply {
    pub fn ok(value: Value) -> Self {
        Self(StatusCode::OK, value)
    }

    pub fn accepted(value: Value) -> Self {
        Self(StatusCode::ACCEPTED, value)
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.1.to_string()));
        *response.status_mut() = self.0;
        let headers = response.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, "application/json; charset=UTF-8"),
            // what a job is like is true for this moment
            (header::CACHE_CONTROL, "no-store"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if self.0 == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// A request that is refused: Flink's `{"errors": [..]}`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub message: String,
}

impl Refusal {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The request makes no sense.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// There is no such thing.
    pub fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        Reply(self.status, json!({ "errors": [self.message] })).into_response()
    }
}

/// What a handler gives back.
pub(crate) type Answer = Result<Reply, Refusal>;
