//! Suites that every [`BlobStore`] and every [`Register`] must pass. Each function panics with what is wrong.
