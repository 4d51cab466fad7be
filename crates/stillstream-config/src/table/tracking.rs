//! Measuring and querying state.

use super::super::value::Kind;
use super::{Row, option};

const NO_QUERIES: &str = "state cannot be queried from outside: write what you need to a sink";
const LATER: &str = "access to state is not measured in this release: leave it out";

pub(super) const TRACKING: &[Row] = &[
    option("state.latency-track.history-size", Kind::Integer, "128", "measurements kept")
        .older(&["state.backend.latency-track.history-size"])
        .no_effect(LATER),
    option(
        "state.latency-track.keyed-state-enabled",
        Kind::Boolean,
        "false",
        "measure each access to keyed state",
    )
    .older(&["state.backend.latency-track.keyed-state-enabled"])
    .no_effect(LATER),
    option(
        "state.latency-track.sample-interval",
        Kind::Integer,
        "100",
        "every so many accesses are measured",
    )
    .older(&["state.backend.latency-track.sample-interval"])
    .no_effect(LATER),
    option(
        "state.latency-track.state-name-as-variable",
        Kind::Boolean,
        "true",
        "the state's name is a label of the metric",
    )
    .older(&["state.backend.latency-track.state-name-as-variable"])
    .no_effect(LATER),
    option("state.size-track.history-size", Kind::Integer, "128", "measurements kept").no_effect(LATER),
    option(
        "state.size-track.keyed-state-enabled",
        Kind::Boolean,
        "false",
        "measure each access to keyed state",
    )
    .no_effect(LATER),
    option("state.size-track.sample-interval", Kind::Integer, "100", "every so many accesses are measured")
        .no_effect(LATER),
    option(
        "state.size-track.state-name-as-variable",
        Kind::Boolean,
        "true",
        "the state's name is a label of the metric",
    )
    .no_effect(LATER),
];

pub(super) const QUERYABLE: &[Row] = &[
    option(
        "queryable-state.client.network-threads",
        Kind::Integer,
        "0",
        "network threads of a client; 0 = one a slot",
    )
    .older(&["query.client.network-threads"])
    .no_effect(NO_QUERIES),
    option("queryable-state.enable", Kind::Boolean, "false", "answer queries for state")
        .no_effect(NO_QUERIES),
    option(
        "queryable-state.proxy.network-threads",
        Kind::Integer,
        "0",
        "network threads of the proxy; 0 = one a slot",
    )
    .older(&["query.proxy.network-threads"])
    .no_effect(NO_QUERIES),
    option("queryable-state.proxy.ports", Kind::Text, "9069", "port of the proxy, or a range")
        .older(&["query.proxy.ports"])
        .no_effect(NO_QUERIES),
    option(
        "queryable-state.proxy.query-threads",
        Kind::Integer,
        "0",
        "query threads of the proxy; 0 = one a slot",
    )
    .older(&["query.proxy.query-threads"])
    .no_effect(NO_QUERIES),
    option(
        "queryable-state.server.network-threads",
        Kind::Integer,
        "0",
        "network threads of the server; 0 = one a slot",
    )
    .older(&["query.server.network-threads"])
    .no_effect(NO_QUERIES),
    option("queryable-state.server.ports", Kind::Text, "9067", "port of the server, or a range")
        .older(&["query.server.ports"])
        .no_effect(NO_QUERIES),
    option(
        "queryable-state.server.query-threads",
        Kind::Integer,
        "0",
        "query threads of the server; 0 = one a slot",
    )
    .older(&["query.server.query-threads"])
    .no_effect(NO_QUERIES),
];
